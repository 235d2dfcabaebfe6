"""Partition values and statistics as typed columns, so that readers parse no text and Parquet can skip row groups.

Names are physical. A text that is not a value of its type becomes NULL, as in Spark; the text column remains, too.

Protocol: PROTOCOL.md, "Checkpoints" (``partitionValues_parsed``, ``stats_parsed``), "Per-file Statistics".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.data_files.statistics_selection import StatisticsSelection
from airflow_delta.core.schema import DataType, DecimalType, StructField, StructType, arrow_type, physical_name
from airflow_delta.core.schema.data_types import DOUBLE, FLOAT
from airflow_delta.core.schema.lenient_parsing import (
    JSON_TYPES,
    TEXT_TYPES,
    is_object,
    nested_type,
    parse_leniently,
    read_objects,
    typed_leniently,
    without_special_floats,
)
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.table_features.feature import DELETION_VECTORS, writer_features

PARTITION_VALUES, STATISTICS = "partitionValues_parsed", "stats_parsed"

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedColumns:
    """The typed columns in a table's checkpoints.

    Attributes:
        partitions: The partition columns; empty if the table has no typed columns in checkpoints.
        bounds: Type of each column with minimum and maximum, by physical path.
        counted: Physical paths of the columns whose NULLs are counted; None without typed statistics.
        tight_bounds: Whether files record if their bounds are exact.
    """

    partitions: tuple[StructField, ...]
    bounds: Mapping[Path, DataType]
    counted: tuple[Path, ...] | None
    tight_bounds: bool

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot) -> ParsedColumns:
        """As the table's properties require: all if ``delta.checkpoint.writeStatsAsStruct`` is true, otherwise none.

        If that property is not set, they are written when JSON statistics are disabled: the statistics would be lost otherwise.
        """
        schema, metadata = snapshot.schema, snapshot.metadata
        requested = metadata.configuration.get("delta.checkpoint.writeStatsAsStruct", "").strip().lower()
        if not (requested == "true" or (not requested and not writes_json(metadata.configuration))):
            return cls(partitions=(), bounds={}, counted=None, tight_bounds=False)
        partitions = tuple(field for name in metadata.partition_columns if (field := schema.find(name)))
        data = StructType(tuple(field for field in schema.fields if field not in partitions))
        leaves = StatisticsSelection.from_properties(metadata.configuration).leaves(data)
        kinds = {_physical_path(data, path): kind for path, kind in leaves}
        return cls(
            partitions=partitions,
            bounds={path: kind for path, kind in kinds.items() if _is_bounded(kind)},
            counted=tuple(kinds),
            tight_bounds=DELETION_VECTORS in writer_features(snapshot.protocol),
        )

    @property
    def partition_values(self) -> pa.StructType | None:
        """Type of ``partitionValues_parsed``; None if it is not written."""
        fields = [(physical_name(field), arrow_type(field.type)) for field in self.partitions]
        return pa.struct(fields) if fields else None

    @property
    def statistics(self) -> pa.StructType | None:
        """Type of ``stats_parsed``; None if it is not written."""
        return None if self.counted is None else self._statistics_of(arrow_type)

    def _statistics_of(self, arrow: Callable[[DataType], pa.DataType]) -> pa.StructType:
        bounds = nested_type({path: arrow(kind) for path, kind in self.bounds.items()})
        members = [
            ("numRecords", pa.int64()),
            ("minValues", bounds),
            ("maxValues", bounds),
            ("nullCount", nested_type(dict.fromkeys(self.counted or (), pa.int64()))),
            ("tightBounds", pa.bool_() if self.tight_bounds else None),
        ]
        # Parquet has no struct without fields; a table may have no column with bounds, or no column at all.
        return pa.struct([(name, kind) for name, kind in members if kind is not None and _has_members(kind)])

    def parsed_partitions(self, values: pa.MapArray) -> pa.StructArray:
        """``partitionValues_parsed`` of these partition values."""
        texts = [pc.map_lookup(values, query_key=physical_name(field), occurrence="first") for field in self.partitions]
        columns = [_typed(text, field.type) for text, field in zip(texts, self.partitions, strict=True)]
        return pa.StructArray.from_arrays(columns, fields=list(self.partition_values or ()))

    def parsed_statistics(self, stats: pa.StringArray) -> pa.StructArray:
        """``stats_parsed`` of these JSON texts; NULL for a missing or unreadable text."""
        is_there = is_object(stats)
        texts = pc.if_else(is_there, stats, "{}")
        if {FLOAT, DOUBLE} & set(self.bounds.values()):
            texts = without_special_floats(texts)
        parsed = _read_structs(texts, self._statistics_of(lambda kind: pa.string() if kind in TEXT_TYPES else arrow_type(kind)))
        return _struct_of(parsed, self.statistics, mask=pc.or_(pc.invert(is_there), parsed.is_null()))


def writes_json(configuration: Mapping[str, str]) -> bool:
    """Whether checkpoints hold statistics as JSON (``delta.checkpoint.writeStatsAsJson``)."""
    return configuration.get("delta.checkpoint.writeStatsAsJson", "").strip().lower() != "false"


def _is_bounded(kind: DataType) -> bool:
    return kind in JSON_TYPES or kind in TEXT_TYPES or isinstance(kind, DecimalType)


def _physical_path(schema: StructType, path: Path) -> Path:
    names: list[str] = []
    scope: DataType | None = schema
    for name in path:
        field = scope.find(name) if isinstance(scope, StructType) else None
        if field is None:
            raise KeyError(".".join(path))
        names.append(physical_name(field))
        scope = field.type
    return tuple(names)


def _has_members(kind: pa.DataType) -> bool:
    return not pa.types.is_struct(kind) or kind.num_fields > 0


def _read_structs(texts: pa.StringArray, kind: pa.StructType) -> pa.StructArray:
    """One struct for each text; NULL if the text is not an object of this type."""
    schema = pa.schema(kind)
    pieces = parse_leniently(
        texts,
        lambda piece: read_objects(piece, schema).to_struct_array(),
        lambda rows: pa.chunked_array([pa.nulls(rows, kind)]),
    )
    return pa.chunked_array([chunk for piece in pieces for chunk in piece.chunks], kind).combine_chunks()


def _typed(texts: pa.StringArray, kind: DataType) -> pa.Array:
    return typed_leniently(texts, kind).combine_chunks()


def _struct_of(values: pa.Array, wanted: Any, mask: pa.Array | None = None) -> pa.Array:
    """The values converted to the wanted type, with texts of dates and timestamps parsed."""
    if not pa.types.is_struct(wanted):
        return values if values.type == wanted else _typed(values, _type_of_text(wanted))
    children: Iterable[pa.Array] = values.flatten()
    columns = [_struct_of(child, field.type) for child, field in zip(children, wanted, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=list(wanted), mask=values.is_null() if mask is None else mask)


def _type_of_text(arrow: pa.DataType) -> DataType:
    return next(kind for kind in TEXT_TYPES if arrow_type(kind) == arrow)
