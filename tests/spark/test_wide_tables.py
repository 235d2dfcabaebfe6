"""Tables of some hundred columns: written, merged, and read by other engines."""

import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import MatchedUpdate, MergeStatement, NotMatchedInsert, SqlSource
from airflow_delta.spark.dml.merge.merge import merge
from tests.slow_cases import slow_after

NAMES = [f"c{number}" for number in range(1, 300)]
KINDS = ("CAST(id * {0} AS INT)", "id / {0}", "concat('v', id + {0})", "id + {0}")


def rows(ids, shift=0):
    values = (f"{KINDS[at % 4].format(at + shift)} AS {name}" for at, name in enumerate(NAMES, 1))
    return f"SELECT id AS key, {', '.join(values)} FROM ({ids})"


def read(table):
    return DeltaTable(table).to_pyarrow_table().sort_by("key")


@pytest.fixture
def written(write_rows, table):
    write_rows(rows("SELECT id FROM range(0, 40, 1, 2)"), mode="append")
    return table


def test_a_written_table_holds_what_spark_computes_with_statistics_of_the_first_columns(spark, written):
    expected = spark.sql(rows("SELECT id FROM range(40)")).toArrow()
    files = DeltaLog.for_table(written).snapshot().files()

    assert read(written).cast(expected.schema) == expected
    assert [list(json.loads(stats)["maxValues"]) for stats in files["stats"].to_pylist()] == [["key", *NAMES[:31]]] * 2


@pytest.mark.parametrize(
    "clauses",
    slow_after(
        1,
        [
            [MatchedUpdate(), NotMatchedInsert()],
            [
                MatchedUpdate(assignments={name.upper(): f"source.{name}" for name in NAMES}),
                NotMatchedInsert(assignments={name: f"source.{name}" for name in ("key", *NAMES)}),
            ],
        ],
    ),
    ids=["every column by a star", "every column by its name"],
)
def test_a_merge_updates_and_inserts_whole_rows(spark, written, clauses):
    source = rows("SELECT id FROM range(30, 50)", shift=5)
    merge(
        spark,
        DeltaLog.for_table(written),
        MergeStatement(table=written, source=SqlSource(source), on="target.key = source.key", clauses=clauses),
    )

    expected = pa.concat_tables([spark.sql(rows("SELECT id FROM range(30)")).toArrow(), spark.sql(source).toArrow()])
    assert read(written).cast(expected.schema) == expected.sort_by("key")
