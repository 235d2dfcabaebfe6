"""DROP FEATURE: removes a table feature, so that readers and writers without support for it can use the table again.

A writer-only feature is removed at once. A reader feature is still used by older versions, so these must be either deleted
(``truncate_history``) or protected: no writer may write a checkpoint of them that hides that the feature was in use.

Protocol: PROTOCOL.md, "Protocol Evolution"; protocol_rfcs, "Checkpoint Protection". Spark: ``ALTER TABLE ... DROP FEATURE``.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from airflow_delta.core.actions import Origin
from airflow_delta.core.errors import (
    DeltaError,
    FeatureDependencyError,
    FeatureDropError,
    FeatureInHistoryError,
    UnsupportedWriterFeatureError,
)
from airflow_delta.core.foreign_values import printable_lines
from airflow_delta.core.log.commit_reader import read_commit
from airflow_delta.core.log.log_segment import list_log
from airflow_delta.core.operations.checkpoints import write_checkpoint
from airflow_delta.core.operations.feature_traces import (
    PROTECTED_BEFORE,
    Leftovers,
    check_unused,
    have_deletion_vectors,
    is_used_by,
    is_used_in,
    leftovers,
    switched_off,
)
from airflow_delta.core.operations.log_cleanup import clean_up_log
from airflow_delta.core.operations.table_log import TableLog
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.table_changes.properties import feature_named
from airflow_delta.core.table_changes.refusal import Refusal
from airflow_delta.core.table_changes.row_tracking import unbackfill
from airflow_delta.core.table_features.feature import CATALOG_MANAGED, DELETION_VECTORS, FEATURES, writer_features
from airflow_delta.core.table_features.protocol import dependents, upgraded, without
from airflow_delta.core.transaction.commit_result import CommitResult
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.table_properties import check_interval, interval_milliseconds, protected_before

_logger = logging.getLogger(__name__)

_PROTECTION = "checkpointProtection"
_HARMLESS_IN_HISTORY = ("vacuumProtocolCheck",)
_TRUNCATED = "delta.dropFeatureTruncateHistory.retentionDuration"
_DAY = 86_400_000


def drop_feature(log: TableLog, name: str, *, truncate_history: bool = False, origin: Origin | None = None) -> CommitResult:
    """Remove the feature from the table's protocol, after clearing the properties that enable it.

    Args:
        log: The table.
        name: Name of the feature.
        truncate_history: Whether to delete versions older than ``delta.dropFeatureTruncateHistory.retentionDuration`` (24 hours
            by default), rather than protect those that readers need the feature for.
        origin: The task run that requests it.

    Raises:
        FeatureDependencyError: Other features of the table require it.
        FeatureInHistoryError: Versions that cannot be deleted yet use it. Its properties are cleared; call again later.
        FeatureDropError: The table does not have the feature, or still uses it.
        UnsupportedWriterFeatureError: The table has the feature, but it is not supported here.
        InvalidTablePropertyError: The value of that retention property is invalid.
        A checkpoint that fails after the drop raises nothing; it is reported in the result's ``hook_failures``.
    """
    if name in writer_features(log.refresh().protocol) - FEATURES.keys():
        raise UnsupportedWriterFeatureError(table=log.table_uri, features=(name,))
    with _refusals(log.table_uri, name):
        feature = feature_named(name)
    is_in_history = FEATURES[feature].for_readers and feature not in _HARMLESS_IN_HISTORY
    _check_droppable(log, feature, truncates=truncate_history, may_truncate=is_in_history or feature == _PROTECTION)
    _switch_off(log, feature, replace(origin, token=None) if origin else None)  # the token identifies the last commit
    if is_in_history or feature == _PROTECTION:
        _leave_history(log, feature, truncate=truncate_history)
    result = _drop(log, feature, truncated=truncate_history, protect=is_in_history and not truncate_history, origin=origin)
    return _write_checkpoint(log, result) if is_in_history else result


def _write_checkpoint(log: TableLog, result: CommitResult) -> CommitResult:
    """Write a checkpoint for readers without the feature; returns the result. If it fails, the drop still stands."""
    try:
        write_checkpoint(log.snapshot(result.version), now=log.clock())
    except (DeltaError, OSError) as error:
        failure = printable_lines(traceback.format_exc())
        _logger.warning("%s: the feature is dropped, but the checkpoint failed:\n%s", log.table_uri, failure)
        return replace(result, hook_failures=(*result.hook_failures, f"{type(error).__name__}: {error}"))
    return result


def _check_droppable(log: TableLog, feature: str, *, truncates: bool, may_truncate: bool) -> None:
    snapshot, table = log.refresh(), log.table_uri
    protocol = snapshot.protocol
    if feature not in writer_features(protocol):
        raise FeatureDropError(table=table, feature=feature, detail="the table does not have it", cure="drop another one")
    if feature in CATALOG_MANAGED:
        detail = "the catalog that manages the table knows its newest commits"
        cure = "copy the rows into a table that no catalog manages"
        raise FeatureDropError(table=table, feature=feature, detail=detail, cure=cure)
    if needing := dependents(protocol, feature):
        detail = f"{', '.join(needing)} require it"
        raise FeatureDependencyError(table=table, feature=feature, detail=detail, cure=f"drop {', '.join(needing)} first")
    if truncates and not may_truncate:
        detail = "it is not a reader feature, so there is no history to truncate"
        raise FeatureDropError(table=table, feature=feature, detail=detail, cure="drop it without truncate_history")
    if truncates:
        check_interval(snapshot.metadata.configuration, _TRUNCATED)
    with _refusals(table, feature):
        check_unused(feature, snapshot.metadata)


def _switch_off(log: TableLog, feature: str, origin: Origin | None) -> None:
    """Disable the feature by commits of their own, so that no writer uses it any more."""
    transaction = log.start_transaction()
    metadata = transaction.snapshot.metadata
    configuration = switched_off(feature, metadata.configuration)
    if configuration != metadata.configuration:
        changed = {key: value for key, value in configuration.items() if metadata.configuration.get(key) != value}
        transaction.set_metadata(replace(metadata, configuration=configuration))
        operation = Operation(name="SET TBLPROPERTIES", parameters={"properties": changed}, changes_data=False)
        transaction.commit(operation=operation, origin=origin)
    if feature == "rowTracking":
        unbackfill(log.start_transaction, origin)
    if feature == "domainMetadata":
        _end_domains(log, origin)


def _end_domains(log: TableLog, origin: Origin | None) -> None:
    """Remove remaining domains of the protocol, written under other writers' features: none may exist without that feature."""
    transaction = log.start_transaction()
    snapshot = transaction.snapshot
    ended = _leftovers(snapshot, "domainMetadata").domains
    if ended:
        operation = Operation(name="DROP FEATURE", parameters={"featureName": "domainMetadata"}, changes_data=False)
        transaction.commit(domains=ended, operation=operation, origin=origin)


def _leave_history(log: TableLog, feature: str, *, truncate: bool) -> None:
    """Make a version from which readers can start without older ones, and delete the older ones if requested.

    Raises:
        FeatureDropError: The table uses the feature now.
        FeatureInHistoryError: Remaining versions use it.
    """
    snapshot = log.refresh()
    _leftovers(snapshot, feature)
    if truncate or feature != _PROTECTION:
        write_checkpoint(snapshot, now=log.clock())
    if truncate:
        retention = interval_milliseconds(snapshot.metadata.configuration.get(_TRUNCATED, ""))
        clean_up_log(log, cutoff=log.clock() - (_DAY if retention is None else retention))
    if (truncate or feature == _PROTECTION) and (version := _version_with(log, feature, snapshot)) is not None:
        raise FeatureInHistoryError(
            table=log.table_uri,
            feature=feature,
            detail=f"version {version} of the table still needs it",
            cure=f"run again with truncate_history when that version is older than {_TRUNCATED} (24 hours by default)",
        )


def _version_with(log: TableLog, feature: str, snapshot: Snapshot) -> int | None:
    """The oldest version before ``snapshot`` that can still be read and uses the feature; None if no version does."""
    listing = list_log(log.store)
    oldest = listing.earliest_readable_version()
    if feature == _PROTECTION:
        return oldest if oldest < protected_before(snapshot.metadata.configuration) else None
    if feature == "v2Checkpoint" and (
        manifests := [checkpoint.version for checkpoint in listing.checkpoints if checkpoint.is_manifest]
    ):
        return manifests[0]
    state = log.snapshot(oldest)
    if is_used_by(feature, state.metadata) or (feature == DELETION_VECTORS and have_deletion_vectors(state.files())):
        return oldest
    later = range(oldest + 1, snapshot.version)
    return next((version for version in later if is_used_in(feature, read_commit(log.store, version))), None)


def _leftovers(snapshot: Snapshot, feature: str) -> Leftovers:
    with _refusals(snapshot.table_uri, feature):
        if feature == DELETION_VECTORS and have_deletion_vectors(snapshot.files()):
            raise Refusal("files have deletion vectors", "purge them first: an OPTIMIZE of these files writes them without")
        return leftovers(feature, snapshot.metadata, snapshot.domains)


@contextmanager
def _refusals(table: str, feature: str) -> Iterator[None]:
    try:
        yield
    except Refusal as refusal:
        raise FeatureDropError(table=table, feature=feature, detail=refusal.detail, cure=refusal.cure) from refusal


def _drop(log: TableLog, feature: str, *, truncated: bool, protect: bool, origin: Origin | None) -> CommitResult:
    transaction = log.start_transaction()
    snapshot = transaction.snapshot
    left = _leftovers(snapshot, feature)
    protocol = without(snapshot.protocol, feature)
    configuration = dict(left.configuration)
    if protect:
        protocol = upgraded(protocol, [_PROTECTION])
        configuration[PROTECTED_BEFORE] = str(snapshot.version + 1)
    transaction.set_protocol(protocol)
    if configuration != snapshot.metadata.configuration:
        transaction.set_metadata(replace(snapshot.metadata, configuration=configuration))
    return transaction.commit(
        domains=left.domains,
        operation=Operation(
            name="DROP FEATURE", parameters={"featureName": feature, "truncateHistory": truncated}, changes_data=False
        ),
        origin=origin,
    )
