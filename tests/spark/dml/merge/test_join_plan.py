"""How the source of a MERGE is joined: as its size, which is known, allows, whatever Spark guesses."""

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import MatchedUpdate, MergeStatement, NotMatchedBySourceDelete, NotMatchedInsert, SqlSource
from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.spark.dml.merge import join as merge_join
from airflow_delta.spark.dml.merge.join import join
from airflow_delta.spark.dml.merge.plan import plan_merge
from airflow_delta.spark.io.row_cache import RowCache
from airflow_delta.spark.io.row_width import row_width
from tests.spark.needs import looks_into_the_jvm

UPDATE, INSERT, DELETE = MatchedUpdate(assignments={"v": "source.v"}), NotMatchedInsert(), NotMatchedBySourceDelete()
SMALL = "SELECT id, 'x' AS v FROM range(100)"
LONG_TEXTS = "SELECT id, repeat('x', 1000) AS v FROM range(20000)"
MANY_FLAGS = f"SELECT id, 'x' AS v, {', '.join(f'true AS b{number}' for number in range(60))} FROM range(40000)"
NESTED = "SELECT id, 'x' AS v, array(id) AS more FROM range(100)"


@pytest.fixture
def cache(table):
    with RowCache(LocalLogStore(table)) as cache:
        yield cache


def planned(spark, table, query, clauses, cache, on="target.id = source.id"):
    write_deltalake(table, pa.table({"id": pa.array(range(5), pa.int64()), "v": ["a"] * 5}))
    snapshot = DeltaLog.for_table(table).snapshot()
    statement = MergeStatement(table=table, source=SqlSource(query), on=on, clauses=clauses)
    return snapshot, plan_merge(snapshot, (), spark=spark, statement=statement, origin=Origin(), cache=cache)


def joined_by(pairs):
    executed = pairs._jdf.queryExecution().executedPlan().toString()
    return {kind for kind in ("SortMergeJoin", "BroadcastHashJoin", "ShuffledHashJoin") if kind in executed}


@looks_into_the_jvm
@pytest.mark.parametrize(
    ("query", "clauses", "expected"),
    [
        (SMALL, [UPDATE, DELETE], "BroadcastHashJoin"),
        (SMALL, [UPDATE], "BroadcastHashJoin"),
        (SMALL, [UPDATE, INSERT], "SortMergeJoin"),
        (SMALL, [UPDATE, INSERT, DELETE], "SortMergeJoin"),
        (LONG_TEXTS, [UPDATE, DELETE], "SortMergeJoin"),
        (MANY_FLAGS, [UPDATE], "ShuffledHashJoin"),
        (NESTED, [UPDATE, DELETE], "SortMergeJoin"),
    ],
    ids=["small", "small, matches alone", "with inserts", "with both", "large", "of many short values", "of unknown size"],
)
def test_only_a_source_that_is_known_to_be_small_is_broadcast(spark, table, query, clauses, expected, cache):
    snapshot, plan = planned(spark, table, query, clauses, cache)
    pairs, _ = join(spark, snapshot, plan.source, plan.clauses, snapshot.files(), unmatched=plan.unmatched, cache=cache)
    assert joined_by(pairs) == {expected}


@looks_into_the_jvm
@pytest.mark.parametrize(
    ("memory", "value", "expected"),
    [
        (4 * 5 * 20, "source.v", "ShuffledHashJoin"),
        (4 * 5 * 20 - 1, "source.v", "SortMergeJoin"),
        (1 << 30, "target.v || source.v", "SortMergeJoin"),
    ],
    ids=["fits", "does not", "with texts of any length"],
)
def test_rows_of_the_target_are_hashed_where_all_of_them_certainly_fit_a_task(
    spark, table, memory, value, expected, monkeypatch, cache
):
    monkeypatch.setattr(merge_join, "task_memory", lambda _: memory)
    monkeypatch.setattr(merge_join, "estimated_size", lambda _files, _schema, columns: 5 * row_width(columns))
    snapshot, plan = planned(spark, table, LONG_TEXTS, [MatchedUpdate(assignments={"v": value}), INSERT], cache)
    pairs, _ = join(spark, snapshot, plan.source, plan.clauses, snapshot.files(), unmatched=plan.unmatched, cache=cache)
    assert joined_by(pairs) == {expected}


@looks_into_the_jvm
@pytest.mark.parametrize(
    ("query", "has_large_target", "shuffles"),
    [(SMALL, False, 0), (LONG_TEXTS, False, 2), (NESTED, False, 2), (SMALL, True, 2)],
    ids=["small", "large source", "source of unknown size", "large target"],
)
def test_two_small_sides_are_joined_by_one_task_others_are_shuffled(
    spark, table, query, has_large_target, shuffles, monkeypatch, cache
):
    if has_large_target:
        monkeypatch.setattr(merge_join, "estimated_size", lambda *_: 17 << 20)
    snapshot, plan = planned(spark, table, query, [UPDATE, INSERT], cache)
    pairs, _ = join(spark, snapshot, plan.source, plan.clauses, snapshot.files(), unmatched=plan.unmatched, cache=cache)

    executed = pairs._jdf.queryExecution().executedPlan().toString()
    assert executed.count("Exchange hashpartitioning") == shuffles


def test_keys_that_are_computed_count_as_what_the_source_takes(spark, table, cache):
    _, plan = planned(spark, table, SMALL, [UPDATE], cache, on="target.v = repeat(source.v, 1000)")
    assert plan.source.size >= 100 * 1_000
