"""Why rows do not conform to a table, in lines."""

import pytest

from airflow_delta.core.schema import (
    ArrayType,
    DecimalType,
    MapType,
    StructField,
    StructType,
    is_assignable,
    schema_differences,
)
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
)


def struct(**fields):
    return StructType(tuple(StructField(name, kind) for name, kind in fields.items()))


def test_equal_schemas_in_another_order_and_case_do_not_differ():
    assert schema_differences(struct(B=STRING, A=LONG), struct(a=LONG, b=STRING)) == ()


def test_missing_unexpected_and_mistyped_columns_are_all_listed_with_both_types():
    source = struct(id=LONG, price=STRING, extra=DATE)
    table = struct(id=LONG, price=DecimalType(10, 2), day=DATE)
    assert schema_differences(source, table) == (
        "price: string in the source, decimal(10,2) in the table",
        "day: missing in the source, date in the table",
        "extra: date in the source, unexpected in the table",
    )


def test_differences_below_a_column_are_named_by_their_path():
    source = struct(s=struct(x=STRING, z=LONG), a=ArrayType(struct(q=BOOLEAN)), m=MapType(STRING, STRING))
    table = struct(s=struct(x=INTEGER, y=DATE), a=ArrayType(struct(q=DATE)), m=MapType(LONG, STRING))
    assert schema_differences(source, table) == (
        "s.x: string in the source, int in the table",
        "s.y: missing in the source, date in the table",
        "s.z: bigint in the source, unexpected in the table",
        "a.element.q: boolean in the source, date in the table",
        "m.key: string in the source, bigint in the table",
    )


def test_a_struct_against_a_number_is_one_line():
    assert schema_differences(struct(a=struct(x=LONG)), struct(a=LONG)) == (
        "a: struct<x:bigint> in the source, bigint in the table",
    )


def test_a_nullable_column_may_be_missing_where_null_stands_for_it():
    table = StructType((StructField("a", LONG), StructField("b", LONG, nullable=False)))
    assert schema_differences(struct(), table, missing_as_null=True) == ("b: missing in the source, bigint in the table",)


def test_nullability_differs_only_where_it_is_asked_for_at_every_depth():
    source = StructType((StructField("a", ArrayType(LONG)), StructField("b", LONG)))
    table = StructType((StructField("a", ArrayType(LONG, contains_null=False)), StructField("b", LONG, nullable=False)))
    assert schema_differences(source, table) == ()
    assert schema_differences(source, table, check_nullability=True) == (
        "a.element: may be NULL in the source, NOT NULL in the table",
        "b: may be NULL in the source, NOT NULL in the table",
    )


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (INTEGER, LONG),
        (LONG, BYTE),  # a value that does not fit is an error of its row
        (FLOAT, DOUBLE),
        (DecimalType(5, 2), DecimalType(10, 2)),
        (SHORT, DecimalType(3, 0)),
        (DOUBLE, FLOAT),
        (DATE, TIMESTAMP),
        (TIMESTAMP, TIMESTAMP_NTZ),
        (TIMESTAMP, DATE),
        (BOOLEAN, STRING),
        (DecimalType(5, 2), STRING),
        (BINARY, STRING),
        (VOID, DATE),
        (VOID, ArrayType(LONG)),
        (ArrayType(INTEGER), ArrayType(LONG)),
        (MapType(STRING, FLOAT), MapType(STRING, DOUBLE)),
        (StructType((StructField("a", INTEGER),)), StructType((StructField("A", LONG),))),
    ],
    ids=str,
)
def test_what_spark_casts_on_write_is_assignable(source, target):
    assert is_assignable(source, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (STRING, INTEGER),
        (STRING, DATE),
        (STRING, BINARY),
        (BOOLEAN, INTEGER),
        (INTEGER, BOOLEAN),
        (INTEGER, DATE),
        (DATE, LONG),
        (LONG, TIMESTAMP),
        (BINARY, LONG),
        (ArrayType(STRING), ArrayType(LONG)),
        (ArrayType(LONG), STRING),
        (LONG, VOID),
        (StructType((StructField("a", INTEGER),)), StructType((StructField("b", LONG),))),
    ],
    ids=str,
)
def test_what_needs_a_cast_in_the_source_is_not_assignable(source, target):
    assert not is_assignable(source, target)
