"""The pages as HTML. Every value may come from an untrusted log, so all values are escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from airflow_delta.core.clock import system_clock
from airflow_delta.observe.report import table_id
from airflow_delta.observe.www import conflicts as met
from airflow_delta.observe.www import formats
from airflow_delta.observe.www import table as one_table
from airflow_delta.observe.www.health import health_of
from airflow_delta.observe.www.plots import share_bar
from airflow_delta.observe.www.reports import Report, Run, objects
from airflow_delta.observe.www.tables import TableRow, last_writer, listing, newest_of

_TEMPLATES = Environment(
    loader=PackageLoader("airflow_delta.observe.www"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)

_MOST_COMMITS = 100
_MOST_METRICS = 100
_MOST_CONFLICTS = 200
_FACTS = {"version": "Version", "files": "Files", "bytes": "Bytes", "small_files": "Small files"}
_COLUMNS = {
    "table": "Table",
    "health": "Health",
    "version": "Version",
    "rows": "Rows",
    "size": "Size",
    "files": "Files",
    "small": "Small files",
    "written": "Last writer",
}


def _file(name: str) -> Markup:
    """A file of this package, included in each page unescaped."""
    return Markup(files(__package__).joinpath("templates", name).read_text().strip())  # noqa: S704 - a file of this package


_STYLE, _SCRIPT = _file("style.css"), _file("frame.js")

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        f"script-src 'sha256-{base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()}'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'self'",
    )
)
"""Only this package's script may run, by its digest: it adopts Airflow's theme, and opens Airflow's pages outside the frame."""


def tables_page(rows: Sequence[TableRow], *, root: str, search: str = "", sort: str = "written", page: int = 1) -> str:
    """The page of all tables.

    Args:
        rows: One row per table.
        root: Path of Airflow's own pages, without a slash at the end.
        search: Only show tables whose URI contains this text.
        sort: A key of ``tables.SORTS``.
        page: Number of the page, from 1.
    """
    found = listing(rows, search=search, sort=sort, page=page)
    return _rendered(
        "tables.html", root, found=found, columns=_COLUMNS, sort=sort, search=search, link=_listing_link(root, search)
    )


def table_page(
    reports: Sequence[Report],
    payloads: Sequence[Mapping[str, Any]],
    dag_ids: Collection[str],
    *,
    root: str,
    before: int | None = None,
) -> str:
    """The page of one table.

    Args:
        reports: The table's reports, the newest first; at least one.
        payloads: Histories from some of these runs (``links.history_payload``), the newest first.
        dag_ids: The DAGs that the user may read.
        root: As for ``tables_page``.
        before: Only show commits before this version.
    """
    now = system_clock()
    newest = newest_of(reports)
    detailed = next((found for payload in payloads if isinstance(found := payload.get("detail"), dict) and found), {})
    every = one_table.commits(reports, payloads, dag_ids)
    shown = [commit for commit in every if before is None or commit.version < before]
    writer, operation, written = last_writer(newest, dag_ids)
    return _rendered(
        "table.html",
        root,
        table=formats.text(reports[0].table),
        id=reports[0].id,
        version=None if newest.newest_version < 0 else newest.newest_version,
        report=newest_of(reports, with_facts=True),
        health=health_of(reports),
        writer_run=writer,
        operation=operation,
        written=written,
        growth=one_table.growth(reports),
        sizes=one_table.file_sizes(detailed),
        detail=detailed,
        clustered=one_table.names(detailed.get("clustered_by")),
        partitioned=one_table.names(detailed.get("partitioned_by")),
        features=one_table.names(detailed.get("features")),
        layouts=one_table.layouts(detailed),
        needs=one_table.maintenance(detailed, payloads),
        findings=one_table.findings(payloads),
        pins=one_table.pins(detailed, dag_ids, now),
        conflicts=[met_one for report in reports for met_one in met.of_report(report, dag_ids)][: one_table.COMMITS_OF_PAGE],
        commits=shown[: one_table.COMMITS_OF_PAGE],
        older=shown[one_table.COMMITS_OF_PAGE - 1].version if len(shown) > one_table.COMMITS_OF_PAGE else None,
        known=len(every),
        is_first=before is None,
    )


def conflicts_page(found: Sequence[met.Conflict], *, root: str) -> str:
    """The page of all conflicts, the newest first."""
    totals = {
        outcome: sum(conflict.outcome == outcome for conflict in found) for outcome in (met.PASSED, met.REDONE, met.FAILED)
    }
    return _rendered(
        "conflicts.html",
        root,
        conflicts=found[:_MOST_CONFLICTS],
        total=len(found),
        totals=totals,
        lost_ms=sum(conflict.lost_ms for conflict in found),
        matrix=met.matrix(found),
        others=met.OTHERS,
    )


def history_page(payload: Mapping[str, Any], *, root: str, dag_ids: Collection[str] | None = None) -> str:
    """The page of one table's history at the end of one task run.

    Args:
        payload: What ``links.history_payload`` returned; anything else gives a page with less content, never an error.
        root: As for ``tables_page``.
        dag_ids: The DAGs that the user may read; commits of others are left out. None for all.
    """
    entries = [_commit(entry) for entry in objects(payload.get("commits"))[:_MOST_COMMITS]]
    visible = [entry for entry in entries if dag_ids is None or entry["run"] is None or entry["run"].dag_id in dag_ids]
    table = payload.get("table")
    return _rendered(
        "history.html",
        root,
        table=formats.text(table),
        id=table_id(table) if isinstance(table, str) else None,
        facts=_facts(payload.get("facts")),
        commits=visible,
    )


def nothing_page(why: str, *, root: str = "") -> str:
    """The page that says why there is nothing to show."""
    return _rendered("nothing.html", root, why=why)


def _rendered(template: str, root: str, **values: Any) -> str:
    def href(run: Run) -> str:
        dag, run_id, task = (quote(part, safe="") for part in (run.dag_id, run.run_id, run.task_id))
        path = f"{root}/dags/{dag}/runs/{run_id}/tasks/{task}"
        return path if run.map_index < 0 else f"{path}/mapped/{run.map_index}"

    return _TEMPLATES.get_template(template).render(
        values,
        root=root,
        here=f"{root}/delta",
        f=formats,
        href=href,
        share_bar=share_bar,
        now=system_clock(),
        style=_STYLE,
        script=_SCRIPT,
    )


def _listing_link(root: str, search: str) -> Callable[..., str]:
    def link(*, sort: str, page: int = 1) -> str:
        return f"{root}/delta/tables?{urlencode({'search': search, 'sort': sort, 'page': page})}"

    return link


def _commit(entry: Mapping[str, Any]) -> dict[str, Any]:
    metrics = entry.get("operationMetrics")
    return {
        "version": formats.text(entry.get("version")),
        "time": formats.time(entry.get("timestamp")),
        "operation": formats.text(entry.get("operation")),
        "engine": formats.text(entry.get("engineInfo")),
        "metrics": {formats.text(name): formats.number(value) for name, value in [*metrics.items()][:_MOST_METRICS]}
        if isinstance(metrics, dict)
        else {},
        "run": Run.of(entry.get("run")),
    }


def _facts(facts: Any) -> dict[str, str]:
    known = facts if isinstance(facts, dict) else {}
    return {title: formats.number(known[name]) for name, title in _FACTS.items() if name in known}


__all__ = ["CONTENT_SECURITY_POLICY", "conflicts_page", "history_page", "nothing_page", "table_page", "tables_page"]
