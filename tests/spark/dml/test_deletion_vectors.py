"""DELETE, UPDATE and MERGE on a table that hides rows by deletion vectors: no file is written anew."""

from pathlib import Path

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import ExpectationFailedError
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.data_types import LONG, STRING
from airflow_delta.core.statements import (
    UPSERT,
    DeleteStatement,
    MatchedDelete,
    MergeStatement,
    OptimizeStatement,
    SqlSource,
    UpdateStatement,
    WriteStatement,
)
from airflow_delta.core.table_changes import NewTable
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.io.scan import read_table
from airflow_delta.spark.optimize.optimize import optimize
from airflow_delta.spark.write.write import write

SCHEMA = StructType((StructField("id", LONG), StructField("p", STRING), StructField("v", LONG)))


@pytest.fixture
def log(spark, table):
    """Rows 0 to 19 in two files, with v = id."""
    log = DeltaLog.for_table(table)
    log.create(NewTable(schema=SCHEMA, properties={"delta.enableDeletionVectors": "true"}))
    for first in (0, 10):
        source = SqlSource(f"SELECT id, 'x' AS p, id AS v FROM range({first}, {first + 10}, 1, 1)")
        write(spark, log, WriteStatement(table=table, source=source))
    return log


@pytest.fixture
def rows(spark, log, table, duckdb_connection):
    """The rows (id, v), as Spark, the core and duckdb all read them."""

    def read():
        snapshot = log.refresh()
        by_core = sorted((row["id"], row["v"]) for row in snapshot.to_arrow().read_all().to_pylist())
        by_spark = sorted((row.id, row.v) for row in read_table(spark, snapshot).collect())
        by_duckdb = sorted(duckdb_connection.sql(f"SELECT id, v FROM delta_scan('{table}')").fetchall())
        assert by_core == by_spark == by_duckdb
        return by_core

    return read


def data_files(table):
    return sorted(path.name for path in Path(table).rglob("*.parquet") if "_delta_log" not in path.parts)


def deletion_vectors(table):
    return sorted(path.name for path in Path(table).rglob("*.bin"))


def deletion_vector_metrics(result, prefix="num"):
    return tuple(result.metrics[f"{prefix}DeletionVectors{name}"] for name in ("Added", "Removed", "Updated"))


def test_deleted_rows_are_hidden_and_later_ones_added_to_them(spark, log, rows, table):
    before = data_files(table)
    first = delete(spark, log, DeleteStatement(table=table, where="id % 3 = 0"))
    second = delete(spark, log, DeleteStatement(table=table, where="id IN (1, 2, 19)"))

    assert rows() == [(number, number) for number in range(20) if number % 3 and number not in {1, 2, 19}]
    assert data_files(table) == before
    assert (deletion_vector_metrics(first), deletion_vector_metrics(second)) == ((2, 0, 0), (2, 2, 2))
    assert (first.metrics["numDeletedRows"], second.metrics["numDeletedRows"]) == (7, 3)
    assert (first.metrics["numRemovedFiles"], first.metrics["numAddedFiles"], first.metrics["numCopiedRows"]) == (0, 0, 0)
    files = log.refresh().files()
    assert sorted(files["deletion_vector"].combine_chunks().field("cardinality").to_pylist()) == [4, 6]
    assert all('"tightBounds":false' in text for text in files["stats"].to_pylist())
    DeltaLog.for_table(table).vacuum(0, enforce_retention=False)
    assert (len(deletion_vectors(table)) in {1, 2}, len(rows())) == (True, 10)  # one for each task that wrote some


def test_a_file_of_which_no_row_is_left_goes(spark, log, rows, table):
    delete(spark, log, DeleteStatement(table=table, where="v < 5"))
    result = delete(spark, log, DeleteStatement(table=table, where="v < 11"))

    assert rows() == [(number, number) for number in range(11, 20)]
    assert (result.metrics["numRemovedFiles"], deletion_vector_metrics(result)) == (1, (1, 1, 0))
    assert len(log.refresh().files()) == 1


def test_updated_rows_are_written_beside_and_hidden_where_they_were(spark, log, rows, table):
    before = data_files(table)
    result = update(spark, log, UpdateStatement(table=table, where="id IN (3, 13)", assignments={"v": "v + 100"}))

    assert rows() == sorted([*((number, number) for number in range(20) if number not in {3, 13}), (3, 103), (13, 113)])
    assert len(data_files(table)) == len(before) + 1
    assert (deletion_vector_metrics(result), result.metrics["numUpdatedRows"], result.metrics["numAddedFiles"]) == (
        (2, 0, 0),
        2,
        1,
    )


def test_a_merge_hides_what_it_changes_and_writes_the_new_rows(spark, log, rows, table):
    before = data_files(table)
    source = SqlSource("SELECT id, 'y' AS p, id * 10 AS v FROM range(8, 12) UNION ALL SELECT 50, 'y', 500")
    clauses = [MatchedDelete(condition="source.id = 9"), *UPSERT]
    statement = MergeStatement(table=table, source=source, on="target.id = source.id", clauses=clauses)
    result = merge(spark, log, statement)

    changed = {8: 80, 10: 100, 11: 110, 50: 500}
    assert rows() == sorted({**{number: number for number in range(20) if number != 9}, **changed}.items())
    assert set(before) < set(data_files(table))
    assert deletion_vector_metrics(result, "numTarget") == (2, 0, 0)
    counted = [result.metrics[f"numTargetRows{effect}"] for effect in ("Updated", "Deleted", "Inserted", "Copied")]
    assert counted == [3, 1, 1, 0]


def test_compaction_leaves_hidden_rows_behind(spark, log, rows, table):
    delete(spark, log, DeleteStatement(table=table, where="id % 2 = 0"))
    expected = rows()
    result = optimize(spark, log, OptimizeStatement(table=table))

    assert result.committed
    assert rows() == expected
    files = log.refresh().files()
    assert (len(files), files["deletion_vector"].null_count) == (1, 1)


def test_two_deletes_of_different_rows_of_one_file_pass_each_other(spark, log, rows, table):
    original = log.start_transaction
    between = iter([lambda: delete(spark, DeltaLog.for_table(table), DeleteStatement(table=table, where="id = 1"))])

    def slow(*arguments, **options):
        transaction = original(*arguments, **options)
        next(between, lambda: None)()
        return transaction

    log.start_transaction = slow
    result = delete(spark, log, DeleteStatement(table=table, where="id = 2"))
    assert rows() == [(number, number) for number in range(20) if number not in {1, 2}]
    assert ([conflict["rule"] for conflict in result.conflicts], len(log.refresh().files())) == ([None], 2)


def test_a_condition_that_no_file_can_fulfill_deletes_and_commits_nothing(spark, log, rows, table):
    before = log.refresh().version
    result = delete(spark, log, DeleteStatement(table=table, where="id > 100"))

    assert (result.committed, result.metrics["numDeletedRows"]) == (False, 0)
    assert (log.refresh().version, rows()) == (before, [(number, number) for number in range(20)])


def test_nothing_is_left_of_a_change_that_is_not_committed(spark, log, rows, table):
    before = data_files(table)
    with pytest.raises(ExpectationFailedError):
        update(spark, log, UpdateStatement(table=table, where="id < 5", assignments={"v": "-1"}, expect="v >= 0"))
    assert (deletion_vectors(table), data_files(table)) == ([], before)
    assert rows() == [(number, number) for number in range(20)]
