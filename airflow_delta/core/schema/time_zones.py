"""Time zones by the names that Spark's ``spark.sql.session.timeZone`` takes."""

from __future__ import annotations

import datetime as dt
import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d\d?)(?::(\d\d?)|(\d\d))?")
_ZERO = ("UTC", "GMT", "UT", "Z")


def zone_named(name: str) -> dt.tzinfo:
    """The zone of a region (``America/New_York``, ``EST``) or an offset (``+02:00``, ``GMT+2``, ``UTC-05:30``).

    Java's other short names, such as ``PST``, are unknown to Python, and so are seconds in an offset.

    Raises:
        ValueError: No such zone is known.
    """
    if name in _ZERO:
        return dt.UTC
    if found := _OFFSET.fullmatch(name):
        offset = dt.timedelta(hours=int(found[2]), minutes=int(found[3] or found[4] or 0))
        return dt.timezone(-offset if found[1] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError) as error:  # OSError: the name of a folder of zones
        raise ValueError(f"{name!r} is no time zone") from error
