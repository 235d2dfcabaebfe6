"""MERGE: upserts, updates and deletes driven by the rows of a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements.clauses import (
    UPSERT,
    Clause,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)
from airflow_delta.core.statements.expectation import Expectation
from airflow_delta.core.statements.fields import convert_fields, is_template
from airflow_delta.core.statements.publish import Publish
from airflow_delta.core.statements.sources import Source
from airflow_delta.core.statements.validation import expectations, members, require_text, require_type

_KINDS = (NotMatchedInsert, MatchedUpdate | MatchedDelete, NotMatchedBySourceUpdate | NotMatchedBySourceDelete)
"""The kinds of clauses; those of one kind are tried in turn for the same rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStatement:
    """Change a table by the rows of a source, in one commit.

    Attributes:
        table: URI of the table's root.
        source: The rows, named ``source`` in expressions.
        on: The condition by which rows match: Spark SQL over ``target`` and ``source``.
        clauses: The clauses, in order.
        schema_evolution: Whether to add columns to the table, at any depth, that only the source has, if a clause takes every
            column or assigns them by name; no column is ever dropped. Types are widened if the table allows it.
        expect: Checks on the rows to be written.
        dry_run: Plan, match and check, but commit nothing.
        publish: ``later`` stages the commit, and a ``PublishStatement`` makes it; until then no reader sees its rows.
    """

    type_name: ClassVar[str] = "merge"
    table: str
    source: Source
    on: str
    clauses: tuple[Clause, ...] = UPSERT
    schema_evolution: bool = False
    expect: tuple[Expectation, ...] = ()
    dry_run: bool = False
    publish: Publish = "now"

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("MERGE", "table", self.table)
        require_text("MERGE", "on", self.on)
        require_type("MERGE", "source", self.source, Source)
        if not is_template(self.clauses):
            clauses = (self.clauses,) if isinstance(self.clauses, Clause) else members("MERGE", "clauses", self.clauses)
            _check_clauses(clauses)
            object.__setattr__(self, "clauses", clauses)
        object.__setattr__(self, "expect", expectations("MERGE", self.expect))


def _check_clauses(clauses: tuple[Clause, ...]) -> None:
    if not clauses:
        raise InvalidStatementError(statement="MERGE", detail="it needs one clause or more")
    for clause in clauses:
        require_type("MERGE", "a clause", clause, Clause)
    for kind in _KINDS:
        of_kind = [clause for clause in clauses if isinstance(clause, kind)]
        if any(clause.condition is None for clause in of_kind[:-1]):
            raise InvalidStatementError(
                statement="MERGE", detail="only the last clause of a kind may lack a condition; the ones behind it never run"
            )
