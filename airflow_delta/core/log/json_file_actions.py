"""Parses the file actions of JSON lines to columns: many files at once, with Arrow.

Protocol: PROTOCOL.md, "Add File and Remove File", "Add CDC File". Unknown fields are ignored; a null field is an absent one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain, islice, repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from airflow_delta.core.actions import ADD_FILE, CHANGE_FILE, REMOVE_FILE
from airflow_delta.core.json_text import parse_json
from airflow_delta.core.log.corrupt_log_errors import UNREADABLE, described
from airflow_delta.core.log.file_columns import file_columns, log_name
from airflow_delta.core.log.json_maps import map_texts, maps_of
from airflow_delta.core.log.non_file_actions import LogText

VERSION = pa.field("version", pa.int64())
"""Last column of the file actions: the version whose commit holds the action."""

_BLOCK_SIZE = 4 << 20  # bytes that one thread parses; large enough that columns have few chunks
_BRACE = ord("{")
_ACTIONS = {"add": ADD_FILE, "remove": REMOVE_FILE, "cdc": CHANGE_FILE}
_MAPS = ("partitionValues", "tags")
_NUMBER = "number"  # line number


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileActions:
    """The file actions of several log files, in the order of lines; the last column of each table is ``VERSION``.

    Attributes:
        adds: Columns ``ADD_FILE``.
        removes: Columns ``REMOVE_FILE``.
        changes: Columns ``CHANGE_FILE``.
    """

    adds: pa.Table = field(default_factory=lambda: ADD_FILE.append(VERSION).empty_table())
    removes: pa.Table = field(default_factory=lambda: REMOVE_FILE.append(VERSION).empty_table())
    changes: pa.Table = field(default_factory=lambda: CHANGE_FILE.append(VERSION).empty_table())


def file_actions(table: str, texts: Sequence[LogText]) -> FileActions:
    """The file actions of these log files, in ascending order of versions.

    Raises:
        CorruptLogError: A line is not a JSON object, or a file action violates the protocol.
    """
    lines = list(chain.from_iterable(text.lines for text in texts))
    if not lines:
        return FileActions()
    versions = _versions(texts)
    try:
        return _parsed(lines, versions)
    except UNREADABLE as error:  # with several threads, Arrow does not report the line
        number, cause = _first_corrupt_line(lines, versions) or (len(lines) - 1, error)
        text, of_text = _place(texts, number)
        raise text.corrupt(table, of_text, described(cause)) from cause


def _versions(texts: Sequence[LogText]) -> pa.Int64Array:
    """The version of each line."""
    found = [text for text in texts if text.lines]
    ends = pc.cumulative_sum(pa.array([len(text.lines) for text in found], pa.int64()))
    versions = pa.array([text.version for text in found], pa.int64())
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, versions))


def _first_corrupt_line(lines: Sequence[bytes], versions: pa.Int64Array) -> tuple[int, BaseException] | None:
    """The line's index and the error; found by bisection, so that all lines are parsed at most twice."""
    first, end = 0, len(lines)
    while end - first > 1:
        middle = (first + end) // 2
        try:
            _parsed(lines[first:middle], versions[first:middle])
        except UNREADABLE:
            end = middle
        else:
            first = middle
    try:
        _parsed(lines[first:end], versions[first:end])
    except UNREADABLE as error:
        return first, error
    return None


def _place(texts: Iterable[LogText], number: int) -> tuple[LogText, int]:
    """The log file that contains a line, and the line's number in that file, from 1."""
    places = chain.from_iterable(zip(repeat(text), range(1, len(text.lines) + 1)) for text in texts)
    return next(islice(places, number, None))


def _parsed(lines: Sequence[bytes], versions: pa.Int64Array) -> FileActions:
    body = b"\n".join(lines)
    texts = _texts(body, lines)
    longest = max(map(len, lines))
    actions = {key: columns for key, columns in _ACTIONS.items() if key != "cdc" or b'"cdc"' in body}
    rows = pyarrow.json.read_json(
        pa.BufferReader(body),
        read_options=pyarrow.json.ReadOptions(block_size=max(_BLOCK_SIZE, longest + 1)),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=pa.schema([(key, _json_type(columns)) for key, columns in actions.items()]),
            unexpected_field_behavior="ignore",
        ),
    )
    if len(rows) != len(lines):  # Arrow reads {...}{...} as two rows
        raise ValueError("a line holds more than one value")
    is_action = [pc.is_valid(rows[key]) for key in actions]
    is_alone = pc.less(reduce(pc.add, (mask.cast(pa.int8()) for mask in is_action)), 2)
    for name in _MAPS:
        found = map_texts(texts, name) if f'"{name}"'.encode() in body else pa.nulls(len(lines), pa.large_string())
        rows = rows.append_column(name, found if pc.all(is_alone).as_py() else pc.if_else(is_alone, found, None))
    rows = rows.append_column(VERSION, versions).append_column(_NUMBER, pa.array(range(len(lines)), pa.int64()))
    tables = {key: _table(rows.filter(present), key, lines) for key, present in zip(actions, is_action, strict=True)}
    return FileActions(adds=tables["add"], removes=tables["remove"], **({"changes": tables["cdc"]} if "cdc" in tables else {}))


def _texts(body: bytes, lines: Sequence[bytes]) -> pa.LargeStringArray:
    """The lines as an Arrow array, line feeds included.

    Raises:
        ValueError: A line is not fit for Arrow's JSON reader, which crashes on a line ``null`` and accepts any bytes as text.
    """
    if any(line[0] != _BRACE and not line.lstrip().startswith(b"{") for line in lines):
        raise ValueError("the line is not a JSON object")
    ends = pc.cumulative_sum(pa.array([len(line) + 1 for line in lines], pa.int64()))
    ends = pc.min_element_wise(ends, len(body))  # the last line has no line feed
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends])
    texts = pa.LargeStringArray.from_buffers(len(lines), offsets.buffers()[1], pa.py_buffer(body))
    texts.validate(full=True)
    return texts


def _table(rows: pa.Table, key: str, lines: Sequence[bytes]) -> pa.Table:
    """The actions under this key, in chunks as parsed: all texts together may be too long for one array."""
    schema = _ACTIONS[key]
    columns = schema.append(VERSION)
    pieces = []
    for batch in rows.to_batches():
        maps = {name: _maps(batch, key, name, lines) for name in _MAPS}
        files = file_columns(batch[key], schema, maps)
        pieces.append(pa.RecordBatch.from_arrays([*files.columns, batch[VERSION.name]], schema=columns))
    return pa.Table.from_batches(pieces, columns)


def _maps(rows: pa.RecordBatch, key: str, name: str, lines: Sequence[bytes]) -> pa.MapArray:
    numbers = rows[_NUMBER]

    def of_line(row: int) -> list[tuple[str, Any]]:
        return list(parse_json(lines[numbers[row].as_py()], unique_names=True)[key][name].items())

    return maps_of(pc.struct_field(rows[key], name).is_valid(), rows[name], of_line)


def _json_type(fields: Iterable[pa.Field]) -> pa.StructType:
    """The type that Arrow is to parse: of a map, only whether it is present."""

    def of(column: pa.Field) -> pa.DataType:
        if pa.types.is_map(column.type):
            return pa.struct([])
        return _json_type(column.type) if pa.types.is_struct(column.type) else column.type

    return pa.struct([(log_name(field.name), of(field)) for field in fields])
