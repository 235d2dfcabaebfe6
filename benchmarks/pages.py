"""How long the Delta tables pages take to open, on Airflow's own API server and a separate database.

The database is seeded with what tasks of ``DAGS`` DAGs reported about ``TABLES`` tables with ``VERSIONS`` versions each, and
about one more table with ``LONG`` versions; every ``CONFLICT_EVERY``-th commit had a conflict.

    python -m benchmarks.pages [--rounds 5] [--database postgresql+psycopg2://user@host/name]

Prints the median and the slowest time of each page in seconds, with the size of the response. The database is SQLite unless
another, empty one is given. The exit code is 1 when a page takes longer than ``TARGET``.
"""

# ruff: noqa: PLC0415 - Airflow reads its home when it is imported, so it is imported late

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

TARGET = 1.0
"""Seconds that a page may take to open."""

TABLES = 1_000
VERSIONS = 10
DAGS = 50
LONG = 10_000
CONFLICT_EVERY = 10
LONG_TABLE = "s3://lake/long"

_NO_FOREIGN_KEYS = {"sqlite": "PRAGMA foreign_keys = OFF", "postgresql": "SET session_replication_role = replica"}
"""Turns off foreign key checks, as the runs of the seeded reports do not exist."""

_AT_ONCE = 1_000


def main() -> int:
    """Seed the database, open each page, print the times, and return whether a page took too long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--database", metavar="URL")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {
            "AIRFLOW_HOME": home,
            "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": arguments.database or f"sqlite:///{Path(home).resolve()}/airflow.db",
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
        }
        seed()
        return measure(arguments.rounds)


def seed() -> None:
    """Write the DAGs, the reports and the histories."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.xcom import XComModel
    from airflow.utils.db import initdb
    from airflow.utils.session import create_session
    from sqlalchemy import insert, text

    initdb()
    with create_session() as session:
        session.add(DagBundleModel(name="benchmark"))
        session.flush()
        session.add_all(DagModel(dag_id=f"dag_{number:02}", bundle_name="benchmark") for number in range(DAGS))
    with create_session() as session:
        connection = session.connection()
        connection.execute(text(_NO_FOREIGN_KEYS[connection.dialect.name]))
        batch: list[dict[str, Any]] = []
        for row in rows():
            batch.append(row)
            if len(batch) == _AT_ONCE:
                connection.execute(insert(XComModel.__table__), batch)
                batch.clear()
        if batch:
            connection.execute(insert(XComModel.__table__), batch)


def rows() -> Iterator[dict[str, Any]]:
    """The XComs: a report and a history of each version of each table."""
    from airflow_delta.observe.links import HISTORY_KEY
    from airflow_delta.observe.report import REPORT_KEY

    now = datetime.now(UTC)
    sizes = {f"s3://lake/table_{number:04}": VERSIONS for number in range(TABLES)} | {LONG_TABLE: LONG}
    for number, (table, versions) in enumerate(sizes.items()):
        for version in range(versions):
            at = now - timedelta(minutes=versions - version, seconds=number)
            dag_id, task_id, run = f"dag_{number % DAGS:02}", f"load_{number}", f"scheduled__{version:05}"
            writer = {"dag_id": dag_id, "task_id": task_id, "run_id": run, "map_index": -1}
            reported = {"reports": [report(table, version, at, writer)]}
            for key, value in {REPORT_KEY: reported, HISTORY_KEY: history(table, version, writer)}.items():
                yield {
                    "dag_run_id": 1_000_000 + version,
                    "task_id": task_id,
                    "map_index": -1,
                    "key": key,
                    "dag_id": dag_id,
                    "run_id": run,
                    "value": value,
                    "timestamp": at,
                }


def report(table: str, version: int, at: datetime, writer: dict[str, Any]) -> dict[str, Any]:
    """What a MERGE reports about a table."""
    from airflow_delta.core.errors import ConcurrentAppendError
    from airflow_delta.observe.report import table_id

    milliseconds = round(at.timestamp() * 1_000)
    head = {"version": version, "timestamp": milliseconds, "operation": "MERGE", "run": writer}
    facts = {"version": version, "files": 120 + version, "bytes": 34_567_890 + version, "small_files": 4, "rows": 1_000_000}
    met = {"version": version - 1, "operation": "OPTIMIZE", "run": writer}
    conflict = met | {"rule": ConcurrentAppendError.code, "lost_ms": 900}
    return {
        "id": table_id(table),
        "table": table,
        "version": version,
        "operation": "MERGE",
        "committed": True,
        "attempts": 1,
        "rows": 20,
        "files": 2,
        "bytes": 4_000,
        "facts": facts,
        "head": head,
        "due": ["optimize"],
        "duration_ms": 1_234,
    } | ({"conflicts": [conflict]} if version % CONFLICT_EVERY == 1 else {})


def history(table: str, version: int, writer: dict[str, Any]) -> dict[str, Any]:
    """A task's longer report: the last commits with their metrics, and the layout."""
    from airflow_delta.core.operations.table_health.inspected_table import SMALL_FILE
    from airflow_delta.jobs.table_detail import SIZE_BOUNDS

    metrics = {"numTargetRowsInserted": "10", "numTargetRowsUpdated": "10", "numOutputRows": "20", "executionTimeMs": "1234"}
    commits = [
        {
            "version": earlier,
            "timestamp": 1_700_000_000_000 + earlier * 60_000,
            "operation": "MERGE",
            "engineInfo": "airflow-delta",
            "operationMetrics": metrics,
            "run": writer,
        }
        for earlier in range(version, max(-1, version - 20), -1)
    ]
    detail = {
        "features": ["deletionVectors"],
        "clustered_by": ["id"],
        "partitioned_by": ["day"],
        "sizes": {"bounds": list(SIZE_BOUNDS), "counts": [10] * (len(SIZE_BOUNDS) + 1), "small": SMALL_FILE},
    }
    return {"table": table, "version": version, "operation": "MERGE", "committed": True, "commits": commits, "detail": detail}


def measure(rounds: int) -> int:
    """Open each page in every round, print the times, and return whether a page is too slow."""
    from airflow.api_fastapi.app import create_app, get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi.testclient import TestClient

    from airflow_delta.observe.report import table_id

    client = TestClient(create_app(apps="core"))
    token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="reader", role="VIEWER"))
    client.headers["Authorization"] = f"Bearer {token}"
    pages = {
        "tables": "/delta/tables",
        "tables, the last page by health": f"/delta/tables?sort=health&page={TABLES // 100}",
        "tables that match a search": "/delta/tables?search=table_09",
        f"a table of {VERSIONS} versions": f"/delta/tables/{table_id('s3://lake/table_0500')}",
        f"a table of {LONG:,} versions": f"/delta/tables/{table_id(LONG_TABLE)}",
        "conflicts": "/delta/conflicts",
    }
    print("| page | median s | slowest s | KiB |\n|---|---|---|---|")
    is_slow = False
    for name, path in pages.items():
        times = []
        for _ in range(rounds):
            start = time.perf_counter()
            answer = client.get(path)
            times.append(time.perf_counter() - start)
            answer.raise_for_status()
        is_slow |= statistics.median(times) > TARGET
        print(f"| {name} | {statistics.median(times):.2f} | {max(times):.2f} | {len(answer.content) / 1024:.0f} |", flush=True)
    return is_slow


if __name__ == "__main__":
    sys.exit(main())
