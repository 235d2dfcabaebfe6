"""The clauses of a MERGE, bound to a table: every assignment spelled out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql.types import DataType as SparkType

from airflow_delta.core.errors import SchemaMismatchError
from airflow_delta.core.schema import ArrayType, DataType, MapType, StructField, StructType
from airflow_delta.core.schema.data_types import INTEGERS
from airflow_delta.core.statements import Clause, MatchedDelete, MatchedUpdate
from airflow_delta.spark.merge.condition import SOURCE, TARGET
from airflow_delta.spark.spark_schema import quoted, to_spark


class ClauseKind(StrEnum):
    """What a clause does; the values are Delta's ``actionType``."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundClause:
    """One clause of the statement.

    Attributes:
        condition: SQL; None is every row.
        values: Target column, as the schema spells it, to SQL. An update also lists the columns that it carries along.
    """

    kind: ClauseKind
    condition: str | None = None
    values: Mapping[str, str]

    def logged(self) -> dict[str, str]:
        """The clause as Delta's operation parameters show it."""
        condition = {} if self.condition is None else {"predicate": self.condition}
        return {**condition, "actionType": self.kind.value}


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundClauses:
    """All clauses of a statement, bound to one schema.

    Attributes:
        clauses: In the statement's order.
        updated: Columns in which updates put new values: those that any of them assigns, or all.
        moves_rows: Whether an update may change the partition of a row.
        given: Types of the values that are not of their column's type, by ordinal of the clause and column.
    """

    clauses: tuple[BoundClause, ...]
    updated: StructType
    moves_rows: bool
    given: Mapping[tuple[int, str], DataType] = field(default_factory=dict)

    def of(self, *kinds: ClauseKind) -> list[BoundClause]:
        """The clauses of these kinds, in order."""
        return [each for each in self.clauses if each.kind in kinds]

    @property
    def tolerates_several_matches(self) -> bool:
        """Whether it does not matter how many source rows match a target row: nothing happens to it, or it goes anyway."""
        matched = self.of(ClauseKind.UPDATE, ClauseKind.DELETE)
        return not matched or (len(matched) == 1 and matched[0].kind is ClauseKind.DELETE and matched[0].condition is None)

    def texts(self) -> list[str]:
        """All SQL of the clauses."""
        conditions = (each.condition for each in self.clauses if each.condition is not None)
        return [*conditions, *(text for each in self.clauses for text in each.values.values())]

    def choice(self, is_matched: Column) -> Column:
        """The ordinal of the clause that a joined row takes: the first of its kind whose condition holds; else NULL."""
        return _first_of(
            (
                (~is_matched if each.kind is ClauseKind.INSERT else is_matched) & _condition(each),
                F.lit(position),
            )
            for position, each in enumerate(self.clauses)
        )

    def new_value(self, column: StructField, choice: Column) -> Column:
        """A column's new value in a row that takes the clause of this ordinal; NULL where the clause gives none."""
        branches = [
            (choice == position, _cast(F.expr(each.values[column.name]), self.given.get((position, column.name)), column.type))
            for position, each in enumerate(self.clauses)
            if column.name in each.values
        ]
        return (_first_of(branches) if branches else F.lit(None).cast(_spark_type(column.type))).alias(column.name)

    def is_of(self, choice: Column, *kinds: ClauseKind) -> Column:
        """Whether the clause of this ordinal is of one of these kinds; FALSE for NULL."""
        positions = [position for position, each in enumerate(self.clauses) if each.kind in kinds]
        return F.coalesce(choice.isin(positions), F.lit(False))


def of_source(name: str) -> str:
    """SQL of the source's column of this name."""
    return f"{SOURCE}.{quoted(name)}"


def bind_clauses(
    clauses: Sequence[Clause],
    schema: StructType,
    partition_columns: Sequence[str],
    *,
    table: str,
    whole_rows: bool,
) -> BoundClauses:
    """Spell out what each clause puts into which column.

    Args:
        clauses: The statement's.
        schema: The target's.
        partition_columns: Names of the columns that decide where a row lies.
        table: URI of the target, for the error.
        whole_rows: Whether updated rows are needed with all their columns.

    Raises:
        SchemaMismatchError: With every assignment to what is no column, or to one twice.
    """
    differences: dict[str, None] = {}
    bound = tuple(_bind(each, schema, differences) for each in clauses)
    if differences:
        raise SchemaMismatchError(table=table, differences=tuple(differences))
    assigned = {name for each in bound if each.kind is ClauseKind.UPDATE for name in each.values}
    moves_rows = not assigned.isdisjoint(partition_columns)
    updated = schema if moves_rows or (whole_rows and assigned) else _only(schema, assigned)
    carried = {name: f"{TARGET}.{quoted(name)}" for name in updated.names}
    return BoundClauses(
        clauses=tuple(
            replace(each, values={**carried, **each.values}) if each.kind is ClauseKind.UPDATE else each for each in bound
        ),
        updated=updated,
        moves_rows=moves_rows,
    )


def _bind(clause: Clause, schema: StructType, differences: dict[str, None]) -> BoundClause:
    if isinstance(clause, MatchedDelete):
        return BoundClause(kind=ClauseKind.DELETE, condition=clause.condition, values={})
    kind = ClauseKind.UPDATE if isinstance(clause, MatchedUpdate) else ClauseKind.INSERT
    if clause.assignments is None:
        values = {name: of_source(name) for name in schema.names}
    else:
        values = dict(_as_assigned(clause.assignments, schema, differences))
    return BoundClause(kind=kind, condition=clause.condition, values=values)


def _as_assigned(assignments: Mapping[str, str], schema: StructType, differences: dict[str, None]) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for name, text in assignments.items():
        plain = name.removeprefix(f"{TARGET}.").strip("`")
        field = schema.find(plain)
        if field is None:
            differences[f"{name}: no column of the table"] = None
        elif field.name in seen:
            differences[f"{field.name}: assigned twice"] = None
        else:
            seen.add(field.name)
            yield field.name, text


def _only(schema: StructType, names: set[str]) -> StructType:
    return StructType(tuple(each for each in schema.fields if each.name in names))


def _cast(value: Column, given: DataType | None, wanted: DataType) -> Column:
    """The value as its column takes it: members of structs by name, where Spark's cast would go by position.

    ``given`` is None where the types are equal. A number that the column cannot hold fails the job, also in a session whose
    casts would wrap it round or make it NULL (``spark.sql.ansi.enabled`` false).
    """
    match given, wanted:
        case None, _:
            return value
        case StructType(), StructType():
            members = [
                _cast(value.getField(member.name), member.type, each.type).alias(each.name)
                for each in wanted.fields
                if (member := given.find(each.name)) is not None
            ]
            return F.when(value.isNotNull(), F.struct(*members))
        case ArrayType(), ArrayType():
            return F.transform(value, lambda each: _cast(each, given.element_type, wanted.element_type))
        case MapType(), MapType():
            keys = F.transform(F.map_keys(value), lambda each: _cast(each, given.key_type, wanted.key_type))
            return F.map_from_arrays(
                keys, F.transform(F.map_values(value), lambda each: _cast(each, given.value_type, wanted.value_type))
            )
        case _:
            cast = value.cast(_spark_type(wanted))
            holds = cast == value if given in INTEGERS and wanted in INTEGERS else cast.isNotNull()
            lost = F.raise_error(F.concat(value.cast("string"), F.lit(f" does not fit the type {wanted}")))
            return F.when(value.isNull() | holds, cast).otherwise(lost)


def _spark_type(data_type: DataType) -> SparkType:
    return to_spark(StructType((StructField("value", data_type),))).fields[0].dataType


def _condition(clause: BoundClause) -> Column:
    return F.lit(True) if clause.condition is None else F.expr(clause.condition)


def _first_of(branches: Iterable[tuple[Column, Column]]) -> Column:
    (condition, value), *others = branches
    return reduce(lambda column, branch: column.when(*branch), others, F.when(condition, value))
