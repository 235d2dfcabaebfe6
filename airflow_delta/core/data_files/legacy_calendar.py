"""Files in which Spark 2 (or a later version in legacy mode) wrote dates and timestamps of the Julian calendar.

Recent values are the same in both calendars, and nearly all tables have no others, so such a file is read until it contains a
value from before the calendar change. Only Spark's own reader can convert those.

Spark: ``DataSourceUtils.datetimeRebaseSpec`` and ``int96RebaseSpec``.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

SPARK_VERSION_KEY = b"org.apache.spark.version"

_LEGACY_MARKS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_FIRST_VERSION_WITHOUT = (3, 1)  # 3.0 wrote INT96 in the old way without a mark
_FIRST_EQUAL_DATE = dt.date(1582, 10, 15)
_FIRST_EQUAL_INSTANT = dt.datetime(1900, 1, 1, tzinfo=dt.UTC)  # from here on, local times agree in every zone


def is_in_legacy_calendar(key_values: Mapping[bytes, bytes]) -> bool:
    """Whether a footer's key-value metadata marks the file as written in the legacy calendar."""
    if any(mark in key_values for mark in _LEGACY_MARKS):
        return True
    version = re.match(rb"(\d+)\.(\d+)", key_values.get(SPARK_VERSION_KEY, b""))
    return version is not None and (int(version[1]), int(version[2])) < _FIRST_VERSION_WITHOUT


def holds_ancient_values(batch: pa.RecordBatch) -> bool:
    """Whether the batch contains a date or timestamp (at any depth) for which the two calendars differ."""
    return any(_is_ancient(leaf) for column in batch.columns for leaf in _leaves(column))


def _leaves(array: pa.Array) -> Iterator[pa.Array]:
    if pa.types.is_struct(array.type):
        children = array.flatten()
    elif pa.types.is_map(array.type):
        children = [array.keys, array.items]
    elif pa.types.is_list(array.type):
        children = [array.flatten()]
    else:
        yield array
        return
    for child in children:
        yield from _leaves(child)


def _is_ancient(leaf: pa.Array) -> bool:
    if pa.types.is_date32(leaf.type):
        first = pa.scalar(_FIRST_EQUAL_DATE)
    elif pa.types.is_timestamp(leaf.type):
        first = pa.scalar(_FIRST_EQUAL_INSTANT if leaf.type.tz else _FIRST_EQUAL_INSTANT.replace(tzinfo=None), leaf.type)
    else:
        return False
    return bool(pc.any(pc.less(leaf, first)).as_py())
