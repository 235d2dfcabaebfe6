"""What spark-submit gets on each kind of cluster: arguments, environment, files."""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from airflow_delta.core.statements import SqlSource, TableSource
from airflow_delta.hooks.errors import DriverLostError, ExposedSecretError, SparkTargetError
from airflow_delta.hooks.spark_driver import SparkDriver
from airflow_delta.hooks.spark_target import SparkTarget
from airflow_delta.operators import DeltaMergeOperator
from airflow_delta.operators.submission import check_uploads, driver_python, spec_argument, submit_conf
from airflow_delta.shipping.ship import shipped_code

UPLOADS = {"spark.kubernetes.file.upload.path": "s3a://lake/uploads"}

SUBMITTED_POD = """
print("INFO LoggingPodStatusWatcherImpl: pod name: merge-1a2b-driver", flush=True)
print("\\t exit code: 0", flush=True)
"""


def target(master, *, cluster=False, **arguments):
    defaults = {"yarn_webapp": None, "namespace": None, "binary": None}
    return SparkTarget(master=master, is_cluster_mode=cluster, **(defaults | arguments))


@pytest.fixture
def connection(monkeypatch):
    """The Spark connection of a kind of cluster."""

    def make(host, **extra):
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_THERE", json.dumps({"conn_type": "spark", "host": host, "extra": extra}))

    return make


def merge(table, submit, **arguments):
    defaults = {"source": "/lake/feed", "on": "target.id = source.id", "conn_id": "spark_there"}
    return DeltaMergeOperator(task_id="merge", table=str(table), spark_binary=str(submit.path), **(defaults | arguments))


def confs(call):
    pairs = [value for name, value in zip(call["argv"], call["argv"][1:], strict=False) if name == "--conf"]
    return dict(pair.split("=", 1) for pair in pairs)


def argument(call, name):
    return call["argv"][call["argv"].index(name) + 1]


TELL_WORKER = """
from airflow_delta.jobs.worker_processes import WorkerProcesses
worker = WorkerProcesses.from_environment()
Path({out!r}).write_text(json.dumps(worker and list(worker.start_times)))
print("Submitted application application_1_0001", flush=True)
"""


@pytest.mark.parametrize(
    ("mode", "env_vars", "expected"),
    [
        ("client", {}, [os.getpid()]),
        ("client", {"AIRFLOW_DELTA_WORKER": ""}, None),
        ("cluster", {}, None),
    ],
    ids=["client", "told to live on", "cluster"],
)
def test_a_driver_beside_the_worker_knows_its_task_and_one_on_the_cluster_no_worker(
    empty_table, recording_submit, run_task, connection, tmp_path, mode, env_vars, expected
):
    connection("yarn", **{"deploy-mode": mode})
    submit = recording_submit(TELL_WORKER.format(out=str(tmp_path / "worker.json")))
    run = run_task(lambda: merge(empty_table, submit, env_vars=env_vars))
    assert (run.state, json.loads((tmp_path / "worker.json").read_text())) == ("success", expected)


@pytest.mark.parametrize("host", ["yarn", "spark://m1:7077"], ids=["yarn", "standalone"])
def test_beside_the_worker_the_driver_has_the_workers_python_and_the_files_are_local(
    empty_table, recording_submit, run_task, connection, monkeypatch, host
):
    monkeypatch.delenv("PYSPARK_PYTHON")
    connection(host, **{"deploy-mode": "client"})
    submit = recording_submit("assert os.environ['PYSPARK_DRIVER_PYTHON'] == sys.executable")
    run = run_task(lambda: merge(empty_table, submit))
    (call,) = submit.calls
    assert (run.state, run.version, call["python"]) == ("success", 1, None)
    assert (argument(call, "--master"), argument(call, "--deploy-mode")) == (host, "client")
    assert call["shipped"] == [True]
    assert "spark.yarn.submit.waitAppCompletion" not in confs(call)
    assert "spark.driver.memoryOverheadFactor" not in confs(call)


def test_in_a_yarn_container_the_driver_gets_memory_for_arrow_and_the_submit_waits(
    empty_table, recording_submit, run_task, connection
):
    """Without the resource manager's address upstream cannot be durable: spark-submit itself follows the application."""
    connection("yarn", **{"deploy-mode": "cluster"})
    submit = recording_submit("print('Submitted application application_1_0001', flush=True)")
    run = run_task(lambda: merge(empty_table, submit, conf={"spark.executor.memory": "4g"}))
    (call,) = submit.calls
    assert (run.state, run.version, argument(call, "--deploy-mode")) == ("success", 1, "cluster")
    assert confs(call) == {"spark.executor.memory": "4g", "spark.driver.memoryOverheadFactor": "0.4"}
    assert call["shipped"] == [True]
    assert "env_vars" not in call


def test_a_pod_without_a_place_for_files_is_refused_before_the_submit(
    empty_table, recording_submit, run_task, connection, monkeypatch, tmp_path
):
    connection("k8s://https://cluster", **{"deploy-mode": "cluster", "namespace": "jobs"})
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    submit = recording_submit(SUBMITTED_POD)
    run = run_task(lambda: merge(empty_table, submit))
    (error,) = run.errors
    assert isinstance(error, SparkTargetError)
    assert ("spark.kubernetes.file.upload.path" in str(error), "code_uri" in str(error), submit.calls) == (True, True, [])


def test_a_pod_takes_shipped_code_without_uploading_anything(empty_table, recording_submit, run_task, connection):
    connection("k8s://https://cluster", **{"deploy-mode": "cluster", "namespace": "jobs"})
    submit = recording_submit(SUBMITTED_POD)
    run = run_task(lambda: merge(empty_table, submit, code_uri="s3a://lake/{{ 'code' }}", py_files="s3a://lake/mine.py"))
    (call,) = submit.calls
    code = shipped_code("s3a://lake/code", "merge")
    assert (run.state, run.version) == ("success", 1)
    assert argument(call, "--py-files") == f"{code.archive},s3a://lake/mine.py"
    assert code.application in call["argv"]
    assert confs(call) == {"spark.kubernetes.namespace": "jobs"}


class Pods(BaseHTTPRequestHandler):
    """Kubernetes' API as far as drivers' pods go."""

    phase, deleted = "Running", []

    def do_GET(self):
        name = self.path.split("?")[0].rsplit("/", 1)[-1]
        self.answer({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, "status": {"phase": type(self).phase}})

    def do_DELETE(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.deleted.append(self.path.split("?")[0])
        self.answer({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "gone"}})

    def answer(self, document):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def pods(monkeypatch, tmp_path):
    """A Kubernetes that Airflow's Kubernetes client knows."""
    api = type("Api", (Pods,), {"deleted": []})
    server = HTTPServer(("127.0.0.1", 0), api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [cluster],
        "contexts": [context],
        "users": [{"name": "u", "user": {}}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
    monkeypatch.setenv("AIRFLOW__KUBERNETES_EXECUTOR__IN_CLUSTER", "False")
    monkeypatch.setenv("AIRFLOW__KUBERNETES_EXECUTOR__CONFIG_FILE", str(tmp_path / "kubeconfig"))
    yield api
    server.shutdown()


def test_a_deferred_pod_that_failed_is_noticed(empty_table, recording_submit, run_task, connection, pods):
    pods.phase = "Failed"
    connection("k8s://https://cluster", **{"deploy-mode": "cluster"})
    submit = recording_submit("print('pod name: merge-1a2b-driver', flush=True)\nsys.exit(0)")
    run = run_task(lambda: merge(empty_table, submit, conf=UPLOADS, deferrable=True, poll_interval=0.05))
    (error,) = run.errors
    (call,) = submit.calls
    assert isinstance(error, DriverLostError)
    waiting = {"spark.kubernetes.submission.waitAppCompletion": "false", "spark.kubernetes.namespace": "default"}
    assert confs(call) == UPLOADS | waiting


def test_the_pod_of_a_deferred_task_that_a_person_clears_is_deleted(airflow_database, connection, pods):
    connection("k8s://https://cluster", **{"deploy-mode": "cluster"})
    SparkDriver(conn_id="spark_there", job_id="jobs:merge-1a2b-driver").kill()
    assert pods.deleted == ["/api/v1/namespaces/jobs/pods/merge-1a2b-driver"]


@pytest.mark.parametrize("place", ["conf", "properties file", "spark-defaults.conf"])
def test_the_upload_path_may_stand_where_spark_looks_for_it(monkeypatch, tmp_path, place):
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    pod = target("k8s://https://cluster", cluster=True)
    line = "spark.kubernetes.file.upload.path  s3a://lake/uploads\n"
    if place == "spark-defaults.conf":
        (tmp_path / place).write_text(f"spark.ui.enabled false\n{line}")
    (tmp_path / "mine.conf").write_text(line if place == "properties file" else "")
    given = str(tmp_path / "mine.conf") if place == "properties file" else None
    check_uploads("c", pod, UPLOADS if place == "conf" else {}, given)
    with pytest.raises(SparkTargetError):
        check_uploads("c", pod, {}, str(tmp_path / "none.conf"))
    check_uploads("c", target("k8s://https://cluster"), {}, str(tmp_path / "none.conf"))


def test_what_the_user_says_of_the_drivers_memory_holds():
    yarn = target("yarn", cluster=True)
    assert submit_conf(None, yarn, defers=False) == {"spark.driver.memoryOverheadFactor": "0.4"}
    for name, value in (("spark.driver.memoryOverhead", "1g"), ("spark.driver.memoryOverheadFactor", "0.2")):
        assert submit_conf({name: value}, yarn, defers=False) == {name: value}


@pytest.mark.parametrize(
    ("where", "environment", "expected"),
    [
        (target("local[2]"), {}, {"PYSPARK_PYTHON": sys.executable}),
        (target("yarn"), {}, {"PYSPARK_DRIVER_PYTHON": sys.executable}),
        (target("yarn"), {"PYSPARK_PYTHON": "/opt/python"}, {}),
        (target("yarn", cluster=True), {}, {}),
    ],
)
def test_the_python_of_a_driver_beside_the_worker_is_the_workers_unless_one_is_named(where, environment, expected):
    assert driver_python(where, environment) == expected


def test_a_spec_that_is_too_long_for_an_argument_goes_as_a_file(tmp_path):
    long = "x" * 200_000
    assert spec_argument("short", "t", tmp_path, target("local")) == ("short", None)
    there, none = spec_argument(long, "t", tmp_path, target("local"))
    assert (Path(there.removeprefix("@")).read_text(), none) == (long, None)
    name, sent = spec_argument(long, "t", tmp_path, target("yarn", cluster=True))
    assert (name, Path(sent).read_text()) == (f"@{Path(sent).name}", long)


def test_a_large_statement_reaches_a_driver_in_a_container(empty_table, recording_submit, run_task, connection):
    connection("yarn", **{"deploy-mode": "cluster"})
    query = "SELECT * FROM feed WHERE id IN (" + ",".join(map(str, range(40_000))) + ")"
    submit = recording_submit()
    # The recording program reads its spec from the argument: here it is first put back from the file that was sent along.
    text = submit.path.read_text().replace(
        'spec = json.loads(sys.argv[sys.argv.index("--spec") + 1])',
        'sent = sys.argv[sys.argv.index("--files") + 1]; spec = json.loads(open(sent).read())\n'
        'assert sys.argv[sys.argv.index("--spec") + 1] == "@" + os.path.basename(sent)',
    )
    submit.path.write_text(text)
    run = run_task(lambda: merge(empty_table, submit, source=SqlSource(query, views={"feed": TableSource("/lake/feed")})))
    (call,) = submit.calls
    assert (run.state, run.version, call["spec"]["statement"]["source"]["query"]) == ("success", 1, query)


@pytest.mark.parametrize("host", ["local[1]", "yarn"])
def test_spark_submit_gets_none_of_airflows_own_variables(
    empty_table, recording_submit, run_task, connection, monkeypatch, tmp_path, host
):
    connection(host)
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "hunter2")
    monkeypatch.setenv("VAULT_TOKEN", "hunter2")
    monkeypatch.setenv("TEAM_HOST", "lake.example.org")
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r")
    monkeypatch.setenv("AIRFLOW__DELTA__DRIVER_ENVIRONMENT", "TEAM_*, OTHER")
    seen = tmp_path / "environment.json"
    submit = recording_submit(f"Path({str(seen)!r}).write_text(json.dumps(dict(os.environ)))")
    run = run_task(lambda: merge(empty_table, submit, env_vars={"NAMED": "by the author"}))
    assert run.state == "success"
    environment = json.loads(seen.read_text())
    assert (environment["NAMED"], environment["TEAM_HOST"]) == ("by the author", "lake.example.org")
    assert environment["AWS_ROLE_ARN"] == "arn:aws:iam::1:role/r"
    assert {"PATH", "HOME"} <= environment.keys()
    assert "hunter2" not in environment.values()
    assert not [name for name in environment if name.startswith(("AIRFLOW_CONN_", "AIRFLOW_VAR_", "AIRFLOW__", "_AIRFLOW"))]


def test_a_secret_in_an_argument_of_the_submit_is_refused_before_spark_submit_starts(
    empty_table, recording_submit, run_task, connection
):
    connection("yarn")
    submit = recording_submit()
    run = run_task(lambda: merge(empty_table, submit, repositories="https://bob:hunter2@packages.example/repo"))
    (error,) = run.errors
    assert (type(error), error.places, submit.calls) == (ExposedSecretError, ("repositories",), [])
