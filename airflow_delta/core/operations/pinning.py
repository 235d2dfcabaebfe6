"""Resolves versions of several tables as one set, and registers the pins.

Guarantee: if the latest versions of several tables are requested, there was a moment at which all of them had the versions
    returned. As versions only grow, this is certain when two consecutive reads of all tables return the same versions. Tables
    pinned at a time get the versions that were the latest then by their in-commit timestamps, or else the modification times of
    their commit files; how well these agree depends on the clocks that made them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_delta.core.errors import (
    DeltaError,
    InvalidStatementError,
    PinNotRegisteredError,
    RunCommitNotFoundError,
    StorageAccessError,
    TableReplacedError,
    TablesInMotionError,
)
from airflow_delta.core.log.history import CommitTimes, InCommitTimestamps, find_produced
from airflow_delta.core.log.log_segment import find_segment, list_log
from airflow_delta.core.log.timestamp import milliseconds
from airflow_delta.core.operations.pins import Pin, register, release, release_expired
from airflow_delta.core.operations.table_log import TableLog
from airflow_delta.core.statements.pin import AsOf, PinnedTable, PinStatement, ProducedBy, Timestamp, Version

_LOOKS = 20
_CLOCKS = 60_000  # most milliseconds by which the clocks of two machines are assumed to differ
_HOUR = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedVersion:
    """A pinned version.

    Attributes:
        table: The table's root.
        table_id: The id in the table's metadata, which shows whether the table was replaced.
        timestamp: Commit time of the version, in milliseconds since the epoch; time travel to it finds this version.
        unprotected: Why vacuums do not know of the pin; None if it is registered.
    """

    alias: str
    table: str
    version: int
    table_id: str
    timestamp: int
    unprotected: str | None = None


def pin_versions(
    statement: PinStatement, open_log: Callable[[str], TableLog], record: Mapping[str, Any]
) -> tuple[PinnedVersion, ...]:
    """Pin a version of each table. Nothing is written before every version is known and can be opened.

    Args:
        statement: What to pin.
        open_log: Gives the log of a table.
        record: The record of the task run (``Origin.record``): ``dag_id``, ``run_id``, ``task_id``, ``map_index``.

    Raises:
        TableNotFoundError: The table does not exist.
        VersionNotFoundError: The log does not hold the version, or not any more.
        TimestampOutOfRangeError: The time lies before the first version.
        RunCommitNotFoundError: The log has no commit of that task run.
        TableReplacedError: The table was replaced since it was pinned.
        TablesInMotionError: Of the tables whose latest versions are requested, some had new commits each time they were read.
        PinNotRegisteredError: A pin could not be written although ``must_protect`` is set.
        InvalidStatementError: A time is invalid or in the future; a version is not a number.
        As ``DeltaLog.snapshot``.
    """
    logs = {table.alias: open_log(table.table) for table in statement.tables}
    latest = _standing_versions({table.alias: logs[table.alias] for table in statement.tables if table.as_of is None})
    versions = {
        table.alias: latest[table.alias] if table.as_of is None else _version(logs[table.alias], table.as_of)
        for table in statement.tables
    }
    opened = [_read_version(logs[table.alias], table, versions[table.alias]) for table in statement.tables]
    return tuple(_register(logs[table.alias], table, statement, record) for table in opened)


def _standing_versions(logs: Mapping[str, TableLog]) -> dict[str, int]:
    """The latest versions, which all tables had at the same moment."""
    found = {alias: log.refresh().version for alias, log in logs.items()}
    for _ in range(_LOOKS):
        before, found = found, found if len(logs) <= 1 else {alias: log.refresh().version for alias, log in logs.items()}
        if before == found:
            return found
    raise TablesInMotionError(tables=tuple(log.table_uri for log in logs.values()), looks=_LOOKS + 1)


def _version(log: TableLog, as_of: AsOf) -> int:
    match as_of:
        case Version(version=int(version)):
            return version
        case Version(version=text):
            raise InvalidStatementError(statement="PIN", detail=f"the version {text!r} of {log.table_uri} is not a number")
        case Timestamp(timestamp=timestamp):
            return _version_at(log, milliseconds(timestamp))
        case ProducedBy():
            return _produced_version(log, as_of)


def _version_at(log: TableLog, time: int) -> int:
    """The latest version at a time; for times after the last commit, the last version (which ``version_at`` refuses)."""
    if time > log.clock() + _CLOCKS:
        detail = f"{time} ms is in the future; the version at that time is not known yet"
        raise InvalidStatementError(statement="PIN", detail=detail)
    return CommitTimes(log.store, InCommitTimestamps.from_metadata(log.refresh().metadata)).last_until(time)


def _produced_version(log: TableLog, run: ProducedBy) -> int:
    found = find_produced(log.store, InCommitTimestamps.from_metadata(log.refresh().metadata), run.record)
    if found is not None:
        return found.version
    listing = list_log(log.store)
    raise RunCommitNotFoundError(
        table=log.table_uri,
        run=", ".join(f"{name} {value}" for name, value in run.record.items()),
        earliest=listing.earliest_readable_version(),
        latest=listing.latest_version or 0,
    )


def _read_version(log: TableLog, requested: PinnedTable, version: int) -> PinnedVersion:
    """The version, after checking that it can be read and that the table was not replaced."""
    snapshot = log.snapshot(version)
    if requested.table_id not in {None, snapshot.metadata.id}:
        raise TableReplacedError(table=log.table_uri, version=version)
    return PinnedVersion(
        alias=requested.alias,
        table=requested.table,
        version=version,
        table_id=snapshot.metadata.id,
        timestamp=snapshot.history_timestamp,
    )


def _register(log: TableLog, pinned: PinnedVersion, statement: PinStatement, record: Mapping[str, Any]) -> PinnedVersion:
    now = log.clock()
    pin = Pin(
        id=statement.id,
        alias=pinned.alias,
        version=pinned.version,
        dag_id=record.get("dag_id", ""),
        run_id=record.get("run_id", ""),
        task_id=record.get("task_id", ""),
        map_index=record.get("map_index", -1),
        created=now,
        expires=now + round(statement.keep_for_hours * _HOUR),
    )
    try:
        register(log.store, pin)
    except (OSError, StorageAccessError) as error:
        if statement.must_protect:
            raise PinNotRegisteredError(table=log.table_uri, version=pinned.version, detail=str(error)) from error
        return replace(pinned, unprotected=str(error))
    try:
        find_segment(log.store, pinned.version)  # a log cleanup may have been faster
    except DeltaError:
        release(log.store, [pin])
        raise
    release_expired(log.store, now)
    return pinned
