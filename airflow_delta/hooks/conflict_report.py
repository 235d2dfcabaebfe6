"""Commit conflicts as Airflow shows them: in an XCom and in alerts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow.sdk import Context

from airflow_delta.core.errors import CommitConflictError, DeltaError
from airflow_delta.hooks.xcoms import push_xcom, xcom_value
from airflow_delta.jobs.best_effort import BestEffort

CONFLICT_KEY = "delta_conflict"
"""Key of a conflict's XCom, and name of the conflict in the templates of alerts."""


def conflict_report(error: DeltaError) -> dict[str, Any]:
    """An error's fields as one flat JSON object: ``code``, ``text``, ``table`` and the error's other attributes.

    A conflict has ``read_version``, ``winning_version``, ``winning_operation``, ``winning_run`` (``dag_id``, ``task_id``,
    ``run_id``, ... if a task of this provider made the winning commit, else empty), ``winning_job`` (the winning job as its
    engine names it; None if it names no job), ``rule`` (the conflict rule that forbids the commit, as ``CommitConflictError``
    says), ``path``, ``partition``.
    """
    report: dict[str, Any] = {"code": error.code, "text": str(error), **error.attributes()}
    if isinstance(error, CommitConflictError):
        winner = report.pop("winner")
        report |= {
            "winning_operation": winner.get("operation"),
            "winning_run": error.winning_run,
            "winning_job": winner.get("job"),
        }
    known: dict[str, Any] = xcom_value(report)
    return known


@contextmanager
def report_conflicts(context: Context) -> Iterator[None]:
    """Push the report of a conflict that is raised in the body as the task's XCom ``delta_conflict``.

    The XCom also has ``lost_ms``: the milliseconds that the task spent in the body before the conflict.
    """
    began = time.monotonic()
    try:
        yield
    except CommitConflictError as error:
        with BestEffort().attempt(f"the XCom {CONFLICT_KEY}"):  # the task must fail with the conflict
            lost_ms = round(1_000 * (time.monotonic() - began))
            push_xcom(context, CONFLICT_KEY, {**conflict_report(error), "lost_ms": lost_ms})
        raise
