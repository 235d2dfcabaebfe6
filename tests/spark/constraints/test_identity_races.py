"""Writers that number rows of one table at once: all commit, and no number is given twice."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import MetadataChangedError
from airflow_delta.core.statements import UPSERT, MergeStatement, SqlSource, WriteStatement
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.write.write import write
from tests.spark.interrupted_store import InterruptedStore
from tests.spark.sessions import new_session

COMMIT_TIMEOUT = 300


@pytest.fixture
def at_once(spark, table):
    """Run statements on the table; each holds its first commit back until all have numbered rows from the same version."""

    def run(*statements):
        barrier = threading.Barrier(len(statements))

        def held(statement):
            log = DeltaLog.for_table(table, store=InterruptedStore(table, lambda: barrier.wait(COMMIT_TIMEOUT)))
            run_one = write if isinstance(statement, WriteStatement) else merge
            return run_one(new_session(spark), log, statement)

        with ThreadPoolExecutor() as threads:
            return sorted(threads.map(held, statements), key=lambda result: result.version)

    return run


@pytest.mark.slow
def test_two_appends_and_a_merge_give_every_number_once(create, write_rows, at_once, seen, table, column):
    create("k BIGINT GENERATED ALWAYS AS IDENTITY, id BIGINT, s STRING")
    write_rows("SELECT id, 'first' AS s FROM range(2)")
    results = at_once(
        WriteStatement(table=table, source=SqlSource("SELECT id + 10 AS id, 'a' AS s FROM range(3)")),
        WriteStatement(table=table, source=SqlSource("SELECT id + 20 AS id, 'b' AS s FROM range(3)")),
        MergeStatement(
            table=table,
            source=SqlSource("SELECT id + 30 AS id, 'c' AS s FROM range(3)"),
            on="target.id = source.id",
            clauses=UPSERT,
        ),
    )

    assert [result.version for result in results] == [2, 3, 4]
    assert [len(result.conflicts) > 0 for result in results] == [False, True, True]
    assert seen("k", order="k") == [(number,) for number in range(1, 12)]
    assert column("k")["delta.identity.highWaterMark"] == 11


def test_another_change_of_the_metadata_is_still_a_conflict(spark, create, table):
    create("k BIGINT GENERATED ALWAYS AS IDENTITY, id BIGINT")

    def rename():
        DeltaLog.for_table(table).alter().set_properties({"owner": "ops"})

    log = DeltaLog.for_table(table, store=InterruptedStore(table, rename))
    statement = MergeStatement(table=table, source=SqlSource("SELECT 1L AS id"), on="target.id = source.id", clauses=UPSERT)
    with pytest.raises(MetadataChangedError):
        merge(spark, log, statement)


def test_rows_that_are_numbered_anew_leave_no_file_of_the_first_try_behind(spark, create, write_rows, table):
    create("k BIGINT GENERATED ALWAYS AS IDENTITY, id BIGINT")
    log = DeltaLog.for_table(table, store=InterruptedStore(table, lambda: write_rows("SELECT 1L AS id")))

    result = write(spark, log, WriteStatement(table=table, source=SqlSource("SELECT 2L AS id")))

    named = sorted(DeltaLog.for_table(table).snapshot().files()["path"].to_pylist())
    assert [len(result.conflicts), len(named)] == [1, 2]
    assert sorted(str(path.relative_to(table)) for path in Path(table).rglob("*.parquet")) == named


def test_a_commit_that_numbers_rows_and_adds_columns_is_not_tagged_as_one_of_numbers(create, write_rows, put_together, table):
    create("k BIGINT GENERATED ALWAYS AS IDENTITY, id BIGINT")
    write_rows("SELECT 1L AS id, 'a' AS written", merge_schema=True)
    put_together("SELECT 2L AS id, 'b' AS written, 'c' AS merged", clauses=UPSERT, schema_evolution=True)

    log = DeltaLog.for_table(table)
    assert [dict(log.snapshot(version).commit_info.tags) for version in (1, 2)] == [{}, {}]
    assert log.snapshot().schema.names == ("k", "id", "written", "merged")
