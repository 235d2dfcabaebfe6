"""The contents of the page of all tables: one row per table, from the newest reports of the tasks."""

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

_POINTS = 30  # most points of a sparkline


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """What the list shows about one table.

    Attributes:
        reports: The table's reports, the newest first; at least one.
        version: The latest known version; None if unknown.
        rows: Number of rows; None if unknown.
        size: Bytes of all data files; None if unknown.
        files: Number of data files; None if unknown.
        small_files: Number of small files; None if unknown.
        writer: The run that committed the version; None for another engine, or a DAG that the user may not read.
        operation: The operation of that commit.
        written: When it was committed, in milliseconds since the epoch.
        health: The table's health.
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
        """Id of the table in URLs."""
        return self.reports[0].id

    @property
    def table(self) -> str:
        """URI of the table."""
        return self.reports[0].table

    def sparkline(self, fact: str, shown: Callable[[int], str]) -> Markup:
        """How a fact of the table has changed over its reports; empty with fewer than two values."""
        values = [*series(self.reports[:_POINTS], fact).values()]
        if len(values) < 2:  # noqa: PLR2004 - one point is no line
            return Markup("")
        return sparkline(values, f"from {shown(values[0])} to {shown(values[-1])} in {len(values)} reports")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The rows of one page, and totals of all tables.

    Attributes:
        shown: The rows of this page.
        matching: Number of rows on all pages.
        page: Number of this page, from 1.
        pages: Number of pages.
        tables: Number of all tables, whether or not they match the search.
        size: Bytes of all tables.
        files: Data files of all tables.
        small_files: Small files of all tables.
        attention: Number of tables that need attention.
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
"""Sort keys by column. The list begins with the greatest value; with the worst health; by name, in ascending order."""


def table_rows(reports: Iterable[Report], dag_ids: Collection[str]) -> list[TableRow]:
    """One row per table.

    Args:
        reports: Reports of all tables, the newest first.
        dag_ids: The DAGs that the user may read.
    """
    by_table: dict[str, list[Report]] = {}
    for report in reports:
        by_table.setdefault(report.id, []).append(report)
    return [_row(of_one_table(found), dag_ids) for found in by_table.values()]


def listing(rows: Sequence[TableRow], *, search: str, sort: str, page: int) -> Listing:
    """One page of the matching rows, sorted; totals are those of all rows."""
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
    """The values of a fact by version, the oldest first, from reports with the newest first."""
    found = {report.fact("version"): value for report in reversed(reports) if (value := report.fact(fact)) is not None}
    return {version: found[version] for version in sorted(version for version in found if version is not None)}


def newest_of(reports: Iterable[Report], *, with_facts: bool = False) -> Report:
    """The report of the newest version, out of at least one report; ``with_facts`` prefers reports with facts."""
    return max(reports, key=lambda report: (with_facts and bool(report.part("facts")), report.newest_version, report.at))


def last_writer(report: Report, dag_ids: Collection[str]) -> tuple[Run | None, str, int]:
    """The run (if it may be shown), the operation and the time (milliseconds) of the latest commit in a report."""
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
