"""Statistics and other texts of the log as typed columns, parsed in bulk; a broken text costs its own values only.

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
"""Primitive types whose bounds are JSON values of their own."""

TEXT_TYPES = frozenset({DATE, TIMESTAMP, TIMESTAMP_NTZ})
"""Types whose bounds are JSON strings."""

_MAX_FAILURES = 256
"""Attempts that may fail while broken texts are singled out; after that their whole neighborhood counts as unknown."""

_BLOCK_BYTES = 1 << 20  # Arrow's default; an object must fit into a block
_ONE_OBJECT = r"^[ \t]*\{[^\r\n]*\}[ \t]*$"
_NO_NUMBER = r':[ \t]*"(?:NaN|[+-]?Infinity)"'


def nested_type(types: Mapping[tuple[str, ...], pa.DataType]) -> pa.StructType:
    """The struct type that holds these types at these paths."""
    below: dict[str, dict[tuple[str, ...], pa.DataType]] = {}
    for (head, *path), kind in types.items():
        below.setdefault(head, {})[tuple(path)] = kind
    return pa.struct([(head, kinds[()] if () in kinds else nested_type(kinds)) for head, kinds in below.items()])


def is_object(texts: pa.Array) -> pa.Array:
    """Whether a text looks like one JSON object on one line; false for NULL."""
    return pc.fill_null(pc.match_substring_regex(texts, _ONE_OBJECT), False)


def without_special_floats(texts: pa.Array) -> pa.Array:
    """JSON texts with null instead of ``"NaN"`` and ``"Infinity"``, which Arrow does not read as floats."""
    return pc.replace_substring_regex(texts, _NO_NUMBER, ":null")


def read_objects(texts: pa.Array, schema: pa.Schema) -> pa.Table:
    """One row for each text, a JSON object each; members outside the schema are ignored.

    Raises:
        ValueError: A text is not one object of such members.
    """
    content = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts), "\n")[0].as_buffer()
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    rows = pj.read_json(
        pa.BufferReader(content),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        read_options=pj.ReadOptions(block_size=max(longest + 1, _BLOCK_BYTES)),
    )
    if len(rows) != len(texts):
        raise ValueError("a text has more than one JSON object")  # each holds one at least, so equal numbers mean one each
    return rows


def parse_leniently(values: pa.Array, parse: Callable[[pa.Array], Any], nulls: Callable[[int], Any]) -> list[Any]:
    """The results of ``parse``, in pieces: a piece that fails is halved until the broken element is alone.

    Args:
        values: What is parsed.
        parse: Gives as many rows as it is given; fails with ``ValueError`` or ``InvalidPartitionValueError``.
        nulls: Gives so many rows of nulls, in place of a piece that cannot be parsed.
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
    """Values of the type; NULL for a text that is no such value."""
    arrow = arrow_type(data_type)
    pieces = parse_leniently(texts, lambda piece: typed_values(piece, data_type), lambda rows: pa.nulls(rows, arrow))
    return pa.chunked_array(pieces, arrow)
