"""Schemas of independent Parquet files, and a common schema that fits all of them.

Follows ``SchemaMergingUtils`` and ``ParquetFileFormat`` of Spark: names are compared case-insensitively, integers of up to 32
bits (which Parquet stores alike) widen, and everything else must be equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_delta.core.data_files.writer import SPARK_SCHEMA_KEY
from airflow_delta.core.errors import InvalidSchemaError, UnsupportedTypeError
from airflow_delta.core.schema import ArrayType, DataType, MapType, StructField, StructType, parse_schema, struct_from_arrow
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.schema.data_types import BYTE, INTEGER, SHORT

_COMMENT = "comment"
_WIDENING = (BYTE, SHORT, INTEGER)


def footer_schema(footer: pq.FileMetaData) -> StructType:
    """The columns of a file, all nullable: as Spark recorded them in the footer, else by their Parquet types.

    Of the columns' metadata only comments are kept: the rest belonged to another table.

    Raises:
        UnsupportedTypeError: A type that a table cannot have.
    """
    noted = (footer.metadata or {}).get(SPARK_SCHEMA_KEY)
    if noted is not None:
        try:
            return _plain(parse_schema(noted.decode()))
        except (InvalidSchemaError, UnicodeDecodeError):  # then the Parquet types decide
            pass
    leaves = (footer.schema.column(index) for index in range(footer.num_columns))
    return _plain(struct_from_arrow(pa.schema([_with_instants(field, leaves) for field in footer.schema.to_arrow_schema()])))


def _with_instants(field: pa.Field, leaves: Iterator[pq.ColumnSchema]) -> pa.Field:
    """The field with INT96 read as Spark means it: an instant, although Arrow reads it as a local timestamp.

    Leaves of Arrow types and Parquet columns have the same order.

    Raises:
        UnsupportedTypeError: Timestamps in nanoseconds, which Spark cannot read and a table cannot store exactly.
    """
    kind = field.type
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_with_instants(child, leaves) for child in kind]))
    if pa.types.is_map(kind):
        key, item = (_with_instants(child, leaves) for child in (kind.key_field, kind.item_field))
        return field.with_type(pa.map_(key, item))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_with_instants(kind.value_field, leaves)))
    if next(leaves).physical_type == "INT96":
        return field.with_type(pa.timestamp("us", "UTC"))
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        raise UnsupportedTypeError(type=str(kind))
    return field


def _plain(schema: StructType) -> StructType:
    """The schema with every column, element and value nullable, and without metadata except comments."""
    return StructType(tuple(map(_plain_field, schema.fields)))


def _plain_field(field: StructField) -> StructField:
    metadata = {key: value for key, value in field.metadata.items() if key == _COMMENT}
    return StructField(field.name, _plain_type(field.type), nullable=True, metadata=metadata)


def _plain_type(data_type: DataType) -> DataType:
    match data_type:
        case StructType():
            return _plain(data_type)
        case ArrayType(element):
            return ArrayType(_plain_type(element), contains_null=True)
        case MapType(key, value):
            return MapType(_plain_type(key), _plain_type(value), value_contains_null=True)
        case _:
            return data_type


def merged_schema(known: StructType, other: StructType) -> tuple[StructType, tuple[str, ...]]:
    """The schema that fits the rows of both, and what prevents it.

    Returns:
        The columns of ``known``, followed by those that ``other`` adds; and a line for each column with incompatible types,
        such as ``price: double, and string``.
    """
    differences: list[str] = []
    return _merged_structs(known, other, "", differences), tuple(differences)


def _merged_structs(known: StructType, other: StructType, prefix: str, differences: list[str]) -> StructType:
    folded = [name_key(field.name) for field in other.fields]
    differences += [
        f"{prefix}{name}: there are two columns of this name"
        for position, name in enumerate(other.names)
        if folded.index(folded[position]) != position
    ]
    fields = []
    for field in known.fields:
        theirs = other.find(field.name)
        kind = field.type if theirs is None else _merged(field.type, theirs.type, f"{prefix}{field.name}", differences)
        fields.append(replace(field, type=kind))
    return StructType((*fields, *(field for field in other.fields if known.find(field.name) is None)))


def _merged(known: DataType, other: DataType, path: str, differences: list[str]) -> DataType:
    match known, other:
        case StructType(), StructType():
            return _merged_structs(known, other, f"{path}.", differences)
        case ArrayType(ours), ArrayType(theirs):
            return ArrayType(_merged(ours, theirs, f"{path}.element", differences))
        case MapType(our_key, our_value), MapType(their_key, their_value):
            key = _merged(our_key, their_key, f"{path}.key", differences)
            return MapType(key, _merged(our_value, their_value, f"{path}.value", differences))
    if known != other and not (known in _WIDENING and other in _WIDENING):
        differences.append(f"{path}: {known}, and {other}")
    return max(known, other, key=_WIDENING.index) if known in _WIDENING and other in _WIDENING else known
