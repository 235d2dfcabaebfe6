"""Merges of different rows of one unpartitioned table that meet, and what else may happen meanwhile."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import (
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedInsert,
    OptimizeStatement,
)
from airflow_delta.spark.optimize.optimize import optimize
from tests.slow_cases import slow_after
from tests.spark.interrupted_store import InterruptedStore
from tests.spark.sessions import new_session

JOBS, KEYS_OF_A_JOB = 4, 10
HELD_SECONDS = 300
WITH_DELETION_VECTORS = {"delta.enableDeletionVectors": "true"}


@pytest.fixture
def held(table):
    return lambda action: DeltaLog.for_table(table, store=InterruptedStore(table, action))


@pytest.fixture
def run_all(spark, run_merge, held):
    """Run merges at once; each holds its commit back until all have computed theirs from the same version."""

    def run(merges):
        barrier = threading.Barrier(len(merges))

        def one(merge):
            log = held(lambda: barrier.wait(HELD_SECONDS))
            try:
                return run_merge(**merge, log=log, session=new_session(spark))
            except threading.BrokenBarrierError:  # another one failed
                return None
            except BaseException:
                barrier.abort()
                raise

        with ThreadPoolExecutor(len(merges)) as threads:
            return sorted(threads.map(one, merges), key=lambda result: result.version)

    return run


@pytest.fixture
def read(duckdb_connection, table):
    return lambda: duckdb_connection.sql(f"SELECT * FROM delta_scan('{table}') ORDER BY id").fetchall()


def retries(results):
    return [sum(conflict["rule"] is not None for conflict in result.conflicts) for result in results]


def clustered(job):
    """Keys of a job in a range of its own; every second one is in the table."""
    return range(job * 100, job * 100 + KEYS_OF_A_JOB)


def hashed(job):
    """Keys of a job all over the range of keys."""
    return range(job, JOBS * KEYS_OF_A_JOB, JOBS)


def existing(keys_of):
    return sorted(key for job in range(JOBS) for key in list(keys_of(job))[::2])


def upsert(keys, **merge):
    rows = ", ".join(f"({key}L, {key + 1000}L)" for key in keys)
    return {"source": f"VALUES {rows} AS t(id, v)", **merge}


def make(table, keys, files, configuration=None):
    for number in range(files):
        part = keys[number * len(keys) // files : (number + 1) * len(keys) // files]
        write_deltalake(table, pa.table({"id": part, "v": part}), mode="append", configuration=configuration)


@pytest.mark.slow
def test_four_merges_of_ranges_of_their_own_commit_without_a_retry(run_all, read, table):
    make(table, existing(clustered), files=JOBS)
    results = run_all([upsert(clustered(job)) for job in range(JOBS)])
    assert [result.version for result in results] == [4, 5, 6, 7]
    assert retries(results) == [0, 0, 0, 0]
    assert read() == [(key, key + 1000) for job in range(JOBS) for key in clustered(job)]


@pytest.mark.slow
def test_four_merges_that_rewrite_the_same_files_all_commit_and_report_their_retries(run_all, read, table):
    make(table, existing(hashed), files=2)
    results = run_all([upsert(hashed(job)) for job in range(JOBS)])
    assert [result.version for result in results] == [2, 3, 4, 5]
    assert retries(results)[0] == 0
    assert sum(retries(results)) >= JOBS - 1
    assert read() == [(key, key + 1000) for key in range(JOBS * KEYS_OF_A_JOB)]


@pytest.mark.parametrize(
    "clauses", slow_after(1, [(MatchedUpdate(), NotMatchedInsert()), NotMatchedInsert()]), ids=["upsert", "insert"]
)
def test_four_merges_that_hide_different_rows_of_the_same_files_commit_without_a_retry(run_all, read, table, clauses):
    make(table, existing(hashed), files=2, configuration=WITH_DELETION_VECTORS)
    results = run_all([upsert(hashed(job), clauses=clauses) for job in range(JOBS)])
    assert [result.version for result in results] == [2, 3, 4, 5]
    assert retries(results) == [0, 0, 0, 0]
    new = 1000 if isinstance(clauses, tuple) else 0
    there = set(existing(hashed))
    assert read() == [(key, key + (new if key in there else 1000)) for key in range(JOBS * KEYS_OF_A_JOB)]


@pytest.mark.slow
def test_four_merges_that_only_insert_keys_all_over_the_range_commit_without_a_retry(run_all, read, table):
    make(table, [-1, 99], files=1)
    results = run_all([upsert(hashed(job)) for job in range(JOBS)])
    assert retries(results) == [0, 0, 0, 0]
    assert read() == [(-1, -1), *((key, key + 1000) for key in range(JOBS * KEYS_OF_A_JOB)), (99, 99)]


@pytest.mark.slow
def test_a_key_that_both_have_is_found_in_what_the_winner_added(run_all, read, table):
    make(table, [-1, 99], files=1, configuration=WITH_DELETION_VECTORS)
    add = {"clauses": (MatchedUpdate(assignments={"v": "target.v + source.v"}), NotMatchedInsert())}
    results = run_all([upsert([1, 5, 9], **add), upsert([2, 5, 8], **add)])
    assert retries(results) == [0, 1]
    assert [row for row in read() if row[0] == 5] == [(5, 2010)]
    assert len(read()) == 7


@pytest.mark.slow
def test_a_row_that_both_change_is_changed_by_one_after_the_other(run_all, read, table):
    make(table, [1, 2, 3, 4], files=1, configuration=WITH_DELETION_VECTORS)
    add = {"clauses": MatchedUpdate(assignments={"v": "target.v + source.v"})}
    results = run_all([upsert([1, 2], **add), upsert([2, 3], **add)])
    assert retries(results) == [0, 1]
    assert read() == [(1, 1002), (2, 2006), (3, 1006), (4, 4)]


def test_a_matched_row_deleted_meanwhile_is_inserted_by_the_retry(run_merge, held, read, table):
    make(table, [1, 2, 3, 4], files=1, configuration=WITH_DELETION_VECTORS)
    result = run_merge(
        "VALUES (1L, 7L), (3L, 7L) AS t(id, v)",
        clauses=[MatchedUpdate(condition="target.id > 1"), NotMatchedInsert()],
        log=held(lambda: run_merge("SELECT 1L AS id", clauses=MatchedDelete())),
    )
    assert retries([result]) == [1]
    assert read() == [(1, 7), (2, 2), (3, 7), (4, 4)]


def test_rows_without_match_that_appear_meanwhile_are_not_missed(run_merge, held, read, table):
    make(table, [1, 2, 3, 4], files=1, configuration=WITH_DELETION_VECTORS)
    result = run_merge(
        "VALUES (1L, 7L) AS t(id, v)",
        clauses=[MatchedUpdate(), NotMatchedBySourceDelete(condition="target.id > 2")],
        log=held(lambda: run_merge("VALUES (5L, 5L), (2L, 0L) AS t(id, v)")),
    )
    assert retries([result]) == [1]
    assert read() == [(1, 7), (2, 0)]


def test_a_merge_and_an_append_during_optimize_all_commit(spark, run_merge, held, read, table):
    make(table, [1, 2, 3, 4], files=4)
    results = []

    def others():
        results.append(run_merge("VALUES (2L, 7L), (9L, 9L) AS t(id, v)"))
        write_deltalake(table, pa.table({"id": [5], "v": [5]}), mode="append")

    optimized = optimize(spark, held(others), OptimizeStatement(table=table), origin=Origin())
    assert retries(results) == [0]
    assert DeltaLog.for_table(table).snapshot().version == 5 + optimized.committed
    assert read() == [(1, 1), (2, 7), (3, 3), (4, 4), (5, 5), (9, 9)]


def test_a_merge_that_an_optimize_overtakes_is_done_on_its_files(spark, run_merge, held, read, table):
    make(table, [1, 2, 3, 4], files=4)
    result = run_merge(
        "VALUES (2L, 7L), (9L, 9L) AS t(id, v)",
        log=held(lambda: optimize(spark, DeltaLog.for_table(table), OptimizeStatement(table=table), origin=Origin())),
    )
    assert (retries([result]), result.version) == ([1], 5)
    assert read() == [(1, 1), (2, 7), (3, 3), (4, 4), (9, 9)]
