"""A complete Airflow on this machine whose components can be killed individually; queried through its REST API."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from flights_demo.home import SPARK_DEFAULTS
from tests.free_port import free_port

ROOT = Path(__file__).parents[2]
DAG_FILES = Path(__file__).parent / "dags"
COMPONENTS = ("api-server", "dag-processor", "scheduler", "triggerer")
ENDED = frozenset({"success", "failed"})
SECRET = "an airflow of the tests' own, gone with them"

SHORTENED = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "2",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",  # 300 by default
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",  # 10
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "20",  # 30
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "10",  # 300
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "20",  # 30
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",  # 300: DAG files appear at once
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "300",  # 30: they do not change
    # And longer timeouts, for a busy machine.
    "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "120",  # 30
    "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",  # 5
    "AIRFLOW__API__ENABLE_XCOM_DESERIALIZE_SUPPORT": "true",  # else the REST API of 3.0 does not return XComs as values
}
"""How long Airflow waits, in seconds, before it considers a component dead; all other settings are defaults."""


@dataclass
class AirflowHome:
    """A folder with an Airflow in it: LocalExecutor, local Spark, DAG files, tables, logs.

    Attributes:
        database: SQLAlchemy URL of the metadata database; SQLite by default, which supports one run at a time.
        more: Additional Airflow settings, as environment variables.
        processes: The running components.
        sessions: Ids of all sessions started: processes that a killed component leaves behind stay in its session.
    """

    folder: Path
    database: str | None = None
    more: Mapping[str, str] = field(default_factory=dict)
    ports: Sequence[int] = field(default_factory=lambda: [free_port() for _ in range(3)])
    processes: dict[str, subprocess.Popen] = field(default_factory=dict)
    sessions: set[int] = field(default_factory=set)

    @property
    def tables(self) -> Path:
        """The environment variable ``TABLES`` of the DAG files."""
        return self.folder / "tables"

    @property
    def url(self) -> str:
        """URL of the API server."""
        return f"http://127.0.0.1:{self.ports[0]}"

    @property
    def environment(self) -> dict[str, str]:
        """Environment of every process of this Airflow."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "_AIRFLOW"))}
        return inherited | {
            "AIRFLOW_HOME": str(self.folder),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self.ports[0]),
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__API_AUTH__JWT_SECRET": SECRET * 2,
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.folder / "dags"),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__FERNET_KEY": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": "6",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": self.database or f"sqlite:///{self.folder / 'airflow.db'}",
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(self.ports[1]),
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(self.ports[2]),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(
                {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}
            ),
            "NO_COLOR": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT}:{ROOT / 'dags'}",
            "PYTHONWARNINGS": "ignore",
            "SPARK_CONF_DIR": str(self.folder / "spark"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TABLES": str(self.tables),
            **SHORTENED,
            **self.more,
        }

    def create(self, *dag_files: str) -> None:
        """Make the folder with a migrated database and the named DAG files from ``tests/standalone/dags``."""
        for folder in ("dags", "logs", "spark", "tables"):
            (self.folder / folder).mkdir(parents=True)
        (self.folder / "spark" / "spark-defaults.conf").write_text(SPARK_DEFAULTS)
        for dag_file in dag_files:
            shutil.copy(DAG_FILES / dag_file, self.folder / "dags")
        self.cli("db", "migrate")

    def cli(self, *arguments: str) -> str:
        """The output of an ``airflow`` command; raises if it fails."""
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *arguments], env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, *components: str) -> None:
        """Start components (by default all), and wait until the API server responds and reports the others healthy."""
        for component in components or COMPONENTS:
            with (self.folder / "logs" / f"{component}.log").open("ab") as log:
                command = [sys.executable, "-m", "airflow", component]
                process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, start_new_session=True)
            self.processes[component] = process
            self.sessions.add(process.pid)
        wait_until(self.is_healthy, seconds=600, what="Airflow's components are alive")

    def kill(self, component: str) -> None:
        """SIGKILL a component without its children, as the kernel does when memory is short."""
        process = self.processes.pop(component)
        process.kill()
        process.wait()

    def is_healthy(self) -> bool:
        """Whether the API server responds and reports the others healthy."""
        try:
            health = httpx.get(f"{self.url}/api/v2/monitor/health", timeout=10).json()
        except (httpx.HTTPError, ValueError):
            return False
        return all(health[name]["status"] == "healthy" for name in ("scheduler", "triggerer", "dag_processor"))

    def descendants(self) -> list[psutil.Process]:
        """Every process of this Airflow, including orphans."""
        found = []
        for process in psutil.process_iter():
            with _gone():
                if os.getsid(process.pid) in self.sessions:
                    found.append(process)
        return found

    def running(self, *parts: str) -> list[psutil.Process]:
        """The processes of this Airflow whose command line contains all these parts."""

        def command(process: psutil.Process) -> str:
            try:
                return " ".join(process.cmdline())
            except psutil.Error:
                return ""

        return [descendant for descendant in self.descendants() if all(part in command(descendant) for part in parts)]

    def stop(self) -> None:
        """End every process: gracefully first, then kill what is left."""
        for process in self.processes.values():
            process.terminate()
        psutil.wait_procs(self.descendants(), timeout=5)
        for process in self.descendants():
            with _gone():
                process.kill()
        for process in self.processes.values():
            process.wait()

    def get(self, path: str, **parameters: Any) -> Any:
        """The REST API's response, parsed as JSON."""
        return self._request("GET", path, params=parameters)

    def trigger(self, dag_id: str, **conf: Any) -> str:
        """Unpause the DAG once it is known, trigger a run and return the run's id."""
        self.unpause(dag_id)
        return self._request("POST", f"dags/{dag_id}/dagRuns", json={"logical_date": None, "conf": conf})["dag_run_id"]

    def unpause(self, dag_id: str) -> None:
        """Wait until the DAG processor knows the DAG, then let it run."""
        wait_until(lambda: self._knows(dag_id), seconds=180, what=f"Airflow knows {dag_id}")
        self._request("PATCH", f"dags/{dag_id}", json={"is_paused": False})

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """The DAG's runs."""
        return self.get(f"dags/{dag_id}/dagRuns", limit=100)["dag_runs"]

    def tasks(self, dag_id: str, run_id: str = "~") -> list[dict[str, Any]]:
        """The task instances of a run, or of all runs."""
        found: list[dict[str, Any]] = []
        while True:
            page = self.get(f"dags/{dag_id}/dagRuns/{run_id}/taskInstances", limit=100, offset=len(found))
            found += page["task_instances"]
            if len(found) >= page["total_entries"]:
                return found

    def states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        """The states of a run's tasks by task id."""
        return {task["task_id"]: task["state"] for task in self.tasks(dag_id, run_id)}

    def tries(self, dag_id: str, run_id: str, task_id: str) -> list[dict[str, Any]]:
        """All tries of a task, the current one last."""
        return self.get(f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/tries")["task_instances"]

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> Any:
        """A task's XCom of this key."""
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
        return self.get(path, deserialize=True)["value"]

    def log(self, dag_id: str, run_id: str, task_id: str) -> str:
        """The log of a task, of all tries."""
        folder = self.folder / "logs" / f"dag_id={dag_id}" / f"run_id={run_id}" / f"task_id={task_id}"
        return "\n".join(file.read_text(errors="replace") for file in sorted(folder.rglob("*.log*")))

    def ended(self, dag_id: str, run_id: str, *, seconds: float = 1_800) -> str:
        """Wait for the end of the run; returns its state."""

        def state() -> str | None:
            found = self.get(f"dags/{dag_id}/dagRuns/{run_id}")["state"]
            return found if found in ENDED else None

        return wait_until(state, seconds=seconds, what=lambda: f"{dag_id} {run_id} ends: {self.states(dag_id, run_id)}")

    def succeeded(self, dag_id: str, run_id: str, *, seconds: float = 1_800) -> None:
        """Wait for the end of the run; fail with the tasks' logs unless it succeeded."""
        if self.ended(dag_id, run_id, seconds=seconds) != "success":
            states = self.states(dag_id, run_id)
            said = [self.log(dag_id, run_id, task)[-4_000:] for task, state in states.items() if state == "failed"]
            pytest.fail(f"{dag_id}: {states}\n" + "\n".join(said))

    def _knows(self, dag_id: str) -> bool:
        errors = self.get("importErrors")["import_errors"]
        assert not errors, errors[0]["stack_trace"]
        return any(dag["dag_id"] == dag_id for dag in self.get("dags", limit=100)["dags"])

    def _request(self, method: str, path: str, **more: Any) -> Any:
        for patience in (1, 2, 4, 8, 0):
            try:
                answer = httpx.request(method, f"{self.url}/api/v2/{path}", headers=self._login(), timeout=60, **more)
            except httpx.TransportError:
                if not patience:
                    raise
            else:
                if answer.status_code < 500 or not patience:  # SQLite may be locked for a moment
                    assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text[:2_000]}"
                    return answer.json()
            time.sleep(patience)
        raise AssertionError

    def _login(self) -> dict[str, str]:
        token = httpx.get(f"{self.url}/auth/token", timeout=60).json()["access_token"]
        return {"Authorization": f"Bearer {token}"}


def wait_until(look: Callable[[], Any], *, seconds: float, what: str | Callable[[], str], poll: float = 1) -> Any:
    """Poll until the result is true, and return it; fail with a description of what did not happen in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(poll)
    return pytest.fail(f"waited {seconds:.0f} s in vain: {what if isinstance(what, str) else what()}")


def kill_tree(process: psutil.Process, *, number: int = signal.SIGKILL) -> None:
    """Kill a process and then its descendants."""
    children: Sequence[psutil.Process] = process.children(recursive=True)
    for child in (process, *children):
        with _gone():
            child.send_signal(number)


@contextmanager
def _gone() -> Iterator[None]:
    try:
        yield
    except (psutil.NoSuchProcess, ProcessLookupError):
        return
