"""Statements on Spark that stage their commits: what is read between, checked, and published."""

from dataclasses import replace
from functools import partial

import pytest
from deltalake import DeltaTable

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import ExpectationFailedError, StagedCommitOutdatedError
from airflow_delta.core.statements import (
    AlterStatement,
    CopyIntoStatement,
    CreateStatement,
    DeleteStatement,
    DiscardStatement,
    ExpectStatement,
    MergeStatement,
    PublishStatement,
    SequenceStatement,
    SetProperties,
    SqlSource,
    TableSource,
    UpdateStatement,
    WriteStatement,
)
from airflow_delta.core.statements.publish import PUBLISHED_KEY, STAGED_KEY, StagedHandle
from airflow_delta.core.statements.sequence import STATEMENTS_KEY
from airflow_delta.jobs.run import run
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.jobs.summary import summary

TOKEN = "0123456789abcdef" * 2
CDF = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}


@pytest.fixture
def do(spark):
    """Run a statement as a job does; its result, or its error raised."""

    def execute(statement, token=None, attempt=1):
        spec = JobSpec.from_text(
            JobSpec(statement=statement, origin=Origin(token=token, record={"try_number": attempt})).to_text()
        )
        document = run(spark, spec)
        if document.outcome is None:
            raise document.typed_error()
        assert document.outcome.warnings == ()
        assert summary(document)
        return document.outcome

    return execute


@pytest.fixture
def table(do, tmp_path):
    """Ids 0 to 4, each with the name x, which records changes and marks deleted rows."""
    table = str(tmp_path / "table")
    do(WriteStatement(table=table, source=SqlSource("SELECT id, 'x' AS name FROM range(5)"), properties=CDF))
    return table


@pytest.fixture
def rows(duckdb_connection):
    """The rows of a table, as duckdb and we read them."""

    def read(table):
        found = duckdb_connection.sql(f"SELECT id, name FROM delta_scan('{table}') ORDER BY id").fetchall()
        ours = DeltaLog.for_table(table).snapshot().to_arrow(["id", "name"]).read_all().to_pylist()
        assert sorted(tuple(row.values()) for row in ours) == found
        return found

    return read


def handle_of(result):
    assert (result.committed, result.already_committed) == (False, False)
    return StagedHandle.of(result.details[STAGED_KEY])


BEFORE = [(number, "x") for number in range(5)]
MERGED = [(0, "x"), (1, "x"), (2, "x"), (3, "y"), (4, "y"), (5, "y")]


def merge_of(table, **arguments):
    source = SqlSource("SELECT id, 'y' AS name FROM range(3, 6)")
    return MergeStatement(table=table, source=source, on="target.id = source.id", publish="later", **arguments)


def test_a_merge_is_staged_read_checked_and_published(do, table, rows, tmp_path):
    staged = do(merge_of(table), TOKEN)
    handle = handle_of(staged)
    assert (staged.version, staged.operation, staged.metrics["numTargetRowsUpdated"]) == (0, "MERGE", 2)
    assert rows(table) == BEFORE

    copy = str(tmp_path / "copy")
    source = SqlSource("SELECT * FROM future", views={"future": TableSource(table, staged=handle)})
    assert do(WriteStatement(table=copy, source=source)).sources == ({"table": table, "version": 1},)
    assert rows(copy) == MERGED
    do(ExpectStatement(table=table, staged=handle, expect="SELECT count(*) = 6 FROM staged"))
    with pytest.raises(ExpectationFailedError):
        do(ExpectStatement(table=table, staged=handle, expect="name = 'x'"))
    changes = DeltaLog.for_table(table).staged(handle).changes(1).read_all()
    assert sorted(changes["_change_type"].to_pylist()) == ["insert", *["update_postimage"] * 2, *["update_preimage"] * 2]

    published = do(PublishStatement(handles=(handle,)), "another", 1)
    assert (published.version, published.committed, published.already_committed) == (1, True, False)
    assert rows(table) == MERGED
    assert DeltaTable(table).history(1)[0]["operation"] == "MERGE"
    assert do(PublishStatement(handles=(handle,))).already_committed


@pytest.mark.parametrize(
    ("statement", "after"),
    [
        (partial(DeleteStatement, where="id = 3"), [(number, "x") for number in (0, 1, 2, 4)]),
        (partial(DeleteStatement), []),
        (partial(UpdateStatement, assignments={"name": "'y'"}, where="id > 2"), [*BEFORE[:3], (3, "y"), (4, "y")]),
    ],
    ids=["delete rows", "delete files", "update"],
)
def test_deletes_and_updates_are_staged_read_and_published(do, table, rows, statement, after):
    statement = statement(table=table, publish="later")
    handle = handle_of(do(statement, TOKEN))
    assert rows(table) == BEFORE
    future = DeltaLog.for_table(table).staged(handle).snapshot().to_arrow(["id", "name"]).read_all().to_pylist()
    assert sorted(tuple(row.values()) for row in future) == after
    assert handle_of(do(statement, TOKEN, 2)) == handle
    assert do(PublishStatement(handles=(handle,))).version == 1
    assert rows(table) == after
    assert handle_of(do(statement, TOKEN, 3)) == handle


def test_files_are_loaded_when_what_is_staged_of_them_is_published(do, rows, tmp_path):
    folder, table = tmp_path / "in", str(tmp_path / "loaded")
    folder.mkdir()
    copy = CopyIntoStatement(table=table, path=str(folder), format="csv", schema="id BIGINT, name STRING", publish="later")
    assert STAGED_KEY not in do(copy, "of an empty folder").details
    (folder / "a.csv").write_text("1,a\n")
    handles = [handle_of(do(copy, token)) for token in ("one", "two")]  # nothing is loaded yet, so both have the file
    do(PublishStatement(handles=(handles[0],)))
    with pytest.raises(StagedCommitOutdatedError):
        do(PublishStatement(handles=(handles[1],)))
    (folder / "b.csv").write_text("2,b\n")
    handle = handle_of(do(copy, "three"))
    do(WriteStatement(table=table, source=SqlSource("SELECT 9L AS id, 'z' AS name")))
    do(PublishStatement(handles=(handle,)))
    assert rows(table) == [(1, "a"), (2, "b"), (9, "z")]
    assert STAGED_KEY not in do(copy, "four").details
    assert do(replace(copy, publish="now"), "five").metrics["numKnownFiles"] == 2


def test_a_retry_finds_what_its_first_try_has_staged_and_writes_nothing(do, table, tmp_path):
    handle = handle_of(do(merge_of(table), TOKEN))
    files = sorted((tmp_path / "table").rglob("*"))
    again = do(merge_of(table), TOKEN, 2)
    assert handle_of(again) == handle
    assert again.metrics["numTargetRowsUpdated"] == 2
    assert sorted((tmp_path / "table").rglob("*")) == files
    assert handle_of(do(merge_of(table), "of a cleared task")) != handle


def test_two_tables_one_of_which_is_new_are_published_by_one_task(do, table, rows, tmp_path):
    new = str(tmp_path / "new")
    write = WriteStatement(
        table=new, source=SqlSource("SELECT id, 'n' AS name FROM range(2)"), partition_by=("name",), publish="later"
    )
    staged = do(SequenceStatement(statements=(merge_of(table), write), names=("merge", "write")), TOKEN)
    handles = [StagedHandle.of(part["details"][STAGED_KEY]) for part in staged.details[STATEMENTS_KEY].values()]
    assert not DeltaLog.for_table(new).exists()
    again = do(SequenceStatement(statements=(merge_of(table), write), names=("merge", "write")), TOKEN, 2)
    assert again.details[STATEMENTS_KEY] == staged.details[STATEMENTS_KEY]
    published = do(PublishStatement(handles=tuple(handles)))
    assert [(entry["table"], entry["version"], entry["published"]) for entry in published.details[PUBLISHED_KEY]] == [
        (table, 1, True),
        (new, 0, True),
    ]
    assert (rows(table), rows(new)) == (MERGED, [(0, "n"), (1, "n")])


def test_a_retry_behind_a_commit_still_hands_out_what_a_statement_before_it_has_staged(do, table, rows, tmp_path):
    other = str(tmp_path / "other")
    do(CreateStatement(table=other, columns={"id": "BIGINT"}))
    alter = AlterStatement(table=other, changes=(SetProperties({"x": "1"}),))
    first, again = (
        do(SequenceStatement(statements=(merge_of(table), alter), names=("merge", "alter")), TOKEN, attempt).details[
            STATEMENTS_KEY
        ]
        for attempt in (1, 2)
    )
    assert (again["merge"], again["alter"]["already_committed"]) == (first["merge"], True)
    do(PublishStatement(handles=(StagedHandle.of(again["merge"]["details"][STAGED_KEY]),)))
    assert (rows(table), DeltaLog.for_table(table).snapshot().version) == (MERGED, 1)


def test_what_is_outdated_is_staged_anew_from_the_latest_version(do, table, rows):
    handle = handle_of(do(merge_of(table), TOKEN))
    do(WriteStatement(table=table, source=SqlSource("SELECT 5L AS id, 'z' AS name")))
    with pytest.raises(StagedCommitOutdatedError, match="should have read"):
        do(PublishStatement(handles=(handle,)))
    assert do(DiscardStatement(handles=(handle,))).metrics["numDeletedFiles"] > 0
    do(PublishStatement(handles=(handle_of(do(merge_of(table), "of a cleared task")),)))
    assert rows(table) == MERGED


def test_an_append_is_published_beside_other_appends(do, table, rows):
    append = WriteStatement(table=table, source=SqlSource("SELECT 7L AS id, 'a' AS name"), publish="later")
    handles = [handle_of(do(append, token)) for token in ("one", "two")]
    do(WriteStatement(table=table, source=SqlSource("SELECT 6L AS id, 'b' AS name")))
    published = do(PublishStatement(handles=tuple(handles)))
    assert [entry["version"] for entry in published.details[PUBLISHED_KEY]] == [2, 3]
    assert rows(table) == [*BEFORE, (6, "b"), (7, "a"), (7, "a")]


def test_a_statement_without_anything_to_change_stages_nothing(do, table, tmp_path):
    merge = MergeStatement(
        table=table, source=SqlSource("SELECT id, 'y' AS name FROM range(0)"), on="target.id = source.id", publish="later"
    )
    assert STAGED_KEY not in do(merge, TOKEN).details
    assert not (tmp_path / "table/_airflow_delta/staged").exists()


def test_an_expectation_that_does_not_hold_leaves_nothing_staged(do, table, tmp_path):
    files = sorted((tmp_path / "table").rglob("*"))
    with pytest.raises(ExpectationFailedError):
        do(merge_of(table, expect="id < 5"), TOKEN)
    assert sorted((tmp_path / "table").rglob("*")) == files
