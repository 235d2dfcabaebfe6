"""VACUUM: deletes files that no reader needs any more.

Follows ``VacuumCommand`` of Delta Spark (FULL, LITE, USING INVENTORY), with these differences: a given retention is always
honored (Spark's newest version ignores every number of hours but 0), other tables below the root are not touched, empty
directories are kept (``numVacuumedDirectories`` is 0), and the protocol is checked again right before deletion.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import Metadata, Origin
from airflow_delta.core.errors import (
    DeltaError,
    InvalidStatementError,
    LogGapError,
    RetentionTooShortError,
    VersionNotFoundError,
)
from airflow_delta.core.log.history import InCommitTimestamps
from airflow_delta.core.log.managed_commits import Maintenance, check_permitted
from airflow_delta.core.operations.bulk_delete import LOCAL_SCHEMES
from airflow_delta.core.operations.pins import Pin, PinFolder, read_pin_folder, release_expired
from airflow_delta.core.operations.staged_folder import sweep, unexpired_files
from airflow_delta.core.operations.table_log import TableLog
from airflow_delta.core.operations.unneeded_files import folders_of_other_formats, named_paths, unneeded_files
from airflow_delta.core.operations.vacuum_candidates import (
    due_commits,
    inventoried_files,
    newest_due_commit,
    record_vacuumed_version,
    removed_files,
)
from airflow_delta.core.operations.vacuum_executor import VacuumExecutor
from airflow_delta.core.schema.column_mapping import physical_name
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements.validation import require_type
from airflow_delta.core.storage.table_uri import scheme_of
from airflow_delta.core.table_features.support import check_writable
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.table_properties import DELETED_FILE_RETENTION, check_interval, deleted_file_retention

_logger = logging.getLogger(__name__)

_HOUR = 3_600_000  # milliseconds
_MOST_HOURS = 1e9  # no file can be older
_ANY_TIME = 1 << 62
_LOGGED_SCHEMES = LOCAL_SCHEMES | {"hdfs", "gs", "abfs", "abfss", "wasb", "wasbs", "adl"}
"""Where the start and end of a vacuum are committed, as in Delta Spark: not on S3, where its writers may lose commits."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VacuumResult:
    """The files that were deleted, or in a dry run would be.

    Attributes:
        paths: Paths below the table's root, not percent-encoded. For a lite vacuum, some may already have been gone.
        files: Number of files.
        bytes: Their size in bytes; for a lite vacuum, as far as the log records it.
        version: Version of the commit that records the end; None if nothing was deleted or nothing is recorded.
        pins: The unexpired pins: every file of their versions is kept, as long as the log can open the version.
        damaged_pins: Pin files that cannot be read, with the reason, and what they still protect.
    """

    paths: pa.Array
    files: int
    bytes: int
    dry_run: bool
    version: int | None = None
    pins: tuple[Pin, ...] = ()
    damaged_pins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long files are kept after they were removed from the table.

    Attributes:
        milliseconds: The retention of this run.
        specified: Whether the user gave it.
        default: The table's retention, in milliseconds.
        enforced: Whether a shorter retention than the default is refused.
    """

    milliseconds: int
    specified: bool
    default: int
    enforced: bool


def retention_of(table: str, metadata: Metadata, hours: float | None, *, enforce: bool) -> Retention:
    """The retention to use, if it is safe.

    Raises:
        InvalidTablePropertyError: The table's retention is invalid.
        RetentionTooShortError: The given retention is negative or NaN, or shorter than the table's while that is enforced.
        InvalidStatementError: The given retention is not a number.
    """
    require_type("VACUUM", "retention_hours", hours, Real | None)
    check_interval(metadata.configuration, DELETED_FILE_RETENTION)
    default = deleted_file_retention(metadata.configuration)
    requested = default / _HOUR if hours is None else hours
    if not requested >= 0 or (enforce and requested < default / _HOUR):  # also true for NaN
        raise RetentionTooShortError(table=table, retention_hours=requested, minimum_hours=default / _HOUR if enforce else 0.0)
    milliseconds = default if hours is None else int(min(hours, _MOST_HOURS) * _HOUR)
    return Retention(milliseconds=milliseconds, specified=hours is not None, default=default, enforced=enforce)


def vacuum(
    log: TableLog,
    *,
    retention_hours: float | None,
    dry_run: bool,
    enforce_retention: bool,
    lite: bool,
    inventory: pa.Table | str | None,
    protect: Iterable[int],
    origin: Origin,
    executor: VacuumExecutor,
) -> VacuumResult:
    """Delete files below the table's root that are older than the retention and that no version within it references.

    Files of pinned versions and of staged commits are kept, too. A pin whose version the log can no longer open (another engine
    cleaned it up) protects nothing, as that version cannot be read. Expired pins are deleted. A damaged pin protects its
    version, if it names one, and is reported.

    Only files below the root are ever deleted, whatever the log says. Names that begin with ``_`` or a dot are not touched,
    except partition directories, ``_change_data``, ``_delta_index`` and the staging areas of killed statements. Nor is a
    directory with a log of its own.

    Args:
        log: The table.
        retention_hours: None uses the table's ``delta.deletedFileRetentionDuration``. A longer one keeps unreferenced files
            longer; for removed files, the log may no longer know when they were removed.
        dry_run: Only report what would be deleted.
        enforce_retention: Refuse a retention shorter than the table's.
        lite: Consider only files that commits since the last vacuum removed, instead of listing the table. Files that no commit
            ever referenced (of failed writes) are kept.
        inventory: Consider only the files that it lists; see ``vacuum_candidates.inventoried_files``.
        protect: Versions of which every file is kept, however old.
        origin: The task run that requests it; its token is not recorded, as a repeated vacuum simply runs again.
        executor: Lists and deletes the files.

    Raises:
        InvalidTablePropertyError: The table's retention is invalid.
        RetentionTooShortError: Running readers or writers could lose files.
        VacuumLiteImpossibleError: Commits that a lite vacuum needs were cleaned up.
        VacuumIncompleteError: The storage did not delete all files; another vacuum continues.
        VersionNotFoundError: A version to protect is not in the log.
        MaintenanceNotPermittedError: The table is catalog-managed, and the catalog does not permit this to clients.
        UnsupportedWriterFeatureError: The table requires an unsupported writer feature.
        CorruptLogError: A log file, or the location of a deletion vector, cannot be read.
        InvalidStatementError: The inventory is invalid, or combined with a lite vacuum.
    """
    if lite and inventory is not None:
        raise InvalidStatementError(
            statement="VACUUM LITE USING INVENTORY", detail="a lite vacuum takes its files from the log"
        )
    snapshot = _writable(log.refresh())
    retention = retention_of(snapshot.table_uri, snapshot.metadata, retention_hours, enforce=enforce_retention)
    cutoff = log.clock() - retention.milliseconds
    protected = [log.snapshot(version).files().select(["path", "deletion_vector"]) for version in sorted(set(protect))]
    in_commit = InCommitTimestamps.from_metadata(snapshot.metadata)
    if lite:
        commits = due_commits(snapshot.store, in_commit, cutoff)
        candidates, due = removed_files(snapshot.store, commits), commits.end
    elif inventory is not None:
        candidates, due = inventoried_files(inventory, snapshot.table_uri), -1
    else:
        candidates, due = executor.list_files(snapshot), newest_due_commit(snapshot.store, in_commit, cutoff)
    snapshot = _writable(log.refresh())  # after the listing, so that files of commits made meanwhile are kept
    staged = unexpired_files(snapshot.store, log.clock())
    needed = named_paths([*_needed_files(snapshot, cutoff), *protected, *staged], table=snapshot.table_uri)
    files_to_delete = unneeded_files(
        candidates, needed, _partition_names(snapshot), cutoff, kept_below=folders_of_other_formats(snapshot.metadata)
    )
    now = log.clock()
    pins = read_pin_folder(log.store)
    kept = pins.versions(now)
    files_to_delete = _without_pinned(log, files_to_delete, kept)
    result = _result(files_to_delete, pins, now, dry_run=dry_run)
    if not dry_run and result.files:
        result = _delete(log, snapshot, files_to_delete, pins, retention, origin=replace(origin, token=None), executor=executor)
    if not dry_run:
        release_expired(log.store, log.clock())
        sweep(log.store, min(cutoff, log.clock() - retention.default), log.clock())
        if not protected:  # else files of a protected or pinned version are due again later
            record_vacuumed_version(snapshot.store, min([due, *kept, *(pin.version for pin in result.pins)]))
    return result


def _writable(snapshot: Snapshot) -> Snapshot:
    """The snapshot, if its protocol, and its catalog if it has one, permit a vacuum.

    Protocol: PROTOCOL.md, "Vacuum Protocol Check", "Maintenance Operations on Catalog-managed Tables".
    """
    check_permitted(snapshot.store, Maintenance.VACUUM)
    check_writable(snapshot.table_uri, snapshot.protocol, snapshot.metadata)
    return snapshot


def _needed_files(snapshot: Snapshot, cutoff: int) -> list[pa.Table]:
    """The live files, and those removed within the retention."""
    tombstones = snapshot.tombstones()
    recent = tombstones.filter(pc.greater_equal(tombstones["deletion_timestamp"], cutoff))
    return [files.select(["path", "deletion_vector"]) for files in (snapshot.files(), recent)]


def _without_pinned(log: TableLog, files_to_delete: pa.Table, versions: Iterable[int]) -> pa.Table:
    """The files that no pinned version references; checks one version at a time, as each may have a million files."""
    snapshot = log.refresh()
    for version in sorted(versions):
        if not len(files_to_delete):
            break
        try:
            pinned = log.snapshot(version).files().select(["path", "deletion_vector"])
        except (VersionNotFoundError, LogGapError):  # no reader can open it
            continue
        files_to_delete = unneeded_files(
            files_to_delete, named_paths([pinned], table=snapshot.table_uri), _partition_names(snapshot), _ANY_TIME
        )
    return files_to_delete


def _partition_names(snapshot: Snapshot) -> set[str]:
    """Logical and physical names of the partition columns: directories may be named after either."""
    fields = [field for field in snapshot.schema.fields if field.name in snapshot.partition_columns]
    return {*snapshot.partition_columns, *map(physical_name, fields)}


def _result(files_to_delete: pa.Table, pins: PinFolder, now: int, *, dry_run: bool) -> VacuumResult:
    size = pc.sum(files_to_delete["size"], min_count=0).as_py()
    return VacuumResult(
        paths=files_to_delete["path"].combine_chunks(),
        files=len(files_to_delete),
        bytes=size,
        dry_run=dry_run,
        pins=pins.live(now),
        damaged_pins=tuple(map(str, pins.damaged)),
    )


def _delete(
    log: TableLog,
    snapshot: Snapshot,
    files_to_delete: pa.Table,
    pins: PinFolder,
    retention: Retention,
    *,
    origin: Origin,
    executor: VacuumExecutor,
) -> VacuumResult:
    """Delete the files, and commit the start and end where Delta does."""
    is_logged = scheme_of(snapshot.table_uri) in _LOGGED_SCHEMES
    if is_logged:
        parameters = {
            "retentionCheckEnabled": retention.enforced,
            "specifiedRetentionMillis": retention.milliseconds if retention.specified else None,
            "defaultRetentionMillis": retention.default,
        }
        found = _result(files_to_delete, pins, log.clock(), dry_run=False)
        _record(log, "VACUUM START", parameters, {"numFilesToDelete": found.files, "sizeOfDataToDelete": found.bytes}, origin)
    latest = _writable(log.refresh())
    if latest.version > snapshot.version + is_logged:  # keeps files that another writer has restored (RESTORE)
        named = named_paths([latest.files()], table=snapshot.table_uri)
        files_to_delete = files_to_delete.filter(pc.invert(pc.is_in(files_to_delete["path"], named)))
    now, latest_pins = log.clock(), read_pin_folder(log.store)
    files_to_delete = _without_pinned(log, files_to_delete, latest_pins.versions(now) - pins.versions(now))
    result = _result(files_to_delete, pins.followed_by(latest_pins), now, dry_run=False)
    try:
        executor.delete(snapshot.store, result.paths)
    except BaseException:
        if is_logged:
            _record_failure(log, origin)
        raise
    if not is_logged:
        return result
    metrics = {"numDeletedFiles": result.files, "numVacuumedDirectories": 0}
    return replace(result, version=_record(log, "VACUUM END", {"status": "COMPLETED"}, metrics, origin))


def _record_failure(log: TableLog, origin: Origin) -> None:
    """Commit that the vacuum failed; storage failures are ignored, as the caller must get the original error."""
    try:
        _record(log, "VACUUM END", {"status": "FAILED"}, {}, origin)
    except (OSError, DeltaError) as error:
        _logger.warning(
            "%s: that the vacuum failed is not recorded: %s",
            log.table_uri,
            error.claim() if isinstance(error, DeltaError) else error,
        )


def _record(log: TableLog, name: str, parameters: dict[str, Any], metrics: dict[str, int], origin: Origin) -> int:
    """Commit the start or the end of a vacuum; returns the new version."""
    operation = Operation(name=name, parameters=parameters, changes_data=False)
    return log.start_transaction().commit(operation=operation, metrics=metrics, origin=origin, allow_empty=True).version
