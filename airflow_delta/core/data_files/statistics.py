"""Statistics of a data file, as the log's JSON: from its footer, plus what only the rows show.

A Parquet writer keeps least and greatest values, and counts NULLs, while it encodes: reading them from the footer costs
nothing beside the writing. What footers lack is computed from the batches: how many lists and maps are NULL, and whether
floats are NaN, which Spark orders above all numbers and Arrow's footers pass over.

Protocol: PROTOCOL.md, "Per-file Statistics".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_delta.core.data_files.column_lists import Path
from airflow_delta.core.data_files.statistics_bounds import Bounds, bounds_text, unscaled
from airflow_delta.core.data_files.statistics_selection import StatisticsSelection
from airflow_delta.core.schema import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructType, arrow_type
from airflow_delta.core.schema.data_types import VARIANT

__all__ = ["RowObserver", "StatisticsSelection", "footer_statistics"]

_NO_BOUNDS: Bounds = (None, None)
_VARIANT_MEMBER = "metadata"  # the one that every variant has, shredded or not


class RowObserver:
    """What statistics need to know of the rows beside the footer; feed it every batch of the file.

    Args:
        schema: The columns of the file.
        selection: The table's choice of columns.
        unbounded: Leaf columns (physical paths) whose bounds the footer lacks: they are taken from the rows.
    """

    def __init__(self, schema: StructType, selection: StatisticsSelection, unbounded: Collection[Path] = ()) -> None:
        leaves = selection.physical_leaves(schema)
        self._floats = {path for path, kind in leaves if _is_float(kind)}
        self._null_counts = {path: 0 for path, kind in leaves if isinstance(kind, ArrayType | MapType) or path in unbounded}
        self._with_nan: set[Path] = set()
        self._bounds: dict[Path, tuple[Any, Any]] = dict.fromkeys(unbounded, (None, None))

    def observe(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Look at rows that have the columns of the schema, by their physical names."""
        for path in self._null_counts:
            self._null_counts[path] += _leaf_values(batch, path).null_count
        for path in self._floats - self._with_nan:
            if pc.any(pc.is_nan(_leaf_values(batch, path))).as_py():
                self._with_nan.add(path)
        for path, known in self._bounds.items():
            found = _stored_bounds(_leaf_values(batch, path))
            if found is not None:
                self._bounds[path] = found if known[0] is None else (min(known[0], found[0]), max(known[1], found[1]))

    def bounds(self, path: Path) -> tuple[Any, Any] | None:
        """The least and the greatest value, as Parquet stores them; None where they are unknown, or NaN is among them."""
        low, high = self._bounds.get(path, (None, None))
        return None if low is None or path in self._with_nan else (low, high)

    def null_count(self, path: Path) -> int | None:
        """How many lists or maps were NULL; None for other columns."""
        return self._null_counts.get(path)

    def is_without_nan(self, path: Path) -> bool:
        """Whether this column of floats was observed, and held no NaN."""
        return path in self._floats and path not in self._with_nan


def footer_statistics(
    metadata: pq.FileMetaData,
    schema: StructType,
    selection: StatisticsSelection,
    observer: RowObserver | None = None,
    *,
    unreadable: Collection[int] = (),
) -> str:
    """The statistics of a file as the JSON text of an ``add`` action.

    Bounds are left out where the footer has none or cannot be trusted with them (INT96; floats that may be NaN; a column of
    another type than the table's), never guessed.

    Args:
        metadata: The footer.
        schema: The table's schema without partition columns; its columns have their physical names in the file and in the text.
        selection: The table's choice of columns.
        observer: What was seen of the file's rows, when they were seen.
        unreadable: Columns of which the footer says nothing, by their numbers in it: of a file that was not just written here,
            Arrow must not be asked for the ``unreadable`` ones of ``ForeignFooter``.
    """
    columns = _column_indexes(metadata)
    arrow = pa.struct(list(metadata.schema.to_arrow_schema()))  # once: it takes as long as the file is wide
    trusts_floats = (metadata.created_by or "").startswith("parquet-mr")  # keeps NaN, in Java's order: the same as Spark's
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    null_counts: dict[str, Any] = {}
    for path, kind in selection.physical_leaves(schema):
        null_count = None if observer is None else observer.null_count(path)
        # That a variant is NULL shows in its members; its bounds are not needed here.
        index = columns.get(".".join((*path, _VARIANT_MEMBER) if kind == VARIANT else path))
        if index is not None and index not in unreadable:
            chunks = [metadata.row_group(group).column(index).statistics for group in range(metadata.num_row_groups)]
            counted = _null_count(chunks)
            null_count = null_count if counted is None else counted
            is_ordered = not _is_float(kind) or trusts_floats or (observer is not None and observer.is_without_nan(path))
            if kind != VARIANT and is_ordered and _type_in(arrow, path) == arrow_type(kind):
                low, high = _bounds(chunks, kind, selection.string_prefix_length)
                _put(least, path, low)
                _put(greatest, path, high)
        _put(null_counts, path, null_count)
        if observer is not None and (seen := observer.bounds(path)):
            low, high = bounds_text(*seen, kind, selection.string_prefix_length)
            _put(least, path, low)
            _put(greatest, path, high)
    return _json({"numRecords": metadata.num_rows, "minValues": least, "maxValues": greatest, "nullCount": null_counts})


def _stored_bounds(values: Any) -> tuple[Any, Any] | None:
    """The least and the greatest value as Parquet stores them; None when all are NULL."""
    kind = values.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        values = values.cast(pa.int32() if pa.types.is_date(kind) else pa.int64())
    low, high = pc.min_max(values).as_py().values()
    if low is None:
        return None
    if pa.types.is_decimal(kind):
        return int(low.scaleb(kind.scale)), int(high.scaleb(kind.scale))
    return (low.encode(), high.encode()) if pa.types.is_string(kind) else (low, high)


def _is_float(kind: DataType) -> bool:
    return kind in (PrimitiveType("float"), PrimitiveType("double"))


def _leaf_values(batch: pa.RecordBatch | pa.Table, path: Path) -> Any:
    column = batch.column(path[0])
    # A member of a struct that is NULL counts as NULL.
    return column if len(path) == 1 else pc.struct_field(column, list(path[1:]))


def _column_indexes(metadata: pq.FileMetaData) -> dict[str, int]:
    """Column numbers by dotted path, less those that two columns share (``a.b`` beside the ``b`` of ``a``)."""
    paths = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
    indexes = {path: index for index, path in enumerate(paths)}
    if len(indexes) == len(paths):
        return indexes
    return {path: index for path, index in indexes.items() if paths.count(path) == 1}


def _type_in(kind: Any, path: Path) -> pa.DataType | None:
    """The type of what lies in a struct by this path; None where there is nothing."""
    for name in path:
        index = kind.get_field_index(name) if pa.types.is_struct(kind) else -1
        if index < 0:
            return None
        kind = kind.field(index).type
    return kind


def _null_count(chunks: list[Any]) -> int | None:
    if any(chunk is None or not chunk.has_null_count for chunk in chunks):
        return None
    return sum(chunk.null_count for chunk in chunks)


def _bounds(chunks: list[Any], kind: DataType, string_prefix_length: int) -> Bounds:
    """The bounds over all row groups: none when one of them has values but no bounds."""
    if any(chunk is None or not (chunk.has_min_max or chunk.num_values == 0) for chunk in chunks):
        return _NO_BOUNDS
    bounded = [(chunk.min_raw, chunk.max_raw) for chunk in chunks if chunk.has_min_max]
    if not bounded:
        return _NO_BOUNDS
    order: Callable[[Any], Any] | None = unscaled if isinstance(kind, DecimalType) else None
    lows, highs = zip(*bounded, strict=True)
    if _is_float(kind) and any(value != value for value in (*lows, *highs)):  # noqa: PLR0124 - NaN
        return _NO_BOUNDS
    return bounds_text(min(lows, key=order), max(highs, key=order), kind, string_prefix_length)


def _put(tree: dict[str, Any], path: Path, leaf: Any) -> None:
    """Keep a leaf's JSON text at its place; None leaves the place out."""
    if leaf is None:
        return
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = str(leaf)


def _json(tree: Any) -> str:
    """JSON of a tree whose leaves are JSON already: decimals keep all their digits so."""
    if not isinstance(tree, dict):
        return str(tree)
    members = (f"{json.dumps(name, ensure_ascii=False)}:{_json(value)}" for name, value in tree.items())
    return f"{{{','.join(members)}}}"
