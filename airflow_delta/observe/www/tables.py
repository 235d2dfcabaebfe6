"""The page of all tables: one row for each, from the newest reports of the tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from airflow_delta.core.foreign_values import natural_number
from airflow_delta.observe.www import formats
from airflow_delta.observe.www.health import RANKS, Health, health_of
from airflow_delta.observe.www.plots import sparkline
from airflow_delta.observe.www.reports import Report, Run, of_one_table

ROWS_OF_PAGE = 100

_POINTS = 30  # of a sparkline


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """What the list shows of one table.

    Attributes:
        reports: The newest first; at least one.
        version: The latest that is known.
        writer: The run that made it; None for another engine, or a DAG that the user may not read.
        written: When, in milliseconds since the epoch.
    """

    reports: Sequence[Report]
    version: int | None
    rows: int | None
    size: int | None
    files: int | None
    small_files: int | None
    writer: Run | None
    operation: str
    written: int
    health: Health

    @property
    def id(self) -> str:
        """Of the table."""
        return self.reports[0].id

    @property
    def table(self) -> str:
        """Its URI."""
        return self.reports[0].table

    def sparkline(self, fact: str, shown: Callable[[int], str]) -> Markup:
        """How a fact of the table has changed with its reports."""
        values = [*series(self.reports[:_POINTS], fact).values()]
        if len(values) < 2:  # noqa: PLR2004 - one point is no line
            return Markup("")
        return sparkline(values, f"from {shown(values[0])} to {shown(values[-1])} in {len(values)} reports")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The rows of one page, and what all tables together are.

    Attributes:
        shown: The rows of this page.
        matching: How many there are on all pages.
        tables: How many tables there are, whether or not they match the search.
    """

    shown: Sequence[TableRow]
    matching: int
    page: int
    pages: int
    tables: int
    size: int
    files: int
    small_files: int
    attention: int


SORTS: Mapping[str, Callable[[TableRow], Any]] = {
    "table": lambda row: formats.name_of(row.table).lower(),
    "version": lambda row: -1 if row.version is None else row.version,
    "rows": lambda row: -1 if row.rows is None else row.rows,
    "size": lambda row: -1 if row.size is None else row.size,
    "files": lambda row: -1 if row.files is None else row.files,
    "small": lambda row: -1 if row.small_files is None else row.small_files,
    "written": lambda row: row.written,
    "health": lambda row: -RANKS.index(row.health.level),
}
"""By which column the list can be sorted; all but the name begin with the greatest, health with the worst."""


def table_rows(reports: Iterable[Report], dag_ids: Collection[str]) -> list[TableRow]:
    """A row for each table.

    Args:
        reports: Of all tables, the newest first.
        dag_ids: The DAGs that the user may read.
    """
    by_table: dict[str, list[Report]] = {}
    for report in reports:
        by_table.setdefault(report.id, []).append(report)
    return [_row(of_one_table(found), dag_ids) for found in by_table.values()]


def listing(rows: Sequence[TableRow], *, search: str, sort: str, page: int) -> Listing:
    """One page of the rows that match, sorted; totals are those of all rows."""
    wanted = search.lower()
    matching = sorted((row for row in rows if wanted in row.table.lower()), key=SORTS[sort], reverse=sort != "table")
    pages = max(1, -(-len(matching) // ROWS_OF_PAGE))
    page = min(page, pages)
    return Listing(
        shown=matching[(page - 1) * ROWS_OF_PAGE : page * ROWS_OF_PAGE],
        matching=len(matching),
        page=page,
        pages=pages,
        tables=len(rows),
        size=sum(row.size or 0 for row in rows),
        files=sum(row.files or 0 for row in rows),
        small_files=sum(row.small_files or 0 for row in rows),
        attention=sum(row.health.needs_attention for row in rows),
    )


def series(reports: Sequence[Report], fact: str) -> dict[int, int]:
    """The values of a fact in these reports (the newest first), by version: the oldest first."""
    found = {report.fact("version"): value for report in reversed(reports) if (value := report.fact(fact)) is not None}
    return {version: found[version] for version in sorted(version for version in found if version is not None)}


def newest_of(reports: Iterable[Report], *, with_facts: bool = False) -> Report:
    """The report of the newest version (there is at least one); with ``with_facts`` rather one that tells sizes."""
    return max(reports, key=lambda report: (with_facts and bool(report.part("facts")), report.newest_version, report.at))


def last_writer(report: Report, dag_ids: Collection[str]) -> tuple[Run | None, str, int]:
    """Who made the version that a report found: the run, if it may be shown, the operation and when."""
    head = report.part("head")
    if not head:
        return (report.run if report.committed else None), formats.text(report.content.get("operation")), report.at
    run, timestamp = Run.of(head.get("run")), natural_number(head.get("timestamp"))
    visible = run if run is not None and run.dag_id in dag_ids else None
    return visible, formats.text(head.get("operation")), report.at if timestamp is None else timestamp


def _row(reports: Sequence[Report], dag_ids: Collection[str]) -> TableRow:
    newest, described = newest_of(reports), newest_of(reports, with_facts=True)
    run, operation, written = last_writer(newest, dag_ids)
    version = newest.newest_version
    return TableRow(
        reports=reports,
        version=None if version < 0 else version,
        rows=described.fact("rows"),
        size=described.fact("bytes"),
        files=described.fact("files"),
        small_files=described.fact("small_files"),
        writer=run,
        operation=operation,
        written=written,
        health=health_of(reports),
    )
