"""Clauses about target rows that no source row matches."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError, MultipleSourceRowsMatchedError, SchemaMismatchError
from airflow_delta.core.statements import (
    MatchedDelete,
    MatchedUpdate,
    MergeStatement,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    SqlSource,
)

FIVE = pa.table({"id": pa.array([1, 2, 3, 4, None], pa.int64()), "v": ["a", "b", "c", "d", "n"]})


def test_a_full_synchronisation_updates_inserts_and_deletes(run_merge, reference_rows, table, check_statistics):
    write_deltalake(table, FIVE.slice(0, 2))
    write_deltalake(table, FIVE.slice(2), mode="append")

    result = run_merge(
        "VALUES (2L, 'B'), (9L, 'i') AS t(id, v)", clauses=[MatchedUpdate(), NotMatchedInsert(), NotMatchedBySourceDelete()]
    )

    assert reference_rows() == [(2, "B"), (9, "i")]
    counts = {
        "Updated": 1,
        "MatchedUpdated": 1,
        "Inserted": 1,
        "Deleted": 4,
        "MatchedDeleted": 0,
        "NotMatchedBySourceDeleted": 4,
        "NotMatchedBySourceUpdated": 0,
        "Copied": 0,
    }
    assert {name: result.metrics[f"numTargetRows{name}"] for name in counts} == counts
    parameters = DeltaLog.for_table(table).snapshot().commit_info.operation_parameters
    assert json.loads(parameters["matchedPredicates"]) == [{"actionType": "update"}]
    assert json.loads(parameters["notMatchedBySourcePredicates"]) == [{"actionType": "delete"}]
    check_statistics()


@pytest.mark.parametrize("deletion_vectors", ["false", "true"])
def test_the_first_clause_whose_condition_holds_is_taken_on_either_side(run_merge, duckdb_connection, table, deletion_vectors):
    write_deltalake(table, FIVE, configuration={"delta.enableDeletionVectors": deletion_vectors})
    result = run_merge(
        "VALUES (2L, 'x'), (4L, 'y') AS t(id, w)",
        clauses=[
            NotMatchedBySourceUpdate(condition="target.v = 'a'", assignments={"v": "concat(v, '!')"}),
            MatchedDelete(condition="source.w = 'x'"),
            NotMatchedBySourceDelete(condition="id IS NULL"),
            NotMatchedBySourceUpdate(assignments={"v": "'gone'"}),
            MatchedUpdate(assignments={"v": "source.w"}),
        ],
    )
    found = duckdb_connection.sql(f"SELECT * FROM delta_scan('{table}') ORDER BY id").fetchall()
    assert found == [(1, "a!"), (3, "gone"), (4, "y")]
    counts = [
        result.metrics[f"numTargetRows{name}"]
        for name in ("NotMatchedBySourceUpdated", "NotMatchedBySourceDeleted", "MatchedUpdated", "MatchedDeleted")
    ]
    assert counts == [2, 1, 1, 1]


def test_a_source_without_rows_leaves_all_of_the_target_unmatched(run_merge, reference_rows, table):
    write_deltalake(table, FIVE)
    run_merge("SELECT 1L AS id WHERE false", clauses=NotMatchedBySourceDelete(condition="id > 2"))
    assert reference_rows() == [(None, "n"), (1, "a"), (2, "b")]


def test_files_in_which_no_row_can_matter_are_not_opened(run_merge, reference_rows, table):
    for first in (0, 10, 20, 30):
        write_deltalake(table, pa.table({"id": range(first, first + 5), "v": ["x"] * 5}), mode="append")
    snapshot = DeltaLog.for_table(table).snapshot()
    unread = [Path(table, snapshot.files(f"id = {i}")["path"][0].as_py()) for i in (10, 30)]
    for path in unread:
        path.rename(path.with_suffix(".aside"))

    run_merge(
        "VALUES (2L, 'y'), (3L, 'y') AS t(id, v)",
        clauses=[MatchedUpdate(), NotMatchedBySourceDelete(condition="target.id BETWEEN 20 AND 22")],
    )

    for path in unread:
        path.with_suffix(".aside").rename(path)
    found = reference_rows()
    assert [row[0] for row in found if row[1] == "y"] == [2, 3]
    assert sorted(set(range(40)) - {row[0] for row in found}) == [
        *range(5, 10),
        *range(15, 20),
        20,
        21,
        22,
        *range(25, 30),
        *range(35, 40),
    ]


def test_several_matches_of_one_row_do_not_blur_the_counts_of_rows_without_any(run_merge, reference_rows, table):
    write_deltalake(table, FIVE)
    twice = "VALUES (2L), (2L), (2L), (3L) AS t(id)"
    updated = NotMatchedBySourceUpdate(condition="id = 1", assignments={"v": "'u'"})
    with pytest.raises(MultipleSourceRowsMatchedError):
        run_merge(twice, clauses=[MatchedUpdate(assignments={"v": "'m'"}), updated])
    result = run_merge(twice, clauses=[MatchedDelete(), updated, NotMatchedBySourceDelete(condition="id = 4")])
    assert reference_rows() == [(None, "n"), (1, "u")]
    counts = [result.metrics[f"numTargetRows{name}"] for name in ("Deleted", "MatchedDeleted", "NotMatchedBySourceDeleted")]
    assert counts == [3, 2, 1]
    result = run_merge("VALUES (1L), (1L) AS t(id)", clauses=NotMatchedBySourceDelete())
    assert (reference_rows(), result.metrics["numTargetRowsDeleted"]) == ([(1, "u")], 1)


@pytest.mark.parametrize("condition", ["target.s.a > 1", "exists(target.l, x -> x > 1)", "s.a > 1 AND rand() < 2"])
def test_a_condition_that_only_spark_understands_is_evaluated_on_every_row(run_merge, reference_rows, table, condition):
    rows = [{"id": i, "s": {"a": i}, "l": [i]} for i in range(4)]
    write_deltalake(table, pa.Table.from_pylist(rows))
    run_merge("SELECT 3L AS id, named_struct('a', 9L) AS s", clauses=NotMatchedBySourceDelete(condition=condition))
    assert [row[0] for row in reference_rows()] == [0, 1, 3]


def test_a_condition_without_keys_separates_matched_from_unmatched_rows(run_merge, reference_rows, table):
    write_deltalake(table, FIVE)
    run_merge(
        "VALUES (2L, 'x'), (99L, 'y') AS t(low, v)",
        on="target.id > source.low AND source.low < 50",
        clauses=[
            MatchedUpdate(assignments={"v": "source.v"}),
            NotMatchedInsert(assignments={"id": "low", "v": "v"}),
            NotMatchedBySourceUpdate(assignments={"v": "upper(v)"}),
        ],
    )
    assert reference_rows() == [(None, "N"), (1, "A"), (2, "B"), (3, "x"), (4, "x"), (99, "y")]


def test_such_a_clause_sees_the_target_alone(run_merge, table):
    write_deltalake(table, FIVE)
    with pytest.raises(SchemaMismatchError):
        run_merge("SELECT 1L AS id, 'x' AS w", clauses=NotMatchedBySourceUpdate(assignments={"v": "source.w"}))
    with pytest.raises(Exception, match="source"):
        run_merge("SELECT 1L AS id, 'x' AS w", clauses=NotMatchedBySourceDelete(condition="source.w = 'x'"))
    assert DeltaTable(table).version() == 0


def test_only_the_last_of_these_clauses_may_lack_a_condition():
    clauses = (NotMatchedBySourceDelete(), NotMatchedBySourceUpdate(assignments={"v": "1"}))
    with pytest.raises(InvalidStatementError):
        MergeStatement(table="t", source=SqlSource("SELECT 1"), on="a = b", clauses=clauses)
    assert MergeStatement(table="t", source=SqlSource("SELECT 1"), on="a = b", clauses=(clauses[0], MatchedDelete()))


def test_an_update_without_assignments_is_refused():
    with pytest.raises(InvalidStatementError):
        NotMatchedBySourceUpdate(assignments=None)
