"""Conflicts between commits, as a list and as a matrix of DAGs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_delta.core.foreign_values import natural_number
from airflow_delta.observe.report import MOST_CONFLICTS, table_id
from airflow_delta.observe.www.formats import text
from airflow_delta.observe.www.reports import Report, Run

OTHERS = "other writers"
"""Commits of other engines, and of DAGs that the user may not read."""

MOST_DAGS = 20
"""Most rows and columns of the matrix: the DAGs with the most conflicts."""

PASSED, REDONE, FAILED = "passed", "redone", "failed"

_PREFIX = "DELTA_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Two commits that were made at the same time.

    Attributes:
        run: The task run whose commit came second.
        winner: The task run whose commit won; None for another engine, or a DAG that the user may not read.
        table: URI of the table.
        outcome: ``passed``: both commits were compatible; ``redone``: the second was computed again; ``failed``: the task
            failed or waits for its retry (when that begins, Airflow deletes the report).
        rule: The conflict rule in words; empty if the commits were compatible.
        code: The rule's error code.
        lost_ms: Milliseconds of work that were lost.
        at: When it was reported, in milliseconds since the epoch.
        version: Version of the winning commit.
        operation: Operation of the winning commit.
    """

    run: Run
    winner: Run | None
    table: str
    at: int
    outcome: str
    rule: str
    code: str
    lost_ms: int
    version: int | None
    operation: str

    @property
    def table_id(self) -> str:
        """The id of the table in URLs."""
        return table_id(self.table)

    @property
    def winner_name(self) -> str:
        """The winner's DAG, or ``OTHERS``, as in the matrix."""
        return OTHERS if self.winner is None else self.winner.dag_id


@dataclass(slots=True)
class Cell:
    """The conflicts between two DAGs.

    Attributes:
        counts: Number of conflicts by outcome.
        lost_ms: Milliseconds of work that were lost.
        heat: Level of the cell's color, from 0 to 4.
    """

    counts: Counter[str] = field(default_factory=Counter)
    lost_ms: int = 0
    heat: int = 0

    @property
    def total(self) -> int:
        """The number of all conflicts."""
        return self.counts.total()

    @property
    def redone(self) -> int:
        """The number of conflicts that cost work."""
        return self.counts[REDONE] + self.counts[FAILED]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Conflicts by the DAG that came second (rows) and the DAG that won (columns).

    Attributes:
        hidden: Number of conflicts of DAGs without a row or column, because there are too many DAGs.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    cells: Mapping[tuple[str, str], Cell]
    hidden: int


def conflicts(
    reports: Iterable[Report], lost: Iterable[tuple[Run, int, Mapping[str, Any]]], dag_ids: Collection[str]
) -> list[Conflict]:
    """All conflicts, the newest first.

    Args:
        reports: Reports of commits that met others.
        lost: Conflicts that failed a task, as from ``reports.lost_conflicts``.
        dag_ids: The DAGs that the user may read; winners in other DAGs are not named.
    """
    found = [conflict for report in reports for conflict in of_report(report, dag_ids)]
    for run, at, content in lost:
        table = content.get("table")
        if isinstance(table, str):
            member = {
                "version": content.get("winning_version"),
                "operation": content.get("winning_operation"),
                "rule": content.get("code"),
                "run": content.get("winning_run"),
                "lost_ms": content.get("lost_ms"),
            }
            found.append(_conflict(run, at, table, member, dag_ids, outcome=FAILED))
    return sorted(found, key=lambda conflict: conflict.at, reverse=True)


def of_report(report: Report, dag_ids: Collection[str]) -> Iterator[Conflict]:
    """The conflicts of one commit, the latest first."""
    for member in reversed(report.objects("conflicts")[-MOST_CONFLICTS:]):
        outcome = REDONE if member.get("rule") else PASSED
        yield _conflict(report.run, report.at, report.table, member, dag_ids, outcome=outcome)


def matrix(found: Iterable[Conflict]) -> Matrix:
    """Count the conflicts between each two DAGs."""
    cells: dict[tuple[str, str], Cell] = {}
    for conflict in found:
        cell = cells.setdefault((conflict.run.dag_id, conflict.winner_name), Cell())
        cell.counts[conflict.outcome] += 1
        cell.lost_ms += conflict.lost_ms
    rows = _greatest(cells, 0)
    columns = sorted(_greatest(cells, 1), key=lambda name: (name == OTHERS, name))
    most = max((cell.total for cell in cells.values()), default=1)
    for cell in cells.values():
        cell.heat = -(-4 * cell.total // most)
    shown = {pair: cell for pair, cell in cells.items() if pair[0] in rows and pair[1] in columns}
    hidden = sum(cell.total for cell in cells.values()) - sum(cell.total for cell in shown.values())
    return Matrix(sorted(rows), columns, shown, hidden)


def _greatest(cells: Mapping[tuple[str, str], Cell], side: int) -> list[str]:
    totals: Counter[str] = Counter()
    for pair, cell in cells.items():
        totals[pair[side]] += cell.total
    return [name for name, _ in totals.most_common(MOST_DAGS)]


def _conflict(run: Run, at: int, table: str, member: Mapping[str, Any], dag_ids: Collection[str], *, outcome: str) -> Conflict:
    code = text(member.get("rule"))
    winner = Run.of(member.get("run"))
    return Conflict(
        run=run,
        winner=winner if winner is not None and winner.dag_id in dag_ids else None,
        table=table,
        at=at,
        outcome=outcome,
        rule=code.removeprefix(_PREFIX).replace("_", " ").lower(),
        code=code,
        lost_ms=natural_number(member.get("lost_ms")) or 0,
        version=natural_number(member.get("version")),
        operation=text(member.get("operation")),
    )
