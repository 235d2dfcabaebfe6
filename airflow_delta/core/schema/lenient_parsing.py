"""Parses statistics and other texts of the log to typed columns in bulk; an invalid text only loses its own values.

Protocol: PROTOCOL.md, "Per-file Statistics".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from airflow_delta.core.errors import InvalidPartitionValueError
from airflow_delta.core.schema.arrow_conversion import arrow_type
from airflow_delta.core.schema.data_types import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
)
from airflow_delta.core.schema.partition_values import typed_values

JSON_TYPES = frozenset({BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE, STRING})
"""Primitive types whose bounds have a JSON form of their own."""

TEXT_TYPES = frozenset({DATE, TIMESTAMP, TIMESTAMP_NTZ})
"""Types whose bounds are written as JSON strings."""

_MAX_FAILURES = 256
"""Most failing attempts to isolate invalid texts; after that, whole pieces with an invalid text count as unknown."""

_BLOCK_BYTES = 1 << 20  # Arrow's default; an object must fit into one block
_ONE_OBJECT = r"^[ \t]*\{[^\r\n]*\}[ \t]*$"
_NO_NUMBER = r':[ \t]*"(?:NaN|[+-]?Infinity)"'


def nested_type(types: Mapping[tuple[str, ...], pa.DataType]) -> pa.StructType:
    """The struct type with these types at these paths."""
    below: dict[str, dict[tuple[str, ...], pa.DataType]] = {}
    for (head, *path), kind in types.items():
        below.setdefault(head, {})[tuple(path)] = kind
    return pa.struct([(head, kinds[()] if () in kinds else nested_type(kinds)) for head, kinds in below.items()])


def is_object(texts: pa.Array) -> pa.Array:
    """Whether each text looks like a single-line JSON object; false for NULL."""
    return pc.fill_null(pc.match_substring_regex(texts, _ONE_OBJECT), False)


def without_special_floats(texts: pa.Array) -> pa.Array:
    """JSON texts with null instead of ``"NaN"`` and ``"Infinity"``, which Arrow does not parse as floats."""
    return pc.replace_substring_regex(texts, _NO_NUMBER, ":null")


def read_objects(texts: pa.Array, schema: pa.Schema) -> pa.Table:
    """One row for each text, which must be a JSON object; members outside of the schema are ignored.

    Raises:
        ValueError: A text is not a single object with members of these types.
    """
    content = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts), "\n")[0].as_buffer()
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    rows = pj.read_json(
        pa.BufferReader(content),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        read_options=pj.ReadOptions(block_size=max(longest + 1, _BLOCK_BYTES)),
    )
    if len(rows) != len(texts):
        raise ValueError("a text has more than one JSON object")  # each has at least one, so equal numbers mean one each
    return rows


def parse_leniently(values: pa.Array, parse: Callable[[pa.Array], Any], nulls: Callable[[int], Any]) -> list[Any]:
    """The results of ``parse``, in pieces: a failing piece is bisected until the invalid element is isolated.

    Args:
        values: The values to parse.
        parse: Returns one row per value; raises ``ValueError`` or ``InvalidPartitionValueError``.
        nulls: Returns a number of rows of nulls, for a piece that cannot be parsed.
    """
    pieces, todo, failures = [], [values], 0
    while todo:
        piece = todo.pop()
        try:
            pieces.append(parse(piece))
        except (ValueError, InvalidPartitionValueError):
            failures += 1
            if len(piece) == 1 or failures > _MAX_FAILURES:
                pieces.append(nulls(len(piece)))
            else:
                half = len(piece) // 2
                todo += [piece.slice(half), piece.slice(0, half)]
    return pieces


def typed_leniently(texts: pa.Array, data_type: DataType) -> pa.ChunkedArray:
    """Values of the type; NULL for a text that is not such a value."""
    arrow = arrow_type(data_type)
    pieces = parse_leniently(texts, lambda piece: typed_values(piece, data_type), lambda rows: pa.nulls(rows, arrow))
    return pa.chunked_array(pieces, arrow)
