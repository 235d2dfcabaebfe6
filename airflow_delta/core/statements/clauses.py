"""The clauses of a MERGE: WHEN MATCHED, WHEN NOT MATCHED and WHEN NOT MATCHED BY SOURCE.

Expressions are Spark SQL in which ``target`` and ``source`` name the two sides. Of several clauses of the same kind, the first
whose condition holds applies, so only the last one may omit its condition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements.fields import convert_fields


@dataclass(frozen=True, slots=True)
class MatchedUpdate:
    """Update a target row that a source row matches.

    Attributes:
        condition: Which pairs of rows; None is all.
        assignments: Expression by target column; None sets every column from the source column of the same name.
    """

    type_name: ClassVar[str] = "matched_update"
    _: KW_ONLY
    condition: str | None = None
    assignments: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        convert_fields(self)
        _check_condition(self, self.condition)
        _check_assignments(self, self.assignments)


@dataclass(frozen=True, slots=True)
class MatchedDelete:
    """Delete a target row that a source row matches.

    Attributes:
        condition: Which pairs of rows; None is all.
    """

    type_name: ClassVar[str] = "matched_delete"
    _: KW_ONLY
    condition: str | None = None

    def __post_init__(self) -> None:
        convert_fields(self)
        _check_condition(self, self.condition)


@dataclass(frozen=True, slots=True)
class NotMatchedInsert:
    """Insert a source row that matches no target row.

    Attributes:
        condition: Which source rows; None is all.
        assignments: Expression over ``source`` by target column; a column without one gets its default or generated value, or
            NULL. None sets every column from the source column of the same name.
    """

    type_name: ClassVar[str] = "not_matched_insert"
    _: KW_ONLY
    condition: str | None = None
    assignments: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        convert_fields(self)
        _check_condition(self, self.condition)
        _check_assignments(self, self.assignments)


@dataclass(frozen=True, slots=True)
class NotMatchedBySourceUpdate:
    """Update a target row that no source row matches.

    Attributes:
        condition: Which rows, over ``target``; None is all.
        assignments: Expression over ``target`` by target column.
    """

    type_name: ClassVar[str] = "not_matched_by_source_update"
    _: KW_ONLY
    condition: str | None = None
    assignments: Mapping[str, str]

    def __post_init__(self) -> None:
        convert_fields(self)
        _check_condition(self, self.condition)
        if self.assignments is None:
            detail = "it needs assignments: there is no source row to copy columns from"
            raise InvalidStatementError(statement=type(self).__name__, detail=detail)
        _check_assignments(self, self.assignments)


@dataclass(frozen=True, slots=True)
class NotMatchedBySourceDelete:
    """Delete a target row that no source row matches.

    Attributes:
        condition: Which rows, over ``target``; None is all.
    """

    type_name: ClassVar[str] = "not_matched_by_source_delete"
    _: KW_ONLY
    condition: str | None = None

    def __post_init__(self) -> None:
        convert_fields(self)
        _check_condition(self, self.condition)


def _check_condition(clause: object, condition: object) -> None:
    if condition is not None and (not isinstance(condition, str) or not condition.strip()):
        detail = f"the condition must be a string or None, found {condition!r}"
        raise InvalidStatementError(statement=type(clause).__name__, detail=detail)


def _check_assignments(clause: object, assignments: object) -> None:
    if assignments is None:
        return
    if (
        not isinstance(assignments, Mapping)
        or not assignments
        or not all(isinstance(value, str) for value in assignments.values())
    ):
        detail = f"assignments must map columns to expressions or be None, found {assignments!r}"
        raise InvalidStatementError(statement=type(clause).__name__, detail=detail)


Clause = MatchedUpdate | MatchedDelete | NotMatchedInsert | NotMatchedBySourceUpdate | NotMatchedBySourceDelete

UPSERT: tuple[Clause, ...] = (MatchedUpdate(), NotMatchedInsert())
"""Update matching rows, insert the others."""
