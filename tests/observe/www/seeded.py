"""Reports of many task runs, written directly into Airflow's database: running so many tasks would take hours."""

import json
import sqlite3
from datetime import UTC, datetime, timedelta

from airflow.configuration import conf
from airflow.models.dag import DagModel
from airflow.utils.session import create_session

from airflow_delta.hooks.conflict_report import CONFLICT_KEY
from airflow_delta.observe.links import HISTORY_KEY
from airflow_delta.observe.report import REPORT_KEY, table_id

NOW = datetime.now(UTC).replace(microsecond=0)
_COLUMNS = "dag_run_id, task_id, map_index, key, dag_id, run_id, value, timestamp"


def add_dags(dag_ids):
    """Add DAGs, visible to every user who may see all DAGs."""
    with create_session() as session:
        for dag_id in dag_ids:
            session.merge(DagModel(dag_id=dag_id, bundle_name="tests"))


def add_xcoms(rows):
    """Add XComs ``(dag_id, task_id, run number, key, value, hours ago)``, without DAG runs."""
    path = conf.get("database", "sql_alchemy_conn").partition("///")[2]
    with sqlite3.connect(path, timeout=60) as database:  # without foreign key checks
        database.executemany(
            f"INSERT OR REPLACE INTO xcom ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    1_000_000 + run,
                    task_id,
                    -1,
                    key,
                    dag_id,
                    f"scheduled__{run}",
                    value if isinstance(value, str) else json.dumps(value),
                    (NOW - timedelta(hours=hours)).strftime("%Y-%m-%d %H:%M:%S.%f"),
                )
                for dag_id, task_id, run, key, value, hours in rows
            ],
        )
    database.close()


def remove_xcoms():
    """Remove everything that was added."""
    with sqlite3.connect(conf.get("database", "sql_alchemy_conn").partition("///")[2], timeout=60) as database:
        database.execute("DELETE FROM xcom WHERE dag_run_id >= 1000000")
    database.close()


def report(table, version, *, dag_id="daily", task_id="load", run=0, **more):
    """What a MERGE reports about a table."""
    at = round((NOW - timedelta(hours=more.pop("hours", 1))).timestamp() * 1_000)
    facts = {"version": version, "files": 12, "bytes": 3_456_789, "small_files": 4, "rows": 1_000 + version}
    writer = {"dag_id": dag_id, "task_id": task_id, "run_id": f"scheduled__{run}", "map_index": -1}
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
        "head": {"version": version, "timestamp": at, "operation": "MERGE", "run": writer},
        "due": [],
        "duration_ms": 1_234,
    } | more


def reports(*members):
    """The reports of a task as an XCom value."""
    return {"reports": list(members)}


__all__ = ["CONFLICT_KEY", "HISTORY_KEY", "NOW", "REPORT_KEY", "add_dags", "add_xcoms", "remove_xcoms", "report", "reports"]
