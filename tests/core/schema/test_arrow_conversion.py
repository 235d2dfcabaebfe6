"""Delta's types as Arrow's, both ways."""

import pyarrow as pa
import pytest

from airflow_delta.core.errors import UnsupportedTypeError
from airflow_delta.core.schema import (
    ArrayType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    arrow_schema,
    arrow_type,
    struct_from_arrow,
    type_from_arrow,
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

PRIMITIVES = [BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE, BOOLEAN, STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ, VOID]
NESTED = StructType(
    (
        StructField("id", LONG, nullable=False),
        StructField("points", ArrayType(StructType((StructField("x", DOUBLE, nullable=False),)), contains_null=False)),
        StructField("by_day", MapType(DATE, ArrayType(STRING), value_contains_null=False)),
    )
)


@pytest.mark.parametrize("data_type", [*PRIMITIVES, DecimalType(38, 18), DecimalType(5, 0)], ids=str)
def test_each_type_comes_back_from_arrow(data_type):
    assert type_from_arrow(arrow_type(data_type)) == data_type


def test_nesting_and_nullability_come_back_from_arrow():
    assert struct_from_arrow(arrow_schema(NESTED)) == NESTED


def test_lists_and_maps_have_the_member_names_of_parquet_and_keys_are_never_null():
    schema = arrow_schema(NESTED)
    assert schema.field("points").type.value_field.name == "element"
    assert schema.field("by_day").type.key_field == pa.field("key", pa.date32(), nullable=False)
    assert schema.field("by_day").type.item_field.name == "value"


def test_instants_have_a_zone_and_wall_clock_times_have_none():
    assert arrow_type(TIMESTAMP) == pa.timestamp("us", "UTC")
    assert arrow_type(TIMESTAMP_NTZ) == pa.timestamp("us")


@pytest.mark.parametrize(
    ("arrow", "expected"),
    [
        (pa.uint8(), SHORT),
        (pa.uint16(), INTEGER),
        (pa.uint32(), LONG),
        (pa.uint64(), DecimalType(20, 0)),
        (pa.float16(), FLOAT),
        (pa.large_string(), STRING),
        (pa.string_view(), STRING),
        (pa.large_binary(), BINARY),
        (pa.binary(16), BINARY),
        (pa.date64(), DATE),
        (pa.timestamp("ns", "Europe/Berlin"), TIMESTAMP),
        (pa.timestamp("ms"), TIMESTAMP_NTZ),
        (pa.dictionary(pa.int32(), pa.string()), STRING),
        (pa.large_list(pa.int8()), ArrayType(BYTE)),
        (pa.list_(pa.float32(), 3), ArrayType(FLOAT)),
        (pa.decimal256(38, 2), DecimalType(38, 2)),
        (pa.uuid(), BINARY),
    ],
    ids=str,
)
def test_other_widths_and_layouts_of_arrow_become_the_type_that_holds_them(arrow, expected):
    assert type_from_arrow(arrow) == expected


@pytest.mark.parametrize("arrow", [pa.time64("us"), pa.duration("s"), pa.decimal256(39, 0), pa.dense_union([])], ids=str)
def test_an_arrow_type_that_no_table_holds_is_a_typed_error(arrow):
    with pytest.raises(UnsupportedTypeError) as caught:
        struct_from_arrow(pa.schema([("a", arrow)]))
    assert caught.value.type == str(arrow)


def test_a_column_of_an_unknown_type_has_no_arrow_type():
    with pytest.raises(UnsupportedTypeError) as caught:
        arrow_schema(StructType((StructField("v", ArrayType(PrimitiveType("interval day"))),)))
    assert caught.value.type == "interval day"
