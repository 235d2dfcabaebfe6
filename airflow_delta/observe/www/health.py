"""The health of a table: what its last health check found, and which maintenance is due."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_delta.core.foreign_values import natural_number
from airflow_delta.core.wording import counted
from airflow_delta.observe.www.formats import text
from airflow_delta.observe.www.reports import Report

RANKS = ("error", "warning", "due", "unknown", "good")
"""The levels, the worst first."""

_MOST_STEPS = 5


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a table.

    Attributes:
        level: One of ``RANKS``.
        text: The health in words.
    """

    level: str
    text: str

    @property
    def needs_attention(self) -> bool:
        """Whether the table should be looked at."""
        return self.level in {"error", "warning"}


def health_of(reports: Iterable[Report]) -> Health:
    """The health of a table, from its reports (the newest first)."""
    found, due = None, None
    for report in reports:
        found = report.part("findings") if found is None and report.content.get("operation") == "HEALTH" else found
        due = report.content.get("due") if due is None else due
        if found is not None and due is not None:
            break
    for level in ("error", "warning"):
        if count := natural_number((found or {}).get(level)):
            return Health(level, counted(count, level))
    steps = [text(step) for step in due[:_MOST_STEPS]] if isinstance(due, list) else None
    if steps:
        return Health("due", f"{', '.join(steps)} due")
    return Health("unknown", "not known") if steps is None else Health("good", "good")
