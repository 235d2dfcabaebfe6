"""Values that the table supplies if UPDATE and MERGE assign none: defaults, generated columns, identity values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.spark.constraints.column_references import column_references
from airflow_delta.spark.constraints.column_rules import Identity, default_text, generation_text
from airflow_delta.spark.constraints.values import has_value_when_missing, refused_value

DEFAULT = "DEFAULT"
"""The value that stands for the column's default. Spark: ``ResolveDefaultColumns``."""

_NULL = "NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignments:
    """The values that one clause assigns to columns.

    Attributes:
        values: SQL over target and source, by column.
        computed: Generated columns that are computed from the other new values.
        numbered: Identity columns that get the next value.
    """

    values: Mapping[str, str]
    computed: frozenset[str] = frozenset()
    numbered: frozenset[str] = frozenset()


def of_star(schema: StructType, source_columns: Collection[str] | None) -> list[str]:
    """The columns that ``*`` takes from the source: all, except those that the source lacks and the table itself fills.

    Args:
        schema: The target's schema.
        source_columns: Names of the source's columns; None if it has all columns.
    """
    if source_columns is None:
        return list(schema.names)
    found = {name_key(name) for name in source_columns}
    return [field.name for field in schema.fields if name_key(field.name) in found or not has_value_when_missing(field)]


def updated(values: Mapping[str, str], schema: StructType, differences: dict[str, None]) -> Assignments:
    """The assignments of an update: ``DEFAULT`` replaced by SQL, and generated columns that depend on assigned columns.

    Args:
        values: SQL by column, as the schema spells it.
        schema: The target's schema.
        differences: Gets a line for each assignment that is not possible.
    """
    for field in _of(values, schema):
        if Identity.of(field) is not None:
            differences[f"{field.name}: the numbers of an identity column are not updated"] = None
    spelled = _without_generated_defaults(values, schema)
    changed = StructType(tuple(field for field in schema.fields if field.name in values))
    computed = {
        field.name
        for field in _generated(schema)
        if field.name not in spelled
        and (field.name in values or column_references([str(generation_text(field))], changed).fields)
    }
    return Assignments(values=spelled, computed=frozenset(computed))


def inserted(values: Mapping[str, str], schema: StructType, differences: dict[str, None]) -> Assignments:
    """The assignments of an insert: ``DEFAULT`` replaced by SQL, and the table's own values for columns that are left out.

    Args:
        values: SQL by column, as the schema spells it.
        schema: The target's schema.
        differences: Gets a line for each assignment that is not possible.
    """
    named = {name: text for name, text in values.items() if not (is_default(text) and _is_numbered(schema, name))}
    for field in _of(named, schema):
        if (refused := refused_value(field)) is not None:
            differences[refused] = None
    spelled = _without_generated_defaults(named, schema)
    missing = [field for field in schema.fields if field.name not in spelled]
    defaults = {field.name: text for field in missing if (text := default_text(field)) is not None}
    return Assignments(
        values={**spelled, **defaults},
        computed=frozenset(field.name for field in missing if generation_text(field) is not None),
        numbered=frozenset(field.name for field in missing if Identity.of(field) is not None),
    )


def _of(names: Collection[str], schema: StructType) -> list[StructField]:
    return [field for field in schema.fields if field.name in names]


def _generated(schema: StructType) -> Iterator[StructField]:
    return (field for field in schema.fields if generation_text(field) is not None)


def _is_numbered(schema: StructType, name: str) -> bool:
    return any(Identity.of(field) is not None for field in _of([name], schema))


def is_default(text: str) -> bool:
    """Whether the text is ``DEFAULT``, which stands for the table's own value."""
    return text.strip().upper() == DEFAULT


def _without_generated_defaults(values: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """The assignments with ``DEFAULT`` replaced by what it stands for, without those to generated columns."""
    generated = {field.name for field in _generated(schema)}
    defaults = {field.name: default_text(field) or _NULL for field in schema.fields}
    return {
        name: defaults[name] if is_default(text) else text
        for name, text in values.items()
        if not (is_default(text) and name in generated)
    }
