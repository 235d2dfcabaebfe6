"""The file actions of JSON lines as columns: many files in one go, parsed by Arrow.

Protocol: PROTOCOL.md, "Add File and Remove File", "Add CDC File". Unknown fields are ignored; a null field is an absent one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from airflow_delta.core.actions import ADD_FILE, CHANGE_FILE, REMOVE_FILE, Metadata
from airflow_delta.core.errors import CorruptLogError
from airflow_delta.core.log.blame import UNREADABLE
from airflow_delta.core.log.file_columns import file_columns, log_name
from airflow_delta.core.log.small_actions import LogText
from airflow_delta.core.schema.schema_json import parse_schema

VERSION = pa.field("version", pa.int64())
"""Last column of the file actions: the version whose commit holds the action."""

_BLOCK_SIZE = 4 << 20  # Bytes that one thread parses; large enough that columns are built in few pieces.
_PARTITION_VALUES, _TAGS = (
    re.compile(rb'"%s"\s*:\s*(\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\})' % key) for key in (b"partitionValues", b"tags")
)
_BRACE = ord("{")
_PHYSICAL_NAME = "delta.columnMapping.physicalName"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileActions:
    """The file actions of some files in the order of their lines; each table ends with the column ``VERSION``.

    Attributes:
        adds: Columns ``ADD_FILE``.
        removes: Columns ``REMOVE_FILE``.
        changes: Columns ``CHANGE_FILE``.
    """

    adds: pa.Table = field(default_factory=lambda: ADD_FILE.append(VERSION).empty_table())
    removes: pa.Table = field(default_factory=lambda: REMOVE_FILE.append(VERSION).empty_table())
    changes: pa.Table = field(default_factory=lambda: CHANGE_FILE.append(VERSION).empty_table())


def file_actions(table: str, texts: Sequence[LogText], metadata: Sequence[tuple[int, Metadata]]) -> FileActions:
    """The file actions of these files.

    Args:
        table: For errors.
        texts: The files, versions ascending.
        metadata: All metadata in these files with their versions.

    Raises:
        CorruptLogError: A line is no JSON object, or a file action is not what the protocol says.
    """
    lines = [line for text in texts for line in text.lines]
    if not lines:
        return FileActions()
    body = b"\n".join(lines)
    is_from_metadata_on = bool(metadata) and metadata[0][0] == texts[0].version
    try:
        schema = _json_schema(body, [each for _, each in metadata], is_from_metadata_on=is_from_metadata_on)
        parse = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    except UNREADABLE as error:  # keys that are no text
        raise CorruptLogError(table=table, file=texts[-1].path, detail=f"{type(error).__name__}: {error}") from error
    try:
        return _parsed(body, texts, parse)
    except UNREADABLE as error:  # where many threads parse, Arrow does not tell the line
        detail = f"{type(error).__name__}: {error}"
        whole = CorruptLogError(table=table, file=texts[-1].path, detail=detail)
        raise _first_corrupt_line(table, texts, parse) or whole from error


def _parsed(body: bytes, texts: Sequence[LogText], parse: pyarrow.json.ParseOptions) -> FileActions:
    _check_lines(body, texts)
    longest = max(len(line) for text in texts for line in text.lines)
    block = pyarrow.json.ReadOptions(block_size=max(_BLOCK_SIZE, longest + 1))
    rows = pyarrow.json.read_json(pa.BufferReader(body), read_options=block, parse_options=parse)
    versions = _versions(texts)
    if len(rows) != len(versions):  # Arrow takes {...}{...} for two rows
        raise ValueError("a line holds more than one value")
    batches = rows.append_column(VERSION, pa.chunked_array([versions])).to_batches()
    return FileActions(
        adds=_table(batches, "add", ADD_FILE),
        removes=_table(batches, "remove", REMOVE_FILE),
        changes=_table(batches if "cdc" in rows.column_names else (), "cdc", CHANGE_FILE),
    )


def _check_lines(body: bytes, texts: Sequence[LogText]) -> None:
    """Raise for what Arrow's JSON reader cannot be given: it dies of a line that is ``null``, and takes any bytes for text."""
    if any(line[0] != _BRACE and not line.lstrip().startswith(b"{") for text in texts for line in text.lines):
        raise ValueError("the line is no JSON object")
    ends = pa.array([0, len(body)], pa.int64()).buffers()[1]
    pa.LargeStringArray.from_buffers(1, ends, pa.py_buffer(body)).validate(full=True)


def _versions(texts: Sequence[LogText]) -> pa.Int64Array:
    """The version of each line."""
    found = [text for text in texts if text.lines]
    ends = pc.cumulative_sum(pa.array([len(text.lines) for text in found], pa.int64()))
    versions = pa.array([text.version for text in found], pa.int64())
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, versions))


def _first_corrupt_line(table: str, texts: Sequence[LogText], parse: pyarrow.json.ParseOptions) -> CorruptLogError | None:
    for text in texts:
        for number, line in enumerate(text.lines, 1):
            try:
                _parsed(line, [LogText(path=text.path, version=text.version, lines=[line])], parse)
            except UNREADABLE as error:
                return text.corrupt(table, number, f"{type(error).__name__}: {error}")
    return None


def _table(batches: Iterable[pa.RecordBatch], key: str, schema: pa.Schema) -> pa.Table:
    """The actions below this key, in pieces as they were parsed: all texts together may be too long for one array."""
    columns = schema.append(VERSION)
    pieces = []
    for batch in batches:
        present = batch.filter(pc.is_valid(batch[key]))
        files = file_columns(present[key], schema)
        pieces.append(pa.RecordBatch.from_arrays([*files.columns, present[VERSION.name]], schema=columns))
    return pa.Table.from_batches(pieces, columns)


def _json_schema(body: bytes, metadata: Sequence[Metadata], *, is_from_metadata_on: bool) -> pa.Schema:
    """What Arrow is to parse: maps as structs of all keys that occur, because Arrow must know them before.

    Where the commits begin with the table's metadata, all partition columns are known from it. Otherwise each file is asked:
    some writers leave out keys of null values, so that no file speaks for the others.
    """
    partitions = _PARTITION_VALUES.finditer(body)
    tags = _TAGS.finditer(body) if b'"tags"' in body else ()
    keys = {
        "partition_values": _struct_of_keys(
            [*_keys(islice(partitions, 1) if is_from_metadata_on else partitions), *map(_physical_partition_columns, metadata)]
        ),
        "tags": _struct_of_keys(_keys(tags)),
    }
    actions = {"add": ADD_FILE, "remove": REMOVE_FILE, **({"cdc": CHANGE_FILE} if b'"cdc"' in body else {})}
    return pa.schema([(key, _json_type(columns, keys)) for key, columns in actions.items()])


def _json_type(fields: Iterable[pa.Field], keys: Mapping[str, pa.StructType]) -> pa.StructType:
    def of(column: pa.Field) -> pa.DataType:
        if pa.types.is_map(column.type):
            return keys[column.name]
        return _json_type(column.type, keys) if pa.types.is_struct(column.type) else column.type

    return pa.struct([(log_name(each.name), of(each)) for each in fields])


def _struct_of_keys(found: Iterable[Iterable[str]]) -> pa.StructType:
    return pa.struct([(key, pa.string()) for key in dict.fromkeys(key for keys in found for key in keys)])


def _keys(objects: Iterable[re.Match[bytes]]) -> Iterator[Iterable[str]]:
    """The keys of the objects; equal objects, of which there are many, are parsed once."""
    return (json.loads(text).keys() for text in {match[1] for match in objects})


def _physical_partition_columns(metadata: Metadata) -> Iterable[str]:
    fields = {each.name: each for each in parse_schema(metadata.schema_string).fields}
    return [fields[name].metadata.get(_PHYSICAL_NAME, name) for name in metadata.partition_columns if name in fields]
