"""Checks the rows of a table against a condition, reading its files."""

from __future__ import annotations

from collections.abc import Callable

from airflow_delta.core.errors import ConstraintViolatedError, InvalidPredicateError
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.table_changes.refusal import Refusal

RowsCheck = Callable[[Snapshot, str, str], None]
"""Returns if a condition, given by name and SQL, is TRUE for every row of a version; raises as ``check_rows``."""


def check_rows(snapshot: Snapshot, constraint: str, sql: str) -> None:
    """Return if the condition is TRUE for every row; NULL violates it.

    Raises:
        ConstraintViolatedError: A row violates it.
        Refusal: The condition cannot be evaluated here.
    """
    try:
        satisfied = _rows(snapshot, sql)
    except InvalidPredicateError as error:
        raise Refusal(
            f"{sql!r} cannot be checked on the rows here: {error.detail}",
            "check the rows of a version, and pass it as verified",
        ) from error
    broken = _rows(snapshot, None) - satisfied
    if broken:
        raise ConstraintViolatedError(table=snapshot.table_uri, constraint=f"the constraint {constraint} ({sql})", rows=broken)


def _rows(snapshot: Snapshot, where: str | None) -> int:
    return sum(batch.num_rows for batch in snapshot.to_arrow(columns=[], where=where))
