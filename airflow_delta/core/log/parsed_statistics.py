"""Converts the ``stats_parsed`` columns of a checkpoint to the JSON text of ``stats``, column by column.

Protocol: PROTOCOL.md, "Checkpoint Schema", "Per-file Statistics".
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

_CONTROL_CHARACTERS = "[\\x00-\\x1f]"
_FIRST_INSTANT, _LAST_INSTANT = dt.datetime.min, dt.datetime.max  # noqa: DTZ901 - compared in UTC, or without a zone


def statistics_json(parsed: pa.StructArray, instants: Collection[str] = ()) -> pa.StringArray:
    """The statistics as JSON text; null where there are no statistics. Leaves of types without a JSON form are left out.

    Args:
        parsed: The ``stats_parsed`` structs.
        instants: Dotted paths of leaves that are UTC instants, although Arrow reads them as timestamps without a zone (INT96).
    """
    return _json(parsed, "", instants)


def _json(values: pa.Array, path: str, instants: Collection[str]) -> pa.StringArray:
    kind = values.type
    if pa.types.is_struct(kind):
        text = _object(values, path, instants)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = _quoted(_escaped(values.cast(pa.string())))
    elif pa.types.is_timestamp(kind):
        text = _quoted(_instant(values, zone="Z" if kind.tz or path in instants else ""))
    elif pa.types.is_date(kind):
        text = _quoted(values.cast(pa.string()))
    elif pa.types.is_floating(kind):
        text = _float(values)
    elif pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind):
        text = values.cast(pa.string())
    else:
        text = pa.nulls(len(values), pa.string())
    return text


def _object(values: pa.StructArray, path: str, instants: Collection[str]) -> pa.StringArray:
    members = [pa.repeat(pa.scalar("{"), len(values))]
    for field, child in zip(values.type, values.flatten(), strict=True):
        text = _json(child, f"{path}.{field.name}".lstrip("."), instants)
        member = pc.binary_join_element_wise(f"{json.dumps(field.name)}:", text, ",", "")
        members.append(pc.fill_null(member, ""))  # a null value counts as absent
    inside = pc.utf8_rtrim(pc.binary_join_element_wise(*members, ""), ",")
    whole = pc.binary_join_element_wise(inside, "}", "")
    return pc.if_else(values.is_valid(), whole, pa.scalar(None, pa.string()))


def _quoted(texts: pa.Array) -> pa.StringArray:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _escaped(texts: pa.Array) -> pa.StringArray:
    texts = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    if pc.any(pc.match_substring_regex(texts, _CONTROL_CHARACTERS)).as_py():
        for character in map(chr, range(0x20)):
            texts = pc.replace_substring(texts, character, json.dumps(character)[1:-1])
    return texts


def _instant(values: pa.Array, *, zone: str) -> pa.StringArray:
    """ISO text with milliseconds, rounded down, also before 1970: readers add one millisecond to a maximum.

    Null outside of the years 1 to 9999: Arrow's text of a year after 32767 shows a different year.
    """
    exact = values.cast(pa.timestamp("us"), safe=False)
    is_sayable = pc.and_(pc.greater_equal(exact, _FIRST_INSTANT), pc.less_equal(exact, _LAST_INSTANT))
    floored = pc.floor_temporal(pc.if_else(is_sayable, exact, pa.scalar(None, exact.type)), unit="millisecond")
    return pc.strftime(floored.cast(pa.timestamp("ms")), format=f"%Y-%m-%dT%H:%M:%S{zone}")


def _float(values: pa.Array) -> pa.StringArray:
    texts = values.cast(pa.string())
    for arrow, log in (("nan", '"NaN"'), ("-nan", '"NaN"'), ("inf", '"Infinity"'), ("-inf", '"-Infinity"')):
        texts = pc.if_else(pc.equal(texts, arrow), log, texts)
    return texts
