"""The conflict rules: may the attempt still commit after the winner?

``RULES`` lists them, in the order of ``ConflictChecker.scala`` in Delta Spark. Each rule either raises, or returns the attempt
as it stands after the winner: row ids, timestamps and versions move on, and the winner's protocol and harmless metadata changes
are taken over. Four rules of Delta Spark are refined where the log proves that this is safe:

* an added file conflicts only if its partition values *and statistics* admit a row that the attempt looked for, and, if the
  attempt can have the file read (``ConfirmConflictingFiles``), only if the file does hold such a row;
* a winner that only rearranged rows (``dataChange`` is false throughout) did not change what the attempt read. From then on the
  attempt depends on the rearranged files instead, so that later changes of these are noticed;
* a statement that decides row by row ignores rows that others deleted, and two statements that delete different rows of the
  same file both commit (their deletion vectors are merged before the rules are applied);
* of a rewrite in bins, only the bins are lost whose inputs the winner removed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from airflow_delta.core.errors import CommitConflictError
from airflow_delta.core.transaction.commit_attempt import CommitAttempt
from airflow_delta.core.transaction.commit_checks import check_no_duplicates
from airflow_delta.core.transaction.deletion_vector_union import united
from airflow_delta.core.transaction.file_rules import (
    added_files_the_attempt_should_have_read,
    bins_lost,
    removed_files_the_attempt_read,
    removed_files_the_attempt_removes_too,
)
from airflow_delta.core.transaction.table_rules import (
    application_progressed,
    domain_set,
    dropped_feature_used,
    metadata_changed,
    protocol_changed,
    rebase_forbidden,
    row_ids_given,
    time_taken,
    version_named,
)
from airflow_delta.core.transaction.winning_commit import WinningCommit

Rule: TypeAlias = Callable[[CommitAttempt, WinningCommit], CommitAttempt]

RULES: tuple[Rule, ...] = (
    rebase_forbidden,
    protocol_changed,
    dropped_feature_used,
    metadata_changed,
    domain_set,
    application_progressed,
    bins_lost,
    row_ids_given,
    version_named,
    added_files_the_attempt_should_have_read,
    removed_files_the_attempt_read,
    removed_files_the_attempt_removes_too,
    time_taken,
)


def check_conflicts(attempt: CommitAttempt, winner: WinningCommit) -> CommitAttempt:
    """The attempt as it stands after ``winner``, to be checked against the next winner.

    Raises:
        CommitConflictError: The winner forbids the attempt; the error names the rule.
        UnsupportedFeatureError: The winner gave the table a protocol with unsupported features.
        MissingRecordCountError: The winner enabled row numbering, and the attempt's files lack their number of rows.
        DuplicateActionError: After all changes the attempt names a file twice.
    """
    before = attempt.actions
    if attempt.row_wise and attempt.deletion_vectors:
        ours, theirs = united(attempt.actions, winner.actions, attempt.deletion_vectors)
        attempt, winner = replace(attempt, actions=ours), replace(winner, actions=theirs)
    for rule in RULES:
        try:
            attempt = rule(attempt, winner)
        except CommitConflictError as error:
            error.rule = rule.__name__
            raise
    if attempt.actions is not before:
        check_no_duplicates(attempt.table, attempt.actions)
    return attempt
