"""Concurrent merges: two that read one version, a winner in between, a duplicate attempt of the same task."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import MetadataChangedError
from airflow_delta.core.statements import MatchedDelete, MatchedUpdate, NotMatchedInsert
from airflow_delta.spark.statement import conflict_retry
from tests.spark.interrupted_store import InterruptedStore
from tests.spark.needs import looks_into_the_jvm
from tests.spark.sessions import new_session

ADD = MatchedUpdate(assignments={"v": "target.v + source.v"})
DAYS = pa.table({"id": [1, 2, 3, 4], "day": ["mon", "mon", "tue", "tue"], "v": [10, 20, 30, 40]})
COMMIT_TIMEOUT = 300


@pytest.fixture
def interrupted(table):
    return lambda action: DeltaLog.for_table(table, store=InterruptedStore(table, action))


@pytest.fixture
def run_both(spark, run_merge, interrupted):
    """Run two merges at once; each holds its commit back until both have computed theirs from the same version."""

    def run(*merges):
        barrier = threading.Barrier(len(merges))

        def held(merge):
            try:
                return run_merge(**merge, log=interrupted(lambda: barrier.wait(COMMIT_TIMEOUT)), session=new_session(spark))
            except BaseException:
                barrier.abort()  # the other one waits in vain
                raise

        with ThreadPoolExecutor() as threads:
            running = [threads.submit(held, merge) for merge in merges]
        errors = [error for error in (merge.exception() for merge in running) if error is not None]
        if errors:
            raise next((error for error in errors if not isinstance(error, threading.BrokenBarrierError)), errors[0])
        return sorted((merge.result() for merge in running), key=lambda result: result.version)

    return run


def rules(result):
    return [conflict["rule"] for conflict in result.conflicts]


@pytest.mark.parametrize("partition_by", [["day"], None])
def test_merges_of_different_days_both_commit_without_a_retry(run_both, reference_rows, table, partition_by):
    for day in ("mon", "tue"):
        write_deltalake(table, DAYS.filter(pa.compute.equal(DAYS["day"], day)), partition_by=partition_by, mode="append")
    on = "target.day = source.day AND target.id = source.id"

    first, second = run_both(
        {"source": "VALUES (1L, 'mon', 1L), (9L, 'mon', 9L) AS t(id, day, v)", "on": on},
        {"source": "VALUES (3L, 'tue', 3L), (9L, 'tue', 9L) AS t(id, day, v)", "on": on},
    )

    assert (first.version, second.version) == (2, 3)
    assert (first.read_version, second.read_version) == (1, 1)
    assert (rules(first), rules(second)) == ([], [None])
    assert reference_rows("id, day") == [
        (1, "mon", 1),
        (2, "mon", 20),
        (3, "tue", 3),
        (4, "tue", 40),
        (9, "mon", 9),
        (9, "tue", 9),
    ]


def test_of_merges_of_the_same_rows_one_is_retried_and_no_update_is_lost(run_both, reference_rows, table, caplog):
    write_deltalake(table, DAYS)
    caplog.set_level(logging.INFO, logger=conflict_retry.__name__)

    first, second = run_both(
        {"source": "SELECT id, 1L AS v FROM range(10)", "clauses": ADD},
        {"source": "SELECT id, 100L AS v FROM range(10)", "clauses": ADD},
    )

    assert [row[2] for row in reference_rows()] == [111, 121, 131, 141]
    assert (first.version, first.attempts, rules(first)) == (1, 1, [])
    assert (second.version, second.read_version, second.attempts) == (2, 1, 2)
    assert rules(second) == ["DELTA_CONCURRENT_APPEND"]
    assert second.conflicts[0]["version"] == 1
    logged = [record.getMessage() for record in caplog.records if record.name == conflict_retry.__name__]
    assert logged == [f"{table}: attempt 1 of 20: version 1 (MERGE) conflicts by DELTA_CONCURRENT_APPEND"]
    assert [commit["operation"] for commit in DeltaTable(table).history()] == ["MERGE", "MERGE", "WRITE"]


def test_two_merges_that_insert_one_new_key_make_one_row(run_both, reference_rows, table):
    write_deltalake(table, DAYS.slice(0, 0))
    first, second = run_both(
        {"source": "VALUES (7L, 'mon', 1L) AS t(id, day, v)", "clauses": (ADD, NotMatchedInsert())},
        {"source": "VALUES (7L, 'mon', 2L) AS t(id, day, v)", "clauses": (ADD, NotMatchedInsert())},
    )
    assert reference_rows() == [(7, "mon", 3)]
    assert (first.metrics["numTargetRowsInserted"], second.metrics["numTargetRowsInserted"]) == (1, 0)
    assert second.metrics["numTargetRowsUpdated"] == 1


@pytest.mark.slow
def test_a_retry_uses_the_source_of_the_first_attempt(run_merge, interrupted, reference_rows, table):
    write_deltalake(table, DAYS)

    def winner():
        write_deltalake(table, DAYS.slice(0, 1), mode="append")

    result = run_merge(
        "SELECT id, CAST(rand() * 1e9 AS BIGINT) AS v FROM range(1, 3)",
        clauses=MatchedUpdate(assignments={"v": "source.v"}),
        log=interrupted(winner),
    )

    assert result.attempts == 2
    values = [row[2] for row in reference_rows("id, v")]
    assert values[0] == values[1]
    assert result.metrics["numTargetRowsUpdated"] == 3


@pytest.mark.slow
@looks_into_the_jvm
def test_a_source_that_a_lost_executor_kept_is_computed_again(spark, run_merge, interrupted, reference_rows, table):
    write_deltalake(table, DAYS)

    def winner():
        run_merge("SELECT id, 100L AS v FROM range(10)", clauses=ADD)
        for kept in spark.sparkContext._jsc.getPersistentRDDs().values():
            kept.unpersist()

    run_merge("SELECT id, 1L AS v FROM range(10)", clauses=ADD, log=interrupted(winner))

    assert [row[2] for row in reference_rows()] == [111, 121, 131, 141]


def test_a_winner_that_deletes_what_was_matched_forces_a_retry(run_merge, interrupted, reference_rows, table):
    write_deltalake(table, DAYS)
    result = run_merge(
        "VALUES (1L, 'mon', 5L), (8L, 'wed', 8L) AS t(id, day, v)",
        log=interrupted(lambda: DeltaTable(table).delete()),
        clauses=NotMatchedInsert(),
    )
    assert reference_rows() == [(1, "mon", 5), (8, "wed", 8)]
    assert rules(result) == ["DELTA_CONCURRENT_DELETE_READ"]


def test_a_commit_of_the_same_token_that_wins_is_the_result(run_merge, interrupted, reference_rows, table):
    write_deltalake(table, DAYS)
    same = {"source": "SELECT id, 1L AS v FROM range(10)", "clauses": ADD, "origin": Origin(token="task")}
    duplicate = []

    result = run_merge(**same, log=interrupted(lambda: duplicate.append(run_merge(**same))))

    assert (result.version, result.already_committed) == (duplicate[0].version, True)
    assert [row[2] for row in reference_rows()] == [11, 21, 31, 41]
    assert DeltaLog.for_table(table).snapshot().version == 1


@pytest.mark.slow
def test_a_duplicate_attempt_behind_the_winner_is_found_before_the_retry(run_merge, interrupted, reference_rows, table):
    write_deltalake(table, DAYS)
    same = {"source": "SELECT id, 1L AS v FROM range(10)", "clauses": ADD, "origin": Origin(token="task")}

    def others():
        run_merge("SELECT id, 100L AS v FROM range(10)", clauses=ADD)
        run_merge(**same)

    result = run_merge(**same, log=interrupted(others))

    assert (result.version, result.already_committed) == (2, True)
    assert [row[2] for row in reference_rows()] == [111, 121, 131, 141]


def test_a_winner_that_changes_the_schema_is_for_the_next_try(run_merge, interrupted, table, tmp_path):
    write_deltalake(table, DAYS)
    wider = DAYS.slice(0, 1).append_column("more", [["x"]])
    before = {path.name for path in tmp_path.glob("table/*")}
    with pytest.raises(MetadataChangedError) as raised:
        run_merge(
            "SELECT id, 1L AS v FROM range(10)",
            clauses=ADD,
            log=interrupted(lambda: write_deltalake(table, wider, mode="append", schema_mode="merge")),
        )
    assert raised.value.winning_version == 1
    assert len({path.name for path in tmp_path.glob("table/*")} - before) == 1


def test_files_of_a_failed_attempt_are_deleted(run_merge, interrupted, table, tmp_path):
    write_deltalake(table, DAYS)
    run_merge(
        "SELECT id, 1L AS v FROM range(10)",
        clauses=[ADD],
        log=interrupted(lambda: run_merge("SELECT 1L AS id", clauses=MatchedDelete())),
    )
    assert len(list(tmp_path.glob("table/write-*"))) == 2
