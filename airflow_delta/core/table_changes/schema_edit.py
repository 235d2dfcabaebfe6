"""Edits of a schema: pure functions from schema to schema."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from airflow_delta.core.schema import ArrayType, DataType, MapType, StructField, StructType
from airflow_delta.core.schema.char_columns import in_step
from airflow_delta.core.schema.collations import renamed
from airflow_delta.core.schema.type_widening import TYPE_CHANGES, is_widening
from airflow_delta.core.table_changes.column_path import ColumnPath, parse_path, path_text
from airflow_delta.core.table_changes.columns import COMMENT, NewColumn, Position, type_name
from airflow_delta.core.table_changes.refusal import Refusal

ELEMENT, KEY, VALUE = "element", "key", "value"


def find_column(schema: StructType, path: ColumnPath) -> tuple[ColumnPath, StructField]:
    """The column at the path, and its path as spelled in the table.

    The element of a list, and key and value of a map, count as fields with these names, without metadata.

    Raises:
        Refusal: The column does not exist.
    """
    spelled: list[str] = []
    found = StructField("", schema)
    for part in path:
        inner = _members(found.type).find(part)
        if inner is None:
            raise Refusal(f"the column {path_text(path)} does not exist")
        spelled.append(inner.name)
        found = inner
    return tuple(spelled), found


def add_column(schema: StructType, column: NewColumn) -> StructType:
    """The schema with one more column.

    Raises:
        Refusal: It exists already, or its parent struct or the column to place it after does not exist.
    """
    *parents, name = parse_path(column.path)
    comment = {} if column.comment is None else {COMMENT: column.comment}
    field = StructField(name, column.type, True, {**column.metadata, **comment})

    def add(struct: StructType) -> StructType:
        if struct.find(name):
            raise Refusal(f"the column {column.path} already exists")
        return _placed(struct, field, column.position or _last(struct))

    return _with_struct(schema, tuple(parents), add)


def rename_column(schema: StructType, path: ColumnPath, name: str) -> StructType:
    """The schema with the column at the path renamed.

    Raises:
        Refusal: The column does not exist, or another one has this name.
    """

    def rename(struct: StructType) -> StructType:
        field = _member(struct, path)
        taken = struct.find(name)
        if taken is not None and taken is not field:
            raise Refusal(f"the column {path_text((*path[:-1], name))} already exists")
        return _exchanged(struct, field, renamed(field, name))

    return _with_struct(schema, path[:-1], rename)


def drop_column(schema: StructType, path: ColumnPath) -> StructType:
    """The schema without the column at the path.

    Raises:
        Refusal: The column does not exist, or is the only one in its struct.
    """

    def drop(struct: StructType) -> StructType:
        field = _member(struct, path)
        if len(struct.fields) == 1:
            raise Refusal(f"{path_text(path)} is the only column " + ("there" if len(path) == 1 else "of its struct"))
        return StructType(tuple(other for other in struct.fields if other is not field))

    return _with_struct(schema, path[:-1], drop)


def move_column(schema: StructType, path: ColumnPath, position: Position) -> StructType:
    """The schema with the column at the path moved within its struct.

    Raises:
        Refusal: The column, or the one to place it after, does not exist.
    """

    def move(struct: StructType) -> StructType:
        field = _member(struct, path)
        others = StructType(tuple(other for other in struct.fields if other is not field))
        return _placed(others, field, position)

    return _with_struct(schema, path[:-1], move)


def change_field(schema: StructType, path: ColumnPath, change: Callable[[StructField], StructField]) -> StructType:
    """The schema with ``change`` applied to the column at the path, which is a field of a struct.

    Raises:
        Refusal: The column does not exist.
    """

    def apply(struct: StructType) -> StructType:
        field = _member(struct, path)
        return _exchanged(struct, field, change(field))

    return _with_struct(schema, path[:-1], apply)


def widen_column(schema: StructType, path: ColumnPath, to: DataType) -> StructType:
    """The schema with a wider type for the column, element, key or value at the path.

    The change is recorded where readers look for it: at the innermost named field on the path.

    Protocol: PROTOCOL.md, "Type Widening".

    Raises:
        Refusal: The column does not exist, or the change would require rewriting data files.
    """
    path, column = find_column(schema, path)
    before = column.type
    if not is_widening(before, to):
        raise Refusal(f"{path_text(path)} is {before}, which cannot be widened to {to}", "rewrite the table with a cast")
    depth = _depth_of_named(schema, path)
    inner = path[depth:]
    record: dict[str, Any] = {"toType": type_name(to), "fromType": type_name(before)}
    if inner:
        record["fieldPath"] = ".".join(inner)

    def widen(field: StructField) -> StructField:
        before = field.metadata.get(TYPE_CHANGES, [])
        if not isinstance(before, list):
            raise Refusal(f"the type changes of {path_text(path)} are not a list", "restore the table to an older version")
        metadata = {**field.metadata, TYPE_CHANGES: [*before, record]}
        return replace(field, type=_at(field.type, inner, lambda _: to), metadata=metadata)

    return change_field(schema, path[:depth], widen)


def _depth_of_named(schema: StructType, path: ColumnPath) -> int:
    """How many parts of the path lead to the innermost struct field on it."""
    named = 0
    kind: DataType = schema
    for depth, part in enumerate(path, 1):
        named = depth if isinstance(kind, StructType) else named
        kind = _member(_members(kind), (part,)).type
    return named


def _with_struct(schema: StructType, path: ColumnPath, change: Callable[[StructType], StructType]) -> StructType:
    def apply(data_type: DataType) -> DataType:
        if not isinstance(data_type, StructType):
            raise Refusal(f"{path_text(path)} is {data_type}, which has no named fields")
        return change(data_type)

    changed = _at(schema, path, apply)
    return StructType(tuple(map(in_step, changed.fields))) if isinstance(changed, StructType) else schema


def _at(data_type: DataType, path: ColumnPath, change: Callable[[DataType], DataType]) -> DataType:
    """The type with ``change`` applied at the path."""
    if not path:
        return change(data_type)
    member = _member(_members(data_type), path[:1])
    inner = _at(member.type, path[1:], change)
    match data_type:
        case StructType():
            return _exchanged(data_type, member, replace(member, type=inner))
        case ArrayType():
            return replace(data_type, element_type=inner)
        case MapType():
            return replace(data_type, key_type=inner) if member.name == KEY else replace(data_type, value_type=inner)
        case _:
            raise Refusal(f"the column {path_text(path)} does not exist")


def _members(data_type: DataType) -> StructType:
    """The fields that the next part of a path can name."""
    match data_type:
        case StructType():
            return data_type
        case ArrayType(element, contains_null):
            return StructType((StructField(ELEMENT, element, contains_null),))
        case MapType(key, value, contains_null):
            return StructType((StructField(KEY, key, nullable=False), StructField(VALUE, value, contains_null)))
        case _:
            return StructType(())


def _member(struct: StructType, path: ColumnPath) -> StructField:
    field = struct.find(path[-1])
    if field is None:
        raise Refusal(f"the column {path_text(path)} does not exist")
    return field


def _exchanged(struct: StructType, field: StructField, new: StructField) -> StructType:
    return StructType(tuple(new if other is field else other for other in struct.fields))


def _last(struct: StructType) -> Position:
    return Position(after=struct.names[-1]) if struct.names else Position()


def _placed(struct: StructType, field: StructField, position: Position) -> StructType:
    if position.after is None:
        return StructType((field, *struct.fields))
    before = struct.find(position.after)
    if before is None:
        raise Refusal(f"the column {position.after}, to place {field.name} after, does not exist")
    index = struct.fields.index(before) + 1
    return StructType((*struct.fields[:index], field, *struct.fields[index:]))
