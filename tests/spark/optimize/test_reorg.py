"""REORG: what is deleted leaves the files, what is there stays."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.data_types import LONG, STRING, ArrayType
from airflow_delta.core.statements import DeleteStatement, ReorgStatement, SqlSource, WriteStatement
from airflow_delta.core.table_changes import NewTable
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.optimize.dropped_columns import _holds_others
from airflow_delta.spark.optimize.reorg import reorg
from airflow_delta.spark.write.write import write

INNER = StructType((StructField("x", LONG), StructField("y", LONG)))
SCHEMA = StructType(
    (StructField("id", LONG), StructField("p", STRING), StructField("old", LONG), StructField("items", ArrayType(INNER)))
)
ROWS = "SELECT id, 'a' AS p, id AS old, array(named_struct('x', id, 'y', -id)) AS items FROM range({}, {}, 1, 1)"


@pytest.fixture
def log(spark, table):
    """Two files of ten rows each, columns mapped by name."""
    log = DeltaLog.for_table(table)
    properties = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
    log.create(NewTable(schema=SCHEMA, partition_columns=("p",), properties=properties))
    for first in (0, 10):
        write(spark, log, WriteStatement(table=table, source=SqlSource(ROWS.format(first, first + 10))))
    return log


def purge(spark, log, **statement):
    return reorg(spark, log, ReorgStatement(table=log.table_uri, **statement))


def rows_of(log):
    return sorted(log.refresh().to_arrow().read_all().to_pylist(), key=lambda row: row["id"])


def test_hidden_rows_and_dropped_columns_leave_the_files(spark, log, table):
    assert purge(spark, log).committed is False
    delete(spark, log, DeleteStatement(table=table, where="id IN (3, 4)"))
    kept = rows_of(log)
    planned = purge(spark, log, dry_run=True)
    assert purge(spark, log, where="upper(p) = 'B'").committed is False
    first = purge(spark, log, where="upper(p) = 'A'")

    assert (planned.committed, planned.metrics["numRemovedFiles"]) == (False, 1)
    assert (first.operation, first.metrics["numRemovedFiles"], first.metrics["numDeletionVectorsRemoved"]) == ("REORG", 1, 1)
    assert rows_of(log) == kept
    log.alter().drop_columns("old")
    log.alter().drop_columns("items.element.y")
    kept = rows_of(log)
    second = purge(spark, log)
    assert (second.metrics["numRemovedFiles"], second.metrics["numAddedFiles"]) == (2, 2)
    assert rows_of(log) == kept == [{"id": i, "p": "a", "items": [{"x": i}]} for i in range(20) if i not in {3, 4}]
    for file in log.refresh().files().to_pylist():
        assert not file["data_change"] or file["deletion_vector"] is None
        stored = pq.read_schema(f"{table}/{file['path']}")
        assert (len(stored), stored.field(1).type.value_type.num_fields) == (2, 1)
    assert purge(spark, log).committed is False
    entry = DeltaLog.for_table(table).history(1)[0].commit_info
    assert (entry.operation, str(entry.operation_parameters["applyPurge"]).lower()) == ("REORG", "true")


def test_a_file_of_deleted_rows_alone_goes_and_one_that_another_changed_is_left_out(spark, log, table):
    delete(spark, log, DeleteStatement(table=table, where="id IN (3, 13)"))
    begin = log.start_transaction

    def late(*arguments, **options):
        transaction = begin(*arguments, **options)
        delete(spark, DeltaLog.for_table(table), DeleteStatement(table=table, where="id = 5"))
        return transaction

    log.start_transaction = late
    result = purge(spark, log)
    assert (result.committed, result.metrics["numRemovedFiles"]) == (True, 1)
    assert [row["id"] for row in rows_of(log)] == [number for number in range(20) if number not in {3, 5, 13}]


@pytest.mark.parametrize(
    ("stored", "holds"),
    [
        ([("a", pa.int64())], False),
        ([("A", pa.int32())], False),
        ([], False),
        ([("a", pa.int64()), ("b", pa.int64())], True),
        ([("s", pa.struct([("x", pa.int64())]))], False),
        ([("s", pa.struct([("x", pa.int64()), ("y", pa.int64())]))], True),
        ([("m", pa.map_(pa.string(), pa.list_(pa.struct([("x", pa.int64())]))))], False),
        ([("m", pa.map_(pa.string(), pa.list_(pa.struct([("z", pa.int64())]))))], True),
    ],
)
def test_columns_are_compared_at_every_level(stored, holds):
    inner = pa.struct([("x", pa.int64())])
    known = pa.schema([("a", pa.int64()), ("s", inner), ("m", pa.map_(pa.string(), pa.list_(inner)))])
    assert _holds_others(pa.schema(stored), known, by_id=False) is holds
