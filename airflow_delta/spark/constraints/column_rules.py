"""The rules about rows in a table's columns and properties, read from its metadata: SQL texts and numbers.

Protocol: PROTOCOL.md, "CHECK Constraints", "Column Invariants", "Generated Columns", "Default Columns", "Identity Columns".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from airflow_delta.core.schema import StructField, StructType, all_fields
from airflow_delta.core.table_changes.columns import (
    CURRENT_DEFAULT,
    GENERATION_EXPRESSION,
    IDENTITY_ALLOW_EXPLICIT_INSERT,
    IDENTITY_HIGH_WATER_MARK,
    IDENTITY_START,
    IDENTITY_STEP,
)
from airflow_delta.core.table_changes.expressions import check_constraints
from airflow_delta.spark.errors import TableRuleUnreadableError

_INVARIANTS = "delta.invariants"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """An identity column.

    Attributes:
        start: The very first value.
        step: Difference between consecutive values; never 0.
        mark: The last value assigned; None before the first.
        takes_values: Whether rows may specify values.
    """

    start: int
    step: int
    mark: int | None
    takes_values: bool

    @classmethod
    def of(cls, field: StructField) -> Identity | None:
        """The identity settings in a column's metadata; None if it is not an identity column.

        Raises:
            TableRuleUnreadableError: A number is missing or exceeds 64 bits, or the step is 0.
        """
        metadata = field.metadata
        if IDENTITY_START not in metadata:
            return None
        start, step = metadata[IDENTITY_START], metadata.get(IDENTITY_STEP, 1)
        mark = metadata.get(IDENTITY_HIGH_WATER_MARK)
        if not (_is_long(start) and _is_long(step) and step and (mark is None or _is_long(mark))):
            detail = "expected whole numbers of 64 bits for start, step and high water mark, and a step other than 0"
            raise TableRuleUnreadableError(rule=f"IDENTITY of {field.name}", detail=detail)
        takes_values = bool(metadata.get(IDENTITY_ALLOW_EXPLICIT_INSERT, False))
        return cls(start=start, step=step, mark=mark, takes_values=takes_values)

    @property
    def next(self) -> int:
        """The first value after the mark, in the direction of the step and aligned to the start."""
        if self.mark is None:
            return self.start
        return self.start + self.step * max((self.mark - self.start) // self.step + 1, 0)


def _is_long(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63


def default_text(field: StructField) -> str | None:
    """SQL of the column's default, for rows that do not name it; None if that is NULL."""
    text = field.metadata.get(CURRENT_DEFAULT)
    return None if text is None else str(text)


def generation_text(field: StructField) -> str | None:
    """SQL of a generated column over other columns; None if the column is not generated."""
    text = field.metadata.get(GENERATION_EXPRESSION)
    return None if text is None else str(text)


def conditions(configuration: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """The table's CHECK constraints and invariants: SQL that must be TRUE for every row, by name of the constraint.

    Raises:
        TableRuleUnreadableError: An invariant is not in the form of the protocol.
    """
    checks = {f"CHECK {name} ({sql})": sql for name, sql in check_constraints(configuration).items()}
    invariants = ((field.name, _invariant(field)) for field in all_fields(schema) if _INVARIANTS in field.metadata)
    return {**checks, **{f"the invariant of {name} ({sql})": sql for name, sql in invariants}}


def _invariant(field: StructField) -> str:
    text = str(field.metadata[_INVARIANTS])
    try:
        return str(json.loads(text)["expression"]["expression"])
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise TableRuleUnreadableError(rule=f"the invariant of {field.name}", detail=f"{text!r} holds no expression") from error
