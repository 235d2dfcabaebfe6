"""The assignments of a clause: to columns of the table, or to single fields of structs.

Assignments to fields are combined to one value of their column, in which all other fields keep their values. A struct that is
NULL thereby becomes one in which only the assigned fields have values, as in Delta (``UpdateExpressionsSupport``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from airflow_delta.core.schema import DataType, StructField, StructType
from airflow_delta.core.table_changes.column_path import ColumnPath, overlap, parse_path, path_text
from airflow_delta.core.table_changes.refusal import Refusal
from airflow_delta.spark.constraints.assignments import is_default
from airflow_delta.spark.constraints.column_references import TARGET, unqualified_target
from airflow_delta.spark.schema_conversion import quoted

_MOST_LISTED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Assignment:
    """One assignment of the statement.

    Attributes:
        name: The assigned name, as the user spells it.
        path: The column or nested field, as the schema spells it.
        text: SQL of the value.
    """

    name: str
    path: ColumnPath
    text: str


def assigned_columns(
    assignments: Mapping[str, str],
    schema: StructType,
    differences: dict[str, None],
    *,
    former: StructType | None = None,
    is_insert: bool = False,
) -> dict[str, str]:
    """SQL of the new value of each column that is assigned as a whole or in part, by its name in the schema.

    Args:
        assignments: SQL by column or path of a nested field; names in any case, with backticks around those that contain dots.
        schema: The target's schema.
        differences: Gets a line for each assignment that is not possible.
        former: The target's schema before schema evolution; None without it.
        is_insert: Whether there is no existing row whose other fields could be kept, so that single fields cannot be assigned.
    """
    by_column: dict[str, list[_Assignment]] = {}
    for assignment in _found(assignments, schema, differences, is_insert=is_insert):
        others = by_column.setdefault(assignment.path[0], [])
        for earlier in others:
            if overlap(earlier.path, assignment.path):
                differences[f"{earlier.name} and {assignment.name}: both assign the same column or member; keep one"] = None
        others.append(assignment)
    return {
        name: _value(
            [(assignment.path[1:], assignment.text) for assignment in found],
            _member(schema, name),
            f"{TARGET}.{quoted(name)}",
            _member(former or schema, name),
        )
        for name, found in by_column.items()
    }


def _found(
    assignments: Mapping[str, str], schema: StructType, differences: dict[str, None], *, is_insert: bool
) -> Iterator[_Assignment]:
    for name, text in assignments.items():
        try:
            path = _path(name, schema)
        except Refusal as refusal:
            differences[f"{name}: {refusal}"] = None
            continue
        if len(path) > 1 and is_insert:
            differences[f"{name}: an insert assigns whole columns, not members of structs; assign the struct as a whole"] = None
        elif len(path) > 1 and is_default(text):
            differences[f"{name}: only columns have a DEFAULT, members of structs do not; assign a value"] = None
        else:
            yield _Assignment(name=name, path=path, text=text)


def _path(name: str, schema: StructType) -> ColumnPath:
    """The path that is meant, as the schema spells it. Raises ``Refusal`` if it does not exist, or is ambiguous."""
    behind = unqualified_target(name)
    if behind is None:
        return _unqualified_path(name, schema)
    member = _member_of_target(name, schema)
    try:
        column = _unqualified_path(behind, schema)
    except Refusal:
        if member is None:
            raise
        return member
    if member is not None:
        raise Refusal(f"ambiguous, write {behind} for the column or `{TARGET}`.{behind} for the member of {TARGET}")
    return column


def _member_of_target(name: str, schema: StructType) -> ColumnPath | None:
    """The path inside of the table's own column ``target``; None if there is no such field."""
    try:
        return _spelled(parse_path(name), schema)
    except Refusal:
        return None


def _unqualified_path(plain: str, schema: StructType) -> ColumnPath:
    column = schema.find(plain) or schema.find(plain.strip("`"))
    try:
        parts = parse_path(plain)
    except Refusal:
        if column is None:
            raise
        return (column.name,)
    if column is None:
        return _spelled(parts, schema)
    if len(parts) > 1 and isinstance(_type_of(parts[0], schema), StructType):
        member = ".".join(map(quoted, parts))
        raise Refusal(f"ambiguous, write the column as {quoted(column.name)} or the member of the struct as {member}")
    return (column.name,)


def _spelled(parts: ColumnPath, schema: StructType) -> ColumnPath:
    spelled: list[str] = []
    inside: DataType = schema
    for part in parts:
        whole = path_text(tuple(spelled))
        if not isinstance(inside, StructType):
            raise Refusal(f"{whole} is {inside}, not a struct, so it can only be assigned as a whole")
        field = inside.find(part)
        if field is None:
            there = f"the members of {whole}" if spelled else "the columns of the table"
            raise Refusal(f"not found; {there} are {_listed(inside.names)}")
        spelled.append(field.name)
        inside = field.type
    return tuple(spelled)


def _value(given: list[tuple[ColumnPath, str]], wanted: DataType | None, before: str, former: DataType | None) -> str:
    """SQL of a column or field.

    Args:
        given: The assignments to it (an empty path), or inside of it. If several assign the same, which is an error, the first
            counts.
        wanted: Its type.
        before: SQL of its existing value.
        former: The type of the existing value; None if rows do not have it yet.
    """
    for path, text in given:
        if not path:
            return text
    if not given or not isinstance(wanted, StructType):
        return "NULL" if former is None else before
    members = []
    for field in wanted.fields:
        inside = [(path[1:], text) for path, text in given if path[0] == field.name]
        value = _value(inside, field.type, f"{before}.{quoted(field.name)}", _member(former, field.name))
        members.append(f"(\n{value}\n) AS {quoted(field.name)}")
    return f"struct({', '.join(members)})"


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return ", ".join(names[:_MOST_LISTED]) + more


def _member(data_type: DataType | None, name: str) -> DataType | None:
    return _type_of(name, data_type) if isinstance(data_type, StructType) else None


def _type_of(name: str, struct: StructType) -> DataType | None:
    field: StructField | None = struct.find(name)
    return None if field is None else field.type
