"""Evolution of a table's schema by rows with more or wider columns; computed without Spark and without I/O.

Follows ``SchemaMergingUtils.mergeSchemas`` of Delta Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from airflow_delta.core.errors import SchemaMismatchError
from airflow_delta.core.schema import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
    parse_schema,
    schema_differences,
    schema_json,
)
from airflow_delta.core.schema.char_columns import CHAR_VARCHAR, in_step
from airflow_delta.core.schema.collations import COLLATIONS
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.schema.data_types import DOUBLE, INTEGERS, VOID
from airflow_delta.core.schema.type_widening import is_widening
from airflow_delta.core.table_changes import schema_edit
from airflow_delta.core.table_changes.column_path import ColumnPath
from airflow_delta.core.table_changes.definition import Definition, changed_definition
from airflow_delta.core.table_changes.expressions import check_not_used
from airflow_delta.core.table_changes.refusal import refusals
from airflow_delta.spark.io.all_nullable import all_nullable, nullable_field

_TYPE_WIDENING = "delta.enableTypeWidening"
_KEPT_COLUMN_METADATA = ("comment", CHAR_VARCHAR, COLLATIONS)


def evolved(table: StructType, rows: StructType, *, widen: bool, table_uri: str) -> StructType:
    """The table's columns in order, followed by the columns that only the rows have; likewise at every depth.

    Names are matched ignoring case, and keep the table's spelling. New columns are nullable. A column keeps its type if the
    rows' values are assignable to it, and always keeps NOT NULL and its metadata; columns that the rows lack stay.

    Args:
        table: The schema to extend, with ids and physical names; new columns get theirs in ``evolved_definition``.
        rows: The schema of the rows.
        widen: Whether the table allows type widening; each such change is recorded as the protocol requires.
        table_uri: URI of the table, for errors.

    Raises:
        SchemaMismatchError: Columns of the rows do not fit the table; the error lists all of them.
    """
    schema = extended(table, rows, widen=widen)
    if differences := schema_differences(rows, as_new(schema), missing_as_null=True):
        raise SchemaMismatchError(table=table_uri, differences=differences)
    return schema


def extended(table: StructType, rows: StructType, *, widen: bool) -> StructType:
    """As ``evolved``, but columns that do not fit stay unchanged, for callers that report all differences themselves."""
    schema = _extended(table, rows)
    for path, to in _widened(table, rows, ()) if widen else ():
        schema = schema_edit.widen_column(schema, path, to)
    return schema


def evolved_definition(before: Definition, schema: StructType, *, table_uri: str) -> Definition:
    """The table with the schema from ``evolved`` or ``extended``: new columns get ids, and required features are listed.

    Raises:
        InvalidTableChangeError: A CHECK constraint or a generated column references a column whose type changes.
        InvalidTableDefinitionError: A table cannot have these columns.
        UnsupportedWriterFeatureError: The columns need a feature that is not supported here.
    """
    if schema == before.schema:
        return before
    with refusals(table_uri, "WRITE"):
        for path, _ in _widened(before.schema, schema, ()):
            check_not_used(before.metadata, before.schema, path, "widen")
        return changed_definition(table_uri, before, replace(before.metadata, schema_string=schema_json(schema)))


def evolution(before: Definition, rows: StructType, *, table_uri: str) -> Definition:
    """The table's definition after rows with these columns are written; unchanged if it has them all. Raises as those two."""
    widen = before.metadata.configuration.get(_TYPE_WIDENING, "").lower() == "true"
    schema = evolved(parse_schema(before.metadata.schema_string), rows, widen=widen, table_uri=table_uri)
    return evolved_definition(before, schema, table_uri=table_uri)


def as_new(schema: StructType) -> StructType:
    """The columns as in a new table: all nullable, as in a table that Delta Spark creates from a DataFrame.

    Of their metadata only descriptions are kept: rules of the table that they come from do not apply.
    """
    return all_nullable(schema, keep=_KEPT_COLUMN_METADATA)


def _extended(table: StructType, rows: StructType) -> StructType:
    known = [_extended_field(field, rows.find(field.name)) for field in table.fields]
    seen = {name_key(field.name) for field in known}
    for given in rows.fields:
        if name_key(given.name) not in seen and _has_values(given.type):
            seen.add(name_key(given.name))
            known.append(nullable_field(given, keep=_KEPT_COLUMN_METADATA))
    return StructType(tuple(known))


def _extended_field(field: StructField, given: StructField | None) -> StructField:
    return field if given is None else in_step(replace(field, type=_extended_type(field.type, given.type)))


def _extended_type(known: DataType, given: DataType) -> DataType:
    match known, given:
        case StructType(), StructType():
            return _extended(known, given)
        case ArrayType(), ArrayType():
            return replace(known, element_type=_extended_type(known.element_type, given.element_type))
        case MapType(), MapType():
            return replace(
                known,
                key_type=_extended_type(known.key_type, given.key_type),
                value_type=_extended_type(known.value_type, given.value_type),
            )
        case _:
            return known


def _has_values(data_type: DataType) -> bool:
    """Whether a column can have this type: not if it, or a part of it, can only be NULL."""
    match data_type:
        case StructType(fields):
            return all(_has_values(field.type) for field in fields)
        case ArrayType(element):
            return _has_values(element)
        case MapType(key, value):
            return _has_values(key) and _has_values(value)
        case _:
            return data_type != VOID


def _widened(known: DataType, given: DataType, path: ColumnPath) -> Iterator[tuple[ColumnPath, DataType]]:
    """The paths at which the rows have a wider type, with that type."""
    match known, given:
        case StructType(fields), StructType():
            for field in fields:
                if (found := given.find(field.name)) is not None:
                    yield from _widened(field.type, found.type, (*path, field.name))
        case ArrayType(), ArrayType():
            yield from _widened(known.element_type, given.element_type, (*path, schema_edit.ELEMENT))
        case MapType(), MapType():
            yield from _widened(known.key_type, given.key_type, (*path, schema_edit.KEY))
            yield from _widened(known.value_type, given.value_type, (*path, schema_edit.VALUE))
        case _ if is_widening(known, given) and not _is_another_kind(known, given):
            yield path, given


def _is_another_kind(known: DataType, given: DataType) -> bool:
    """Whether an integer would become a type with a fraction: Delta only allows that explicitly, by ALTER TABLE."""
    return known in INTEGERS and (given == DOUBLE or isinstance(given, DecimalType))
