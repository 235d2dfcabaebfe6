"""Converts ``add`` and ``remove`` structs, parsed from JSON or a checkpoint, to the columns of ``core.actions``."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions.file_actions import STRING_MAP

_WHEN_MISSING = {"modification_time": 0, "size": 0, "data_change": True}
"""Defaults of required fields, for actions in which a writer left them out."""


def log_name(column: str) -> str:
    """A column's name in the log: ``baseRowId`` for ``base_row_id``."""
    head, *tail = column.split("_")
    return head + "".join(word.capitalize() for word in tail)


def file_columns(actions: pa.StructArray, schema: pa.Schema, maps: Mapping[str, pa.MapArray] | None = None) -> pa.RecordBatch:
    """The actions as columns of ``schema`` (of ``ADD_FILE`` or ``REMOVE_FILE``).

    Args:
        actions: The actions, without null rows. Any field may be missing; unknown ones are ignored.
        schema: The columns wanted.
        maps: Replacements of fields, by name in the log.

    Raises:
        ValueError: An action has no path.
    """
    found = {field.name: child for field, child in zip(actions.type, actions.flatten(), strict=True)}
    found |= maps or {}
    columns = [_column(found.get(log_name(field.name)), field, len(actions)) for field in schema]
    files = pa.RecordBatch.from_arrays(columns, schema=schema)
    if "path" in schema.names and files["path"].null_count:
        raise ValueError("a file action has no path")
    return files


def _column(values: pa.Array | None, field: pa.Field, rows: int) -> pa.Array:
    if values is None or pa.types.is_null(values.type):
        column = pa.nulls(rows, field.type)
    elif pa.types.is_struct(field.type):
        column = _struct(values, field.type)
    else:
        column = values
    if column.type != field.type:
        column = column.cast(field.type)
    if field.nullable or not column.null_count or field.name == "path":
        return column
    if pa.types.is_map(field.type):
        return pc.if_else(column.is_valid(), column, pa.scalar([], STRING_MAP))
    return pc.fill_null(column, _WHEN_MISSING[field.name])


def _struct(values: pa.StructArray, wanted: pa.StructType) -> pa.StructArray:
    """The struct with exactly the wanted fields; those missing in the log are null."""
    if values.null_count == len(values):
        return pa.nulls(len(values), wanted)
    found = {field.name: child for field, child in zip(values.type, values.flatten(), strict=True)}
    children = [_column(found.get(log_name(field.name)), field, len(values)) for field in wanted]
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=values.is_null())
