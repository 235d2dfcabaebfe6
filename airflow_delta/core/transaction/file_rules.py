"""The conflict rules about files: those the winner added and those it removed."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.errors import ConcurrentAppendError, ConcurrentDeleteDeleteError, ConcurrentDeleteReadError
from airflow_delta.core.log.action_reconciliation import canonical_paths
from airflow_delta.core.predicate import NO, evaluate_files
from airflow_delta.core.transaction.commit_attempt import CommitAttempt
from airflow_delta.core.transaction.conflict import conflict, first_file
from airflow_delta.core.transaction.isolation_level import IsolationLevel
from airflow_delta.core.transaction.winning_commit import BACKFILL, UNBACKFILL, WinningCommit

_BACKFILLS = {BACKFILL, UNBACKFILL}


def bins_lost(attempt: CommitAttempt, winner: WinningCommit) -> CommitAttempt:
    """A rewrite in bins continues without the bins whose inputs the winner removed."""
    if attempt.bins is None:
        return attempt
    bins, actions = attempt.bins.without(winner.actions.removes["path"], attempt.actions)
    if bins is attempt.bins:
        return attempt
    inputs = actions.removes["path"].combine_chunks()
    return replace(attempt, bins=bins, actions=actions, read_files=inputs)


def added_files_the_attempt_should_have_read(attempt: CommitAttempt, winner: WinningCommit) -> CommitAttempt:
    """The winner must not have added a row that the attempt looked for.

    A blind append looks for no rows. At ``WriteSerializable``, a blind append of the winner may be ordered after an attempt
    that keeps the schema. At ``SnapshotIsolation``, added files do not conflict. A backfill of row ids adds no rows.
    """
    match attempt.isolation_level:
        case IsolationLevel.SNAPSHOT_ISOLATION:
            return attempt
        case IsolationLevel.WRITE_SERIALIZABLE if winner.is_blind_append and not attempt.actions.metadata:
            return attempt
    operation = attempt.actions.commit_info.operation if attempt.actions.commit_info else None
    if attempt.is_blind_append or winner.only_rearranges or {winner.operation, operation} & _BACKFILLS:
        return attempt
    added = _files_with_rows_looked_for(attempt, winner.actions.adds)
    if len(added):
        raise conflict(ConcurrentAppendError, attempt, winner, **first_file(added))
    return attempt


def removed_files_the_attempt_read(attempt: CommitAttempt, winner: WinningCommit) -> CommitAttempt:
    """The winner must not have changed rows that the attempt used.

    Deleted rows do not matter to a ``row_wise`` attempt; if both changed the same file, the next rule decides. After a winner
    that only rearranged rows, the attempt depends on the rearranged files, so that later changes of these are noticed.
    """
    removed = winner.actions.removes
    if winner.only_rearranges:
        if not len(attempt.read_files) or not pc.any(_among(removed["path"], attempt.read_files)).as_py():
            return attempt
        paths = pa.concat_arrays([attempt.read_files, winner.actions.adds["path"].combine_chunks()])
        return replace(attempt, read_files=paths)
    if attempt.row_wise:
        return attempt
    if not attempt.read_whole_table:
        removed = removed.filter(_among(removed["path"], attempt.read_files))
    if len(removed):
        raise conflict(ConcurrentDeleteReadError, attempt, winner, **first_file(removed))
    return attempt


def removed_files_the_attempt_removes_too(attempt: CommitAttempt, winner: WinningCommit) -> CommitAttempt:
    """Both commits must not remove the same file: each would add the file's remaining rows again in another file."""
    removed = winner.actions.removes
    removed = removed.filter(_among(removed["path"], attempt.actions.removes["path"].combine_chunks()))
    if len(removed):
        raise conflict(ConcurrentDeleteDeleteError, attempt, winner, **first_file(removed))
    return attempt


def _files_with_rows_looked_for(attempt: CommitAttempt, added: pa.Table) -> pa.Table:
    """The added files that may hold a row that the attempt looked for.

    Partition values and statistics decide first; then the files left are read, if the statement supports it.
    """
    if attempt.read_whole_table:
        return added
    added = added.filter(_satisfies_a_predicate(attempt, added))
    if len(added):  # a file that was read, added again with other metadata, has no new rows
        described = pc.and_(_among(added["path"], attempt.read_files), pc.invert(added["data_change"]))
        added = added.filter(pc.invert(described))
    if len(added) and attempt.confirm_conflicting_files is not None:
        return attempt.confirm_conflicting_files(added)
    return added


def _satisfies_a_predicate(attempt: CommitAttempt, files: pa.Table) -> pa.Array:
    """For each file, whether it may hold a row that the attempt looked for; True without statistics."""
    satisfies = pa.repeat(pa.scalar(False), len(files))
    for predicate in attempt.read_predicates:
        verdicts = evaluate_files(predicate, files, attempt.schema, attempt.metadata.partition_columns)
        satisfies = pc.or_(satisfies, pc.not_equal(verdicts, NO))
    return satisfies


def _among(theirs: pa.ChunkedArray, ours: pa.Array) -> pa.ChunkedArray:
    """For each of their paths, whether it refers to one of our files."""
    return pc.is_in(canonical_paths(theirs), canonical_paths(ours))
