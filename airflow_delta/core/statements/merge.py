"""MERGE: upserts, updates and deletes by the rows of a source."""

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
"""Clauses of one kind, which are evaluated in turn for the same rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStatement:
    """Change a table by the rows of a source, as one commit.

    Attributes:
        table: URI of the table's root.
        source: The rows; they are ``source`` in expressions.
        on: Which rows match: Spark SQL over ``target`` and ``source``.
        clauses: What happens, in order.
        schema_evolution: Whether the table gets the columns that only the source has, at any depth, where a clause takes every
            column or assigns them by name; nothing is ever dropped. Types are widened where the table allows it.
        expect: Checks on the rows to be written.
        dry_run: Plan, match and check, but commit nothing.
        publish: ``later`` stages the commit: ``PublishStatement`` makes it, and nobody sees its rows before.
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
