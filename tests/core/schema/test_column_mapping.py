import pytest

from airflow_delta.core.errors import InvalidSchemaError
from airflow_delta.core.schema import ArrayType, MapType, StructField, StructType
from airflow_delta.core.schema.column_mapping import (
    ID_KEY,
    PHYSICAL_NAME_KEY,
    MappingMode,
    all_fields,
    field_id,
    mapping_mode,
    physical_name,
    physical_schema,
    with_column_mapping,
    without_column_mapping,
)
from airflow_delta.core.schema.data_types import INTEGER, STRING


def mapped(name, data_type=STRING, *, number=None, physical=None):
    metadata = {ID_KEY: number, PHYSICAL_NAME_KEY: physical, "comment": "kept"}
    return StructField(name, data_type, metadata={key: value for key, value in metadata.items() if value is not None})


INNER = StructType((mapped("x", number=3, physical="p3"), mapped("y", INTEGER, number=4, physical="p4")))
NESTED = StructType(
    (
        mapped("plain", number=1, physical="p1"),
        mapped("list", ArrayType(INNER), number=2, physical="p2"),
        mapped("map", MapType(STRING, INNER), number=5, physical="p5"),
    )
)


@pytest.mark.parametrize(("text", "mode"), [("none", "none"), ("NAME", "name"), ("Id", "id")])
def test_the_mode_is_read_in_any_case(text, mode):
    assert mapping_mode({"delta.columnMapping.mode": text}) is MappingMode(mode)


def test_a_table_without_the_property_maps_nothing():
    assert mapping_mode({}) is MappingMode.NONE


def test_an_unknown_mode_is_refused():
    with pytest.raises(InvalidSchemaError, match="unknown column mapping mode 'position'"):
        mapping_mode({"delta.columnMapping.mode": "position"})


def test_physical_names_replace_logical_ones_at_every_level_and_metadata_stays():
    physical = physical_schema(NESTED)
    assert [field.name for field in all_fields(physical)] == ["p1", "p2", "p3", "p4", "p5", "p3", "p4"]
    assert physical.fields[1].type.element_type.fields[1].metadata["comment"] == "kept"
    assert physical_schema(physical) == physical


def test_a_column_without_a_physical_name_keeps_its_own():
    field = StructField("a b", STRING)
    assert (physical_name(field), field_id(field)) == ("a b", None)


@pytest.mark.parametrize("number", ["7", 1 << 31, -1])
def test_an_id_that_is_none_is_refused(number):
    with pytest.raises(InvalidSchemaError, match="the id of the column 'c'"):
        field_id(StructField("c", STRING, metadata={ID_KEY: number}))


def test_a_physical_name_that_is_no_text_is_refused():
    with pytest.raises(InvalidSchemaError, match="the physical name of the column 'c' is 7"):
        physical_name(StructField("c", STRING, metadata={PHYSICAL_NAME_KEY: 7}))


def test_two_columns_of_one_physical_name_are_refused():
    schema = StructType((mapped("a", physical="p"), mapped("b", physical="p")))
    with pytest.raises(InvalidSchemaError, match="'p'"):
        physical_schema(schema)


def test_columns_get_ids_and_unique_physical_names():
    schema = StructType((StructField("a", StructType((StructField("b", STRING),))), StructField("c", ArrayType(STRING))))
    found, last = with_column_mapping(schema, max_id=0)
    assert [field_id(field) for field in all_fields(found)] == [1, 2, 3]
    assert last == 3
    names = {physical_name(field) for field in all_fields(found)}
    assert len(names) == 3
    assert all(name.startswith("col-") for name in names)


def test_columns_that_are_mapped_already_stay_and_new_ids_come_after_all_others():
    schema = StructType((*NESTED.fields, StructField("new", STRING)))
    found, last = with_column_mapping(schema, max_id=9)
    assert found.fields[:3] == NESTED.fields
    assert (field_id(found.fields[3]), last) == (10, 10)


def test_a_table_with_data_keeps_its_names_as_physical_ones():
    found, _ = with_column_mapping(StructType((StructField("a b", STRING),)), max_id=0, keep_names=True)
    assert physical_name(found.fields[0]) == "a b"


def test_a_table_without_mapping_forgets_it():
    assert [field.name for field in all_fields(physical_schema(without_column_mapping(NESTED)))] == [
        field.name for field in all_fields(NESTED)
    ]
