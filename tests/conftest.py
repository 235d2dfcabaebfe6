"""A separate Airflow for the tests, a way to run a DAG in it, a Spark session, and an independent reader of tables."""

# ruff: noqa: PLC0415 - Airflow reads its home and its settings when it is imported, so it is imported late

import gc
import os
import shutil
import sys
import tempfile
from contextlib import nullcontext
from importlib.resources import files
from pathlib import Path

import duckdb
import pytest
from hypothesis import settings

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.log.file_names import LOG_DIRECTORY
from airflow_delta.core.storage.local_log_store import LocalLogStore

# Hypothesis draws the same examples in each run of the tests, so that a failure comes from the change and not from chance.
# `make test-slow`, or any run with `--hypothesis-profile=search`, draws new ones.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None)
settings.load_profile("steady")

# A test JVM lives for minutes, beside others on few cores. The optimizing compiler would take two fifths of its CPU time, and
# loading classes half of the rest unless they are archived (.ci/prepare-spark). Without that compiler the default code cache is
# 48 MiB, too small: code would be evicted and compiled again.
ARCHIVE = f"{sys.prefix}/spark-classes.jsa"
QUICK_TO_START = (
    f'-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m "-XX:SharedArchiveFile={ARCHIVE}" -Xlog:disable'
)

AIRFLOW_HOME = Path(tempfile.mkdtemp(prefix="airflow-delta-tests-"))
(AIRFLOW_HOME / "dags").mkdir()
os.environ |= {
    "AIRFLOW_HOME": str(AIRFLOW_HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(AIRFLOW_HOME / "dags"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
    "AIRFLOW_CONN_SPARK_LOCAL": '{"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}',
    "PYSPARK_PYTHON": sys.executable,
    "JDK_JAVA_OPTIONS": os.environ.get("JDK_JAVA_OPTIONS", QUICK_TO_START),
}


# The floor of a test is what must be installed to run it, and follows from its folder: a folder in neither list needs Airflow.
FLOORS = {
    "core": ("core", "cli", "watch"),
    "spark": ("spark", "catalogs", "jobs", "shipping", "benchmarks", "attacks/test_spark_statements.py"),
}


EMULATED_STORES = {"s3", "gcs", "azure", "moto_server"}


# The objects of 12,000 tests and their modules live until the end: frozen, so that no full garbage collection walks them.
def pytest_sessionstart():
    gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


def pytest_addoption(parser):
    told = "run the tests of `spark` over Spark Connect: a server at this address, or one of their own"
    parser.addoption("--spark-connect", nargs="?", const="", metavar="ADDRESS", help=told)
    told = "let Spark compile queries, as in production; otherwise it interprets them, which costs less for a few rows"
    parser.addoption("--compile-queries", action="store_true", help=told)


def pytest_collection_modifyitems(config, items):
    """Mark each test with its floor (``core``, ``spark`` or ``airflow``, each of which includes those before it) and needs."""
    is_over_connect = config.getoption("--spark-connect") is not None
    for item in items:
        item.add_marker(_floor(item.path.relative_to(Path(__file__).parent), item.fixturenames))
        if "spark" in item.fixturenames:
            item.add_marker("session")
        if is_over_connect and (classic := item.get_closest_marker("classic")):
            item.add_marker(pytest.mark.skip(reason=classic.kwargs["reason"]))
        if _emulated_stores(item):
            item.add_marker("emulator")


def _emulated_stores(item):
    """The emulated stores that a test uses, by its fixtures or by the parameter for the location of its table."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return EMULATED_STORES.intersection([*item.fixturenames, parameters.get("place"), parameters.get("object_store")])


def _floor(path, fixtures):
    [floor] = [name for name, places in FLOORS.items() if any(map(path.is_relative_to, places))] or ["airflow"]
    return "spark" if floor == "core" and "spark" in fixtures else floor


def pytest_unconfigure():
    shutil.rmtree(AIRFLOW_HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def airflow_database():
    """A migrated metadata database, made once."""
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.db import initdb
    from airflow.utils.session import create_session

    initdb()
    with create_session() as session:
        session.merge(DagBundleModel(name="tests"))


@pytest.fixture
def run_dag(airflow_database):
    """Run a DAG to its end, including retries, and return the DAG run. A second call for a logical date clears it first."""
    from tests.airflow_versions import DagBag, errors_for_callbacks, sync_bag_to_db

    def run(dag, **arguments):
        bag = DagBag(dag_folder=os.devnull)
        bag.bag_dag(dag)
        sync_bag_to_db(bag, "tests", None)
        with errors_for_callbacks():
            return dag.test(**arguments)

    return run


@pytest.fixture
def xcom(airflow_database):
    """The XCom of a task of a DAG run."""
    from tests.airflow_versions import xcoms

    def get(dag_run, task_id, key="return_value"):
        found = xcoms(run_id=dag_run.run_id, dag_ids=dag_run.dag_id, task_ids=task_id, key=key)
        return found[0] if found else None

    return get


@pytest.fixture
def concurrent_writer(monkeypatch):
    """Make a task of another DAG run win: ``concurrent_writer(table, operation)`` commits just before the operation does."""
    run = {"dag_id": "hourly", "task_id": "correct", "run_id": "scheduled__2013-01-02T03:00:00+00:00", "map_index": -1}
    job = {"jobId": run["dag_id"], "jobName": "hourly.correct", "jobRunId": run["run_id"]}
    write = LocalLogStore.write_if_absent

    def commit_first(table, operation):
        def write_after_winner(store, path, content):
            is_commit = path.startswith(LOG_DIRECTORY) and path.endswith(".json")
            if is_commit and store.table_uri.endswith(str(table)) and f'"operation":"{operation}"'.encode() in content:
                monkeypatch.setattr(LocalLogStore, "write_if_absent", write)
                origin = Origin(token="0" * 32, job=job, record=run)
                DeltaLog.for_table(str(table)).alter(origin=origin).set_properties({"owner": "hourly"})
            write(store, path, content)

        monkeypatch.setattr(LocalLogStore, "write_if_absent", write_after_winner)
        return run

    return commit_first


@pytest.fixture(scope="session")
def duckdb_connection():
    """duckdb with its Delta reader: ``connection.sql("SELECT ... FROM delta_scan('path')")``."""
    extension = files("duckdb_extension_delta") / "extensions" / f"v{duckdb.__version__}" / "delta.duckdb_extension"
    with duckdb.connect() as connection:
        connection.load_extension(str(extension))
        yield connection


@pytest.fixture(scope="session")
def spark(request, tmp_path_factory):
    """One small Spark session in UTC, shared by all tests that need no separate process; classic, or over Spark Connect."""
    address = request.config.getoption("--spark-connect")
    if address is None:
        yield from _classic_session(compiles=request.config.getoption("--compile-queries"))
    else:
        yield from _connect_session(address, tmp_path_factory.mktemp("connect"))


def _connect_session(address, folder):
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client import SparkConnectClient

    from airflow_delta.shipping.connect import add_code
    from tests.connect_server import connect_server
    from tests.spark.sessions import stop_sessions

    SparkConnectClient._on_exit = lambda _: None  # clients of further sessions would retry the ended server for ten minutes
    with nullcontext(address) if address else connect_server(folder) as reached:
        session = SparkSession.builder.remote(reached).getOrCreate()
        add_code(session)
        yield session
        stop_sessions()  # rows kept by an open session would, when collected at exit, wait for the ended server as long
        session.stop()


def _classic_session(*, compiles):
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.codegen.wholeStage": str(compiles).lower(),
        "spark.sql.codegen.factoryMode": "FALLBACK" if compiles else "NO_CODEGEN",
    }
    builder = SparkSession.builder.master("local[2]").appName("airflow-delta tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
