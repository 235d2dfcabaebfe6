"""The last line of a task's log."""

import pytest

from airflow_delta.core.statements import OperationResult
from airflow_delta.core.statements.publish import STAGED_KEY
from airflow_delta.core.statements.result import NO_TABLE
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.jobs.summary import summary

MERGED = {
    "numSourceRows": 20,
    "numTargetRowsUpdated": 10,
    "numTargetRowsInserted": 10,
    "numTargetRowsDeleted": 0,
    "numOutputRows": 1010,
    "numTargetFilesRemoved": 2,
    "numTargetFilesAdded": 3,
}
CREATED = {"catalog": "hive", "name": "a.b", "published": ["missing"]}
DROPPED = {"catalog": "hive", "name": "a.b", "dropped": True}


def document(operation, metrics=(), *, files=None, **attributes):
    result = OperationResult(
        table="/lake/t",
        read_version=0,
        operation=operation,
        metrics=dict(metrics),
        **{"version": 1, "committed": True} | attributes,
    )
    facts = {} if files is None else {"version": 1, "files": files}
    committed = {"version": 1, "airflowDelta": {"try_number": 1}}
    return ResultDocument(outcome=result, table_facts=facts, history=(committed,))


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (document("MERGE", MERGED, files=17), "MERGE: 10 updated, 10 inserted, 2 of 16 files rewritten, version 1, 18.8 s"),
        (document("MERGE", MERGED), "MERGE: 10 updated, 10 inserted, 2 files rewritten, version 1, 18.8 s"),
        (
            document(
                "COPY INTO", {"numOutputRows": 9, "numSourceFiles": 3, "numKnownFiles": 5, "numRescuedRows": 1, "numFiles": 1}
            ),
            "COPY INTO: 9 rows written, 3 files loaded, 5 loaded before, 1 row set apart, version 1, 18.8 s",
        ),
        (document("MERGE", {"numSourceRows": 20}, committed=False), "MERGE: nothing to do, version 1, 18.8 s"),
        (
            document("MERGE", MERGED, files=16, committed=False, dry_run=True),
            "MERGE: 10 updated, 10 inserted, 2 files rewritten, dry run, version 1, 18.8 s",
        ),
        (
            document("MERGE", MERGED, files=17, already_committed=True),
            "MERGE: 10 updated, 10 inserted, 2 of 16 files rewritten, version 1, committed by try 1 of this task",
        ),
        (
            document("DELETE", {"numDeletedRows": 5, "numDeletionVectorsAdded": 3}, conflicts=({"version": 1},)),
            "DELETE: 5 deleted, 3 files marked, 1 concurrent commit met, version 1, 18.8 s",
        ),
        (
            document("WRITE", {"numFiles": 4, "numOutputRows": 1_000_000, "numRemovedFiles": 2, "numDeletedRows": 7}, files=5),
            "WRITE: 7 deleted, 1,000,000 rows written, 2 of 3 files removed, version 1, 18.8 s",
        ),
        (
            document("VACUUM", {"numFilesToDelete": 5, "numDeletedFiles": 5, "sizeOfDataToDelete": 9}),
            "VACUUM: 5 files deleted, version 1, 18.8 s",
        ),
        (document("PUBLISH", {"numPublished": 1}, already_committed=True), "PUBLISH: 1 published, version 1, published before"),
        (
            document("COPY INTO", {"numKnownFiles": 0}, committed=False),
            "COPY INTO: no file found, neither new nor loaded before, version 1, 18.8 s",
        ),
        (document("CHECKPOINT", {"numActions": 12, "numFiles": 1}), "CHECKPOINT: 12 actions written, version 1, 18.8 s"),
        (document("HEALTH", details={"findings": []}), "HEALTH: 0 findings, version 1, 18.8 s"),
        (document("WRITE\n", {"numOutputRows": "many"}), "WRITE\\n: committed, version 1, 18.8 s"),
        (
            document("CREATE TABLE", details={"catalog": CREATED}),
            "CREATE TABLE: published as a.b in the catalog hive, version 1, 18.8 s",
        ),
        (
            document("DROP TABLE", committed=False, details={"catalog": DROPPED}),
            "DROP TABLE: a.b dropped from the catalog hive, version 1, 18.8 s",
        ),
    ],
)
def test_the_outcome_is_one_line_that_a_person_can_read(outcome, line):
    assert summary(outcome, seconds=18.8) == line


@pytest.mark.parametrize(
    ("version", "staged"),
    [(1, "staged on top of version 1, to be published later"), (NO_TABLE, "staged, to be published later")],
)
def test_what_is_staged_is_said_to_lie_on_its_base_and_to_have_no_version_yet(version, staged):
    metrics = {"numDeletedRows": 5, "numRemovedFiles": 2, "numAddedFiles": 1}
    outcome = document("DELETE", metrics, committed=False, version=version, details={STAGED_KEY: {"id": "s"}})
    assert summary(outcome, seconds=18.8) == f"DELETE: 5 deleted, 2 files rewritten, {staged}, 18.8 s"


def test_files_that_a_staged_commit_rewrites_are_of_those_that_its_base_has():
    metrics = {"numDeletedRows": 5, "numRemovedFiles": 2, "numAddedFiles": 0}
    outcome = document("DELETE", metrics, files=2, committed=False, details={STAGED_KEY: {"id": "s"}})
    assert summary(outcome, seconds=1.0).startswith("DELETE: 5 deleted, 2 of 2 files rewritten, staged")


def test_a_commit_of_a_try_that_the_history_does_not_show_is_another_trys():
    outcome = ResultDocument(outcome=document("MERGE", MERGED, already_committed=True).outcome)
    assert summary(outcome, seconds=1.0).endswith("version 1, committed by another try of this task")
