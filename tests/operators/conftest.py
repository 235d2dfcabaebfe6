"""DAGs of one operator, and a spark-submit that only records its arguments."""

import json
import stat
import sys
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pendulum
import pytest
from airflow.models.taskinstance import TaskInstance, clear_task_instances
from airflow.sdk import DAG
from airflow.sdk import task as task_decorator
from airflow.utils.session import create_session

from airflow_delta.catalogs.unity import UnityCatalog
from tests.airflow_versions import as_raised
from tests.catalogs.unity_server import Unity, serve

SUBMIT = """#!{python}
import json, os, sys
sys.path.insert(0, {root!r})
from pathlib import Path
spec = json.loads(sys.argv[sys.argv.index("--spec") + 1])
calls = Path({calls!r})
py_files = sys.argv[sys.argv.index("--py-files") + 1].split(",")
with calls.open("a") as out:
    shipped = [os.path.exists(path) for path in py_files]
    call = dict(argv=sys.argv[1:], spec=spec, python=os.environ.get("PYSPARK_PYTHON"), shipped=shipped)
    out.write(json.dumps(call) + "\\n")
number = len(calls.read_text().splitlines())
{behavior}
from airflow_delta.core.statements import OperationResult
from airflow_delta.jobs.result import ResultDocument, write_result
outcome = OperationResult(
    table=spec["statement"]["table"], version=number, read_version=0, operation="MERGE", committed=True, metrics={{"rows": 1}}
)
write_result(spec["result_uri"], ResultDocument(outcome=outcome))
"""


@dataclass
class RecordingSubmit:
    """A program in place of spark-submit; its behavior is Python code that can use ``spec`` and the call's ``number``.

    Unless the behavior exits, the program writes an outcome with the number as version.
    """

    folder: Path
    behavior: str = ""
    calls_file: Path = field(init=False)

    def __post_init__(self):
        self.calls_file = self.folder / "calls.jsonl"
        self.path = self.folder / "spark-submit"
        text = SUBMIT.format(
            python=sys.executable,
            root=str(Path(__file__).parents[2]),
            calls=str(self.calls_file),
            behavior=self.behavior,
        )
        self.path.write_text(text)
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)

    @property
    def calls(self):
        return [json.loads(line) for line in self.calls_file.read_text().splitlines()] if self.calls_file.exists() else []


@pytest.fixture
def recording_submit(tmp_path_factory):
    """Makes a recording spark-submit: ``recording_submit(behavior)``."""

    def make(behavior=""):
        return RecordingSubmit(tmp_path_factory.mktemp("submit"), behavior)

    return make


@dataclass
class TaskRun:
    """The outcome of a one-task DAG run."""

    state: str
    result: object
    version: int | None
    conflict: dict | None
    errors: list


@pytest.fixture
def run_task(run_dag, xcom, request):
    """Runs a DAG of one task: ``run_task(make_operator, retries=...)``; ``errors`` has those of its tries, in order."""

    def run(make_operator, *, retries=0, dag_id=None, more=None, native=False, params=None, **arguments):
        errors = []
        defaults = {
            "retries": retries,
            "retry_delay": timedelta(seconds=0.1),
            "on_failure_callback": lambda context: errors.append(context["exception"]) if "exception" in context else None,
            "on_retry_callback": lambda context: errors.append(context["exception"]) if "exception" in context else None,
        }
        name = dag_id or request.node.name.translate(str.maketrans("[] ,", "____"))
        of_dag = {"default_args": defaults, "params": params, "render_template_as_native_obj": native}
        with DAG(name, schedule=None, start_date=pendulum.datetime(2013, 1, 1), **of_dag) as dag:
            task = make_operator()
            if more is not None:
                more(task)
        dag_run = run_dag(dag, logical_date=pendulum.datetime(2013, 1, 2), **arguments)
        return TaskRun(
            state=str(dag_run.state.value),
            result=xcom(dag_run, task.task_id),
            version=xcom(dag_run, task.task_id, "delta_version"),
            conflict=xcom(dag_run, task.task_id, "delta_conflict"),
            errors=[as_raised(error) for error in errors],
        )

    return run


@pytest.fixture
def empty_table(tmp_path):
    """A table with one version and no rows, written by hand."""
    table = tmp_path / "table"
    (table / "_delta_log").mkdir(parents=True)
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    actions = [
        {"commitInfo": {"timestamp": 0, "operation": "CREATE TABLE", "operationParameters": {}}},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "a",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(schema),
                "partitionColumns": [],
                "configuration": {},
            }
        },
    ]
    (table / "_delta_log" / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    return table


@pytest.fixture
def clear_once():
    """Add a downstream task that clears the given one (or ``task_id``), as a user does in the UI."""

    def add(task, task_id=None):
        @task_decorator
        def clear(ti=None):
            with create_session() as session:
                wanted = (TaskInstance.run_id == ti.run_id, TaskInstance.task_id == (task_id or task.task_id))
                clear_task_instances(
                    session.query(TaskInstance).filter(TaskInstance.dag_id == ti.dag_id, *wanted).all(), session
                )

        task >> clear()

    return add


@dataclass
class ResourceManager:
    """A fake YARN resource manager; a request for an application returns ``state`` and ``final_status``."""

    state: str = "FINISHED"
    final_status: str = "SUCCEEDED"
    killed: list = field(default_factory=list)

    def serve(self):
        manager = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                application = {"state": manager.state, "finalStatus": manager.final_status}
                self.answer(200 if manager.state else 503, {"app": application})

            def do_PUT(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                manager.killed.append(self.path.split("/")[-2])
                manager.state, manager.final_status = "KILLED", "KILLED"
                self.answer(202, {"state": "KILLED"})

            def answer(self, status, document):
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(document).encode())

            def log_message(self, *_):
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


@pytest.fixture
def resource_manager(monkeypatch):
    """A YARN resource manager for which every application has finished; the connection ``spark_yarn`` names it."""
    manager = ResourceManager()
    server = manager.serve()
    extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": f"http://127.0.0.1:{server.server_port}"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_YARN", json.dumps({"conn_type": "spark", "host": "yarn", "extra": extra}))
    yield manager
    server.shutdown()


@pytest.fixture
def unity(tmp_path, monkeypatch):
    """The Unity Catalog server of the connection ``lake``; ``client`` is a client of it."""
    unity = Unity()
    url, stop = serve(unity)
    server = {"conn_type": "http", "host": url, "login": "alice", "password": "secret-token"}
    catalog = {"type": "unity", "name": "main", "conn_id": "unity_server"}
    lake = {"conn_type": "delta", "host": str(tmp_path), "extra": {"catalog": catalog}}
    monkeypatch.setenv("AIRFLOW_CONN_UNITY_SERVER", json.dumps(server))
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(lake))
    unity.url = url
    unity.client = UnityCatalog(url, token="secret-token", catalog="main")
    yield unity
    stop()
