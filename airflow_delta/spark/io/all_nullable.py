"""Schemas without NOT NULL: every column, field, element and value is nullable."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TypeVar

from airflow_delta.core.schema import ArrayType, DataType, MapType, StructField, StructType

_Type = TypeVar("_Type", bound=DataType)


def all_nullable(data_type: _Type, *, keep: Collection[str] | None = None) -> _Type:
    """The type without NOT NULL at any depth.

    Args:
        data_type: Type of a column, or a whole schema.
        keep: Keys of the column metadata to keep; all when None.
    """
    match data_type:
        case StructType(fields):
            return replace(data_type, fields=tuple(nullable_field(field, keep=keep) for field in fields))
        case ArrayType(element):
            return replace(data_type, element_type=all_nullable(element, keep=keep), contains_null=True)
        case MapType(key, value):
            types = {"key_type": all_nullable(key, keep=keep), "value_type": all_nullable(value, keep=keep)}
            return replace(data_type, **types, value_contains_null=True)
        case _:
            return data_type


def nullable_field(field: StructField, *, keep: Collection[str] | None = None) -> StructField:
    """The column without NOT NULL at any depth; ``keep`` as of ``all_nullable``."""
    metadata = {key: value for key, value in field.metadata.items() if keep is None or key in keep}
    return StructField(field.name, all_nullable(field.type, keep=keep), True, metadata)
