"""A commit's actions as the text of its file: columns in, JSON lines out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import CommitActions
from airflow_delta.core.log.file_columns import log_name

_ROWS_AT_ONCE = 1 << 16  # keeps each text column far below the 2 GiB that 32-bit offsets can address
_CONTROL_CHARACTERS = "[\x00-\x1f]"


def commit_json(actions: CommitActions) -> bytes:
    """The content of the commit file: one JSON object per line, the commit info first.

    Nulls are left out, except null partition values. Files are rendered as columns, never as Python objects.

    Protocol: PROTOCOL.md, "Delta Log Entries" and "Actions".
    """
    return b"".join(f"{line}\n".encode() for line in _lines(actions))


def _lines(actions: CommitActions) -> Iterator[str]:
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
    # removes before adds: a reader that applies lines in order must not drop a file that only got another deletion vector
    yield from _file_lines("remove", actions.removes)
    yield from _file_lines("add", actions.adds)
    yield from _file_lines("cdc", actions.changes)


def _line(action: str, document: dict[str, Any]) -> str:
    return json.dumps({action: document}, ensure_ascii=False, separators=(",", ":"))


def _file_lines(action: str, files: pa.Table) -> Iterator[str]:
    """The lines of all files, many lines per text."""
    for batch in files.to_batches(max_chunksize=_ROWS_AT_ONCE):
        if batch.num_rows:
            lines = _text(f'{{"{action}":', _object(batch.schema.names, batch.columns), "}")
            yield pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines), "\n")[0].as_py()


def _json(values: pa.Array) -> pa.Array:
    """Each value as JSON text; null stays null."""
    if pa.types.is_string(values.type):
        return _text('"', _escaped(values), '"')
    if pa.types.is_map(values.type):
        items = _text(_json(values.keys), ":", pc.coalesce(_json(values.items), "null"))
        joined = pc.binary_join(pa.ListArray.from_arrays(values.offsets, items), ",")
        return pc.if_else(values.is_valid(), _text("{", joined, "}"), pa.scalar(None, pa.string()))
    if pa.types.is_struct(values.type):
        members = _object([each.name for each in values.type], values.flatten())
        return pc.if_else(values.is_valid(), members, pa.scalar(None, pa.string()))
    return values.cast(pa.string())  # integers and booleans read alike in Arrow and JSON


def _object(names: list[str], columns: list[pa.Array]) -> pa.Array:
    """One JSON object per row, null members left out; at least one column holds a value."""
    members = [
        pc.coalesce(_text(f',"{log_name(name)}":', _json(column)), "")
        for name, column in zip(names, columns, strict=True)
        if column.null_count < len(column)
    ]
    return _text(pc.binary_replace_slice(_text(*members), start=0, stop=1, replacement="{"), "}")


def _text(*parts: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def _escaped(values: pa.Array) -> pa.Array:
    """The text between the quotes of a JSON string."""
    values = pc.replace_substring(pc.replace_substring(values, "\\", "\\\\"), '"', '\\"')
    if pc.any(pc.match_substring_regex(values, _CONTROL_CHARACTERS)).as_py():
        for code in range(0x20):
            values = pc.replace_substring(values, chr(code), f"\\u{code:04x}")
    return values
