"""Links from a task to the table's history and the Spark application."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook, conf
from airflow.sdk import BaseOperatorLink, Context

from airflow_delta.core.errors.conflict import run_of
from airflow_delta.hooks.spark_target import YARN_WEBAPP
from airflow_delta.hooks.xcoms import push_xcom, xcom_value
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.observe.report import REPORT_KEY, table_reports

HISTORY_KEY = "delta_history"
"""Key of the XCom from which the page of a table's history is rendered."""

_NOTES = ("findings", "steps")
_MOST_NOTES = 30

MAX_BYTES = 48 * 1024
"""Most bytes of that XCom. Some metadata databases cannot store more than 64 KB in one value."""


def push_links(document: ResultDocument, context: Context) -> None:
    """Push the task's report, and the table's history for its page, as the API server does not read storage."""
    push_xcom(context, REPORT_KEY, table_reports(document))
    push_xcom(context, HISTORY_KEY, history_payload(document))


def history_payload(document: ResultDocument) -> dict[str, Any]:
    """The table after the task: ``table``, ``version``, ``facts``, ``detail``, ``commits`` (newest first, as many as fit).

    A health check also has ``findings``, and a maintenance ``steps``, as many as fit.
    """
    result = document.outcome
    if result is None:
        raise ValueError("only the document of an outcome describes a table")
    commits = [_serialized(commit) for commit in document.history]
    payload = {
        "table": result.table,
        "version": result.version,
        "operation": result.operation,
        "committed": result.committed,
        "facts": dict(document.table_facts),
        "detail": dict(document.table_detail),
        **{name: result.details[name][:_MOST_NOTES] for name in _NOTES if isinstance(result.details.get(name), list)},
        "commits": commits,
    }
    if len(json.dumps(payload["detail"])) > MAX_BYTES // 2:
        payload["detail"] = {}
    while commits and len(json.dumps(payload)) > MAX_BYTES:
        commits.pop()
    for name in _NOTES:
        while payload.get(name) and len(json.dumps(payload)) > MAX_BYTES:
            payload[name].pop()
    value: dict[str, Any] = xcom_value(payload)
    return value


def history_path(run: Any) -> str:
    """The path, below Airflow's base URL, of the history page of a task run (dag_id, task_id, run_id, map_index)."""
    dag, task = quote(run.dag_id, safe=""), quote(run.task_id, safe="")
    return f"delta/dags/{dag}/tasks/{task}/history?{urlencode({'run_id': run.run_id, 'map_index': run.map_index})}"


def _serialized(entry: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("version", "timestamp", "operation", "operationMetrics", "engineInfo")
    return {**{key: entry[key] for key in kept if entry.get(key)}, "version": entry["version"], "run": run_of(entry)}


class DeltaTableHistoryLink(BaseOperatorLink):
    """Link to a page with the table's last commits as the task saw them."""

    name = "Table history"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The URL of the page; empty if there is nothing to show. Runs in the worker, when the task has ended."""
        document = getattr(operator, "outcome", None)
        if document is None or not document.history:
            return ""
        return f"{conf.get('api', 'base_url', fallback='/').rstrip('/')}/{history_path(ti_key)}"


class SparkApplicationLink(BaseOperatorLink):
    """Link to the task's Spark application: in YARN's resource manager, else in the configured history server."""

    name = "Spark application"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002 - Airflow's signature
        """The URL of the application; empty without one. Runs in the worker, when the task has ended."""
        document = getattr(operator, "outcome", None)
        submitted = getattr(operator, "yarn_application", None)
        application = getattr(document, "application_id", None) or submitted
        if application is None or application.startswith("local-"):
            return ""
        yarn = _yarn_webapp(operator) if application.startswith("application_") else None
        if yarn is not None:
            return f"{yarn.rstrip('/')}/cluster/app/{quote(application, safe='')}"
        history = conf.get("delta", "spark_history_url", fallback=None)
        return f"{history.rstrip('/')}/history/{quote(application, safe='')}/" if history else ""


def _yarn_webapp(operator: Any) -> str | None:
    try:
        return BaseHook.get_connection(operator.spark_conn_id).extra_dejson.get(YARN_WEBAPP)
    except AirflowNotFoundException:
        return None
