"""Tables with column mapping, deletion vectors and widened types, written and rewritten by Spark."""

import shutil
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import ConstraintViolatedError
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.data_types import INTEGER, LONG, STRING, ArrayType
from airflow_delta.core.statements import (
    UPSERT,
    MatchedDelete,
    MergeStatement,
    OptimizeStatement,
    SqlSource,
    WriteStatement,
)
from airflow_delta.core.table_changes import NewTable
from airflow_delta.core.table_changes.ddl import parse_struct
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.io.scan import read_table
from airflow_delta.spark.optimize.optimize import optimize
from airflow_delta.spark.write.write import write
from tests.golden_tables import TABLES

SCHEMA = StructType(
    (
        StructField("id", LONG),
        StructField("day of week", STRING),
        StructField("inner", StructType((StructField("a b", INTEGER), StructField("tags", ArrayType(STRING))))),
    )
)
ROWS = """
    SELECT id, CONCAT('d', id % 2) AS `day of week`, named_struct('a b', CAST(id AS INT), 'tags', array('t', NULL)) AS inner
    FROM range({}, {})
"""


@pytest.fixture(params=["name", "id"])
def mapped(request, table):
    """An empty table whose columns are mapped, partitioned by a column with spaces in its name."""
    log = DeltaLog.for_table(table)
    properties = {"delta.columnMapping.mode": request.param}
    log.create(NewTable(schema=SCHEMA, partition_columns=("day of week",), properties=properties))
    return log


def write_rows(spark, log, first, end, **options):
    return write(spark, log, WriteStatement(table=log.table_uri, source=SqlSource(ROWS.format(first, end)), **options))


def rows_of(log, key="id"):
    rows = log.refresh().to_arrow().read_all().to_pylist()
    return sorted((row[key], row["day of week"], row["inner"]["a b"]) for row in rows)


def expected(ids):
    return [(id_, f"d{id_ % 2}", id_) for id_ in ids]


def test_files_of_a_mapped_table_hold_physical_names_and_ids(spark, mapped, table):
    write_rows(spark, mapped, 0, 4)
    snapshot = mapped.refresh()
    physical = [field.metadata["delta.columnMapping.physicalName"] for field in snapshot.schema.fields]
    for file in snapshot.files().to_pylist():
        stored = pq.read_schema(f"{table}/{file['path']}")
        assert stored.names == [physical[0], physical[2]]
        assert [int(field.metadata[b"PARQUET:field_id"]) for field in stored] == [1, 3]
        assert [int(field.metadata[b"PARQUET:field_id"]) for field in stored.field(physical[2]).type] == [4, 5]
        assert dict(file["partition_values"]).keys() == {physical[1]}
        assert f'"{physical[0]}"' in file["stats"]
    assert rows_of(mapped) == expected(range(4))


def test_a_mapped_table_is_read_written_merged_and_compacted_after_columns_were_renamed(spark, mapped):
    write_rows(spark, mapped, 0, 4)
    write_rows(spark, mapped, 4, 8)
    mapped.alter().rename_column("id", "key")
    source = SqlSource(ROWS.format(6, 10).replace("SELECT id,", "SELECT id AS key,"))
    merged = merge(
        spark,
        mapped,
        MergeStatement(table=mapped.table_uri, source=source, on="target.key = source.key", clauses=UPSERT),
    )
    optimized = optimize(spark, mapped, OptimizeStatement(table=mapped.table_uri))
    snapshot = mapped.refresh()
    by_spark = sorted((row.key, row["day of week"], row.inner["a b"]) for row in read_table(spark, snapshot).collect())
    by_core = rows_of(mapped, key="key")

    assert (merged.metrics["numTargetRowsUpdated"], merged.metrics["numTargetRowsInserted"]) == (2, 2)
    assert optimized.committed
    assert len(snapshot.files()) == 2
    assert by_spark == by_core == expected(range(10))


@pytest.mark.parametrize("mapping", ["name", "id"])
def test_members_that_are_not_null_at_any_depth_are_written_and_read(spark, table, mapping):
    log = DeltaLog.for_table(table)
    schema = parse_struct(
        "id INT, s STRUCT<a: INT NOT NULL>, l ARRAY<STRUCT<a: INT NOT NULL>>, m MAP<INT, STRUCT<a: INT NOT NULL>>"
    )
    log.create(NewTable(schema=schema, properties={"delta.columnMapping.mode": mapping}))
    member = "NAMED_STRUCT('a', id)"
    rows = f"SELECT id, {member} AS s, ARRAY({member}) AS l, MAP(1, {member}) AS m FROM VALUES (1), ({{}}) AS v(id)"
    statement = WriteStatement(table=table, source=SqlSource(rows.format("2")))
    write(spark, log, statement)
    with pytest.raises(ConstraintViolatedError):
        write(spark, log, replace(statement, source=SqlSource(rows.format("NULL"))))
    merge(spark, log, MergeStatement(table=table, source=SqlSource(rows.format("3")), on="target.id = source.id"))
    shown = read_table(spark, log.refresh()).selectExpr("id", "s.a", "l[0].a", "m[1].a").collect()
    assert sorted(map(tuple, shown)) == [(number,) * 4 for number in (1, 2, 3)]


def test_rows_that_deletion_vectors_hide_stay_hidden_through_merge_and_compaction(spark, table):
    shutil.copytree(TABLES / "dv_basic" / "table", table, ignore=shutil.ignore_patterns("*.crc"))
    log = DeltaLog.for_table(table)
    before = log.refresh()
    rows = before.to_arrow().read_all()
    assert before.files()["deletion_vector"].null_count < len(before.files())

    some = rows["id"][0].as_py()
    merged = merge(
        spark,
        log,
        MergeStatement(
            table=log.table_uri,
            source=SqlSource(f"SELECT CAST({some} AS BIGINT) AS id"),
            on="target.id = source.id",
            clauses=[MatchedDelete()],
        ),
    )
    after = log.refresh().to_arrow().read_all()
    assert merged.metrics["numTargetRowsDeleted"] == sum(id_ == some for id_ in rows["id"].to_pylist())
    assert sorted(after["id"].to_pylist()) == sorted(id_ for id_ in rows["id"].to_pylist() if id_ != some)

    optimize(spark, log, OptimizeStatement(table=log.table_uri))
    compacted = log.refresh()
    assert sorted(compacted.to_arrow().read_all()["id"].to_pylist()) == sorted(after["id"].to_pylist())
