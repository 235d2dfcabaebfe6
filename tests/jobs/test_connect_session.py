"""A driver over Spark Connect: its requests before and after its work, to a server that only responds."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
import psutil
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.connect.proto import (
    AnalyzePlanResponse,
    ReleaseSessionResponse,
    SparkConnectServiceServicer,
    add_SparkConnectServiceServicer_to_server,
)

from airflow_delta.core.actions import Origin
from airflow_delta.jobs.connect_session import connect_session, session_id
from airflow_delta.jobs.errors import ServerDeniedError, ServerUnreachableError, SparkTooOldError
from airflow_delta.shipping.archive import build_archive
from tests.connect_server import connect_server

TOKEN = "0123456789abcdef0123456789abcdef"


class Server(SparkConnectServiceServicer):
    """Releases sessions for those who know the password."""

    def __init__(self):
        self.released = []

    def ReleaseSession(self, request, context):  # noqa: N802 - gRPC's name
        if ("authorization", "Bearer sesame") not in context.invocation_metadata():
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "expected another token")
        self.released.append((request.user_context.user_id, request.session_id, request.allow_reconnect))
        if request.allow_reconnect:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "that is all")  # so that no session is made in this process
        return ReleaseSessionResponse()


@pytest.fixture
def server():
    servicer = Server()
    listener = served(servicer)
    yield servicer
    listener.stop(None)


class OldServer(SparkConnectServiceServicer):
    """A server of a Spark version without ReleaseSession."""

    def __init__(self, version):
        self.version = version

    def AnalyzePlan(self, request, context):  # noqa: N802 - gRPC's name
        return AnalyzePlanResponse(
            session_id=request.session_id, spark_version=AnalyzePlanResponse.SparkVersion(version=self.version)
        )


def served(servicer):
    """The servicer behind a port, and what stops it."""
    listener = grpc.server(ThreadPoolExecutor(2))
    add_SparkConnectServiceServicer_to_server(servicer, listener)
    servicer.port = listener.add_secure_port("localhost:0", grpc.local_server_credentials())
    listener.start()
    return listener


def origin(attempt):
    return Origin(token=TOKEN, record={"try_number": attempt})


def open_session(url, attempt=1):
    with connect_session(url, origin(attempt), {}, "/nowhere.zip"):
        pass


def test_no_server_is_an_error_that_a_retry_may_mend():
    with pytest.raises(ServerUnreachableError) as failed:
        open_session("sc://localhost:1/;token=sesame")
    assert (failed.value.address, failed.value.retryable) == ("sc://localhost:1", True)
    assert failed.value.detail.startswith("UNAVAILABLE: ")
    assert "sesame" not in str(failed.value)


@pytest.mark.parametrize(
    ("version", "error"), [("3.5.7", SparkTooOldError), ("4.2.0", ServerUnreachableError)], ids=["old", "behind a proxy"]
)
def test_a_server_of_an_older_spark_is_refused_for_good_with_its_version(version, error):
    listener = served(old := OldServer(version))
    with pytest.raises(error) as failed:
        open_session(f"sc://localhost:{old.port}")
    listener.stop(None)
    assert failed.value.retryable == (error is ServerUnreachableError)
    if error is SparkTooOldError:
        assert (failed.value.found, failed.value.needed) == ("3.5.7", "4.0")


def test_another_token_is_refused_for_good(server):
    with pytest.raises(ServerDeniedError) as failed:
        open_session(f"sc://localhost:{server.port}/;token=open")
    assert (failed.value.retryable, failed.value.detail) == (False, "UNAUTHENTICATED: expected another token")
    assert "Remedy: set the token as the connection's password" in str(failed.value)
    assert server.released == []


def test_a_try_first_ends_what_the_try_before_and_an_earlier_start_of_its_own_left_on_the_server(server):
    with pytest.raises(ServerUnreachableError, match="UNIMPLEMENTED: that is all"):
        open_session(f"sc://localhost:{server.port}/;user_id=ann;token=sesame", attempt=3)
    assert server.released == [("ann", session_id(origin(2), 2), False), ("ann", session_id(origin(3), 3), True)]


def test_sessions_are_those_of_a_token_and_a_try_and_without_a_token_like_no_other():
    assert session_id(origin(2), 1) == session_id(origin(1), 1) != session_id(origin(2), 2)
    assert session_id(Origin(token="f" * 32), 1) != session_id(origin(1), 1)
    assert session_id(Origin(), 1) != session_id(Origin(), 1)


LOADED = """
import sys
import airflow_delta.jobs.connect

before = set(sys.modules)
import airflow_delta.jobs.core_statements, airflow_delta.jobs.run, airflow_delta.jobs.spark_backend
from airflow_delta.jobs.spark_statements import RUNNERS

for load in RUNNERS.values():
    load()
print(*{name.partition(".")[0] for name in sys.modules.keys() - before})
"""


def test_what_is_loaded_while_a_session_is_opened_imports_nothing_that_opening_it_imports():
    loaded = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert "airflow_delta" in loaded.stdout.split()
    assert {"google", "grpc", "pandas", "pyspark"} & set(loaded.stdout.split()) == set()


DRIVER = """
import sys, threading, time
from airflow_delta.jobs import connect, connect_session

def say(word):
    print(word, flush=True)

def leave():
    say("interrupted")
    time.sleep({delay})
    say("released")

connect_session._GRACE = 0.5
connect_session._end_on_sigterm(leave)
threading.Thread(target=connect._end_with_worker, daemon=True).start()
say("up")
time.sleep(600)
"""
WORKER = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("delay", "said"), [(0, ["interrupted", "released"]), (600, ["interrupted"])], ids=["a server", "no server any more"]
)
def test_a_driver_that_is_told_to_end_interrupts_what_runs_on_the_server_and_ends_whatever_it_says(delay, said):
    command = [sys.executable, "-c", DRIVER.format(delay=delay)]
    driver = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert driver.stdout.readline() == "up\n"
    driver.send_signal(signal.SIGTERM)
    assert driver.stdout.read().split() == said
    assert driver.wait() == os.EX_TEMPFAIL


def test_a_driver_whose_worker_was_killed_interrupts_what_runs_on_the_server():
    worker = subprocess.Popen([sys.executable, "-c", WORKER, DRIVER.format(delay=0)], stdout=subprocess.PIPE, text=True)
    assert worker.stdout.readline() == "up\n"
    worker.kill()
    assert worker.stdout.read().split() == ["interrupted", "released"]
    worker.wait()


START = """
import os, signal, sys
from airflow_delta.core.actions import Origin
from airflow_delta.jobs.connect_session import connect_session

url, archive, end = sys.argv[1:]
with connect_session(url, Origin(token="ab" * 16, record={"try_number": 1}), {}, archive) as spark:
    assert spark.range(3).count() == 3
    assert not spark.catalog.tableExists("left")
    spark.range(1).createOrReplaceTempView("left")
    if end == "lost":
        os._exit(3)
    if end == "terminated":
        os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.slow
def test_a_try_can_be_started_again_however_its_last_start_has_ended(tmp_path):
    codes = {"done": 0, "lost": 3, "terminated": os.EX_TEMPFAIL}
    with connect_server(tmp_path) as address:
        for end in (*codes, "done"):
            command = [sys.executable, "-c", START, address, str(build_archive(tmp_path)), end]
            driver = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            assert driver.returncode == codes[end], driver.stderr


LONG_STAGE = """
import logging, sys
from airflow_delta.core.actions import Origin
from airflow_delta.jobs.connect_session import connect_session
from airflow_delta.jobs.progress import log_connect_progress

url, archive = sys.argv[1:]
logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stdout)
with connect_session(url, Origin(), {}, archive) as spark, log_connect_progress(spark, first=0.5):
    nap = "java_method('java.lang.Thread', 'sleep', if(id >= 0, 1000L, 0L))"
    spark.range(0, 8, 1, 8).selectExpr(nap).write.format("noop").mode("overwrite").save()
spark.stop()
"""


@pytest.mark.slow
def test_a_long_stage_on_the_server_is_told_in_the_log_and_its_tasks_count_up(tmp_path):
    with connect_server(tmp_path, {"spark.connect.progress.reportInterval": "100ms"}) as address:
        command = [sys.executable, "-c", LONG_STAGE, address, str(build_archive(tmp_path))]
        driver = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert driver.returncode == 0, driver.stderr
    lines = [line.split() for line in driver.stdout.splitlines() if line.startswith("Stage ")]
    assert len(lines) >= 2, driver.stdout
    assert {line[6] for line in lines} == {"8"}
    done = [int(line[4]) for line in lines]
    assert done == sorted(done)
    assert done[0] < done[-1] <= 8


GONE = """
import os, signal, sys, threading
from airflow_delta.core.actions import Origin
from airflow_delta.core.statements import OptimizeStatement
from airflow_delta.jobs import connect_session
from airflow_delta.jobs.run import typed_error

url, archive, server = sys.argv[1:]
connect_session.KEEPALIVE |= {"grpc.keepalive_time_ms": 5_000, "grpc.keepalive_timeout_ms": 2_000}
with connect_session.connect_session(url, Origin(), {}, archive) as spark:
    spark.client.set_retry_policies([])  # PySpark would try again for ten minutes
    threading.Timer(1, os.kill, (int(server), signal.SIGSTOP)).start()
    try:
        spark.sql("SELECT java_method('java.lang.Thread', 'sleep', 5000L)").collect()
    except Exception as error:
        print("UNAVAILABLE" in str(error), typed_error(error, OptimizeStatement(table='t')).retryable, flush=True)
os._exit(0)
"""


@pytest.mark.slow
def test_a_server_that_answers_no_more_without_closing_its_connection_is_an_error_that_a_retry_may_mend(tmp_path):
    with connect_server(tmp_path) as address:
        [server] = psutil.Process().children()
        command = [sys.executable, "-c", GONE, address, str(build_archive(tmp_path)), str(server.pid)]
        driver = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert driver.stdout == "True True\n", driver.stderr


LOST = """
import os, signal, sys
from airflow_delta.core.actions import Origin
from airflow_delta.core.statements import MergeStatement, SqlSource
from airflow_delta.core.transaction.optimistic_transaction import OptimisticTransaction
from airflow_delta.jobs.connect_session import connect_session
from airflow_delta.jobs.run import run
from airflow_delta.jobs.spec import JobSpec

url, archive, server, table = sys.argv[1:]
commit = OptimisticTransaction.commit

def commit_and_lose_server(self, *arguments, **options):
    try:
        return commit(self, *arguments, **options)
    finally:
        os.kill(int(server), signal.SIGKILL)

OptimisticTransaction.commit = commit_and_lose_server
source = SqlSource("SELECT id + 2L AS id, concat('x', id) AS name FROM range(3)")
spec = JobSpec(statement=MergeStatement(table=table, source=source, on="target.id = source.id"), origin=Origin())
with connect_session(url, Origin(), {}, archive) as spark:
    print(run(spark, spec).outcome.version, flush=True)
os._exit(0)
"""


@pytest.mark.slow
def test_a_server_that_is_lost_after_the_commit_delays_the_result_by_seconds_alone(tmp_path):
    write_deltalake(str(tmp_path / "table"), pa.table({"id": [1, 2], "name": ["tit", "wren"]}))
    with connect_server(tmp_path) as address:
        [server] = psutil.Process().children()
        command = [sys.executable, "-c", LOST, address, str(build_archive(tmp_path)), str(server.pid), str(tmp_path / "table")]
        driver = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert driver.stdout == "1\n", driver.stderr
    assert DeltaTable(tmp_path / "table").to_pyarrow_table().num_rows == 4
