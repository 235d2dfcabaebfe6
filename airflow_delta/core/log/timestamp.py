"""Conversion of the times that users give."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow_delta.core.errors import InvalidStatementError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(timestamp: int | str) -> int:
    """A time as milliseconds since the epoch; ISO text without a zone is UTC.

    Raises:
        InvalidStatementError: The value is neither a number nor the text of an ISO date or time.
    """
    if isinstance(timestamp, int):
        return timestamp
    try:
        time = datetime.fromisoformat(timestamp)
    except (TypeError, ValueError) as error:
        raise InvalidStatementError(
            statement=f"the timestamp {timestamp!r}",
            detail="expected an ISO date or time, such as 2024-01-31 or 2024-01-31T12:00:00Z",
        ) from error
    return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)


def iso_text(timestamp: int) -> str:
    """Milliseconds since the epoch as ISO text.

    Raises:
        InvalidStatementError: The time is outside of the years 1 to 9999.
    """
    try:
        return (_EPOCH + timedelta(milliseconds=timestamp)).isoformat()
    except OverflowError as error:
        detail = "expected milliseconds since the epoch, of the years 1 to 9999"
        raise InvalidStatementError(statement=f"the timestamp {timestamp}", detail=detail) from error
