"""The schema text of the log, read and written back."""

import json

import pytest

from airflow_delta.core.errors import InvalidSchemaError
from airflow_delta.core.schema import (
    ArrayType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    parse_schema,
    schema_json,
)
from airflow_delta.core.schema.data_types import DATE, INTEGER, LONG, STRING, TIMESTAMP_NTZ
from tests.golden_tables import TABLES

FLIGHTS = StructType(
    (
        StructField("day", DATE, nullable=False),
        StructField("fare", DecimalType(10, 2), metadata={"comment": "in €", "delta.generationExpression": "a + 1"}),
        StructField(
            "legs",
            ArrayType(StructType((StructField("origin", STRING), StructField("at", TIMESTAMP_NTZ))), contains_null=False),
        ),
        StructField("tags", MapType(STRING, LONG, value_contains_null=False)),
    )
)


def document(field_type):
    return {"type": "struct", "fields": [{"name": "a", "type": field_type, "nullable": True, "metadata": {}}]}


def test_a_schema_is_read_back_equal_with_nesting_nullability_and_metadata():
    assert parse_schema(schema_json(FLIGHTS)) == FLIGHTS


def test_the_text_is_spelled_as_spark_spells_it():
    schema = StructType((StructField("é", ArrayType(DecimalType(5, 1))),))
    assert schema_json(schema) == (
        '{"type":"struct","fields":[{"name":"é","type":{"type":"array","elementType":"decimal(5,1)","containsNull":true},'
        '"nullable":true,"metadata":{}}]}'
    )


@pytest.mark.parametrize(
    "unknown",
    [
        "variant",
        "void",
        "interval day to second",
        "geometry(OGC:CRS84)",
        "timestamp_nanos",
        {"type": "udt", "class": "org.example.Point", "sqlType": "string"},
        {"type": "array", "elementType": "variant", "containsNull": True},
    ],
)
def test_a_type_that_is_not_known_here_is_written_back_as_it_was(unknown):
    assert json.loads(schema_json(parse_schema(json.dumps(document(unknown))))) == document(unknown)


def test_a_decimal_without_digits_is_read_as_spark_reads_it():
    assert parse_schema(json.dumps(document("decimal"))).fields[0].type == DecimalType(10, 0)


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("", "JSONDecodeError"),
        ('"integer"', "expected a struct, found int"),
        ('{"type":"struct"}', "KeyError: 'fields'"),
        ('{"type":"struct","fields":[{"type":"integer"}]}', "KeyError: 'name'"),
        ("[1]", "TypeError"),
        ("null", "TypeError"),
        (
            '{"type":"struct","fields":[{"name":"a","type":"long"},{"name":"a","type":"long"}]}',
            "two columns have the name",
        ),
    ],
)
def test_a_text_that_is_no_schema_is_a_typed_error(text, detail):
    with pytest.raises(InvalidSchemaError) as caught:
        parse_schema(text)
    assert detail in caught.value.detail


def test_names_are_found_in_any_case():
    assert FLIGHTS.find("FARE") == FLIGHTS.fields[1]
    assert FLIGHTS.find("fares") is None
    assert FLIGHTS.without(("Day", "tags")).names == ("fare", "legs")


def test_types_are_named_as_a_cast_names_them():
    assert str(StructType((StructField("a", INTEGER), StructField("b", MapType(LONG, DecimalType(4, 2)))))) == (
        "struct<a:int,b:map<bigint,decimal(4,2)>>"
    )
    assert str(PrimitiveType("variant")) == "variant"


def test_every_schema_that_delta_lake_wrote_is_written_back_byte_for_byte():
    texts = {
        action["metaData"]["schemaString"]
        for log in TABLES.rglob("_delta_log/*.json")
        if log.stem.isdigit()
        for line in log.read_text().splitlines()
        if "metaData" in (action := json.loads(line))
    }
    assert len(texts) > 30
    assert {schema_json(parse_schema(text)) for text in texts} == texts
