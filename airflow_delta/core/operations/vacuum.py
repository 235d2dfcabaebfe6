"""Deletion of files that no reader needs any more.

Follows ``VacuumCommand`` of Delta Spark (FULL), with three differences: a given retention is always honoured (Spark's newest
version ignores every number of hours but 0), another table below the root is left alone, and empty directories stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import Metadata, Origin
from airflow_delta.core.clock import Clock
from airflow_delta.core.errors import RetentionTooShortError
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.storage.log_store import FileStatus, LogStore
from airflow_delta.core.table_features.support import check_writable
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.optimistic_transaction import OptimisticTransaction
from airflow_delta.core.transaction.table_properties import deleted_file_retention

_HOUR = 3_600_000  # milliseconds
_MOST_HOURS = 1e9  # longer ago there was no file
_DELETED_AT_ONCE = 1000
_LISTED_AT_ONCE = 1 << 16

_FILE = pa.schema([("path", pa.string()), ("size", pa.int64()), ("modification_time", pa.int64())])

# What a killed statement leaves in its staging area (spark/staging.py): all of it may go, the hidden names of Spark too.
_STAGED = r"(?s)^write-[0-9a-f]{32}/.*$"
# Paths that may mean a file of this table without being its path below the root: absolute ones, and those with dot segments.
_ODD_PATH = r"^/|^[A-Za-z][A-Za-z0-9+.-]*:|(^|/)\.{0,2}(/|$)"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VacuumResult:
    """What was, or in a dry run would be, deleted.

    Attributes:
        paths: Paths below the table's root, not percent-encoded.
        files: Their number.
        bytes: Their size.
        version: Version of the commit that recorded the end; None where nothing was deleted.
    """

    paths: pa.Array
    files: int
    bytes: int
    dry_run: bool
    version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long files stay that no longer belong to the table.

    Attributes:
        milliseconds: The retention of this run.
        specified: Whether the user gave it.
        default: What the table asks for, milliseconds.
        enforced: Whether less than the default is refused.
    """

    milliseconds: int
    specified: bool
    default: int
    enforced: bool


def retention_of(table: str, metadata: Metadata, hours: float | None, *, enforce: bool) -> Retention:
    """The retention to use, in so far as it is safe.

    Raises:
        RetentionTooShortError: It is negative or no number, or shorter than the table asks for although that is enforced.
    """
    default = deleted_file_retention(metadata.configuration)
    asked = default / _HOUR if hours is None else hours
    if not asked >= 0 or (enforce and asked < default / _HOUR):  # NaN is neither more nor less
        raise RetentionTooShortError(table=table, retention_hours=asked, minimum_hours=default / _HOUR if enforce else 0.0)
    milliseconds = default if hours is None else int(min(hours, _MOST_HOURS) * _HOUR)
    return Retention(milliseconds=milliseconds, specified=hours is not None, default=default, enforced=enforce)


def vacuum(
    refresh: Callable[[], Snapshot],
    begin: Callable[[], OptimisticTransaction],
    clock: Clock,
    *,
    retention_hours: float | None,
    dry_run: bool,
    enforce_retention: bool,
    origin: Origin,
) -> VacuumResult:
    """Delete the files below the table's root that are older than the retention and belong to no version younger than it.

    Only files found by listing the root are ever deleted, whatever the log says. Names that begin with ``_`` or a dot are
    not touched, except partition directories, ``_change_data``, ``_delta_index`` and what our killed statements left. Nor is a
    directory with a log of its own.

    Args:
        refresh: Gives the latest snapshot.
        begin: Starts a transaction, for the commits ``VACUUM START`` and ``VACUUM END`` around a deletion.
        clock: Now.
        retention_hours: None is the table's ``delta.deletedFileRetentionDuration``. A longer one keeps unreferenced files
            longer; of removed files the log itself may have forgotten the time.
        dry_run: Only say what would be deleted.
        enforce_retention: Refuse less than the table asks for.
        origin: The run that asks for it; its token is not recorded, as a repeated vacuum simply runs again.

    Raises:
        RetentionTooShortError: Readers or writers at work could lose files.
        UnsupportedWriterFeatureError: The table needs writers that know more.
    """
    snapshot = refresh()
    check_writable(snapshot.table_uri, snapshot.protocol, snapshot.metadata)
    retention = retention_of(snapshot.table_uri, snapshot.metadata, retention_hours, enforce=enforce_retention)
    cutoff = clock() - retention.milliseconds
    listed = _listing(snapshot.store)
    snapshot = refresh()  # after the listing: what was committed while it ran is kept
    check_writable(snapshot.table_uri, snapshot.protocol, snapshot.metadata)
    doomed = unneeded_files(listed, snapshot.files(), snapshot.tombstones(), snapshot.metadata.partition_columns, cutoff)
    paths, size = doomed["path"].combine_chunks(), pc.sum(doomed["size"], min_count=0).as_py()
    result = VacuumResult(paths=paths, files=len(paths), bytes=size, dry_run=dry_run)
    if dry_run or not result.files:
        return result
    origin = replace(origin, token=None)
    _record(
        begin(),
        "VACUUM START",
        {
            "retentionCheckEnabled": retention.enforced,
            "specifiedRetentionMillis": retention.milliseconds if retention.specified else None,
            "defaultRetentionMillis": retention.default,
        },
        {"numFilesToDelete": result.files, "sizeOfDataToDelete": result.bytes},
        origin,
    )
    status = "FAILED"
    try:
        _delete(snapshot.store, paths)
        status = "COMPLETED"
    finally:
        metrics = {"numDeletedFiles": result.files, "numVacuumedDirectories": 0} if status == "COMPLETED" else {}
        version = _record(begin(), "VACUUM END", {"status": status}, metrics, origin)
    return replace(result, version=version)


def unneeded_files(
    listed: pa.Table, files: pa.Table, tombstones: pa.Table, partition_columns: Iterable[str], cutoff: int
) -> pa.Table:
    """Those of the listed files that may go.

    Args:
        listed: Columns ``path`` (below the root, not percent-encoded), ``size``, ``modification_time``.
        files: Active files, columns ``ADD_FILE``.
        tombstones: Removed files, columns ``REMOVE_FILE``; those removed after ``cutoff`` stay.
        partition_columns: Directories named after them are not hidden, whatever their names begin with.
        cutoff: Milliseconds since the epoch; files modified since then stay.
    """
    recent = tombstones.filter(pc.greater(tombstones["deletion_timestamp"], cutoff))
    needed = [files.select(["path", "deletion_vector"]), recent.select(["path", "deletion_vector"])]
    paths = pa.chunked_array([chunk for each in needed for chunk in each["path"].chunks], pa.string())
    decoded = pa.array(map(unquote, paths.filter(pc.match_substring(paths, "%")).to_pylist()), pa.string())
    known = pa.concat_arrays([paths.combine_chunks(), decoded])  # as written too: some writers do not encode
    odd = known.filter(pc.match_substring_regex(known, _ODD_PATH))
    name = _name(listed["path"])
    kept = [
        pc.greater_equal(listed["modification_time"], cutoff),
        _is_hidden(listed["path"], partition_columns),
        pc.is_in(listed["path"], known),
        pc.is_in(name, _name(odd)),  # whichever way such a path leads here, its last part is the name
        *(pc.starts_with(listed["path"], pattern=root) for root in _other_tables(listed["path"])),
    ]
    if any(each["deletion_vector"].null_count < len(each) for each in needed):
        kept.append(pc.starts_with(name, "deletion_vector_"))
    keep = kept[0]
    for each in kept[1:]:
        keep = pc.or_(keep, each)
    return listed.filter(pc.invert(keep))


def _name(paths: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The last part of each path."""
    return pc.replace_substring_regex(paths, "(?s)^.*/", "")


def _is_hidden(paths: pa.ChunkedArray, partition_columns: Iterable[str]) -> pa.ChunkedArray:
    """Whether any part of the path is hidden from vacuum, as ``DeltaTableUtils.isHiddenDirectory`` of Delta Spark says."""
    prefixes = "|".join(["_delta_index", "_change_data", *(f"{re.escape(name)}=" for name in partition_columns)])
    shown = pc.replace_substring_regex(paths, f"(^|/)(?:{prefixes})", r"\1shown")
    shown = pc.replace_substring_regex(shown, _STAGED, "shown")
    return pc.match_substring_regex(shown, "(^|/)[_.]")


def _other_tables(paths: pa.ChunkedArray) -> list[str]:
    """The directories below the root that hold a log themselves, each with a slash at its end."""
    logs = paths.filter(pc.match_substring(paths, "/_delta_log/"))
    return pc.replace_substring_regex(logs, "(?s)/_delta_log/.*$", "/").unique().to_pylist()


def _listing(store: LogStore) -> pa.Table:
    """Every file below the root: one flat listing."""
    statuses = iter(store.list_all())
    batches = iter(lambda: list(islice(statuses, _LISTED_AT_ONCE)), [])
    return pa.Table.from_batches([_columns(filter(_has_text_name, batch)) for batch in batches], _FILE)


def _columns(statuses: Iterator[FileStatus]) -> pa.RecordBatch:
    rows = [(each.path, each.size, each.modification_time) for each in statuses]
    columns = zip(*rows, strict=True) if rows else [()] * len(_FILE)
    return pa.record_batch([pa.array(values, each.type) for values, each in zip(columns, _FILE, strict=True)], schema=_FILE)


def _has_text_name(status: FileStatus) -> bool:
    """False for a local name that is no UTF-8: no table has such a file, and none is deleted."""
    return status.path.isascii() or "\\ud" not in ascii(status.path)


def _delete(store: LogStore, paths: pa.Array) -> None:
    for start in range(0, len(paths), _DELETED_AT_ONCE):
        store.delete(paths.slice(start, _DELETED_AT_ONCE).to_pylist())


def _record(
    transaction: OptimisticTransaction, name: str, parameters: dict[str, Any], metrics: dict[str, int], origin: Origin
) -> int:
    """Commit that a vacuum begins or ends; the new version."""
    operation = Operation(name=name, parameters=parameters, changes_data=False)
    return transaction.commit(operation=operation, metrics=metrics, origin=origin, allow_empty=True).version
