"""THE CONFLICT RULES: may the attempt still commit, although the winner was faster?

``RULES`` is the table of contents; its order is that of ``ConflictChecker.scala``. Two rules of Delta Spark are refined where
the log proves that nobody is harmed:

* an added file conflicts only if its partition values *and statistics* admit a row that the attempt looked for;
* a winner that only rearranged rows (``dataChange`` false throughout) did not change what the attempt read. From then on the
  attempt stands on the rearranged files instead (``rebased``), so a later change of these is seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentDomainMetadataError,
    ConcurrentTransactionError,
    ConcurrentWriteError,
    MetadataChangedError,
    ProtocolChangedError,
)
from airflow_delta.core.log.action_reconciliation import canonical_paths
from airflow_delta.core.predicate import NO, evaluate_files
from airflow_delta.core.table_features.feature import reader_features, writer_features
from airflow_delta.core.table_features.support import check_readable, check_writable
from airflow_delta.core.transaction.commit_attempt import CommitAttempt
from airflow_delta.core.transaction.isolation_level import IsolationLevel
from airflow_delta.core.transaction.winning_commit import WinningCommit

Rule: TypeAlias = Callable[[CommitAttempt, WinningCommit], None]


def any_winner(attempt: CommitAttempt, winner: WinningCommit) -> None:
    """An operation that replaces the table's state as a whole follows what it read, and nothing else."""
    if not attempt.passes_winners:
        raise _conflict(ConcurrentWriteError, attempt, winner)


def protocol_changed(attempt: CommitAttempt, winner: WinningCommit) -> None:
    """Two changes of the protocol conflict, and so does the loss of a feature; the new protocol must be known here."""
    protocol = winner.actions.protocol
    if protocol is None:
        return
    check_readable(attempt.table, protocol)
    check_writable(attempt.table, protocol, attempt.metadata)
    reader_features_go = reader_features(attempt.protocol) - reader_features(protocol)
    writer_features_go = writer_features(attempt.protocol) - writer_features(protocol)
    if attempt.actions.protocol or reader_features_go or writer_features_go:
        raise _conflict(ProtocolChangedError, attempt, winner)


def metadata_changed(attempt: CommitAttempt, winner: WinningCommit) -> None:
    """A change of schema, partitioning, properties or identity forbids every commit that was computed before it."""
    if winner.actions.metadata:
        raise _conflict(MetadataChangedError, attempt, winner)


def domain_metadata_changed(attempt: CommitAttempt, winner: WinningCommit) -> None:
    """Two commits must not set one domain."""
    ours = {each.domain for each in attempt.actions.domains}
    for theirs in winner.actions.domains:
        if theirs.domain in ours:
            raise _conflict(ConcurrentDomainMetadataError, attempt, winner, domain=theirs.domain)


def application_progressed(attempt: CommitAttempt, winner: WinningCommit) -> None:
    """The progress of an application that the attempt asked for must not have moved."""
    for theirs in winner.actions.transactions:
        if theirs.app_id in attempt.read_app_ids:
            raise _conflict(ConcurrentTransactionError, attempt, winner, app_id=theirs.app_id)


def added_files_the_attempt_should_have_read(attempt: CommitAttempt, winner: WinningCommit) -> None:
    """The winner must not have added a row that the attempt looked for.

    A blind append looked for nothing; at ``WriteSerializable`` the winner's blind append may be ordered after an attempt that
    keeps the schema; at ``SnapshotIsolation`` additions do not count.
    """
    match attempt.isolation_level:
        case IsolationLevel.SNAPSHOT_ISOLATION:
            return
        case IsolationLevel.WRITE_SERIALIZABLE if winner.is_blind_append and not attempt.actions.metadata:
            return
    if attempt.is_blind_append or winner.only_rearranges:
        return
    added = winner.actions.adds
    if not attempt.read_whole_table:
        added = added.filter(_satisfies_a_predicate(attempt, added))
    if len(added):
        raise _conflict(ConcurrentAppendError, attempt, winner, **_first(added))


def removed_files_the_attempt_read(attempt: CommitAttempt, winner: WinningCommit) -> None:
    """The winner must not have changed rows that the attempt used."""
    if winner.only_rearranges:
        return
    removed = winner.actions.removes
    if not attempt.read_whole_table:
        removed = removed.filter(_among(removed["path"], attempt.read_files))
    if len(removed):
        raise _conflict(ConcurrentDeleteReadError, attempt, winner, **_first(removed))


def removed_files_the_attempt_removes_too(attempt: CommitAttempt, winner: WinningCommit) -> None:
    """One file must not be removed twice: each of the two commits would bring its rows back in another file."""
    removed = winner.actions.removes
    removed = removed.filter(_among(removed["path"], attempt.actions.removes["path"].combine_chunks()))
    if len(removed):
        raise _conflict(ConcurrentDeleteDeleteError, attempt, winner, **_first(removed))


RULES: tuple[Rule, ...] = (
    any_winner,
    protocol_changed,
    metadata_changed,
    domain_metadata_changed,
    application_progressed,
    added_files_the_attempt_should_have_read,
    removed_files_the_attempt_read,
    removed_files_the_attempt_removes_too,
)


def check_conflicts(attempt: CommitAttempt, winner: WinningCommit) -> CommitAttempt:
    """The attempt as it stands after ``winner``, to be checked against the next winner.

    Raises:
        CommitConflictError: The winner forbids the attempt.
        UnsupportedFeatureError: The winner gave the table a protocol that is not known here.
    """
    for rule in RULES:
        rule(attempt, winner)
    return rebased(attempt, winner)


def rebased(attempt: CommitAttempt, winner: WinningCommit) -> CommitAttempt:
    """The attempt with what it takes over from a winner that it passed: the protocol, and the new places of rows it read."""
    if winner.actions.protocol:
        attempt = replace(attempt, protocol=winner.actions.protocol)
    if winner.only_rearranges and pc.any(_among(winner.actions.removes["path"], attempt.read_files)).as_py():
        paths = pa.concat_arrays([attempt.read_files, winner.actions.adds["path"].combine_chunks()])
        attempt = replace(attempt, read_files=paths)
    return attempt


def _satisfies_a_predicate(attempt: CommitAttempt, files: pa.Table) -> pa.Array:
    """Which files may hold a row that the attempt looked for; a file without statistics may."""
    satisfies = pa.repeat(pa.scalar(False), len(files))
    for predicate in attempt.read_predicates:
        verdicts = evaluate_files(predicate, files, attempt.schema, attempt.metadata.partition_columns)
        satisfies = pc.or_(satisfies, pc.not_equal(verdicts, NO))
    return satisfies


def _among(theirs: pa.ChunkedArray, ours: pa.Array) -> pa.ChunkedArray:
    """Which of their paths mean a file of ours."""
    return pc.is_in(canonical_paths(theirs), canonical_paths(ours))


def _first(files: pa.Table) -> dict[str, Any]:
    partition = files["partition_values"][0].as_py() or ()
    return {"path": files["path"][0].as_py(), "partition": dict(partition)}


def _conflict(
    error: type[CommitConflictError], attempt: CommitAttempt, winner: WinningCommit, **attributes: Any
) -> CommitConflictError:
    return error(
        table=attempt.table,
        read_version=attempt.read_version,
        winning_version=winner.version,
        winner=winner.info,
        **attributes,
    )
