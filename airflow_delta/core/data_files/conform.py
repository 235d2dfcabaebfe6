"""Conforms Arrow data to a table's schema: matches columns by name or id, and casts types, from a fixed list of lossless casts.

If types are equal nothing is copied, so that conforming every batch of a scan costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from airflow_delta.core.data_files.shredded_variant import is_shredded, unshredded
from airflow_delta.core.schema.arrow_conversion import FIELD_ID, FOUND_BY
from airflow_delta.core.schema.column_names import name_key

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

_kinds = pa.types
_NO_METADATA: Mapping[bytes, bytes] = {}


def conform(rows: Rows, target: pa.Schema, *, by_id: bool = False) -> Rows:
    """The rows with exactly the columns of ``target``, matched as of ``find_fields``; missing ones (nested too) are all NULL.

    Other columns are dropped. Nullability is not checked: the schema states the table's constraints.

    Args:
        rows: A record batch or a table; dictionaries, views and large types are converted.
        target: The schema of the table, as ``arrow_schema`` or, with column mapping, ``reading_schema`` returns it.
        by_id: Whether columns with an id are matched by it.

    Raises:
        pa.ArrowInvalid: A column has another type than the table's without a lossless cast, or a value does not fit; the text
        names the column.
    """
    conformer = _Conformer(by_id=by_id, is_mapped=any(field.metadata for field in target))
    if not conformer.is_mapped and rows.schema.equals(target):
        return rows
    if not target.names:
        return rows.select([])  # keeps the number of rows, which a batch made of no columns would lose
    columns = [
        pa.nulls(rows.num_rows, field.type) if index is None else conformer.column(rows.column(index), field)
        for index, field in zip(find_fields(rows.schema, target, by_id=by_id), target, strict=True)
    ]
    return type(rows).from_arrays(columns, schema=target)


def find_fields(available: Iterable[pa.Field], wanted: Iterable[pa.Field], *, by_id: bool = False) -> list[int | None]:
    """The index of the available field that matches each wanted one; None without a match.

    A field is matched by its id (if ``by_id``), else by exactly the name in its metadata, else by its own name: the same name,
    or the only one that differs in case. Protocol: PROTOCOL.md, "Reader Requirements for Column Mapping".

    Raises:
        pa.ArrowInvalid: A name matches no field exactly, and several if case is ignored.
    """
    fields = list(available)
    by_name = {field.name: index for index, field in reversed(list(enumerate(fields)))}
    by_key: dict[str, list[int]] = {}
    ids: dict[bytes, int] = {}
    if by_id:
        ids = {(field.metadata or _NO_METADATA).get(FIELD_ID, b""): index for index, field in enumerate(fields)}
    found = []
    for field in wanted:
        metadata = field.metadata or _NO_METADATA
        if by_id and FIELD_ID in metadata:
            found.append(ids.get(metadata[FIELD_ID]))
        elif FOUND_BY in metadata:
            found.append(by_name.get(metadata[FOUND_BY].decode()))
        else:
            if field.name not in by_name and not by_key:
                for name, index in by_name.items():
                    by_key.setdefault(name_key(name), []).append(index)
            found.append(
                by_name[field.name] if field.name in by_name else _only(field.name, by_key.get(name_key(field.name), []))
            )
    return found


def _only(name: str, indexes: list[int]) -> int | None:
    if len(indexes) > 1:
        raise pa.ArrowInvalid(f"{len(indexes)} columns of the file differ from {name!r} in case only")
    return indexes[0] if indexes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Conformer:
    """Conforms arrays, matching fields at every level.

    Attributes:
        by_id: Whether columns with an id are matched by it.
        is_mapped: Whether column mapping is on, so that equal types do not imply matching fields: names do not identify them.
    """

    by_id: bool
    is_mapped: bool

    def column(self, column: pa.Array | pa.ChunkedArray, field: pa.Field) -> pa.Array | pa.ChunkedArray:
        try:
            if isinstance(column, pa.ChunkedArray):
                return pa.chunked_array([self.array(chunk, field.type) for chunk in column.chunks], field.type)
            return self.array(column, field.type)
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(f"column {field.name}: {error}") from error

    def array(self, array: pa.Array, target: pa.DataType) -> pa.Array:
        """The values as ``target``; the array itself if its type is equal. Raises as ``conform``."""
        source = array.type
        # Equality of list types ignores the name of the element, and so do all readers.
        if source == target and not (self.is_mapped and _kinds.is_nested(target)):
            return array
        if isinstance(source, pa.BaseExtensionType):
            return self.array(array.storage, target)
        if _kinds.is_dictionary(source):
            return self.array(array.dictionary_decode(), target)
        if _kinds.is_null(source):
            return pa.nulls(len(array), target)
        if is_shredded(source, target):
            return unshredded(array)
        if _kinds.is_struct(source) and _kinds.is_struct(target):
            return self.struct(array, target)
        if _kinds.is_map(source) and _kinds.is_map(target):
            keys, items = self.array(array.keys, target.key_type), self.array(array.items, target.item_type)
            entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
            return _with_values(array, target, entries)
        if _is_list(source) and _kinds.is_list(target):
            lists = array if _kinds.is_list(source) else array.cast(pa.list_(source.value_field))
            return _with_values(lists, target, self.array(lists.values, target.value_type))
        if not _is_lossless(source, target):
            raise pa.ArrowInvalid(f"{source} is not {target}")
        return array.cast(target)

    def struct(self, array: pa.StructArray, target: pa.StructType) -> pa.Array:
        children = [
            pa.nulls(len(array), field.type) if index is None else self.array(array.field(index), field.type)
            for index, field in zip(find_fields(array.type, target, by_id=self.by_id), target, strict=True)
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _with_values(array: pa.ListArray | pa.MapArray, target: pa.DataType, values: pa.Array) -> pa.Array:
    """The same lists with other values; shares validity and offsets, and keeps slices."""
    return pa.Array.from_buffers(target, len(array), array.buffers()[:2], array.null_count, array.offset, [values])


def _is_list(source: pa.DataType) -> bool:
    return bool(_kinds.is_list(source) or _kinds.is_large_list(source) or _kinds.is_fixed_size_list(source))


def _is_lossless(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether the cast keeps every value or fails; allows what Parquet stores wider, and types that other engines write.

    Numbers only widen, except that integers are cast by value: Parquet has no type below 32 bits, so writers that omit its
    annotations store a byte as INT32.
    """
    if _kinds.is_integer(source):
        return _kinds.is_integer(target) or _kinds.is_decimal(target) or _kinds.is_float64(target)
    if _kinds.is_floating(source):
        return _kinds.is_floating(target) and source.bit_width <= target.bit_width
    if _kinds.is_decimal(source):
        return _kinds.is_decimal(target)
    if _kinds.is_timestamp(source) and _kinds.is_timestamp(target):
        # Many files hold UTC without saying so (INT96 cannot say it), but an instant is never read as a local time.
        return source.tz is None or target.tz is not None
    if _kinds.is_date(source):
        return _kinds.is_date(target) or (_kinds.is_timestamp(target) and target.tz is None)
    return _is_text_or_bytes(source) and (_kinds.is_string(target) or _kinds.is_binary(target))


def _is_text_or_bytes(source: pa.DataType) -> bool:
    return (
        _kinds.is_string(source)
        or _kinds.is_large_string(source)
        or _kinds.is_string_view(source)
        or _kinds.is_binary(source)
        or _kinds.is_large_binary(source)
        or _kinds.is_binary_view(source)
        or _kinds.is_fixed_size_binary(source)
    )
