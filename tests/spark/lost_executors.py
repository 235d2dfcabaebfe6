"""A driver whose executors are killed in the middle of its statements; prints the outcome of each as JSON."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import (
    DeleteStatement,
    MatchedUpdate,
    MergeStatement,
    NotMatchedInsert,
    OptimizeStatement,
    SqlSource,
    UpdateStatement,
    WriteStatement,
)
from airflow_delta.spark.constraints import values
from airflow_delta.spark.dml import application, selection
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge import attempt, plan
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.io import committers
from airflow_delta.spark.optimize.optimize import optimize
from airflow_delta.spark.statement import conflict_retry
from airflow_delta.spark.write.write import write

EXECUTORS = 2
SECONDS = 120


class Cluster:
    """The executors of this driver."""

    def __init__(self, spark):
        self.spark = spark
        self.killed = []
        self._lost = 0

    def pids(self):
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
        processes = [line.split(None, 2) for line in listed.splitlines()]
        ours, grown = {os.getpid()}, True
        while grown:
            children = {int(pid) for pid, parent, *_ in processes if int(parent) in ours}
            ours, grown = ours | children, not children <= ours
        return [int(pid) for pid, _, *args in processes if int(pid) in ours and "CoarseGrainedExecutorBackend" in "".join(args)]

    def kill(self, number=EXECUTORS):
        _wait(self._is_whole)
        for pid in self.pids()[:number]:
            os.kill(pid, signal.SIGKILL)
            self.killed.append(pid)
            self._lost += 1

    def wait(self):
        """Wait until all executors are registered, including replacements of killed ones."""
        _wait(self._is_whole)
        self.killed.clear()

    def _is_whole(self):
        # Spark counts a killed executor until it notices the loss; new ones are recognized by their ids, which ascend.
        listed = self.spark.sparkContext._jsc.sc().getExecutorIds()
        ids = [int(listed.apply(place)) for place in range(listed.size())]
        return len(ids) == EXECUTORS and max(ids) >= self._lost + EXECUTORS - 1

    @contextmanager
    def lost_after(self, *steps):
        """Kill all executors when the first call of each of these functions has ended."""
        before = [(module, name, getattr(module, name)) for module, name in steps]
        for module, name, function in before:
            setattr(module, name, self._once(function))
        try:
            yield
        finally:
            for module, name, function in before:
                setattr(module, name, function)

    def _once(self, function):
        done = []

        def run(*arguments, **named):
            result = function(*arguments, **named)
            if not done:
                done.append(True)
                self.kill()
            return result

        return run

    @contextmanager
    def one_lost_in_a_stage(self, tasks):
        """Kill one executor as soon as a stage with this number of tasks has finished some, but not all, of them."""
        ended = threading.Event()
        tracker = self.spark.sparkContext.statusTracker()

        def watch():
            while not ended.is_set():
                stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
                if any(stage and stage.numTasks >= tasks and 0 < stage.numCompletedTasks < stage.numTasks for stage in stages):
                    self.kill(1)
                    return
                time.sleep(0.005)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


def _wait(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the executors did not come back"
        time.sleep(0.05)


CHANGES = {"assignments": {"v": "source.v", "w": "source.v"}}


def _merge(spark, log, query, **statement):
    clauses = statement.pop(
        "clauses", (MatchedUpdate(**CHANGES), NotMatchedInsert(assignments={"id": "source.id", **CHANGES["assignments"]}))
    )
    source = MergeStatement(table=log.table_uri, source=SqlSource(query), on="target.id = source.id", clauses=clauses)
    return merge(spark, log, source)


def merge_changes(spark, cluster, log):
    with cluster.lost_after((plan, "materialize"), (attempt, "stage")):
        return _merge(spark, log, "SELECT id * 3 AS id, -1D AS v FROM range(0, 1000, 1, 6)")


def merge_random_rows(spark, cluster, log):
    with cluster.lost_after((plan, "materialize"), (attempt, "stage"), (application, "_write")):
        return _merge(spark, log, "SELECT id * 3 AS id, rand() AS v FROM range(0, 1000, 1, 6)")


def merge_while_tasks_run(spark, cluster, log):
    with cluster.one_lost_in_a_stage(6):
        return _merge(spark, log, "SELECT id * 3 AS id, -1D AS v FROM range(0, 1000, 1, 6)")


def merge_into_identity(spark, cluster, log):
    clauses = (MatchedUpdate(assignments={"v": "source.v"}), NotMatchedInsert(assignments={"id": "source.id", "v": "source.v"}))
    with cluster.lost_after((plan, "materialize"), (attempt, "stage")):
        return _merge(spark, log, "SELECT id + 1000 AS id, -1D AS v FROM range(0, 2000, 1, 6)", clauses=clauses)


def write_identity(spark, cluster, log):
    source = SqlSource("SELECT id, rand() AS v FROM range(3000, 5000, 1, 6) DISTRIBUTE BY rand()")
    with cluster.lost_after((values, "numbered")):
        return write(spark, log, WriteStatement(table=log.table_uri, source=source))


def update_rows(spark, cluster, log):
    with cluster.lost_after((selection, "stage")):
        return update(spark, log, UpdateStatement(table=log.table_uri, assignments={"v": "v + 1"}, where="id % 3 = 0"))


def update_to_random_values(spark, cluster, log):
    statement = UpdateStatement(table=log.table_uri, assignments={"v": "rand()"}, where="id % 3 = 0 AND rand() < 2")
    with cluster.lost_after((selection, "stage")):
        return update(spark, log, statement)


def delete_rows(spark, cluster, log):
    with cluster.lost_after((selection, "stage")):
        return delete(spark, log, DeleteStatement(table=log.table_uri, where="id % 3 = 0"))


def optimize_while_tasks_run(spark, cluster, log):
    statement = OptimizeStatement(table=log.table_uri, z_order_by=("id", "v"), target_file_size=4_000)
    with cluster.one_lost_in_a_stage(2):
        return optimize(spark, log, statement)


@contextmanager
def _in_place():
    """Write files in place, as to an object store."""
    is_object_store = committers.is_object_store
    committers.is_object_store = lambda _: True
    try:
        yield
    finally:
        committers.is_object_store = is_object_store


def _write_slowly(spark, log, attempt):
    """Write 250 rows in each of 8 tasks; calls ``attempt`` with task, attempt number and row position."""

    def passed(row_id):
        context = TaskContext.get()
        attempt(context.partitionId(), context.attemptNumber(), row_id % 250)
        return row_id

    slow = F.udf(passed, "bigint")
    rows = spark.range(0, 2_000, 1, 8).select(slow("id").alias("id"), F.lit(1.0).alias("v"))
    rows.createOrReplaceTempView("slow_rows")
    with _in_place():
        return write(spark, log, WriteStatement(table=log.table_uri, source=SqlSource("SELECT * FROM slow_rows")))


def write_in_place_while_files_are_open(spark, cluster, log):
    def attempt(_task, _number, place):
        if place % 50 == 49:
            time.sleep(0.2)

    def kill():
        _wait(lambda: len(_directories(log) - {"committed"}) > 2)
        cluster.kill(1)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        return _write_slowly(spark, log, attempt)
    finally:
        killer.join()


def write_in_place_after_tasks_have_failed(spark, cluster, log):
    def attempt(task, number, place):
        if task in (2, 5) and number < 2 and place == 200:
            raise ValueError("this attempt fails")

    return _write_slowly(spark, log, attempt)


def _directories(log):
    """Directories of task attempts while a write runs."""
    return {path.name for path in Path(log.table_uri).glob("write-*/rows/*")}


SCENARIOS = (
    merge_changes,
    merge_random_rows,
    merge_while_tasks_run,
    merge_into_identity,
    write_identity,
    update_rows,
    update_to_random_values,
    delete_rows,
    optimize_while_tasks_run,
    write_in_place_while_files_are_open,
    write_in_place_after_tasks_have_failed,
)


def main(folder, names):
    spark = _session(folder)
    attempts = []
    prepare_and_attempt = conflict_retry._Run._prepare_and_attempt

    def counted(*arguments):
        attempts.append(1)
        return prepare_and_attempt(*arguments)

    conflict_retry._Run._prepare_and_attempt = counted
    cluster = Cluster(spark)
    for scenario in SCENARIOS:
        if names and scenario.__name__ not in names:
            continue
        cluster.wait()
        attempts.clear()
        begun = time.monotonic()
        try:
            result = scenario(spark, cluster, DeltaLog.for_table(str(folder / scenario.__name__)))
            found = {"version": result.version}
        except Exception as error:  # noqa: BLE001 - each scenario has a test, which shows it
            found = {"error": f"{type(error).__name__}: {error}"}
        found |= {"attempts": len(attempts), "killed": len(cluster.killed), "seconds": round(time.monotonic() - begun, 1)}
        found["cached"] = spark.sparkContext._jsc.getPersistentRDDs().size()
        (folder / f"{scenario.__name__}.json").write_text(json.dumps(found))
    spark.stop()


def _session(folder):
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.local.dir": str(folder),
        "spark.sql.shuffle.partitions": "6",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",  # so that both executors hold some of the few rows
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.liveUpdate.period": "0ms",  # for the status tracker
        "spark.task.maxFailures": "8",  # tasks may be sent to a lost executor before Spark notices the loss
    }
    builder = SparkSession.builder.master(f"local-cluster[{EXECUTORS},1,1024]").appName("lost executors")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
