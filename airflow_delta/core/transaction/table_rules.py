"""The conflict rules about the table: protocol, metadata, domains, applications, row ids, timestamps."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import Metadata, Protocol
from airflow_delta.core.errors import (
    ConcurrentDomainMetadataError,
    ConcurrentTransactionError,
    ConcurrentWriteError,
    MetadataChangedError,
    ProtocolChangedError,
    UnsupportedWriterFeatureError,
)
from airflow_delta.core.log.action_reconciliation import canonical_paths
from airflow_delta.core.table_features.feature import CLUSTERING, FEATURES, columns_of
from airflow_delta.core.table_features.support import check_writable
from airflow_delta.core.transaction.commit_attempt import CommitAttempt, all_features
from airflow_delta.core.transaction.commit_checks import check_rows
from airflow_delta.core.transaction.conflict import conflict
from airflow_delta.core.transaction.in_commit_timestamps import with_time
from airflow_delta.core.transaction.metadata_changes import is_harmless, moved
from airflow_delta.core.transaction.row_tracking import (
    PRESERVED_TAG,
    ROW_TRACKING_DOMAIN,
    high_water_mark,
    is_enabled,
    numbers_rows,
    with_ids_of,
    with_ids_taken_away,
    with_row_ids,
    without_files,
)
from airflow_delta.core.transaction.winning_commit import BACKFILL, UNBACKFILL, WinningCommit

_REPLACING = frozenset(
    f"{verb} TABLE{rows}" for verb in ("REPLACE", "CREATE OR REPLACE") for rows in ("", " AS SELECT")
)  # Delta's names of operations that replace the whole table


def rebase_forbidden(attempt: CommitAttempt, winner: WinningCommit) -> CommitAttempt:
    """An operation that must not be rebased conflicts with every winner.

    Restore, clone and convert replace the table's whole state. Recomputed statistics add existing files again, which would
    restore a file that the winner removed.
    """
    if not attempt.may_rebase:
        raise conflict(ConcurrentWriteError, attempt, winner)
    return attempt


def protocol_changed(attempt: CommitAttempt, winner: WinningCommit) -> CommitAttempt:
    """Two protocol changes conflict, and so does dropping a feature.

    The new protocol must be supported here, and the rows that the attempt adds must already satisfy what it requires.
    """
    protocol = winner.actions.protocol
    if protocol is None:
        return attempt
    metadata = winner.actions.metadata or attempt.metadata
    _check_still_writable(attempt, protocol, metadata)
    ours, theirs = all_features(attempt.protocol), all_features(protocol)
    if attempt.actions.protocol or ours - theirs or not _could_follow(attempt, theirs - ours, protocol, metadata):
        raise conflict(ProtocolChangedError, attempt, winner)
    return replace(attempt, protocol=protocol)


def dropped_feature_used(attempt: CommitAttempt, winner: WinningCommit) -> CommitAttempt:
    """A commit that drops a feature conflicts with a winner that uses the feature."""
    dropped, theirs = attempt.dropped_features, winner.actions
    if not dropped:
        return attempt
    domains = {domain.domain for domain in theirs.domains if not domain.removed}
    used = {
        "deletionVectors": theirs.adds["deletion_vector"].null_count < len(theirs.adds),
        "domainMetadata": bool(domains - {ROW_TRACKING_DOMAIN}),
        "clustering": CLUSTERING in domains or theirs.adds["clustering_provider"].null_count < len(theirs.adds),
        "changeDataFeed": len(theirs.changes) > 0,
    }
    if theirs.metadata or any(used.get(name) for name in dropped):
        raise conflict(ProtocolChangedError, attempt, winner)
    return attempt


def metadata_changed(attempt: CommitAttempt, winner: WinningCommit) -> CommitAttempt:
    """A metadata change conflicts with every commit computed before it, except for a few harmless changes.

    Harmless changes are taken over, if the table can still be written. If row tracking is enabled, the attempt records that it
    did not preserve row ids.
    """
    theirs = winner.actions.metadata
    if theirs is None:
        return attempt
    harmless = is_harmless(attempt.metadata, theirs, attempt.protocol, to_rearranged_rows=attempt.rearranges)
    if attempt.actions.metadata or not harmless:
        raise conflict(MetadataChangedError, attempt, winner)
    _check_still_writable(attempt, attempt.protocol, theirs)
    actions = attempt.actions
    if actions.commit_info and is_enabled(theirs) and not is_enabled(attempt.metadata):
        tags = {**actions.commit_info.tags, PRESERVED_TAG: "false"}
        actions = replace(actions, commit_info=replace(actions.commit_info, tags=tags))
    return replace(attempt, metadata=theirs, schema=columns_of(theirs, attempt.protocol), actions=actions)


def domain_set(attempt: CommitAttempt, winner: WinningCommit) -> CommitAttempt:
    """Two commits must not set the same domain; the row tracking domain is reconciled instead.

    A commit that replaces the table also removes the domains that the winner added.
    """
    ours = {domain.domain for domain in attempt.actions.domains}
    theirs = [domain for domain in winner.actions.domains if domain.domain != ROW_TRACKING_DOMAIN]
    for domain in theirs:
        if domain.domain in ours:
            raise conflict(ConcurrentDomainMetadataError, attempt, winner, domain=domain.domain)
    if _operation(attempt) not in _REPLACING:
        return attempt
    ended = tuple(replace(domain, removed=True) for domain in theirs if not domain.removed)
    return replace(attempt, actions=replace(attempt.actions, domains=attempt.actions.domains + ended)) if ended else attempt


def application_progressed(attempt: CommitAttempt, winner: WinningCommit) -> CommitAttempt:
    """The winner must not have set an application transaction (``txn``) that the attempt read."""
    for theirs in winner.actions.transactions:
        if theirs.app_id in attempt.read_app_ids:
            raise conflict(ConcurrentTransactionError, attempt, winner, app_id=theirs.app_id)
    return attempt


def row_ids_given(attempt: CommitAttempt, winner: WinningCommit) -> CommitAttempt:
    """New rows get ids after those that the winner assigned; files that have been given ids meanwhile keep them.

    A backfill leaves out files that the winner added again or removed: they now have ids, or are gone. An unbackfill adds such
    files again without ids.

    Raises:
        ProtocolChangedError: The winner is a backfill and the attempt is an unbackfill.
        MissingRecordCountError: The statistics of a new file lack its number of rows.
    """
    theirs = winner.actions
    takes_away = _operation(attempt) == UNBACKFILL or "rowTracking" in attempt.dropped_features
    actions = attempt.actions
    if takes_away and winner.operation == BACKFILL:
        raise conflict(ProtocolChangedError, attempt, winner)
    if takes_away or _operation(attempt) == BACKFILL:
        named = pa.chunked_array([*theirs.adds["path"].chunks, *theirs.removes["path"].chunks], pa.string())
        actions = without_files(actions, named)
        is_named = pc.is_in(canonical_paths(attempt.read_files), canonical_paths(named).combine_chunks())
        attempt = replace(attempt, read_files=attempt.read_files.filter(pc.invert(is_named)))
    if takes_away:
        actions = with_ids_taken_away(actions, theirs.adds)
    mark = high_water_mark(theirs.domains, attempt.table)
    given_out = attempt.row_id_high_water_mark if mark is None else max(mark, attempt.row_id_high_water_mark)
    if numbers_rows(attempt.protocol_after, attempt.metadata_after):
        actions = with_row_ids(
            actions,
            attempt.table,
            known=attempt.row_id_high_water_mark,
            given_out=given_out,
            version=winner.version + 1,
            lost_version=winner.version,
        )
    if winner.operation == BACKFILL:
        actions = with_ids_of(actions, theirs.adds)
    if actions is attempt.actions and given_out == attempt.row_id_high_water_mark:
        return attempt
    return replace(attempt, actions=actions, row_id_high_water_mark=given_out)


def version_named(attempt: CommitAttempt, winner: WinningCommit) -> CommitAttempt:
    """References in the attempt's metadata to its own version move to the next version. Never a conflict."""
    if attempt.actions.metadata is None:
        return attempt
    metadata = moved(attempt.actions.metadata, lost_version=winner.version)
    if metadata is attempt.actions.metadata:
        return attempt
    return replace(attempt, actions=replace(attempt.actions, metadata=metadata))


def time_taken(attempt: CommitAttempt, winner: WinningCommit) -> CommitAttempt:
    """The attempt's in-commit timestamp moves after the winner's. Never a conflict."""
    actions = with_time(attempt.actions, attempt.metadata, version=winner.version + 1, after=winner.timestamp)
    return attempt if actions is attempt.actions else replace(attempt, actions=actions)


def _could_follow(attempt: CommitAttempt, came: Collection[str], protocol: Protocol, metadata: Metadata) -> bool:
    """Whether the attempt's files satisfy the added features; those with a table property are judged by the metadata."""
    unforeseen = {name for name in came if name in FEATURES and not FEATURES[name].shows_in_metadata}
    try:
        check_rows(attempt.table, attempt.actions, protocol, metadata, enforces=frozenset(attempt.enforces) - unforeseen)
    except UnsupportedWriterFeatureError:
        return False
    return True


def _check_still_writable(attempt: CommitAttempt, protocol: Protocol, metadata: Metadata) -> None:
    """Return if the attempt may still commit to the table with this protocol and metadata.

    Raises:
        InvalidProtocolError: The protocol contradicts itself.
        UnsupportedFeatureError: The table now requires a feature that is not supported here, or that the attempt's files lack.
    """
    check_writable(attempt.table, protocol, metadata)
    check_rows(attempt.table, attempt.actions, protocol, metadata, enforces=attempt.enforces)


def _operation(attempt: CommitAttempt) -> str | None:
    return attempt.actions.commit_info.operation if attempt.actions.commit_info else None
