"""Metrics of this package's tasks, sent through Airflow's metrics when a task has ended.

Every Airflow process loads this module, so importing it must be cheap; errors here never affect the task.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import Stats, hookimpl

from airflow_delta.core.errors import CommitAttemptsExhaustedError, CommitConflictError
from airflow_delta.core.foreign_values import printable_lines
from airflow_delta.core.statements.result import OperationResult
from airflow_delta.observe.commit_statistics import commit_statistics

if TYPE_CHECKING:
    from airflow_delta.jobs.result import ResultDocument

log = logging.getLogger(__name__)

Tags = dict[str, str]

TAG_LENGTH = 100
"""Most characters of a table's tag; its end is kept. Airflow drops metrics whose name and tags exceed 250 characters."""

_SCHEME = re.compile(r"^\w+://")
_NO_TAG = re.compile(r"[^A-Za-z0-9_./-]")


@hookimpl
def on_task_instance_success(previous_state: Any, task_instance: Any) -> None:  # noqa: ARG001 - Airflow's names
    """Send the metrics of the task's outcome."""
    _without_harm(_send_outcome, task_instance)


@hookimpl
def on_task_instance_failed(previous_state: Any, task_instance: Any, error: Any) -> None:  # noqa: ARG001
    """Send the metrics of a lost race."""
    _without_harm(_send_lost_race, task_instance, error)


def table_tag(uri: str) -> str:
    """A table's tag in metrics: the end of its URI, without the scheme and the characters that StatsD does not accept."""
    return _NO_TAG.sub("_", _SCHEME.sub("", uri).rstrip("/"))[-TAG_LENGTH:]


def _without_harm(send: Callable[..., None], *arguments: Any) -> None:
    try:
        send(*arguments)
    except Exception:  # noqa: BLE001 - it must not affect the task
        log.warning("The metrics of a Delta task could not be sent:\n%s", printable_lines(traceback.format_exc()))


def _send_outcome(task_instance: Any) -> None:
    document: ResultDocument | None = getattr(getattr(task_instance, "task", None), "outcome", None)
    result = getattr(document, "outcome", None)
    if document is None or not isinstance(result, OperationResult):
        return
    from airflow_delta.observe.report import results_of  # noqa: PLC0415 - only for this package's tasks

    task = _tags(task_instance)
    for part in results_of(result):
        _send_result(part, {**task, **_of_result(part)})
    if result.committed and not result.already_committed and document.duration_ms is not None:
        Stats.timing("delta.commit.duration", document.duration_ms, tags={**task, **_of_result(result)})
    _send_table(document.table_facts, {"table": table_tag(result.table)})


def _tags(task_instance: Any) -> Tags:
    """The tags that Airflow uses for its own metrics of the task, which it only exposes from 3.2 on."""
    if not hasattr(task_instance, "stats_tags"):
        return {"dag_id": task_instance.dag_id, "task_id": task_instance.task_id}
    return {**task_instance.stats_tags}


def _of_result(result: OperationResult) -> Tags:
    return {"table": table_tag(result.table), "operation": _NO_TAG.sub("_", result.operation)}


def _send_result(result: OperationResult, tags: Tags) -> None:
    if result.attempts > 1:
        Stats.incr("delta.commit.retries", result.attempts - 1, tags=tags)
    for conflict in result.conflicts:
        if conflict.get("rule"):
            Stats.incr("delta.commit.conflict", tags=tags | {"type": _NO_TAG.sub("_", str(conflict["rule"]))})
    if not result.committed or result.already_committed:
        return
    written = commit_statistics(result.metrics)
    for name, value in (("rows", written.rows), ("files", written.files), ("bytes", written.bytes)):
        if value is not None:
            Stats.incr(f"delta.commit.{name}", value, tags=tags)


def _send_table(facts: Mapping[str, int], tags: Tags) -> None:
    for name in ("version", "bytes", "files", "small_files"):
        if name in facts:
            Stats.gauge(f"delta.table.{name}", facts[name], tags=tags)


def _send_lost_race(task_instance: Any, error: Any) -> None:
    if not isinstance(error, CommitConflictError | CommitAttemptsExhaustedError):
        return
    tags = {**_tags(task_instance), "table": table_tag(error.table)}
    Stats.incr("delta.commit.conflict", tags=tags | {"type": error.code})
    if isinstance(error, CommitAttemptsExhaustedError):
        Stats.incr("delta.commit.retries", error.attempts - 1, tags=tags)
