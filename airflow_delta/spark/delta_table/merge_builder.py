"""A builder for MERGE, like that of delta-spark's Python class."""

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
"""Value by column of the table."""


def _do_nothing() -> None:
    """Does nothing after the commit: for a table without a catalog name."""


@checks_arguments
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeltaMergeBuilder:
    """Made by ``DeltaTable.merge``; each method returns a new builder with one more clause. The first clause that fits applies.

    Attributes:
        spark: The session.
        log: The table's log.
        source: The source rows.
        condition: The condition by which rows match, as SQL text of a statement.
        target_names: What expressions may name on the target's side.
        source_names: What expressions may name on the source's side.
        clauses: The clauses so far, in order.
        evolves: Whether columns that only the source has are added to the table.
        published: Called after the commit.
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
        """Update a matched row with these values, if the condition holds."""
        both = self._both()
        return self._and(MatchedUpdate(condition=_optional(condition, both), assignments=self._values(set, both, "set")))

    def whenMatchedUpdateAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Update all columns of a matched row from the source columns of the same names."""
        return self._and(MatchedUpdate(condition=_optional(condition, self._both())))

    def whenMatchedDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Delete a matched row, if the condition holds."""
        return self._and(MatchedDelete(condition=_optional(condition, self._both())))

    def whenNotMatchedInsert(self, condition: Expression | None = None, values: Assignments | None = None) -> DeltaMergeBuilder:
        """Insert a source row without match; columns that are not named get their default, or NULL."""
        names = self.source_names
        assignments = self._values(values, names, "values")
        return self._and(NotMatchedInsert(condition=_optional(condition, names), assignments=assignments))

    def whenNotMatchedInsertAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Insert a source row without match; all columns are taken from the source by name."""
        return self._and(NotMatchedInsert(condition=_optional(condition, self.source_names)))

    def whenNotMatchedBySourceUpdate(
        self, condition: Expression | None = None, set: Assignments | None = None
    ) -> DeltaMergeBuilder:
        """Update a target row that no source row matches with these values."""
        names = self.target_names
        assignments = self._values(set, names, "set")
        return self._and(NotMatchedBySourceUpdate(condition=_optional(condition, names), assignments=assignments))

    def whenNotMatchedBySourceDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Delete a target row that no source row matches, if the condition holds."""
        return self._and(NotMatchedBySourceDelete(condition=_optional(condition, self.target_names)))

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Add columns to the table that only the source has."""
        return replace(self, evolves=True)

    def execute(self) -> DataFrame:
        """Run the MERGE as one commit; returns one row with the numbers of affected rows. Raises as ``merge``.

        Runs in the session of the source rows, which may differ from the table's: a micro-batch of a stream has its own.
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
    """The assignments in the form of a statement.

    Args:
        assignments: The user's assignments.
        names: What values may name.
        target: The names by which columns of the table may be given.
        statement: Name of the statement, for the error.
        argument: Name of the argument, for the error.

    Raises:
        ArgumentError: There are no assignments.
    """
    if assignments is None:
        raise ArgumentError(statement=statement, detail=f"expected {argument} to map columns to values, found None")
    return {_target_column(column, target): _value_text(value, names) for column, value in assignments.items()}


def _value_text(value: Expression, names: Names) -> str:
    """The value in the form of a statement; ``DEFAULT``, or ``expr("DEFAULT")``, is the column's default, as in Spark SQL."""
    said = value if isinstance(value, str) else _SHOWN_NAME.sub(r"\1", str(value))
    return DEFAULT if is_default(said) and not is_literal(value) else as_text(value, names)


def _target_column(name: str, names: Names) -> str:
    """A column of the table, without a qualifier that the user may have added."""
    for qualifier, side in names.sides.items():
        parts = name.split(".")
        if side == TARGET and len(parts) > len(qualifier) and tuple(map(name_key, parts[: len(qualifier)])) == qualifier:
            column = ".".join(parts[len(qualifier) :])
            member = unqualified_target(column)  # of a struct column named like the target, which statements use for the table
            return column if member is None else f"`{TARGET}`.{member}"
    return name
