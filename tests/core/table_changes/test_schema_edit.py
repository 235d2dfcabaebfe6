from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.schema import ArrayType, DecimalType, MapType, StructField, StructType
from airflow_delta.core.schema.char_columns import CHAR_VARCHAR, in_step
from airflow_delta.core.schema.data_types import (
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
)
from airflow_delta.core.table_changes.columns import FIRST, NewColumn, after
from airflow_delta.core.table_changes.ddl import parse_struct
from airflow_delta.core.table_changes.refusal import Refusal
from airflow_delta.core.table_changes.schema_edit import (
    add_column,
    drop_column,
    find_column,
    move_column,
    rename_column,
    widen_column,
)


def struct(**fields):
    return StructType(tuple(StructField(name, kind) for name, kind in fields.items()))


INNER = struct(x=INTEGER, y=STRING)
SCHEMA = struct(
    id=LONG, st=INNER, arr=ArrayType(INNER), m=MapType(STRING, INNER), deep=ArrayType(MapType(BYTE, ArrayType(SHORT)))
)
STRUCTS = [(), ("st",), ("arr", "element"), ("m", "value")]


def names_at(schema, path):
    found = schema
    for part in path:
        _, column = find_column(StructType((StructField("r", found),)), ("r", part))
        found = column.type
    return found.names


@pytest.mark.parametrize("path", STRUCTS)
@pytest.mark.parametrize(("position", "index"), [(None, -1), (FIRST, 0)])
def test_a_column_is_added_to_a_struct_at_any_depth(path, position, index):
    changed = add_column(SCHEMA, NewColumn(path=".".join((*path, "new")), type=LONG, comment="c", position=position))
    assert names_at(changed, path)[index] == "new"
    assert find_column(changed, (*path, "new"))[1] == StructField("new", LONG, True, {"comment": "c"})
    assert drop_column(changed, (*path, "NEW")) == SCHEMA


def test_a_column_is_added_behind_another():
    assert add_column(SCHEMA, NewColumn(path="st.z", type=LONG, position=after("X"))).find("st").type.names == ("x", "z", "y")


@pytest.mark.parametrize("path", ["ID", "st.X", "id.x", "nowhere.x", "arr.x", "m.key.x", "arr.element.y"])
def test_a_column_is_not_added_where_it_is_or_where_it_cannot_be(path):
    with pytest.raises(Refusal):
        add_column(SCHEMA, NewColumn(path=path, type=LONG))


def test_a_column_is_not_added_behind_one_that_is_elsewhere():
    with pytest.raises(Refusal, match="the column x, to place new after, does not exist"):
        add_column(SCHEMA, NewColumn(path="new", type=LONG, position=after("x")))


@pytest.mark.parametrize("path", [("id",), ("st", "x"), ("arr", "element", "x"), ("m", "value", "x")])
def test_a_column_is_renamed_in_place(path):
    changed = rename_column(SCHEMA, path, "renamed")
    assert names_at(changed, path[:-1])[SCHEMA.names.index(path[0]) if len(path) == 1 else 0] == "renamed"
    assert rename_column(changed, (*path[:-1], "renamed"), path[-1]) == SCHEMA


def test_a_name_can_change_its_case_but_not_be_taken():
    assert rename_column(SCHEMA, ("id",), "ID").names[0] == "ID"
    with pytest.raises(Refusal):
        rename_column(SCHEMA, ("id",), "ST")
    with pytest.raises(Refusal):
        rename_column(SCHEMA, ("arr", "element"), "item")


def test_the_only_column_of_a_struct_stays():
    one = struct(st=struct(x=LONG))
    for path in [("st",), ("st", "x")]:
        with pytest.raises(Refusal, match="only column"):
            drop_column(one, path)


def test_a_column_moves_within_its_struct():
    assert move_column(SCHEMA, ("m",), FIRST).names == ("m", "id", "st", "arr", "deep")
    assert move_column(SCHEMA, ("id",), after("arr")).names == ("st", "arr", "id", "m", "deep")
    with pytest.raises(Refusal):
        move_column(SCHEMA, ("id",), after("id"))


@given(st.permutations(SCHEMA.names))
def test_moves_reach_every_order(names):
    schema = SCHEMA
    for name in reversed(names):
        schema = move_column(schema, (name,), FIRST)
    assert schema.names == tuple(names)
    assert set(schema.fields) == set(SCHEMA.fields)


WIDER = [
    (BYTE, SHORT),
    (BYTE, DOUBLE),
    (INTEGER, LONG),
    (INTEGER, DOUBLE),
    (FLOAT, DOUBLE),
    (DATE, TIMESTAMP_NTZ),
    (INTEGER, DecimalType(10, 0)),
    (LONG, DecimalType(22, 2)),
    (DecimalType(5, 2), DecimalType(7, 4)),
]


@pytest.mark.parametrize(("before", "wider"), WIDER)
def test_a_type_is_widened_and_the_change_recorded(before, wider):
    changed = widen_column(struct(a=before), ("A",), wider).find("a")
    assert changed.type == wider
    (record,) = changed.metadata["delta.typeChanges"]
    assert set(record) == {"fromType", "toType"}


@pytest.mark.parametrize(
    ("before", "other"),
    [
        (LONG, INTEGER),
        (LONG, DOUBLE),
        (LONG, LONG),
        (DATE, TIMESTAMP),
        (INTEGER, DecimalType(9, 0)),
        (LONG, DecimalType(19, 0)),
        (DecimalType(5, 2), DecimalType(6, 4)),
        (STRING, LONG),
        (struct(x=BYTE), struct(x=SHORT)),
    ],
)
def test_a_type_is_not_changed_to_one_that_needs_a_rewrite(before, other):
    with pytest.raises(Refusal, match="cannot be widened"):
        widen_column(struct(a=before), ("a",), other)


@pytest.mark.parametrize(
    ("path", "owner", "wider", "field_path"),
    [
        (("deep", "element", "key"), ("deep",), INTEGER, "element.key"),
        (("deep", "ELEMENT", "Value", "element"), ("deep",), LONG, "element.value.element"),
        (("arr", "element", "x"), ("arr", "element", "x"), LONG, None),
        (("m", "value", "x"), ("m", "value", "x"), LONG, None),
    ],
)
def test_a_change_is_recorded_at_the_innermost_named_column(path, owner, wider, field_path):
    changed = widen_column(SCHEMA, path, wider)
    assert find_column(changed, path)[1].type == wider
    (record,) = find_column(changed, owner)[1].metadata["delta.typeChanges"]
    assert record.get("fieldPath") == field_path


def declared(schema):
    return {field.name: field.metadata.get(CHAR_VARCHAR) for field in schema.fields}


def test_lengths_that_are_declared_of_members_go_with_them():
    schema = parse_struct("s STRUCT<a: CHAR(3), b: INT, `c.d`: VARCHAR(5)>, m MAP<CHAR(2), STRUCT<x: CHAR(4)>>, plain INT")
    changed = drop_column(rename_column(schema, ("s", "a"), "z`"), ("s", "b"))
    changed = move_column(changed, ("s", "c.d"), FIRST)
    changed = add_column(changed, NewColumn(path="s.n", type=STRING, metadata={CHAR_VARCHAR: "varchar(7)"}))
    changed = rename_column(changed, ("m", "value", "x"), "y")
    assert declared(changed) == {
        "s": "struct<`c.d`:varchar(5),`z```:char(3),n:varchar(7)>",
        "m": "map<char(2),struct<y:char(4)>>",
        "plain": None,
    }
    assert changed.find("s").type.find("n").metadata == {}
    assert declared(drop_column(drop_column(drop_column(schema, ("s", "a")), ("s", "c.d")), ("plain",)))["s"] is None


def test_lengths_are_those_of_the_members_of_today_where_another_writer_left_the_text_as_it_was():
    stale = parse_struct("s STRUCT<a: CHAR(3), b: INT>").fields[0].metadata
    for members, wanted in {
        "z: STRING, b: INT": "struct<z:char(3),b:int>",
        "b: BIGINT": None,
        "b: INT, a: STRING": "struct<b:int,a:char(3)>",
        "a: STRING, b: INT, c: STRING": "struct<a:char(3),b:int,c:string>",
        "a: INT, b: INT": None,
    }.items():
        [field] = parse_struct(f"s STRUCT<{members}>").fields
        assert in_step(replace(field, metadata=stale)).metadata.get(CHAR_VARCHAR) == wanted
