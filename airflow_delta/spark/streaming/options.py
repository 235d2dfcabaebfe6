"""The options of a streaming read of a table, with Delta's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_delta.core.errors import InvalidStatementError

LATEST = "latest"

_MAX_FILES = 1000
_ABOUT_REMOVED = ("ignoreDeletes", "ignoreChanges", "skipChangeCommits")
_KNOWN = (
    "path",
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "startingVersion",
    "startingTimestamp",
    *_ABOUT_REMOVED,
    "readChangeFeed",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """The options of one stream.

    Attributes:
        path: URI of the table's root.
        max_files: Most files in a batch.
        max_bytes: Bytes from which on a batch takes no further file; None for no limit.
        starting_version: First version whose commit is read; ``LATEST`` only reads future commits. None first reads the whole
            table.
        starting_timestamp: Milliseconds since the epoch or ISO text: start with the first version committed at that time or
            later.
        ignores_deletes: Whether to skip commits that only remove rows.
        ignores_changes: Whether, for commits that remove and add rows, to read the added files, including their unchanged rows.
        skips_changes: Whether to skip commits that remove rows entirely.
        reads_changes: Whether to read the change data feed, rather than the new rows.
    """

    path: str
    max_files: int = _MAX_FILES
    max_bytes: int | None = None
    starting_version: int | str | None = None
    starting_timestamp: str | None = None
    ignores_deletes: bool = False
    ignores_changes: bool = False
    skips_changes: bool = False
    reads_changes: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str]) -> StreamOptions:
        """Parse Spark's options; names are case-insensitive.

        Raises:
            InvalidStatementError: An option is unknown, or its value is invalid.
        """
        given = {key.lower(): value for key, value in options.items()}
        if unknown := given.keys() - {name.lower() for name in _KNOWN}:
            raise _invalid(f"unknown options {', '.join(sorted(unknown))}; known are {', '.join(_KNOWN)}")
        texts = {name: given.get(name.lower()) for name in _KNOWN}
        if not texts["path"]:
            raise _invalid("it names no path")
        if texts["startingVersion"] is not None and texts["startingTimestamp"] is not None:
            raise _invalid("startingVersion and startingTimestamp exclude each other; set one of them")
        version = texts["startingVersion"]
        is_latest = version is not None and version.lower() == LATEST
        max_files, max_bytes = (_number(name, texts[name], least=1) for name in ("maxFilesPerTrigger", "maxBytesPerTrigger"))
        flags = {name: _flag(name, texts[name]) for name in (*_ABOUT_REMOVED, "readChangeFeed")}
        if flags["readChangeFeed"] and (beside := [name for name in _ABOUT_REMOVED if flags[name]]):
            raise _invalid(f"readChangeFeed includes removed rows, so it excludes {', '.join(beside)}")
        return cls(
            path=texts["path"],
            max_files=_MAX_FILES if max_files is None else max_files,
            max_bytes=max_bytes,
            starting_version=LATEST if is_latest else _number("startingVersion", version, least=0),
            starting_timestamp=texts["startingTimestamp"],
            ignores_deletes=flags["ignoreDeletes"],
            ignores_changes=flags["ignoreChanges"],
            skips_changes=flags["skipChangeCommits"],
            reads_changes=flags["readChangeFeed"],
        )


_UNITS = {"b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}


def _number(name: str, text: str | None, *, least: int) -> int | None:
    """A number; byte sizes may have a unit, as in Spark."""
    if text is None:
        return None
    digits = text.strip().lower().rstrip("kmgb")
    unit = text.strip().lower()[len(digits) :]
    if not digits.isdecimal() or (unit and (name != "maxBytesPerTrigger" or unit not in _UNITS)):
        raise _invalid(f"{name} is {text!r}, which is no number")
    number = int(digits) * _UNITS.get(unit, 1)
    if number < least:
        raise _invalid(f"{name} is {number}, but at least {least} is needed")
    return number


def _flag(name: str, text: str | None) -> bool:
    if text is None or text.lower() in ("true", "false"):
        return text is not None and text.lower() == "true"
    raise _invalid(f"{name} is {text!r}, neither true nor false")


def _invalid(detail: str) -> InvalidStatementError:
    return InvalidStatementError(statement="a streaming read", detail=detail)
