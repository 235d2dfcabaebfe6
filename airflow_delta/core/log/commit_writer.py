"""Renders a commit's actions as the content of its commit file: columns in, JSON lines out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import CommitActions
from airflow_delta.core.log.file_columns import log_name

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_FEW = 16  # up to this many files, Python is faster than Arrow
_ROWS_AT_ONCE = 1 << 16  # keeps each text column far below the 2 GiB that 32-bit offsets can address

# Values and JSON's own quotes are concatenated first, and the values are escaped afterwards in the whole text: far faster than
# escaping column by column. Meanwhile JSON's quotes and line ends are bytes that never occur in UTF-8.
_QUOTE, _END = b"\xff", b"\xfe"
_JSON = bytes.maketrans(_QUOTE + _END, b'"\n')
_CONTROL_CHARACTERS = bytes(range(0x20))
_OTHERS = bytes(range(0x20, 0x100))


def commit_json(actions: CommitActions) -> bytes:
    """The content of the commit file: one JSON object per line, ``commitInfo`` first.

    Nulls are left out, except null partition values. Many files are rendered column by column, never as Python objects.

    Protocol: PROTOCOL.md, "Delta Log Entries" and "Actions".
    """
    return b"".join(_lines(actions))


def _lines(actions: CommitActions) -> Iterator[bytes]:
    if actions.commit_info:
        yield _line("commitInfo", actions.commit_info.to_json())
    if actions.protocol:
        yield _line("protocol", actions.protocol.to_json())
    if actions.metadata:
        yield _line("metaData", actions.metadata.to_json())
    for transaction in actions.transactions:
        yield _line("txn", transaction.to_json())
    for domain in actions.domains:
        yield _line("domainMetadata", domain.to_json())
    # removes before adds: a reader that applies lines in order must not drop a file that only gets another deletion vector
    for action, files in (("remove", actions.removes), ("add", actions.adds), ("cdc", actions.changes)):
        if len(files):
            yield from _file_lines(action, files)


def _line(action: str, document: dict[str, Any]) -> bytes:
    return _encode({action: document}).encode() + b"\n"


def _file_lines(action: str, files: pa.Table) -> Iterator[bytes]:
    """The lines of all files; each yielded text holds many lines."""
    if len(files) <= _FEW:
        yield from (_line(action, _document(row)) for row in files.to_pylist())
        return
    for batch in files.to_batches(max_chunksize=_ROWS_AT_ONCE):
        if not batch.num_rows:  # concatenated tables may have empty chunks
            continue
        objects = _object(batch.schema.names, batch.columns)
        lines = _text(b"{%s%s%s:" % (_QUOTE, action.encode(), _QUOTE), objects, b"}" + _END)
        every = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
        yield _escaped(pc.binary_join(every, b"")[0].as_py()).translate(_JSON)


def _document(row: dict[str, Any]) -> dict[str, Any]:
    """The row as a JSON document; Arrow returns a map as a list of its items."""
    return {
        log_name(name): dict(value) if isinstance(value, list) else _document(value) if isinstance(value, dict) else value
        for name, value in row.items()
        if value is not None
    }


def _escaped(text: bytes) -> bytes:
    """The text with all values escaped as JSON strings; the placeholders of JSON's own quotes stay."""
    text = text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    for code in set(text.translate(None, _OTHERS)):
        text = text.replace(bytes([code]), b"\\u%04x" % code)
    return text


def _object(names: list[str], columns: list[pa.Array]) -> pa.Array:
    """One JSON object per row, without null members; the first column has no nulls."""
    parts: list[pa.Array | bytes] = []
    for name, column in zip(names, columns, strict=True):
        if column.null_count == len(column):
            continue
        key = b"%s%s%s%s:" % (b"," if parts else b"{", _QUOTE, log_name(name).encode(), _QUOTE)
        parts += [_text(key, *_value(column))] if column.null_count else [key, *_value(column)]
    return _text(*parts, b"}", when_null=b"")


def _value(values: pa.Array) -> list[pa.Array | bytes]:
    """The parts that, concatenated, are each value's JSON text; null where a part is null."""
    kind = values.type
    if pa.types.is_string(kind):
        return [_QUOTE, values.cast(pa.binary()), _QUOTE]
    if pa.types.is_map(kind):
        items = _text(*_value(values.keys), b":", pc.coalesce(_text(*_value(values.items)), b"null"))
        joined = pc.binary_join(pa.ListArray.from_arrays(values.offsets, items), b",")
        return [b"{", _null_as_in(values, joined), b"}"]
    if pa.types.is_struct(kind):
        return [_null_as_in(values, _object([field.name for field in kind], values.flatten()))]
    return [values.cast(pa.string()).cast(pa.binary())]  # integers and booleans have the same text in Arrow and JSON


def _null_as_in(values: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.if_else(values.is_valid(), texts, pa.scalar(None, texts.type)) if values.null_count else texts


def _text(*parts: pa.Array | bytes, when_null: bytes | None = None) -> pa.Array:
    handling = {} if when_null is None else {"null_handling": "replace", "null_replacement": when_null.decode()}
    return pc.binary_join_element_wise(*parts, b"", **handling)
