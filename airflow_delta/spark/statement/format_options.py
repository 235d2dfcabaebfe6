"""The options of ``format("delta")``: checked, so that none that is not kept passes unseen."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_delta.core.errors import InvalidStatementError

FORMAT = 'format("delta")'

_FEED = ("readchangefeed", "readchangedata")
_READ = ("path", "versionasof", "timestampasof", "startingversion", "startingtimestamp", "endingversion", "endingtimestamp")
_WRITTEN = ("path", "usermetadata")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What is read.

    Attributes:
        path: The table.
        version: As it was then; None for the newest version, or with ``timestamp``.
        timestamp: As it was at this time, ISO text with a zone.
        changes: From which version or time until which its changes are read instead of its rows; None for its rows.
    """

    path: str
    version: int | None = None
    timestamp: str | None = None
    changes: tuple[int | str, int | str | None] | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ReadOptions:
        """Understand a reader's options. Raises ``InvalidStatementError``."""
        given = _lower(options)
        _refuse_others(given, (*_READ, *_FEED))
        path = _path(given)
        version = _version(given, "versionasof")
        timestamp = _timestamp(given, "timestampasof")
        if version is not None and timestamp is not None:
            raise _refused("versionAsOf and timestampAsOf exclude each other")
        start, end = (_bound(given, side) for side in ("starting", "ending"))
        if not _reads_changes(given):
            if start is not None or end is not None:
                raise _refused("a starting or ending version or time is about readChangeFeed, which is not set")
            return cls(path=path, version=version, timestamp=timestamp)
        if start is None:
            raise _refused("readChangeFeed needs startingVersion or startingTimestamp")
        if version is not None or timestamp is not None:
            raise _refused("readChangeFeed excludes versionAsOf and timestampAsOf")
        return cls(path=path, changes=(start, end))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How rows are written.

    Attributes:
        path: The table.
        user_metadata: The user's own text for the commit.
    """

    path: str
    user_metadata: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> WriteOptions:
        """Understand a writer's options. Raises ``InvalidStatementError``."""
        given = _lower(options)
        _refuse_others(given, _WRITTEN)
        return cls(path=_path(given), user_metadata=given.get("usermetadata"))


def _lower(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in options.items()}


def _refuse_others(given: Mapping[str, str], known: Iterable[str]) -> None:
    unknown = sorted(given.keys() - set(known))
    if unknown:
        raise _refused(f"the options {', '.join(unknown)} are not known here; a WriteStatement or DeltaTable may do it")


def _path(given: Mapping[str, str]) -> str:
    if not given.get("path", "").strip():
        raise _refused("there is no path: use load(path) or save(path); names of tables in a catalog are not known here")
    return given["path"]


def _reads_changes(given: Mapping[str, str]) -> bool:
    values = {given[name].lower() for name in _FEED if name in given}
    if not values <= {"true", "false"}:
        raise _refused(f"readChangeFeed is {', '.join(sorted(values))}, neither true nor false")
    return "true" in values


def _bound(given: Mapping[str, str], side: str) -> int | str | None:
    version, timestamp = _version(given, f"{side}version"), _timestamp(given, f"{side}timestamp")
    if version is not None and timestamp is not None:
        raise _refused(f"{side}Version and {side}Timestamp exclude each other")
    return timestamp if version is None else version


def _version(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is not None and not text.strip().isdecimal():
        raise _refused(f"{name} is {text!r}, which is no version")
    return None if text is None else int(text)


def _timestamp(given: Mapping[str, str], name: str) -> str | None:
    """The text, if it names its zone: a data source does not learn the session's."""
    text = given.get(name)
    try:
        zone = dt.datetime.fromisoformat(text).tzinfo if text is not None else dt.UTC
    except ValueError:
        zone = None
    if zone is None:
        raise _refused(f"{name} is {text!r}, but must be ISO text that names its zone, such as 2021-01-01T00:00:00Z")
    return text


def _refused(detail: str) -> InvalidStatementError:
    return InvalidStatementError(statement=FORMAT, detail=detail)
