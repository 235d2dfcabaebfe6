"""What a task reports about its tables for the web pages: one small XCom per task run.

Airflow keeps the XCom as long as the task run, cleans it up with other XComs (``airflow db clean``), and shows it only to users
who may read the DAG's XComs. It is in the API server's own database, so that the API server need not read storage.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from airflow_delta.core.errors.conflict import run_of
from airflow_delta.core.foreign_values import json_value, natural_number
from airflow_delta.core.statements import OperationResult
from airflow_delta.core.statements.publish import PUBLISHED_KEY
from airflow_delta.core.statements.sequence import STATEMENTS_KEY
from airflow_delta.hooks.xcoms import xcom_value
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.observe.commit_statistics import commit_statistics

REPORT_KEY = "delta_report"
"""Key of the XCom with the reports: ``{"reports": [...]}``."""

MAX_REPORT_BYTES = 8 * 1024
"""Most bytes of that XCom, as a page reads thousands of them."""

MOST_CONFLICTS = 20
"""Most conflicts in one report: the newest."""

MOST_TABLES = 20
"""Most reports of one task run."""

_LONGEST = 1_000  # most characters of one text


def table_id(uri: str) -> str:
    """The id of a table in the URLs of its pages, which must not contain the table's URI."""
    return hashlib.sha256(uri.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def table_reports(document: ResultDocument) -> dict[str, Any]:
    """The reports of a task, one per statement, the newest last; fewer if they do not fit into ``MAX_REPORT_BYTES``.

    Each report has ``id``, ``table``, ``version``, ``operation``, ``committed``, ``attempts`` and, if known, ``rows``,
    ``files``, ``bytes`` (written), ``conflicts`` (``version``, ``operation``, ``rule``, ``lost_ms``, ``run``), ``findings``
    (numbers by severity, of a health check). The last report of the task's table also has ``facts`` (``version``, ``files``,
    ``bytes``, ``small_files``, ``rows``), ``head`` (the newest commit: ``version``, ``timestamp``, ``operation``, ``run``),
    ``due`` (steps of maintenance) and ``duration_ms``.
    """
    outcome = document.outcome
    if outcome is None:
        raise ValueError("only the document of an outcome describes a table")
    reports = [_report(result) for result in results_of(outcome)[-MOST_TABLES:]]
    own = _report(outcome)["id"]
    of_table = next((report for report in reversed(reports) if report["id"] == own), None)
    if of_table is not None:
        of_table |= dict(_of_snapshot(document))
    while len(json.dumps(reports)) > MAX_REPORT_BYTES:
        for report in reports:
            del report["conflicts"][: -(-len(report["conflicts"]) // 2)]  # drop the older half
        if len(reports) > 1:
            del reports[0]
        elif not reports[0]["conflicts"]:
            reports.clear()
    value: dict[str, Any] = xcom_value({"reports": [_without_empty(report) for report in reports]})
    return value


def results_of(outcome: OperationResult) -> list[OperationResult]:
    """The outcome as a list: of several statements, the result of each; of publishing, one result per handle.

    The first handle's result has the conflicts, attempts and metrics of all handles.
    """
    parts = outcome.details.get(STATEMENTS_KEY)
    if isinstance(parts, Mapping):
        return [OperationResult.from_json(part) for part in parts.values()]
    published = outcome.details.get(PUBLISHED_KEY)
    if not isinstance(published, list) or not published:
        return [outcome]
    others = (
        replace(
            outcome,
            conflicts=(),
            attempts=1,
            table=entry["table"],
            version=entry["version"],
            committed=entry["published"],
        )
        for entry in published[1:]
    )
    return [replace(outcome, committed=published[0]["published"]), *others]


def _report(result: OperationResult) -> dict[str, Any]:
    written = commit_statistics(result.metrics) if result.committed else None
    findings = result.details.get("findings")
    table = json_value(result.table)[:_LONGEST]
    return {
        "id": table_id(table),
        "table": table,
        "version": result.version,
        "operation": result.operation[:_LONGEST],
        "committed": result.committed,
        "attempts": result.attempts,
        "rows": written and written.rows,
        "files": written and written.files,
        "bytes": written and written.bytes,
        "conflicts": [_conflict(conflict) for conflict in result.conflicts[-MOST_CONFLICTS:]],
        "findings": Counter(str(finding.get("severity")) for finding in findings) if isinstance(findings, list) else None,
    }


def _conflict(conflict: Mapping[str, Any]) -> dict[str, Any]:
    run = conflict.get("run")
    kept = {name: _short(conflict.get(name)) for name in ("version", "operation", "rule", "lost_ms")}
    return {**kept, "run": _run(run if isinstance(run, Mapping) else {})}


def _of_snapshot(document: ResultDocument) -> Iterator[tuple[str, Any]]:
    facts = {**document.table_facts}
    if (rows := natural_number(document.table_detail.get("rows"))) is not None:
        facts["rows"] = rows
    yield "facts", facts
    yield "duration_ms", document.duration_ms
    if document.history:
        newest = document.history[0]
        kept = {name: _short(newest.get(name)) for name in ("version", "timestamp", "operation")}
        yield "head", {**kept, "run": _run(run_of(newest))}
    maintenance = document.table_detail.get("maintenance")
    if isinstance(maintenance, list):
        yield "due", [need["step"] for need in maintenance if need.get("due")]


def _run(run: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _short(run[name]) for name in ("dag_id", "task_id", "run_id", "map_index") if name in run}


def _short(value: Any) -> Any:
    return value[:_LONGEST] if isinstance(value, str) else value if isinstance(value, int) else None


def _without_empty(report: Mapping[str, Any]) -> dict[str, Any]:
    """The report without unknown members; an empty ``due`` is kept, as it means that nothing is due."""
    return {name: value for name, value in report.items() if name == "due" or value not in (None, [], {})}
