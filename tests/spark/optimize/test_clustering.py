"""OPTIMIZE that clusters rows, from the outside."""

import datetime as dt
import json
import operator
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.data_types import DATE, DOUBLE, LONG, STRING, TIMESTAMP, ArrayType, DecimalType
from airflow_delta.core.statements import DeleteStatement, OptimizeStatement, SqlSource, WriteStatement
from airflow_delta.core.table_changes import NewTable
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.errors import UnsuitableColumnsError
from airflow_delta.spark.optimize.optimize import optimize
from airflow_delta.spark.write.write import write
from tests.slow_cases import slow_after

SCHEMA = StructType(
    (
        StructField("id", LONG),
        StructField("p", STRING),
        StructField("inner", StructType((StructField("n", LONG), StructField("tags", ArrayType(STRING))))),
        StructField("amount", DecimalType(12, 2)),
        StructField("day", DATE),
        StructField("moment", TIMESTAMP),
        StructField("share", DOUBLE),
    )
)
ROWS = """
    SELECT id, IF(id % 7 = 0, NULL, CONCAT('p', id % 5)) AS p,
        named_struct('n', IF(id % 3 = 0, NULL, (id * 7919) % 1000), 'tags', array(CONCAT('t', id), NULL)) AS inner,
        CAST(id / 3 AS DECIMAL(12, 2)) AS amount, DATE_ADD(DATE'1900-01-01', CAST(id * 37 % 90000 AS INT)) AS day,
        TIMESTAMP_MICROS(id * 1000003) AS moment, IF(id % 11 = 0, DOUBLE('NaN'), SIN(id)) AS share
    FROM range({}, {}, 1, 3)
"""


def run(spark, log, **statement):
    return optimize(spark, log, OptimizeStatement(table=log.table_uri, **statement))


def write_rows(spark, log, first, end, **options):
    return write(spark, log, WriteStatement(table=log.table_uri, source=SqlSource(ROWS.format(first, end)), **options))


def rows_of(log):
    return Counter(map(repr, log.refresh().to_arrow().read_all().to_pylist()))


def size_of(log):
    return sum(log.refresh().files()["size"].to_pylist())


def ranges(log, column):
    stats = [json.loads(text) for text in log.refresh().files()["stats"].to_pylist()]
    return sorted((file["minValues"][column], file["maxValues"][column]) for file in stats if column in file["minValues"])


def skipped(log, column, values):
    bounds = ranges(log, column)
    return 1 - sum(low <= value <= high for value in values for low, high in bounds) / len(bounds) / len(values)


@pytest.fixture
def shuffled(table):
    """4,000 rows in eight files, ``a`` and ``b`` in no order."""
    for part in range(8):
        ids = range(part, 4_000, 8)
        rows = {"id": ids, "a": [id_ * 7919 % 4_001 for id_ in ids], "b": [id_ * 104_729 % 4_003 for id_ in ids]}
        write_deltalake(table, pa.table(rows), mode="append")
    return DeltaLog.for_table(table)


def test_files_have_narrow_ranges_of_every_column_and_no_row_changes(spark, shuffled, reference_rows, duckdb_connection):
    before = reference_rows()
    result = run(spark, shuffled, z_order_by=("A", "b"), target_file_size=size_of(shuffled) // 16)

    assert reference_rows() == before
    assert (result.version, result.committed, result.operation) == (8, True, "OPTIMIZE")
    assert (result.metrics["numRemovedFiles"], result.metrics["numAddedFiles"]) == (8, len(shuffled.refresh().files()))
    assert 14 <= result.metrics["numAddedFiles"] <= 18
    assert result.details["zOrderStats"]["mergedFiles"]["num"] == 8
    values = range(0, 4_000, 40)
    assert (skipped(shuffled, "a", values) > 0.65, skipped(shuffled, "b", values) > 0.65) == (True, True)
    entry = DeltaTable(shuffled.table_uri).history(1)[0]
    assert (entry["operationParameters"]["zOrderBy"], entry["isolationLevel"]) == ('["a","b"]', "SnapshotIsolation")


def test_each_partition_is_one_group_and_one_that_loses_a_file_leaves_the_others_their_work(spark, table, reference_rows):
    for part in range(2):
        rows = {"id": range(part, 40, 2), "p": ["xy"[number // 2 % 2] for number in range(part, 40, 2)]}
        write_deltalake(table, pa.table(rows), mode="append", partition_by=["p"])
    log = DeltaLog.for_table(table)
    begin = log.start_transaction

    def late(*arguments, **options):
        transaction = begin(*arguments, **options)
        DeltaTable(table).delete("id = 0")
        return transaction

    log.start_transaction = late
    result = run(spark, log, z_order_by="id", where="p IN ('x', 'y')")
    assert [row[0] for row in reference_rows()] == list(range(1, 40))
    assert (result.committed, result.metrics["numRemovedFiles"], result.metrics["numAddedFiles"]) == (True, 2, 1)


def test_nothing_to_put_in_order_commits_nothing(spark, table):
    write_deltalake(table, pa.table({"id": [3, 1, 2]}))
    log = DeltaLog.for_table(table)
    assert run(spark, log, z_order_by="id").committed is False
    planned = run(spark, log, z_order_by="id", dry_run=True, target_file_size=size_of(log) // 3)
    assert (planned.committed, planned.metrics["numAddedFiles"], log.refresh().version) == (False, 3, 0)


def test_columns_that_do_not_suit_are_all_named(spark, table):
    log = DeltaLog.for_table(table)
    properties = {"delta.dataSkippingStatsColumns": "id,inner"}
    log.create(NewTable(schema=SCHEMA, partition_columns=("p",), properties=properties))
    with pytest.raises(UnsuitableColumnsError) as caught:
        run(spark, log, z_order_by=("p", "none", "inner.tags", "day", "ID", "id", "inner", "`"), full=False)
    assert [line.split()[0] for line in caught.value.reasons] == ["p", "none", "inner.tags", "day", "id", "inner", "'`'"]
    with pytest.raises(UnsuitableColumnsError, match="has none"):
        run(spark, log, full=True)


@pytest.mark.parametrize("mode", slow_after(1, ["name", "id", "none"]))
def test_mapped_columns_nested_ones_and_hidden_rows(spark, table, mode, duckdb_connection):
    log = DeltaLog.for_table(table)
    properties = {"delta.columnMapping.mode": mode, "delta.enableDeletionVectors": "true"}
    log.create(NewTable(schema=SCHEMA, partition_columns=("p",), properties=properties))
    write_rows(spark, log, 0, 600)
    write_rows(spark, log, 600, 1_000)
    delete(spark, log, DeleteStatement(table=table, where="id % 10 = 3"))
    expected = rows_of(log)
    result = run(spark, log, z_order_by=("inner.n", "day"), target_file_size=size_of(log) // 30)

    assert rows_of(log) == expected
    assert expected.total() == duckdb_connection.sql(f"SELECT count(*) FROM delta_scan('{table}')").fetchone()[0] == 900
    assert (result.committed, log.refresh().files()["deletion_vector"].null_count) == (True, result.metrics["numAddedFiles"])
    assert result.metrics["numDeletionVectorsRemoved"] > 0


def test_rows_keep_their_ids(spark, table):
    log = DeltaLog.for_table(table)
    log.create(NewTable(schema=SCHEMA, properties={"delta.enableRowTracking": "true"}))
    write_rows(spark, log, 0, 300)
    write_rows(spark, log, 300, 500)

    def known():
        rows = log.refresh().to_arrow(["id"], with_row_ids=True).read_all()
        return sorted(map(tuple, (row.values() for row in rows.to_pylist())))

    before = known()
    run(spark, log, z_order_by=("id", "day"), target_file_size=size_of(log) // 6)
    assert known() == before
    assert len(log.refresh().files()) > 3


def test_a_clustered_table_is_clustered_by_its_columns_step_by_step(spark, table, reference_rows):
    log = DeltaLog.for_table(table)
    schema = StructType((StructField("id", LONG), StructField("a", LONG)))
    log.create(NewTable(schema=schema, clustering_columns=("a",)))
    query = "SELECT id, (id * 7919) % 1000 AS a FROM range({}, {}, 1, 2)"
    write(spark, log, WriteStatement(table=table, source=SqlSource(query.format(0, 500))))
    first = run(spark, log, target_file_size=size_of(log) // 4)
    write(spark, log, WriteStatement(table=table, source=SqlSource(query.format(500, 600))))
    again = run(spark, log, target_file_size=size_of(log))
    nothing = run(spark, log)
    full = run(spark, log, full=True, target_file_size=size_of(log) // 4)

    assert [result.committed for result in (first, again, nothing, full)] == [True, True, False, True]
    assert reference_rows() == [(number, number * 7919 % 1000) for number in range(600)]
    files = log.refresh().files().to_pylist()
    assert {file["clustering_provider"] for file in files} == {"liquid"}
    tags = [dict(file["tags"]) for file in files]
    assert (
        len({tags_of_file["ZCUBE_ID"] for tags_of_file in tags}),
        {tags_of_file["ZCUBE_ZORDER_BY"] for tags_of_file in tags},
    ) == (1, {'["a"]'})
    bounds = ranges(log, "a")
    assert (len(bounds), all(one[1] < other[0] for one, other in pairwise(bounds))) == (4, True)
    parameters = DeltaTable(table).history(1)[0]["operationParameters"]
    assert (parameters["clusterBy"], parameters["zOrderBy"], str(parameters["isFull"]).lower()) == ('["a"]', "[]", "true")
    with pytest.raises(UnsuitableColumnsError, match="clustered by a"):
        run(spark, log, z_order_by="id")


def check_bounds(rows, stats):
    """The statistics against what pyarrow finds in the file."""
    assert stats["numRecords"] == len(rows) > 0
    for name, nulls in stats["nullCount"].items():
        assert nulls == rows[name].null_count
    for bound, compare in (("minValues", operator.le), ("maxValues", operator.ge)):
        for name, text in stats[bound].items():
            values = [value for value in rows[name].to_pylist() if value is not None]
            assert all(compare(like(text, value), value) for value in values), name


def like(text, value):
    """A bound in the log's JSON as a value of a column."""
    match value:
        case dt.datetime():
            return dt.datetime.fromisoformat(text).replace(tzinfo=value.tzinfo)
        case dt.date():
            return dt.date.fromisoformat(text)
        case _:
            return type(value)(text)


EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
VALUES = st.fixed_dictionaries(
    {
        "i": st.none() | st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1),
        "f": st.none() | st.floats(),
        "s": st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=70),
        "d": st.none() | st.dates(dt.date(1600, 1, 1)),
        "t": st.none() | st.integers(-(10**16), 10**16).map(lambda micros: EPOCH + dt.timedelta(microseconds=micros)),
    }
)
TYPES = pa.schema(
    [("i", pa.int64()), ("f", pa.float64()), ("s", pa.string()), ("d", pa.date32()), ("t", pa.timestamp("us", "UTC"))]
)


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    rows=st.lists(VALUES, min_size=2, max_size=80),
    columns=st.permutations("ifsdt"),
    count=st.integers(1, 5),
    files=st.integers(1, 9),
)
def test_any_rows_are_the_same_rows_afterwards(spark, tmp_path_factory, duckdb_connection, rows, columns, count, files):
    table = str(tmp_path_factory.mktemp("any") / "table")
    half = len(rows) // 2
    for part in (rows[:half], rows[half:]):
        write_deltalake(table, pa.Table.from_pylist(part, TYPES), mode="append")
    log = DeltaLog.for_table(table)
    expected = rows_of(log)
    run(spark, log, z_order_by=tuple(columns[:count]), target_file_size=max(1, size_of(log) // files))

    assert rows_of(log) == expected
    scanned = duckdb_connection.sql(f"SELECT * FROM delta_scan('{table}')").to_arrow_table().select(TYPES.names).cast(TYPES)
    assert Counter(map(repr, scanned.to_pylist())) == expected
    for file in log.refresh().files().to_pylist():
        check_bounds(pq.read_table(Path(table) / file["path"], partitioning=None), json.loads(file["stats"]))
