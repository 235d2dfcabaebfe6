"""Mapped columns in data files are identified by ids or physical names, never by logical names."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_delta.core.data_files import StatisticsSelection, describe_file
from airflow_delta.core.schema import (
    ArrayType,
    MapType,
    StructField,
    StructType,
    all_fields,
    arrow_schema,
    field_id,
    physical_name,
    physical_schema,
    with_column_mapping,
)
from airflow_delta.core.schema.column_mapping import ID_KEY, PHYSICAL_NAME_KEY
from airflow_delta.core.schema.data_types import INTEGER, LONG, STRING


def mapped(name, data_type, number, physical):
    return StructField(name, data_type, metadata={ID_KEY: number, PHYSICAL_NAME_KEY: physical})


def members(first, second):
    """A struct of two members of one type, whose logical names are not the physical ones."""
    return StructType((mapped(first, INTEGER, 11, "m"), mapped(second, INTEGER, 12, "n")))


def parquet_field(name, kind, number):
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


MEMBERS = pa.struct([parquet_field("m", pa.int32(), 11), parquet_field("n", pa.int32(), 12)])
FILE = pa.table(
    [
        pa.array([1, 2]),
        pa.array(["x", None]),
        pa.array([{"m": 1, "n": 2}, None], MEMBERS),
        pa.array([[{"m": 3, "n": 4}, None], []], pa.list_(MEMBERS)),
        pa.array([[("k", {"m": 5, "n": 6})], None], pa.map_(pa.string(), MEMBERS)),
    ],
    schema=pa.schema(
        [
            parquet_field("a", pa.int64(), 1),
            parquet_field("b", pa.string(), 2),
            parquet_field("s", MEMBERS, 3),
            parquet_field("l", pa.list_(MEMBERS), 4),
            parquet_field("t", pa.map_(pa.string(), MEMBERS), 5),
        ]
    ),
)
SWAPPED = members("n", "m")  # each member has the other's physical name


@pytest.mark.parametrize("by_id", [False, True])
def test_renamed_columns_are_found_at_every_level_although_their_names_say_otherwise(data_files, tmp_path, by_id):
    pq.write_table(FILE, tmp_path / "f")
    schema = StructType(
        (
            mapped("B", STRING, 2, "b"),
            mapped("b", LONG, 1, "a"),
            mapped("s", SWAPPED, 3, "s"),
            mapped("list", ArrayType(SWAPPED), 4, "l"),
            mapped("map", MapType(STRING, SWAPPED), 5, "t"),
        )
    )

    found = data_files.read_file(tmp_path / "f", schema, by_id=by_id)

    assert found.to_pylist() == [
        {"B": "x", "b": 1, "s": {"n": 1, "m": 2}, "list": [{"n": 3, "m": 4}, None], "map": [("k", {"n": 5, "m": 6})]},
        {"B": None, "b": 2, "s": None, "list": [], "map": None},
    ]


def test_a_physical_name_is_matched_to_the_letter(data_files, tmp_path):
    pq.write_table(pa.table({"A": [1], "x": [2]}), tmp_path / "f")
    schema = StructType((mapped("x", LONG, 1, "a"),))
    assert data_files.read_file(tmp_path / "f", schema).to_pylist() == [{"x": None}]


def test_by_id_the_names_in_a_file_say_nothing_and_a_missing_id_is_null(data_files, tmp_path):
    pq.write_table(FILE.rename_columns(["b", "a", "x", "y", "z"]), tmp_path / "renamed")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "without")
    schema = StructType((mapped("one", LONG, 1, "a"), mapped("none", STRING, 99, "b"), mapped("st", SWAPPED, 3, "s")))

    renamed = data_files.read_file(tmp_path / "renamed", schema, by_id=True)
    assert renamed["one"].to_pylist() == [1, 2]
    assert renamed["none"].to_pylist() == [None, None]
    assert renamed["st"].to_pylist() == [{"n": 1, "m": 2}, None]
    assert data_files.read_file(tmp_path / "without", schema, by_id=True).to_pylist() == [
        {"one": None, "none": None, "st": None}
    ]


def test_by_id_a_column_that_has_no_id_is_found_by_name(data_files, tmp_path):
    """The row tracking columns in files are not part of the schema."""
    pq.write_table(FILE.append_column("row-id", pa.array([7, 8])), tmp_path / "f")
    schema = StructType((mapped("one", LONG, 1, "a"), StructField("row-id", LONG)))
    assert data_files.read_file(tmp_path / "f", schema, by_id=True)["row-id"].to_pylist() == [7, 8]


@pytest.mark.parametrize("by_id", [False, True])
def test_partition_values_are_found_by_physical_name(data_files, tmp_path, by_id):
    pq.write_table(FILE, tmp_path / "f")
    schema = StructType((mapped("b", STRING, 7, "p"), mapped("x", LONG, 1, "a")))
    found = data_files.read_file(tmp_path / "f", schema, {"p": "value", "b": "other"}, by_id=by_id)
    assert found.to_pylist() == [{"b": "value", "x": 1}, {"b": "value", "x": 2}]


def ids_of(element, parent=()):
    """Ids by path in a Parquet file's Arrow schema."""
    for field in element:
        path = (*parent, field.name)
        if b"PARQUET:field_id" in (field.metadata or {}):
            yield path, int(field.metadata[b"PARQUET:field_id"])
        kind = field.type
        if pa.types.is_list(kind):
            yield from ids_of([kind.value_field], path)
        elif pa.types.is_map(kind):
            yield from ids_of([kind.key_field, kind.item_field], path)
        elif pa.types.is_struct(kind):
            yield from ids_of(kind, path)


def test_a_written_file_has_physical_names_and_ids_at_every_level(data_files, tmp_path):
    pair = StructType((StructField("x", INTEGER), StructField("y", STRING)))
    plain = StructType(
        (
            StructField("a b", LONG),
            StructField("s", pair),
            StructField("l", ArrayType(pair)),
            StructField("m", MapType(STRING, pair)),
        )
    )
    schema, last = with_column_mapping(plain, max_id=0)
    value = {"x": 1, "y": "z"}
    rows = [{"a b": 1, "s": value, "l": [value, None], "m": [("k", value)]}, {"a b": None, "s": None, "l": None, "m": None}]

    selection = StatisticsSelection(columns=(("A B",), ("s", "y"), ("l",)))
    table = pa.Table.from_pylist(rows, schema=arrow_schema(plain))
    written = data_files.write_file(tmp_path / "f", table, schema, selection=selection)

    names = {path[-1]: number for path, number in ids_of(pq.read_schema(tmp_path / "f"))}
    assert names == {physical_name(field): field_id(field) for field in all_fields(schema)}
    assert len(names) == last == 10
    physical = physical_schema(schema)
    a, s, items, _ = physical.names
    y = physical.fields[1].type.names[1]
    stats = json.loads(written.stats)
    assert stats["nullCount"] == {a: 1, s: {y: 1}, items: 1}
    assert stats["minValues"] == {a: 1, s: {y: "z"}}
    assert (
        json.loads(describe_file(data_files.LOCAL, str(tmp_path / "f"), schema, selection).stats)["minValues"]
        == stats["minValues"]
    )
    for by_id in (False, True):
        assert data_files.read_file(tmp_path / "f", schema, by_id=by_id).to_pylist() == rows
