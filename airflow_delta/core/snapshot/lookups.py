"""The part of a predicate, or of a set of keys, that Bloom filters can decide: whether given values may be present.

The result is a tree of ``Lookup``. AND and OR are kept; every other part of the predicate counts as TRUE.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.data_files.indexed_columns import IndexedColumns
from airflow_delta.core.data_files.stored_values import looked_up_type
from airflow_delta.core.parquet.xx_hash import MOST_BYTES
from airflow_delta.core.predicate.expression import (
    And,
    Comparison,
    Expression,
    In,
    Literal,
    Or,
    with_negation_at_leaves,
)
from airflow_delta.core.schema import DecimalType, StructField, StructType
from airflow_delta.core.schema.data_types import BINARY, DATE, INTEGERS, STRING, TIMESTAMP, TIMESTAMP_NTZ

_MOST_LOOKUPS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """Rows of values, at least one of which must be present.

    Attributes:
        fields: The columns.
        values: One array for each column, with one value for each row, of type ``looked_up_type``.
    """

    fields: tuple[StructField, ...]
    values: tuple[pa.Array, ...]


@dataclass(frozen=True, slots=True, eq=False)
class AllOf:
    """All of these lookups must hold."""

    lookups: tuple[Lookups, ...]


@dataclass(frozen=True, slots=True, eq=False)
class OneOf:
    """At least one of these lookups must hold."""

    lookups: tuple[Lookups, ...]


Lookups: TypeAlias = Lookup | AllOf | OneOf


def lookups_of(
    predicate: Expression, keys: pa.Table | None, indexed: IndexedColumns, schema: StructType, partition_columns: Iterable[str]
) -> Lookups | None:
    """What Bloom filters can check for rows that satisfy a predicate; None if they cannot decide anything.

    Args:
        predicate: The predicate, as ``parse_predicate`` made it for the schema.
        keys: Columns named as the table's; the rows must also have one of these keys.
        indexed: The columns that have filters.
        schema: The table's schema.
        partition_columns: Names of the partition columns, which data files do not contain.
    """
    if not indexed.names:
        return None
    partitions = set(partition_columns)
    fields = {field.name: field for field in indexed.fields(schema) if field.name not in partitions}
    by_predicate = _of(with_negation_at_leaves(predicate), fields, indexed.most_values)
    found = _all_of([by_predicate, None if keys is None else _of_keys(keys, fields, indexed.most_values)])
    return None if found is None or _count(found) > _MOST_LOOKUPS else found


def each_lookup(lookups: Lookups) -> Iterable[Lookup]:
    """The leaves of a tree of lookups."""
    if isinstance(lookups, Lookup):
        yield lookups
        return
    for inner in lookups.lookups:
        yield from each_lookup(inner)


def _count(lookups: Lookups) -> int:
    return sum(1 for _ in each_lookup(lookups))


def _of(expression: Expression, fields: dict[str, StructField], most: int) -> Lookups | None:
    match expression:
        case And(operands):
            return _all_of([_of(operand, fields, most) for operand in operands])
        case Or(operands):
            return _one_of([_of(operand, fields, most) for operand in _joined(operands)])
        case Comparison("=" | "<=>", column, literal) if not column.members and column.name in fields:
            return _lookup(fields[column.name], [literal], most)
        case In(column, literals) if not column.members and column.name in fields:
            return _lookup(fields[column.name], literals, most)
        case _:
            return None


def _all_of(lookups: Sequence[Lookups | None]) -> Lookups | None:
    known = tuple(lookup for lookup in lookups if lookup is not None)
    return AllOf(known) if len(known) > 1 else next(iter(known), None)


def _one_of(lookups: Sequence[Lookups | None]) -> Lookups | None:
    known = tuple(lookup for lookup in lookups if lookup is not None)
    if not known or len(known) < len(lookups):
        return None
    return OneOf(known) if len(known) > 1 else known[0]


def _joined(operands: Iterable[Expression]) -> list[Expression]:
    """The operands of an OR, with equalities of the same column joined into one list of values."""
    joined: dict[Any, Expression] = {}
    for operand in operands:
        match operand:
            case Comparison("=" | "<=>", column, literal) if literal.value is not None:
                values: tuple[Literal, ...] = (literal,)
            case In(column, values):
                pass
            case _:
                joined[operand] = operand
                continue
        former = joined.get(column)
        joined[column] = In(column, (*former.values, *values) if isinstance(former, In) else values)
    return list(joined.values())


def _lookup(field: StructField, literals: Sequence[Literal], most: int) -> Lookup | None:
    values = {literal.value for literal in literals if literal.value is not None}
    if not values or len(values) > most or not all(_is_of(value, field) for value in values):
        return None
    try:
        array = pa.array(list(values), looked_up_type(field.type))
    except (pa.ArrowException, OverflowError, ValueError):  # more digits than the column holds: not decided here
        return None
    return Lookup((field,), (array,)) if _is_short(array) else None


def _is_of(value: Any, field: StructField) -> bool:
    """Whether a value compares equal to a column's value exactly when both are the same stored value."""
    match field.type:
        case kind if kind in INTEGERS:
            return type(value) is int and -(1 << 63) <= value < 1 << 63
        case kind if kind == STRING:
            return isinstance(value, str)
        case kind if kind == BINARY:
            return isinstance(value, bytes)
        case kind if kind == DATE:
            return type(value) is dt.date
        case kind if kind in (TIMESTAMP, TIMESTAMP_NTZ):
            return isinstance(value, dt.datetime) and (value.tzinfo is None) == (kind == TIMESTAMP_NTZ)
        case DecimalType():
            return type(value) in (int, Decimal)
    return False


def _of_keys(keys: pa.Table, fields: dict[str, StructField], most: int) -> Lookup | None:
    if not 0 < len(keys) <= most:
        return None
    found = {
        fields[name]: keys[name].combine_chunks()
        for name in keys.column_names
        if name in fields and keys.schema.field(name).type == looked_up_type(fields[name].type)
    }
    short = {field: values for field, values in found.items() if _is_short(values)}
    return Lookup(tuple(short), tuple(short.values())) if short else None


def _is_short(values: pa.Array) -> bool:
    is_text = pa.types.is_string(values.type) or pa.types.is_binary(values.type)
    return not is_text or (pc.max(pc.binary_length(values)).as_py() or 0) <= MOST_BYTES
