"""From a log's ``add`` and ``remove`` structs, as JSON or a checkpoint holds them, to the columns of ``core.actions``."""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions.file_actions import STRING_MAP

_WHEN_MISSING = {"modification_time": 0, "size": 0, "data_change": True}
"""What a required field counts as where a writer left it out."""


def log_name(column: str) -> str:
    """The name that a column has in the log: ``baseRowId`` for ``base_row_id``."""
    head, *tail = column.split("_")
    return head + "".join(word.capitalize() for word in tail)


def file_columns(actions: pa.StructArray, schema: pa.Schema) -> pa.RecordBatch:
    """The actions as columns of ``schema`` (of ``ADD_FILE`` or ``REMOVE_FILE``).

    Args:
        actions: Without null rows. Any field may be missing, others are ignored; a map may be a struct of its keys.
        schema: The columns wanted.

    Raises:
        ValueError: An action has no path.
    """
    found = {each.name: child for each, child in zip(actions.type, actions.flatten(), strict=True)}
    columns = [_column(found.get(log_name(field.name)), field, len(actions)) for field in schema]
    files = pa.RecordBatch.from_arrays(columns, schema=schema)
    if "path" in schema.names and files["path"].null_count:
        raise ValueError("a file action has no path")
    return files


def _column(values: pa.Array | None, field: pa.Field, rows: int) -> pa.Array:
    if values is None or pa.types.is_null(values.type):
        column = pa.nulls(rows, field.type)
    elif pa.types.is_map(field.type):
        column = (
            map_of_struct(values, keep_nulls=field.name == "partition_values") if pa.types.is_struct(values.type) else values
        )
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
    """The struct with exactly the wanted fields; those the log does not have are null."""
    if values.null_count == len(values):
        return pa.nulls(len(values), wanted)
    found = {each.name: child for each, child in zip(values.type, values.flatten(), strict=True)}
    children = [_column(found.get(log_name(field.name)), field, len(values)) for field in wanted]
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=values.is_null())


def map_of_struct(values: pa.StructArray, *, keep_nulls: bool) -> pa.MapArray:
    """One map per row from a struct whose fields are the keys.

    Args:
        values: All fields are strings.
        keep_nulls: Whether a null field becomes a key with a null value; otherwise the row does not have that key.
    """
    rows, width = len(values), values.type.num_fields
    names = [each.name for each in values.type]
    if not width:
        offsets = pa.repeat(pa.scalar(0, pa.int32()), rows + 1)
        return _masked(offsets, pa.array([], pa.string()), pa.array([], pa.string()), values)
    children = values.flatten()  # a null struct has null fields here
    kept = [values.is_valid() if keep_nulls else child.is_valid() for child in children]
    # Row by row instead of field by field: position p of the result is row p // width, field p % width.
    position = pa.array(range(rows * width), pa.int64())
    row = pc.divide(position, width)
    order = pc.add(pc.multiply(pc.subtract(position, pc.multiply(row, width)), rows), row)
    keys = pa.concat_arrays([pa.repeat(pa.scalar(name), rows) for name in names])
    present = pa.concat_arrays(kept).take(order)
    counts = reduce(pc.add, [each.cast(pa.int32()) for each in kept])
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(counts)])
    return _masked(offsets, keys.take(order).filter(present), pa.concat_arrays(children).take(order).filter(present), values)


def _masked(offsets: pa.Array, keys: pa.Array, items: pa.Array, values: pa.StructArray) -> pa.MapArray:
    return pa.MapArray.from_arrays(offsets, keys, items, mask=values.is_null() if values.null_count else None)
