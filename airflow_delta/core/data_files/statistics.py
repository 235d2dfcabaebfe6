"""Statistics of a data file as JSON of the log: from its footer, and from its rows what the footer lacks.

A Parquet writer computes minima, maxima and NULL counts while it encodes: reading them from the footer costs nearly nothing.
What footers lack is computed from the batches: how many lists and maps are NULL, and whether floats are NaN, which Spark orders
above all numbers and Arrow's footers ignore.

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
_VARIANT_MEMBER = "metadata"  # every variant has this member, shredded or not


class RowObserver:
    """Collects what statistics need in addition to the footer; must get every batch of the file.

    Args:
        schema: The columns of the file.
        selection: The columns that get statistics.
        unbounded: Leaf columns (physical paths) without bounds in the footer, whose bounds are taken from the rows.
    """

    def __init__(self, schema: StructType, selection: StatisticsSelection, unbounded: Collection[Path] = ()) -> None:
        leaves = selection.physical_leaves(schema)
        self._floats = {path for path, kind in leaves if _is_float(kind)}
        self._null_counts = {path: 0 for path, kind in leaves if isinstance(kind, ArrayType | MapType) or path in unbounded}
        self._with_nan: set[Path] = set()
        self._bounds: dict[Path, tuple[Any, Any]] = dict.fromkeys(unbounded, (None, None))

    def observe(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Process rows that have the columns of the schema, with physical names."""
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
        """Minimum and maximum, as Parquet stores them; None if unknown, or if there are NaN values."""
        low, high = self._bounds.get(path, (None, None))
        return None if low is None or path in self._with_nan else (low, high)

    def null_count(self, path: Path) -> int | None:
        """How many lists or maps are NULL; None for other columns."""
        return self._null_counts.get(path)

    def is_without_nan(self, path: Path) -> bool:
        """Whether this floating-point column was observed, and has no NaN."""
        return path in self._floats and path not in self._with_nan


def footer_statistics(
    metadata: pq.FileMetaData,
    schema: StructType,
    selection: StatisticsSelection,
    observer: RowObserver | None = None,
    *,
    unreadable: Collection[int] = (),
) -> str:
    """The statistics of a file as the JSON text in an ``add`` action.

    Bounds are left out if the footer has none, or cannot be trusted with them (INT96; floats that may be NaN; a column of
    another type than the table's); they are never guessed.

    Args:
        metadata: The footer.
        schema: The table's schema without partition columns; the file and the statistics use physical names.
        selection: The columns that get statistics.
        observer: What was collected from the rows, if they were read.
        unreadable: Indexes of leaf columns to ignore in the footer. For files not just written here, pass
            ``ForeignFooter.unreadable``: Arrow must not be asked for those.
    """
    columns = _column_indexes(metadata)
    arrow = pa.struct(list(metadata.schema.to_arrow_schema()))  # once: wide files take long
    trusts_floats = (metadata.created_by or "").startswith("parquet-mr")  # keeps NaN, in Spark's order
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    null_counts: dict[str, Any] = {}
    for path, kind in selection.physical_leaves(schema):
        null_count = None if observer is None else observer.null_count(path)
        # Whether a variant is NULL shows in its members; bounds are not needed.
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
    """Minimum and maximum as Parquet stores them; None if all values are NULL."""
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
    # Fields of a NULL struct count as NULL.
    return column if len(path) == 1 else pc.struct_field(column, list(path[1:]))


def _column_indexes(metadata: pq.FileMetaData) -> dict[str, int]:
    """Column indexes by dotted path, without paths that are ambiguous (a column ``a.b`` beside the field ``b`` of ``a``)."""
    paths = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
    indexes = {path: index for index, path in enumerate(paths)}
    if len(indexes) == len(paths):
        return indexes
    return {path: index for path, index in indexes.items() if paths.count(path) == 1}


def _type_in(kind: Any, path: Path) -> pa.DataType | None:
    """The type at this path inside of a struct; None if the path does not exist."""
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
    """The bounds over all row groups; none if one of them has values but no bounds."""
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
    """Store a leaf's JSON text at its path; None stores nothing."""
    if leaf is None:
        return
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = str(leaf)


def _json(tree: Any) -> str:
    """JSON of a tree whose leaves are JSON texts, so that decimals keep all their digits."""
    if not isinstance(tree, dict):
        return str(tree)
    members = (f"{json.dumps(name, ensure_ascii=False)}:{_json(value)}" for name, value in tree.items())
    return f"{{{','.join(members)}}}"
