"""The clauses of a MERGE, bound to a table, with every assignment spelled out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import reduce
from operator import or_
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.errors import SchemaMismatchError
from airflow_delta.core.schema import DataType, StructField, StructType
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.statements import (
    Clause,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
)
from airflow_delta.spark.constraints.assignments import inserted, of_star, updated
from airflow_delta.spark.constraints.column_references import SOURCE, TARGET, column_references
from airflow_delta.spark.constraints.identity import NumberedRows, numbered
from airflow_delta.spark.constraints.store_assignment import stored_value
from airflow_delta.spark.constraints.values import holds_collation, of_column_type, with_generated
from airflow_delta.spark.dml.assigned_columns import assigned_columns
from airflow_delta.spark.folded import folded
from airflow_delta.spark.io.row_cache import RowCache
from airflow_delta.spark.io.sql_expression import sql_expression
from airflow_delta.spark.schema_conversion import quoted


class ClauseKind(StrEnum):
    """What a clause does; values are Delta's ``actionType``."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundClause:
    """One clause of the statement.

    Attributes:
        condition: SQL; None is every row.
        values: SQL by target column, as the schema spells it. For an update, also columns that keep their value.
        not_matched_by_source: Whether it applies to target rows that no source row matches.
        computed: Generated columns that are computed from the row's other new values.
        numbered: Identity columns that get the next value.
        is_star: Whether it takes every column from the source. Struct fields that the source lacks then keep their values.
    """

    kind: ClauseKind
    condition: str | None = None
    values: Mapping[str, str]
    not_matched_by_source: bool = False
    computed: frozenset[str] = frozenset()
    numbered: frozenset[str] = frozenset()
    is_star: bool = False

    def logged(self) -> dict[str, str]:
        """The clause in the form of Delta's operation parameters."""
        condition = {} if self.condition is None else {"predicate": self.condition}
        return {**condition, "actionType": self.kind.value}


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundClauses:
    """All clauses of a statement, bound to one schema.

    Attributes:
        clauses: The clauses, in the statement's order.
        updated: The columns that updated rows need: those that any update assigns, with all columns that share a rule of the
            table with them, or all columns.
        moves_rows: Whether an update may change the partition of a row.
        given: Types of the values that differ from their column's type, by index of the clause and column.
    """

    clauses: tuple[BoundClause, ...]
    updated: StructType
    moves_rows: bool
    given: Mapping[tuple[int, str], DataType] = field(default_factory=dict)

    def of(self, *kinds: ClauseKind) -> list[BoundClause]:
        """The clauses of these kinds, in order."""
        return [clause for clause in self.clauses if clause.kind in kinds]

    @property
    def tolerates_several_matches(self) -> bool:
        """Whether several source rows may match a target row: either nothing happens to it, or it is deleted anyway."""
        return not self.about_matches or self.deletes_matches

    @property
    def deletes_matches(self) -> bool:
        """Whether every target row that has a match is deleted."""
        kinds = [(clause.kind, clause.condition) for clause in self.about_matches]
        return kinds == [(ClauseKind.DELETE, None)]

    @property
    def about_matches(self) -> list[BoundClause]:
        """The clauses on matching pairs, in order."""
        return [clause for clause in self.of(ClauseKind.UPDATE, ClauseKind.DELETE) if not clause.not_matched_by_source]

    def texts(self) -> list[str]:
        """All SQL of the clauses."""
        conditions = (clause.condition for clause in self.clauses if clause.condition is not None)
        kept = (of_target(name) for position, name in self.given if self._keeps_members(position, name))
        return [*conditions, *kept, *(text for clause in self.clauses for text in clause.values.values())]

    def _keeps_members(self, position: int, column: str) -> bool:
        """Whether the clause with this index may leave a part of the column unchanged."""
        clause, given = self.clauses[position], self.given.get((position, column))
        return clause.is_star and clause.kind is ClauseKind.UPDATE and isinstance(given, StructType)

    @property
    def not_matched_by_source(self) -> list[BoundClause]:
        """The clauses on target rows that no source row matches, in order."""
        return [clause for clause in self.clauses if clause.not_matched_by_source]

    def clause_index(self, in_target: Column, in_source: Column) -> Column:
        """The index of the clause that applies to a joined row: the first of its kind whose condition holds; NULL for none.

        Args:
            in_target: Whether the row has a target row; never NULL.
            in_source: Whether the row has a source row; never NULL.
        """

        def is_about(clause: BoundClause) -> Column:
            if clause.not_matched_by_source:
                return ~in_source
            return ~in_target if clause.kind is ClauseKind.INSERT else in_target & in_source

        return _first_of(
            (is_about(clause) & _condition(clause), F.lit(position)) for position, clause in enumerate(self.clauses)
        )

    def new_value(self, column: StructField, clause_index: Column) -> Column:
        """A column's new value in a row to which the clause with this index applies; NULL if the clause assigns none."""
        is_collated = holds_collation(column)
        if self._is_copied(column.name) and not is_collated:
            # coalesce keeps the source column's metadata from being taken along.
            return sql_expression(f"coalesce({self.clauses[0].values[column.name]}) AS {quoted(column.name)}")
        values = [(position, self._value(position, column)) for position in self._giving(column.name)]
        if is_collated:
            values = [(position, of_column_type(value, column)) for position, value in values]
        if not values:
            return of_column_type(F.lit(None), column).alias(column.name)
        return _first_of((clause_index == position, value) for position, value in values).alias(column.name)

    def _giving(self, column: str) -> list[int]:
        """The indexes of the clauses that assign the column."""
        return [position for position, clause in enumerate(self.clauses) if column in clause.values]

    def _is_copied(self, column: str) -> bool:
        """Whether every matched or inserted row gets this column from the source column of the same name."""
        matches = self.about_matches
        return (
            not self.not_matched_by_source
            and bool(matches and matches[-1].condition is None)
            and all(name_key(clause.values.get(column, "")) == name_key(of_source(column)) for clause in self.clauses)
            and not any((position, column) in self.given for position in range(len(self.clauses)))
        )

    def _value(self, position: int, column: StructField) -> Column:
        text, given = self.clauses[position].values[column.name], self.given.get((position, column.name))
        former = sql_expression(of_target(column.name)) if self._keeps_members(position, column.name) else None
        return stored_value(sql_expression(text), given, column.type, former)

    def is_of(self, clause_index: Column, *kinds: ClauseKind, not_matched_by_source: bool = False) -> Column:
        """Whether the clause with this index is of one of these kinds; FALSE for NULL."""
        return _is_one_of(clause_index, self._ordinals(*kinds, not_matched_by_source=not_matched_by_source))

    def are_of(self, clause_index: pa.ChunkedArray, *kinds: ClauseKind, not_matched_by_source: bool = False) -> pa.ChunkedArray:
        """As ``is_of``, for rows that this process holds."""
        ordinals = self._ordinals(*kinds, not_matched_by_source=not_matched_by_source)
        return pc.is_in(clause_index, pa.array(ordinals, pa.int32()))

    def _ordinals(self, *kinds: ClauseKind, not_matched_by_source: bool) -> list[int]:
        return [
            position
            for position, clause in enumerate(self.clauses)
            if clause.kind in kinds and (clause.not_matched_by_source or not not_matched_by_source)
        ]

    def with_generated(self, rows: DataFrame, clause_index: Column, schema: StructType, table: str) -> DataFrame:
        """The rows with generated columns computed from the new values, where the clause leaves them to the table."""
        where = {name: self._leave(clause_index, name, "computed") for clause in self.clauses for name in clause.computed}
        return with_generated(rows, where, schema, table=table)

    def with_numbers(
        self, rows: DataFrame, clause_index: Column, schema: StructType, table: str, cache: RowCache
    ) -> NumberedRows:
        """The rows with identity values assigned, where the clause leaves them to the table; computed once."""
        columns = [field for field in schema.fields if any(field.name in clause.numbered for clause in self.clauses)]
        if not columns:
            return NumberedRows(frame=rows)
        where = {field.name: self._leave(clause_index, field.name, "numbered") for field in columns}
        wanted = folded(or_, list(where.values()))
        numbers = numbered(rows.where(wanted), columns, table=table, cache=cache, where=where)
        return NumberedRows(frame=rows.where(~wanted).unionByName(numbers.frame), marks=numbers.marks)

    def _leave(self, clause_index: Column, column: str, to: Literal["computed", "numbered"]) -> Column:
        """Whether the clause with this index leaves the column to the table; FALSE for NULL."""
        positions = [position for position, clause in enumerate(self.clauses) if column in getattr(clause, to)]
        return _is_one_of(clause_index, positions)


def of_target(name: str) -> str:
    """SQL of the target column with this name."""
    return f"{TARGET}.{quoted(name)}"


def of_source(name: str) -> str:
    """SQL of the source column with this name."""
    return f"{SOURCE}.{quoted(name)}"


def bind_clauses(
    clauses: Sequence[Clause],
    schema: StructType,
    partition_columns: Sequence[str],
    *,
    table: str,
    whole_rows: bool,
    rules: Collection[str] = (),
    source_columns: Collection[str] | None = None,
    former: StructType | None = None,
) -> BoundClauses:
    """Determine the value of each column in each clause.

    Args:
        clauses: The statement's clauses.
        schema: The target's schema.
        partition_columns: Names of the partition columns.
        table: URI of the target, for errors.
        whole_rows: Whether updated rows are needed with all their columns.
        rules: SQL that must be TRUE for every row (constraints).
        source_columns: Names of the source's columns, for ``*``; None if it has all columns of the target.
        former: The table's columns before schema evolution; None without it. With it, ``*`` leaves columns unchanged that the
            source lacks.

    Raises:
        SchemaMismatchError: An assignment is to an unknown column or field, to the same one twice, or to one that only the
            table fills; the error lists all of them.
    """
    differences: dict[str, None] = {}
    star = of_star(schema, source_columns)
    if former is not None:
        there = {name_key(name) for name in source_columns or ()}
        star = [name for name in star if name_key(name) in there]
    spelled = {name_key(name): name for name in source_columns or ()}  # a case-sensitive session resolves no other spelling
    values = {name: of_source(spelled.get(name_key(name), name)) for name in star}
    bound = tuple(_bind(clause, schema, former, differences, values) for clause in clauses)
    if differences:
        raise SchemaMismatchError(table=table, differences=tuple(differences))
    assigned = {name for clause in bound if clause.kind is ClauseKind.UPDATE for name in (*clause.values, *clause.computed)}
    moves_rows = not assigned.isdisjoint(partition_columns)
    columns = schema if moves_rows or (whole_rows and assigned) else _with_rules(schema, assigned, rules)
    carried = {name: "NULL" if former and not former.find(name) else of_target(name) for name in columns.names}
    return BoundClauses(
        clauses=tuple(
            replace(clause, values={**carried, **clause.values}) if clause.kind is ClauseKind.UPDATE else clause
            for clause in bound
        ),
        updated=columns,
        moves_rows=moves_rows,
    )


def _bind(
    clause: Clause, schema: StructType, former: StructType | None, differences: dict[str, None], star: Mapping[str, str]
) -> BoundClause:
    not_matched_by_source = isinstance(clause, NotMatchedBySourceUpdate | NotMatchedBySourceDelete)
    if isinstance(clause, MatchedDelete | NotMatchedBySourceDelete):
        return BoundClause(
            kind=ClauseKind.DELETE, condition=clause.condition, values={}, not_matched_by_source=not_matched_by_source
        )
    kind = ClauseKind.UPDATE if isinstance(clause, MatchedUpdate | NotMatchedBySourceUpdate) else ClauseKind.INSERT
    if clause.assignments is None:
        values = dict(star)
    else:
        is_insert = kind is ClauseKind.INSERT
        values = assigned_columns(clause.assignments, schema, differences, former=former, is_insert=is_insert)
    assigned = (updated if kind is ClauseKind.UPDATE else inserted)(values, schema, differences)
    return BoundClause(
        kind=kind,
        condition=clause.condition,
        values=assigned.values,
        not_matched_by_source=not_matched_by_source,
        computed=assigned.computed,
        numbered=assigned.numbered,
        is_star=clause.assignments is None,
    )


def _with_rules(schema: StructType, names: set[str], rules: Collection[str]) -> StructType:
    """The named columns, and all columns that share a rule with one of them."""
    fields = StructType(tuple(field for field in schema.fields if field.name in names))
    about = [text for text in rules if column_references([text], fields).fields]
    beside = set(column_references(about, schema).names) if about else set()
    return StructType(tuple(field for field in schema.fields if field.name in names | beside))


def _condition(clause: BoundClause) -> Column:
    return F.lit(True) if clause.condition is None else sql_expression(clause.condition)


def _is_one_of(number: Column, numbers: Sequence[int]) -> Column:
    """Whether a number is one of these; FALSE for NULL. Makes few JVM calls, which dominate small statements."""
    return folded(or_, [number.eqNullSafe(one) for one in numbers]) if numbers else F.lit(False)


def _first_of(branches: Iterable[tuple[Column, Column]]) -> Column:
    (condition, value), *others = branches
    return reduce(lambda column, branch: column.when(*branch), others, F.when(condition, value))
