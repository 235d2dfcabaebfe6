"""The options of ``format("delta")``: validated, so that unsupported ones are not silently ignored."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.user_metadata import check_user_metadata

FORMAT = 'format("delta")'

_FEED = ("readChangeFeed", "readChangeData")
_READ = ("path", "versionAsOf", "timestampAsOf", "startingVersion", "startingTimestamp", "endingVersion", "endingTimestamp")
_WRITTEN = ("path", "userMetadata")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What to read.

    Attributes:
        path: The table.
        version: The version to read; None for the newest version, or with ``timestamp``.
        timestamp: Read the version of this time, ISO text with a zone.
        changes: Start and end (versions or times) of the changes to read instead of the rows; None for the rows.
    """

    path: str
    version: int | None = None
    timestamp: str | None = None
    changes: tuple[int | str, int | str | None] | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ReadOptions:
        """Parse a reader's options. Raises ``InvalidStatementError``."""
        given = _lower(options)
        _refuse_others(given, (*_READ, *_FEED))
        path = _path(given)
        version = _version(given, "versionAsOf")
        timestamp = _timestamp(given, "timestampAsOf")
        if version is not None and timestamp is not None:
            raise _refused("versionAsOf and timestampAsOf exclude each other; set one of them")
        start, end = (_bound(given, side) for side in ("starting", "ending"))
        if not _reads_changes(given):
            if start is not None or end is not None:
                raise _refused("a starting or ending version or timestamp needs readChangeFeed=true; set it to read changes")
            return cls(path=path, version=version, timestamp=timestamp)
        if start is None:
            raise _refused("readChangeFeed needs startingVersion or startingTimestamp; set one of them")
        if version is not None or timestamp is not None:
            raise _refused("readChangeFeed excludes versionAsOf and timestampAsOf; use endingVersion or endingTimestamp")
        return cls(path=path, changes=(start, end))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How to write rows.

    Attributes:
        path: The table.
        user_metadata: The user's own text for the commit.
    """

    path: str
    user_metadata: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> WriteOptions:
        """Parse a writer's options. Raises ``InvalidStatementError``."""
        given = _lower(options)
        _refuse_others(given, _WRITTEN)
        check_user_metadata(FORMAT, given.get("usermetadata"))
        return cls(path=_path(given), user_metadata=given.get("usermetadata"))


def _lower(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in options.items()}


def _refuse_others(given: Mapping[str, str], known: Sequence[str]) -> None:
    unknown = sorted(given.keys() - {name.lower() for name in known})
    if unknown:
        raise _refused(
            f"the options {', '.join(unknown)} are not supported, only {', '.join(known)} are; leave them out, or use a "
            "statement or DeltaTable where these have them as arguments"
        )


def _path(given: Mapping[str, str]) -> str:
    if not given.get("path", "").strip():
        raise _refused("there is no path: use load(path) or save(path); names of tables in a catalog are not supported")
    return given["path"]


def _reads_changes(given: Mapping[str, str]) -> bool:
    values = {given[name.lower()].lower() for name in _FEED if name.lower() in given}
    if not values <= {"true", "false"}:
        raise _refused(f"readChangeFeed must be true or false, not {' and '.join(map(repr, sorted(values)))}")
    return "true" in values


def _bound(given: Mapping[str, str], side: str) -> int | str | None:
    version, timestamp = _version(given, f"{side}Version"), _timestamp(given, f"{side}Timestamp")
    if version is not None and timestamp is not None:
        raise _refused(f"{side}Version and {side}Timestamp exclude each other; set one of them")
    return timestamp if version is None else version


def _version(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is not None and not text.strip().isdecimal():
        raise _refused(f"{name} must be the number of a version, such as 0 or 12, not {text!r}")
    return None if text is None else int(text)


def _timestamp(given: Mapping[str, str], name: str) -> str | None:
    """The text, if it names its zone: a data source cannot find out the session's time zone."""
    text = given.get(name.lower())
    try:
        zone = dt.datetime.fromisoformat(text).tzinfo if text is not None else dt.UTC
    except ValueError:
        zone = None
    if zone is None:
        raise _refused(f"{name} must be an ISO 8601 time with its time zone, such as 2021-01-01T00:00:00Z, not {text!r}")
    return text


def _refused(detail: str) -> InvalidStatementError:
    return InvalidStatementError(statement=FORMAT, detail=detail)
