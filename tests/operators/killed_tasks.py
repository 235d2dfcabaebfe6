"""A process that runs tries of a task, killed midway: ``python -m tests.operators.killed_tasks``.

It reads requests, a JSON line each, forks (which costs milliseconds where a new Python costs seconds), and reports how the
child ended. The child is either the driver of the task's job, over Spark Connect, or the Airflow worker, whose driver is a
separate process. It kills itself right before the n-th audit event of Python below a folder: a file opened, linked, renamed,
removed, a directory listed; in a worker also below its private directory, or a process started. The folder holds everything
that the task keeps: the tables, the state that Airflow stores, the XComs.
"""

import json
import os
import signal
import sys
import threading
import traceback
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_delta.core.actions import ADD_FILE, Origin
from airflow_delta.core.committed import staged_result
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.operations.staged_folder import staged_id
from airflow_delta.core.statements import DeleteStatement, ExpectStatement, TableSource, WriteStatement
from airflow_delta.core.statements.publish import STAGED_KEY
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.jobs.connect_session import connect_session
from airflow_delta.jobs.result import write_result
from airflow_delta.jobs.run import run
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.operators import (
    DeltaCopyIntoOperator,
    DeltaMergeOperator,
    DeltaPublishOperator,
    DeltaPythonOperator,
    DeltaStatementsOperator,
)

AREA = "write-" + "0" * 32
EVENTS = {"open", "os.link", "os.rename", "os.remove", "os.mkdir", "os.scandir", "os.listdir"}
PRIVATE = "/airflow-delta-"
"""Parts of the paths of directories that a worker makes for one job: its code, and the driver's result."""


def appended(spark, seen, marker):
    with open(marker):  # noqa: PTH123 - a place to be killed at
        return seen.selectExpr("id + 100 AS id")


def kill_at(root, number):
    """Kill this process right before the event with this number; returns a function that counts the events so far."""
    count = 0

    def hook(event, arguments):
        nonlocal count
        is_below = event in EVENTS and any(place in str(argument) for argument in arguments[:2] for place in (root, PRIVATE))
        if is_below or event == "subprocess.Popen":
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1

    sys.addaudithook(hook)
    return lambda: count


class FileStore:
    """Airflow's task state store and XComs, in files that are replaced atomically."""

    def __init__(self, folder):
        self.folder = folder

    def get(self, key, default=None):
        file = self.folder / key
        return json.loads(file.read_text()) if file.exists() else default

    def set(self, key, value, *, retention=None):
        del retention
        (self.folder / "new").write_text(json.dumps(value))
        (self.folder / "new").replace(self.folder / key)

    def delete(self, key):
        (self.folder / key).unlink(missing_ok=True)


def seen(root):
    """Returns rows 4 and 5; the table has got another version since."""
    return TableSource(f"{root}/seen", version=0)


def call_function(root, victim):
    """The function opens a file, so that one kill point is inside it."""
    arguments = {"seen": seen(root), "marker": f"{root}/marker"}
    return DeltaPythonOperator(table=f"{root}/table", python_callable=appended, op_kwargs=arguments, **TASK)


def run_statements(root, victim):
    statements = {
        "append": WriteStatement(table=f"{root}/table", source=seen(root)),
        "gate": ExpectStatement(table=f"{root}/table", expect=("id > 0",)),
        "delete": DeleteStatement(table=f"{root}/other", where="id = 2"),
    }
    return DeltaStatementsOperator(statements=statements, **TASK)


def stage(root, victim):
    return DeltaMergeOperator(
        table=f"{root}/table", source=seen(root), on="target.id = source.id", publish="later", expect="id < 100", **TASK
    )


def publish(root, victim):
    """Publish what ``staged`` has staged in two tables, in the worker itself."""
    handles = [staged_result(DeltaLog.for_table(f"{root}/{name}"), STAGED).details[STAGED_KEY] for name in ("table", "other")]
    return DeltaPublishOperator(handles=handles, engine="worker" if victim == "worker" else "spark", **TASK)


def load_files(root, victim):
    return DeltaCopyIntoOperator(table=f"{root}/table", path=f"{root}/incoming", format="parquet", **TASK)


TASK = {"task_id": "killed", "conn_id": "server"}
TASKS = {
    "function": call_function,
    "statements": run_statements,
    "stage": stage,
    "publish": publish,
    "copy into": load_files,
}
STAGED = "f" * 32
"""The token under which the commits were staged."""


def stage_appends(root):
    """Stage rows 4 and 5 for both tables, as a task with that token."""
    for name in ("table", "other"):
        log = DeltaLog.for_table(f"{root}/{name}")
        transaction = log.staging(staged_id(STAGED)).start_transaction()
        (Path(root) / name / f"{AREA}/rows").mkdir(parents=True)
        path = Path(root) / name / f"{AREA}/rows/a.parquet"
        pq.write_table(pa.table({"id": [4, 5]}), path)
        row = {
            "path": f"{AREA}/rows/a.parquet",
            "partition_values": [],
            "size": path.stat().st_size,
            "modification_time": path.stat().st_mtime_ns // 1_000_000,
            "data_change": True,
        }
        transaction.commit(adds=pa.Table.from_pylist([row], schema=ADD_FILE), operation=Operation(name="WRITE"))


def drive(request):
    """Run the job of one try, as the driver does."""
    root, number = request["root"], request["try"]
    statement = TASKS[request["task"]](root, "driver").statement()
    origin = Origin(token=request["token"], record={"try_number": number})
    spec = JobSpec(statement=statement, origin=origin, start_version=0)
    with connect_session(os.environ["SPARK_REMOTE"], origin, {}, request["archive"]) as spark:
        document = run(spark, spec)
        write_result(f"{root}/_airflow_delta/results/{request['token']}/{number}.json", document)
        return document.outcome.to_json() if document.outcome else {"error": document.error, "traceback": document.traceback}


def work(request):
    """Run one try of the task, as the worker does."""
    root = Path(request["root"])
    operator = TASKS[request["task"]](root, "worker")
    kept, xcoms = FileStore(root / "state"), FileStore(root / "xcoms")
    time = datetime(2026, 1, 1, tzinfo=UTC)
    names = {"dag_id": "killed", "task_id": "killed", "run_id": "manual", "map_index": -1, "id": "1"}
    ti = SimpleNamespace(**names, try_number=request["try"], max_tries=1, start_date=None, xcom_push=xcoms.set)
    dag_run = SimpleNamespace(logical_date=time, run_after=time, start_date=time, run_type=SimpleNamespace(value="manual"))
    context = {"ti": ti, "dag_run": dag_run, "task": operator, "task_state_store": kept}
    return operator.execute(context)


def child(request):
    """Run one try; write its return value, and the number of events, to a file."""
    counted = kill_at(request["root"], request["number"])
    outcome = {"driver": drive, "worker": work}[request["victim"]](request)
    count = counted()
    Path(request["answer"]).write_text(json.dumps({"count": count, "outcome": outcome}))
    return 0


def serve(child):
    """Serve requests, each in a child process."""
    if threading.active_count() > 1:
        raise RuntimeError("a process with threads cannot be forked safely")
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            os.dup2(2, 1)  # standard output carries the responses of this process
            try:
                os._exit(child(json.loads(line)))
            except BaseException:  # noqa: BLE001 - nothing of the parent may run here
                traceback.print_exc()
                os._exit(1)
        _, status = os.waitpid(process, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve(child)
