"""Schema evolution of a MERGE: source columns that a clause writes are added to the target."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from airflow_delta.core.schema import StructType, parse_schema
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import Clause, MatchedUpdate, MergeStatement, NotMatchedInsert
from airflow_delta.core.table_changes.column_path import ColumnPath, folded, parse_path
from airflow_delta.core.table_changes.definition import Definition
from airflow_delta.core.table_changes.refusal import Refusal
from airflow_delta.spark.constraints.column_references import unqualified_target
from airflow_delta.spark.statement.schema_evolution import evolved_definition, extended

_TYPE_WIDENING = "delta.enableTypeWidening"


def definition_after(snapshot: Snapshot, statement: MergeStatement, source: StructType) -> Definition:
    """The table's definition after the commit; differs only if the statement evolves the schema.

    A source column, or a field of its structs, is added if a clause takes every column, or assigns it by name. Columns that do
    not fit are left unchanged; the analysis of the clauses reports them.

    Args:
        snapshot: The target.
        statement: The statement.
        source: The schema of the source.

    Raises:
        InvalidTableChangeError: A rule of the table references a column whose type would change.
        UnsupportedWriterFeatureError: The new columns need a feature that is not supported here.
    """
    before = Definition(metadata=snapshot.metadata, protocol=snapshot.protocol)
    if not statement.schema_evolution:
        return before
    rows = _written_columns(statement.clauses, source)
    widen = before.metadata.configuration.get(_TYPE_WIDENING, "").lower() == "true"
    schema = extended(parse_schema(before.metadata.schema_string), rows, widen=widen)
    return evolved_definition(before, schema, table_uri=snapshot.table_uri)


def _written_columns(clauses: Iterable[Clause], source: StructType) -> StructType:
    about_source = [clause for clause in clauses if isinstance(clause, MatchedUpdate | NotMatchedInsert)]
    if any(clause.assignments is None for clause in about_source):
        return source
    names = {name for clause in about_source for name in clause.assignments or ()}
    return _named(source, {path for name in names for path in _paths(name)})


def _paths(name: str) -> Iterator[ColumnPath]:
    """The paths that an assignment may mean, folded: a column whose name contains dots, or a nested field."""
    plain = unqualified_target(name) or name
    yield (name_key(plain.strip("`")),)
    with suppress(Refusal):
        yield folded(parse_path(plain))


def _named(source: StructType, paths: Collection[ColumnPath]) -> StructType:
    """The fields with these paths, and structs reduced to their fields with such paths."""
    found = []
    for field in source.fields:
        inside = {path[1:] for path in paths if path[0] == name_key(field.name)}
        if () in inside:
            found.append(field)
        elif inside and isinstance(field.type, StructType) and (members := _named(field.type, inside)).fields:
            found.append(replace(field, type=members))
    return StructType(tuple(found))
