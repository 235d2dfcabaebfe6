"""The differences between schemas that prevent writing rows to a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from airflow_delta.core.schema.data_types import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)

_NUMBERS = {BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE}
_TIMES = {DATE, TIMESTAMP, TIMESTAMP_NTZ}
_TEXTUAL = _NUMBERS | _TIMES | {BOOLEAN, BINARY, STRING}


def schema_differences(
    source: StructType, table: StructType, *, missing_as_null: bool = False, check_nullability: bool = False
) -> tuple[str, ...]:
    """What does not fit, one line for each column, in the order of the table and then of the source.

    Columns are matched by name, ignoring case, at every depth; their order does not matter. Types must be equal or assignable
    (``is_assignable``).

    Args:
        source: Schema of the rows.
        table: Schema of the table.
        missing_as_null: Whether nullable columns of the table may be missing in the rows.
        check_nullability: Whether a nullable column of the rows that is NOT NULL in the table is a difference. Spark ignores
            that, and checks the rows instead.

    Returns:
        Lines such as ``orders.price: string in the source, decimal(10,2) in the table``; empty if the rows fit.
    """
    rules = _Rules(missing_as_null=missing_as_null, check_nullability=check_nullability)
    return tuple(rules.of_structs(source, table, ""))


def is_assignable(source: DataType, target: DataType) -> bool:
    """Whether values can be written to a column of another type with an implicit cast.

    This is Spark's store assignment in ANSI mode (``Cast.canANSIStoreAssign``): numbers to any number, dates and timestamps to
    each other, every type without fields to string, NULL to all. A value that the target cannot hold is an error of its row,
    not of the schema. A string needs an explicit cast to any other type.
    """
    match source, target:
        case ArrayType(), ArrayType():
            return is_assignable(source.element_type, target.element_type)
        case MapType(), MapType():
            return is_assignable(source.key_type, target.key_type) and is_assignable(source.value_type, target.value_type)
        case StructType(), StructType():
            return not schema_differences(source, target)
    if source in (target, VOID):
        return True
    return (
        (_is_number(source) and _is_number(target))
        or (source in _TIMES and target in _TIMES)
        or (target == STRING and (_is_number(source) or source in _TEXTUAL))
    )


def _is_number(data_type: DataType) -> bool:
    return isinstance(data_type, DecimalType) or data_type in _NUMBERS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """The options of one comparison."""

    missing_as_null: bool
    check_nullability: bool

    def of_structs(self, source: StructType, table: StructType, prefix: str) -> Iterator[str]:
        for field in table.fields:
            given = source.find(field.name)
            if given is not None:
                yield from self.of_fields(given, field, f"{prefix}{field.name}")
            elif not (self.missing_as_null and field.nullable):
                yield f"{prefix}{field.name}: missing in the source, {field.type} in the table"
        for given in source.fields:
            if table.find(given.name) is None:
                yield f"{prefix}{given.name}: {given.type} in the source, unexpected in the table"

    def of_fields(self, source: StructField, table: StructField, path: str) -> Iterator[str]:
        if self.check_nullability and source.nullable and not table.nullable:
            yield f"{path}: may be NULL in the source, NOT NULL in the table"
        match source.type, table.type:
            case StructType() as given, StructType() as wanted:
                yield from self.of_structs(given, wanted, f"{path}.")
            case (ArrayType() | MapType() as given, ArrayType() | MapType() as wanted) if type(given) is type(wanted):
                for left, right in zip(_items(given), _items(wanted), strict=True):
                    yield from self.of_fields(left, right, f"{path}.{left.name}")
            case given, wanted if not is_assignable(given, wanted):
                yield f"{path}: {given} in the source, {wanted} in the table"


def _items(container: ArrayType | MapType) -> tuple[StructField, ...]:
    if isinstance(container, ArrayType):
        return (StructField("element", container.element_type, container.contains_null),)
    value = StructField("value", container.value_type, container.value_contains_null)
    return StructField("key", container.key_type, nullable=False), value
