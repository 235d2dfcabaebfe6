"""Time windows for commits: after a moment, the data interval of a DAG run, or the last hours."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.log.timestamp import milliseconds
from airflow_delta.core.statements.fields import Time, converted_value, shortened
from airflow_delta.core.transaction.table_properties import interval_milliseconds

_STATEMENT = "DeltaCommitSensor"
_SHORT = re.compile(r"([0-9]{1,9})\s*(s|m|min|h|d|w)", re.IGNORECASE)
_UNITS = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitWindow:
    """When a commit must have been made, by the times in the table's log, in milliseconds since the epoch.

    The time of a commit is its in-commit timestamp if the table has these, else the modification time of its file.

    Attributes:
        start: Start of the window, inclusive.
        end: End of the window, exclusive; None for an open end.
        within: Milliseconds before each poll at which the window starts, instead of at ``start``; None for a fixed window.
    """

    start: int
    end: int | None = None
    within: int | None = None

    def __post_init__(self) -> None:
        if self.end is not None and self.end <= self.start:
            detail = (
                "the interval of during is empty: its end must be later than its start. The data interval of a schedule like "
                "'@daily' is a moment, unless it is a CronDataIntervalTimetable: use after_timestamp"
            )
            raise InvalidStatementError(statement=_STATEMENT, detail=detail)

    @classmethod
    def after(cls, time: Any) -> CommitWindow:
        """The window after a time: a datetime (UTC if it has no time zone), milliseconds since the epoch, or ISO 8601 text."""
        return cls(start=_milliseconds("after_timestamp", time) + 1)

    @classmethod
    def during(cls, interval: Any) -> CommitWindow:
        """The window of an interval, with its start and without its end."""
        if isinstance(interval, str) or not isinstance(interval, Sequence) or len(interval) != 2:  # noqa: PLR2004
            detail = f"during must be a pair of start and end, found {shortened(interval)}"
            raise InvalidStatementError(statement=_STATEMENT, detail=detail)
        start, end = (
            _milliseconds(f"the {name} of during", time) for name, time in zip(("start", "end"), interval, strict=True)
        )
        return cls(start=start, end=end)

    @classmethod
    def lately(cls, within: Any) -> CommitWindow:
        """The time before each poll: a timedelta, or a text such as ``2h``, ``90 min`` or ``1 day 12 hours``."""
        length = round(within.total_seconds() * 1_000) if isinstance(within, timedelta) else None  # pendulum cannot divide
        if isinstance(within, str):
            short = _SHORT.fullmatch(within.strip())
            length = interval_milliseconds(f"{short[1]} {_UNITS[short[2].lower()]}" if short else within)
        if length is None or length <= 0:
            detail = (
                f"fresh_within must be a timedelta above 0, or an interval such as '2h' or '90 min', found {shortened(within)}"
            )
            raise InvalidStatementError(statement=_STATEMENT, detail=detail)
        return cls(start=0, within=length)

    def at(self, now: int) -> CommitWindow:
        """The fixed window at a time, in milliseconds since the epoch."""
        return self if self.within is None else CommitWindow(start=now - self.within)

    def to_json(self) -> dict[str, Any]:
        """The window as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any] | None) -> CommitWindow | None:
        """The window that ``to_json`` wrote; None for None."""
        return None if document is None else cls(**document)


def _milliseconds(name: str, value: Any) -> int:
    if isinstance(value, datetime):
        value = (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    if value is None or str(value).strip() in {"", "None"}:
        detail = (
            f"{name} is empty: a DAG run without a logical date has no data interval. Trigger it with one, or use a time that "
            "every run has, such as {{ dag_run.run_after }}"
        )
        raise InvalidStatementError(statement=_STATEMENT, detail=detail)
    return milliseconds(converted_value(_STATEMENT, name, value, Time))
