"""A separate Airflow in one folder: SQLite, local Spark, logs in files. Runs are child processes; SQL reads their states."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

DAGS_FOLDER = Path(__file__).parents[1]
POLL_SECONDS = 0.5

SPARK_DEFAULTS = """
# Jobs of a few seconds: the JVM's second compiler costs them more than it gives, half of their CPU time.
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1
spark.sql.shuffle.partitions 4
spark.ui.enabled false
"""

_TASKS = """
SELECT task_instance.task_id, task_instance.state, task_instance.duration, xcom.value
FROM task_instance
JOIN dag_run ON dag_run.dag_id = task_instance.dag_id AND dag_run.run_id = task_instance.run_id
LEFT JOIN xcom ON xcom.dag_run_id = dag_run.id AND xcom.task_id = task_instance.task_id AND xcom.key = 'return_value'
WHERE task_instance.dag_id = ? AND date(dag_run.logical_date) = ?
ORDER BY task_instance.end_date IS NULL, task_instance.end_date
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """One task of one DAG run, as Airflow's database has it.

    Attributes:
        state: Airflow's task state; None before it was scheduled.
        seconds: How long it ran; None before it ended.
        returned: The task's return value.
    """

    task_id: str
    state: str | None
    seconds: float | None
    returned: Any


@dataclass(frozen=True, slots=True)
class Home:
    """A folder that holds everything: ``airflow.db``, ``logs`` and the tables of the flights DAGs under ``flights``."""

    folder: Path

    @property
    def tables(self) -> Path:
        """Where the flights DAGs keep their tables and the landing directory."""
        return self.folder / "flights"

    def log_file(self, dag_id: str, day: date) -> Path:
        """The log of Airflow and Spark for a run."""
        return self.folder / "logs" / f"{dag_id}-{day}.log"

    def create(self) -> None:
        """Create the folder from scratch, with an empty Airflow database."""
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "logs").mkdir(parents=True)
        (self.folder / "spark").mkdir()
        (self.folder / "spark" / "spark-defaults.conf").write_text(SPARK_DEFAULTS)
        with (self.folder / "logs" / "migrate.log").open("wb") as log:
            subprocess.run(self._airflow("db", "migrate"), env=self._environment(), stdout=log, stderr=log, check=True)

    def start(self, dag_id: str, day: date, conf: Mapping[str, Any] | None = None) -> subprocess.Popen[bytes]:
        """Start the DAG run of a day in a process, which ends with the run; its exit code is 0 only if the run succeeded."""
        command = self._airflow("dags", "test", dag_id, day.isoformat(), "--conf", json.dumps(dict(conf or {})))
        with self.log_file(dag_id, day).open("wb") as log:
            return subprocess.Popen(command, env=self._environment(), stdout=log, stderr=log)

    def await_begin(self, process: subprocess.Popen[bytes], dag_id: str, day: date) -> None:
        """Return when a task of the run has begun, or the run has ended.

        By then the run has put the DAGs into the database; two runs that do so at once in an empty one make each other fail.
        """
        while process.poll() is None and not any(task.state for task in self.task_runs(dag_id, day)):
            time.sleep(POLL_SECONDS)

    def task_runs(self, dag_id: str, day: date) -> list[TaskRun]:
        """The tasks of the day's DAG run: ended ones in the order of their ends, then the others."""
        with closing(sqlite3.connect(f"file:{self.folder / 'airflow.db'}?mode=ro", uri=True, timeout=30)) as database:
            rows = database.execute(_TASKS, (dag_id, day.isoformat())).fetchall()
        return [
            # SQLite returns a JSON number as a number, everything else as text.
            TaskRun(
                task_id=task_id, state=state, seconds=seconds, returned=json.loads(value) if isinstance(value, str) else value
            )
            for task_id, state, seconds, value in rows
        ]

    def follow(self, process: subprocess.Popen[bytes], dag_id: str, day: date) -> Iterator[TaskRun]:
        """Yield each task as it ends, until the run's process has ended."""
        seen = 0
        running = True
        while running:
            time.sleep(POLL_SECONDS)
            running = process.poll() is None
            ended = [
                task
                for task in self.task_runs(dag_id, day)
                if task.state in {"success", "failed", "skipped", "upstream_failed"}
            ]
            yield from ended[seen:]
            seen = len(ended)

    def _airflow(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "airflow", *arguments]

    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "AIRFLOW_HOME": str(self.folder),
            "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS_FOLDER),
            # ``airflow dags test`` of Airflow 3.0 cannot import modules beside the DAG files.
            "PYTHONPATH": os.pathsep.join(filter(None, (str(DAGS_FOLDER), os.environ.get("PYTHONPATH")))),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.folder / 'airflow.db'}",
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(
                {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}
            ),
            "FLIGHTS_ROOT": str(self.tables),
            "SPARK_CONF_DIR": str(self.folder / "spark"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONWARNINGS": "ignore",
            "NO_COLOR": "1",
        }
