"""Shows what the demo's runs did: tasks with versions and rows, then each table's history."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table

from airflow_delta.core import DeltaLog
from airflow_delta.core.actions import CommitInfo
from flights_demo.home import Home, TaskRun

METRICS = {
    "numOutputRows": "written",
    "numTargetRowsInserted": "inserted",
    "numTargetRowsUpdated": "updated",
    "numTargetRowsDeleted": "deleted",
    "numDeletedRows": "replaced",
    "numRemovedFiles": "files compacted",
    "numFilesToDelete": "files to delete",
    "numStatements": "statements",
}
"""Display names of Delta's metrics, in display order."""

COLORS = {"success": "green", "failed": "red", "upstream_failed": "red"}


def task_line(run: TaskRun) -> str:
    """One line of progress."""
    return f"  {run.task_id:<16}{_state(run)}{_seconds(run):>7} s  {_version(run):<12}{_metrics(run)}".rstrip()


def runs_table(home: Home, runs: Iterable[tuple[str, date]]) -> Table:
    """The tasks of each run: state, duration, what they committed."""
    table = Table("run", "task", "state", "seconds", "version", "rows and files", title="Runs", box=SIMPLE_HEAD)
    for dag_id, day in runs:
        for position, task in enumerate(home.task_runs(dag_id, day)):
            title = "" if position else f"{dag_id} {day}"
            table.add_row(title, task.task_id, _state(task), _seconds(task), _version(task), _metrics(task))
        table.add_section()
    return table


def history_table(folder: Path) -> Table:
    """A Delta table's commits, oldest first, with the table's rows and files after each."""
    table = Table(
        "version", "time (UTC)", "operation", "rows", "files", "made by", title=f"History of {folder.name}", box=SIMPLE_HEAD
    )
    log = DeltaLog.for_table(str(folder))
    for entry in reversed(log.history()):
        snapshot = log.snapshot(version=entry.version)
        rows = sum(len(batch) for batch in snapshot.to_arrow(columns=list(snapshot.partition_columns)))
        info = entry.commit_info
        table.add_row(
            str(entry.version),
            f"{datetime.fromtimestamp(entry.timestamp / 1000, UTC):%H:%M:%S}",
            info.operation if info else "",
            f"{rows:,}",
            str(len(snapshot.files())),
            _made_by(info),
        )
    return table


def _state(run: TaskRun) -> str:
    state = run.state or "not run"
    return f"[{COLORS.get(state, 'yellow')}]{state}[/]"


def _seconds(run: TaskRun) -> str:
    return "" if run.seconds is None else f"{run.seconds:.1f}"


def _version(run: TaskRun) -> str:
    """The version that a task committed or, for a sensor, found; sensors return the bare number."""
    version = run.returned["version"] if isinstance(run.returned, dict) else run.returned
    return f"version {version}" if isinstance(version, int) else ""


def _metrics(run: TaskRun) -> str:
    if not isinstance(run.returned, dict):
        return ""
    shown = ((int(run.returned["metrics"].get(name, 0)), word) for name, word in METRICS.items())
    return ", ".join(f"{number:,} {word}" for number, word in shown if number)


def _made_by(info: CommitInfo | None) -> str:
    """The task, and the day of its DAG run."""
    if info is None:
        return ""
    return f"{info.origin.job.get('jobName', '')} {info.origin.record.get('logical_date', '')[:10]}"
