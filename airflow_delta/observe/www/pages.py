"""The history of a table, rendered as a page. Every value may come from an untrusted log, so all is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from airflow_delta.core.foreign_values import json_value, natural_number, printable

_TEMPLATES = Environment(
    loader=PackageLoader("airflow_delta.observe.www"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)

_LONGEST = 1_000  # characters of one text
_MOST_COMMITS = 100
_MOST_METRICS = 100
_FACTS = {"version": "Version", "files": "Files", "bytes": "Bytes", "small_files": "Small files"}


def history_page(payload: Mapping[str, Any], *, root: str) -> str:
    """The page of one table's history.

    Args:
        payload: What ``links.history_payload`` made; anything else gives an emptier page, never an error.
        root: Path below which Airflow's own pages are, without a slash at the end.
    """
    return _TEMPLATES.get_template("history.html").render(
        table=_text(payload.get("table")),
        facts=_facts(payload.get("facts")),
        commits=[_commit(entry, root) for entry in _mappings(payload.get("commits"))[:_MOST_COMMITS]],
    )


def tables_page(tables: Iterable[Mapping[str, Any]]) -> str:
    """The page of all tables that tasks reported.

    Args:
        tables: For each table the last payload, with ``href``, the address of its history.
    """
    rows = [
        {"table": _text(table.get("table")), "facts": _facts(table.get("facts")), "href": table["href"]} for table in tables
    ]
    return _TEMPLATES.get_template("tables.html").render(rows=rows, names=list(_FACTS.values()))


def nothing_page(why: str) -> str:
    """The page for a task that reported no table."""
    return _TEMPLATES.get_template("nothing.html").render(why=why)


def _commit(entry: Mapping[str, Any], root: str) -> dict[str, Any]:
    metrics = entry.get("operationMetrics")
    return {
        "version": _text(entry.get("version")),
        "time": _time(entry.get("timestamp")),
        "operation": _text(entry.get("operation")),
        "engine": _text(entry.get("engineInfo")),
        "metrics": {_text(name): _number(value) for name, value in [*metrics.items()][:_MOST_METRICS]}
        if isinstance(metrics, dict)
        else {},
        "run": _run(entry.get("run"), root),
    }


def _run(run: Any, root: str) -> dict[str, str] | None:
    """The task run's text and its address in Airflow; None for a commit of another writer."""
    if not isinstance(run, dict) or not {"dag_id", "run_id", "task_id"} <= run.keys():
        return None
    dag, run_id, task = (_text(run[key]) for key in ("dag_id", "run_id", "task_id"))
    mapped = natural_number(run.get("map_index"))
    path = f"{root}/dags/{quote(dag, safe='')}/runs/{quote(run_id, safe='')}/tasks/{quote(task, safe='')}"
    return {"text": f"{dag}.{task}", "id": run_id, "href": path if mapped is None else f"{path}/mapped/{mapped}"}


def _facts(facts: Any) -> dict[str, str]:
    known = facts if isinstance(facts, dict) else {}
    return {title: _number(known[name]) for name, title in _FACTS.items() if name in known}


def _mappings(values: Any) -> list[Mapping[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _number(value: Any) -> str:
    number = natural_number(value)
    return _text(value) if number is None else f"{number:,}"


def _text(value: Any) -> str:
    """A string or number as it is shown; empty for anything else, such as an object nested a thousand times."""
    shown = json_value(value)
    return printable(str(shown))[:_LONGEST] if isinstance(shown, str | int | float) else ""


def _time(timestamp: Any) -> str:
    try:
        return datetime.fromtimestamp(timestamp / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (TypeError, ValueError, OverflowError, OSError):
        return ""
