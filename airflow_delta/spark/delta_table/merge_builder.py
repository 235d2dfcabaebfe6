"""MERGE, built up clause by clause as delta-spark's Python class does it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.statements import (
    Clause,
    MatchedDelete,
    MatchedUpdate,
    MergeStatement,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    SqlSource,
)
from airflow_delta.spark.arguments import checks_arguments
from airflow_delta.spark.constraints.assignments import DEFAULT, is_default
from airflow_delta.spark.constraints.column_references import TARGET, unqualified_target
from airflow_delta.spark.delta_table.answers import merge_row
from airflow_delta.spark.delta_table.connect_messages import is_literal
from airflow_delta.spark.delta_table.expressions import Expression, Names, as_text
from airflow_delta.spark.delta_table.session_settings import grows_schemas
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.errors import ArgumentError
from airflow_delta.spark.session import temporary_views

# ruff: noqa: N802, A002 - the names of methods and arguments are delta-spark's

_SHOWN_NAME = re.compile(r"Column<'(\w+)'>")

Assignments = Mapping[str, Expression]
"""Column of the table to its value."""


def _do_nothing() -> None:
    """What is to be done behind the commit to a table that has no name."""


@checks_arguments
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeltaMergeBuilder:
    """Made by ``DeltaTable.merge``; each method gives a builder with one clause more. Of the first that fits a row is taken.

    Attributes:
        spark: The session.
        log: The table's log.
        source: The rows to be merged.
        condition: Which rows match, as SQL text of a statement.
        target_names: What expressions may name of the table.
        source_names: What they may name of the rows to be merged.
        clauses: So far, in order.
        evolves: Whether the table gets the columns that only the source has.
        published: Called behind the commit.
    """

    spark: SparkSession
    log: DeltaLog
    source: DataFrame
    condition: str
    target_names: Names
    source_names: Names
    clauses: tuple[Clause, ...] = ()
    evolves: bool = False
    published: Callable[[], None] = _do_nothing

    def whenMatchedUpdate(self, condition: Expression | None = None, set: Assignments | None = None) -> DeltaMergeBuilder:
        """Give columns of a matched row these values, where the condition holds."""
        both = self._both()
        return self._and(MatchedUpdate(condition=_optional(condition, both), assignments=self._values(set, both, "set")))

    def whenMatchedUpdateAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Give all columns of a matched row the values of the source's columns of these names."""
        return self._and(MatchedUpdate(condition=_optional(condition, self._both())))

    def whenMatchedDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Delete a matched row, where the condition holds."""
        return self._and(MatchedDelete(condition=_optional(condition, self._both())))

    def whenNotMatchedInsert(self, condition: Expression | None = None, values: Assignments | None = None) -> DeltaMergeBuilder:
        """Insert a row of the source that matches none; columns that are not named get their default, or NULL."""
        names = self.source_names
        assignments = self._values(values, names, "values")
        return self._and(NotMatchedInsert(condition=_optional(condition, names), assignments=assignments))

    def whenNotMatchedInsertAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Insert a row of the source that matches none, column by column of these names."""
        return self._and(NotMatchedInsert(condition=_optional(condition, self.source_names)))

    def whenNotMatchedBySourceUpdate(
        self, condition: Expression | None = None, set: Assignments | None = None
    ) -> DeltaMergeBuilder:
        """Give columns of a row of the table that no row of the source matches these values."""
        names = self.target_names
        assignments = self._values(set, names, "set")
        return self._and(NotMatchedBySourceUpdate(condition=_optional(condition, names), assignments=assignments))

    def whenNotMatchedBySourceDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Delete a row of the table that no row of the source matches, where the condition holds."""
        return self._and(NotMatchedBySourceDelete(condition=_optional(condition, self.target_names)))

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Let the table get the columns that only the source has."""
        return replace(self, evolves=True)

    def execute(self) -> DataFrame:
        """Merge, as one commit; one row with the number of affected rows. Raises as ``merge``.

        The session is that of the source's rows, which may be another one than the table's: a batch of a stream has its own.
        """
        spark = self.source.sparkSession
        view = f"merge_source_{uuid.uuid4().hex}"
        statement = MergeStatement(
            table=self.log.table_uri,
            source=SqlSource(f"TABLE {view}"),
            on=self.condition,
            clauses=self.clauses,
            schema_evolution=self.evolves or grows_schemas(self.spark),
        )
        with temporary_views(spark, {view: self.source}):
            done = merge(spark, self.log, statement)
        self.published()
        return merge_row(self.spark, done)

    def _both(self) -> Names:
        return self.target_names.beside(self.source_names)

    def _values(self, assignments: Assignments | None, names: Names, argument: str) -> dict[str, str]:
        return assigned(assignments, names, target=self.target_names, statement="merge", argument=argument)

    def _and(self, clause: Clause) -> DeltaMergeBuilder:
        return replace(self, clauses=(*self.clauses, clause))


def _optional(condition: Expression | None, names: Names) -> str | None:
    return None if condition is None else as_text(condition, names)


def assigned(assignments: Assignments | None, names: Names, *, target: Names, statement: str, argument: str) -> dict[str, str]:
    """The assignments as a statement has them.

    Args:
        assignments: The user's.
        names: What values may name.
        target: What columns of the table are named by.
        statement: Whose they are, for the error.
        argument: Where the user gave them, likewise.

    Raises:
        ArgumentError: There are none.
    """
    if assignments is None:
        raise ArgumentError(statement=statement, detail=f"expected {argument} to map columns to values, found None")
    return {_target_column(column, target): _value_text(value, names) for column, value in assignments.items()}


def _value_text(value: Expression, names: Names) -> str:
    """The value as a statement has it; ``DEFAULT``, also as ``expr("DEFAULT")``, is the column's default, as in Spark SQL."""
    said = value if isinstance(value, str) else _SHOWN_NAME.sub(r"\1", str(value))
    return DEFAULT if is_default(said) and not is_literal(value) else as_text(value, names)


def _target_column(name: str, names: Names) -> str:
    """A column of the table, without the alias that the user may have put before it."""
    for qualifier, side in names.sides.items():
        parts = name.split(".")
        if side == TARGET and len(parts) > len(qualifier) and tuple(map(name_key, parts[: len(qualifier)])) == qualifier:
            column = ".".join(parts[len(qualifier) :])
            member = unqualified_target(column)  # of a struct, which a statement would take for its name of the table
            return column if member is None else f"`{TARGET}`.{member}"
    return name
