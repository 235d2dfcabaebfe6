"""SIGKILL, as the kernel sends it when memory is short: of the triggerer, of a worker, of a driver, of the scheduler.

A supervisor starts Airflow's components again (systemd, Kubernetes); nothing else is done. How long Airflow waits before
it calls something dead is shortened as ``airflow_home.SHORTENED`` says.
"""

import collections
import sys
import threading
import time

import psutil
import pytest
from deltalake import DeltaTable

from tests.core.faults.scenarios import create, write
from tests.standalone.airflow_home import kill_tree, wait_until
from tests.standalone.commits import origins

pytestmark = pytest.mark.slow

DAG_FILES = ("killed.py",)
BURST = 20


@pytest.fixture
def tell(capsys, request):
    """Print a measurement, bypassing pytest's capture."""
    began = time.monotonic()

    def say(text):
        with capsys.disabled():
            sys.stdout.write(f"\n{request.node.name}, {time.monotonic() - began:.0f} s: {text}\n")

    return say


def driver_of(airflow, run_id):
    """The JVM of the job that appends the run's rows, a few seconds after it was started; None while there is none."""
    found = airflow.running("org.apache.spark.deploy.SparkSubmit", f"'{run_id}'")
    return next((process for process in found if time.time() - process.create_time() > 3), None)


def assert_appended_once(airflow, run_ids):
    """Each run's rows are there once, by one commit with a token of its own."""
    made = [origin for _, origin in origins(airflow.tables / "appended") if origin.record["run_id"] in run_ids]
    assert sorted(origin.record["run_id"] for origin in made) == sorted(run_ids)
    assert len({origin.token for origin in made}) == len(run_ids)
    rows = collections.Counter(DeltaTable(airflow.tables / "appended").to_pyarrow_table()["run"].to_pylist())
    assert {run: rows[run] for run in run_ids} == dict.fromkeys(run_ids, 100)


def events_of(airflow):
    """The payloads of the asset events of the watched table, oldest first."""
    events = airflow.get("assets/events", limit=100, order_by="timestamp")["asset_events"]
    return [event["extra"]["payload"] for event in events]


def covered(events):
    return {version for event in events for version in range(event["from_version"], event["to_version"] + 1)}


def kill_triggerer(airflow):
    """Kill the triggerer and its child processes, and start another one; returns the events that existed in between."""
    kill_tree(psutil.Process(airflow.processes["triggerer"].pid))
    seen = events_of(airflow)
    airflow.kill("triggerer")
    airflow.start("triggerer")
    return seen


def await_more_events(airflow, number):
    wait_until(lambda: len(events_of(airflow)) > number, seconds=120, what="the next triggerer announces", poll=0.1)


def test_a_triggerer_killed_twice_in_a_burst_of_commits_loses_none(airflow, tell):
    root = airflow.tables / "burst"
    log = create(root)
    airflow.unpause("watched")
    waiting = airflow.trigger("waiting")
    wait_until(lambda: airflow.states("waiting", waiting)["wait"] == "deferred", seconds=180, what="the sensor is deferred")
    write(log, root, "1", token="token 1")
    # Airflow 3.0 begins to watch only when it reads the DAG file for the second time: see MIN_FILE_PROCESS_INTERVAL.
    wait_until(lambda: 1 in covered(events_of(airflow)), seconds=480, what="the watcher is at work")

    def burst():
        for number in range(2, BURST + 1):
            write(log, root, f"{number}", token=f"token {number}")
            time.sleep(0.5)

    commits = threading.Thread(target=burst)
    commits.start()
    wait_until(lambda: 4 in covered(events_of(airflow)), seconds=60, what="the burst is announced", poll=0.1)
    for _ in range(2):  # the second time right after the new triggerer's first event
        seen = kill_triggerer(airflow)
        tell(f"killed at version {log.snapshot().version}; {len(seen)} events cover {sorted(covered(seen))}")
        await_more_events(airflow, len(seen))
    commits.join()

    wait_until(lambda: covered(events_of(airflow)) >= set(range(1, BURST + 1)), seconds=180, what="every version is announced")
    airflow.succeeded("waiting", waiting)
    assert airflow.xcom("waiting", waiting, "wait") == BURST
    assert [origin.token for _, origin in origins(root)][1:] == [f"token {n + 1}" for n in range(BURST)]
    runs = wait_until(lambda: airflow.runs("watched"), seconds=60, what="the consumer runs")
    wait_until(lambda: {run["state"] for run in airflow.runs("watched")} == {"success"}, seconds=300, what="consumers end")
    ranges = [(event["from_version"], event["to_version"]) for event in events_of(airflow)]
    tell(f"{len(ranges)} events: {ranges}; runs of the consumer: {len(runs)}")


@pytest.mark.parametrize("victim", ["driver", "supervisor", "supervisor and task"])
def test_one_killed_during_a_job_leaves_one_commit(airflow, tell, victim):
    run_id = airflow.trigger("appended")
    driver = wait_until(lambda: driver_of(airflow, run_id), seconds=300, what="the job has begun", poll=0.5)
    before = len(origins(airflow.tables / "appended"))
    if victim == "driver":
        driver.kill()
    else:
        (task,) = airflow.tasks("appended", run_id)
        (supervisor,) = airflow.running("LocalExecutor", task["id"])
        # The driver is the task's child. It ends, though the task may live on; it may have committed before.
        lost = supervisor.children() if victim == "supervisor and task" else []
        orphan = [driver, *driver.children(recursive=True)]
        killed = time.monotonic()
        for process in (supervisor, *lost):
            process.kill()
        _, alive = psutil.wait_procs(orphan, timeout=60)
        tell(f"the driver (JVM and Python) ended {time.monotonic() - killed:.1f} s later")
        assert not alive
    tell(f"killed the {victim}")
    airflow.succeeded("appended", run_id)
    assert_appended_once(airflow, [run_id])
    tries = airflow.tries("appended", run_id, "append")
    assert len(tries) > 1
    (*_, (_, commit)) = origins(airflow.tables / "appended")
    committing = commit.record["try_number"]
    states = [(attempt["try_number"], attempt["state"], attempt["duration"]) for attempt in tries]
    tell(f"{states}; the commit is of try {committing}")
    assert airflow.xcom("appended", run_id, "append")["already_committed"] == (committing < len(tries))
    assert len(origins(airflow.tables / "appended")) == before + 1


def test_a_scheduler_killed_during_a_backfill_loses_no_run_and_repeats_none(airflow, tell):
    airflow.unpause("appended")
    dates = ["--from-date", "2013-02-01", "--to-date", "2013-02-04"]
    airflow.cli("backfill", "create", "--dag-id", "appended", *dates, "--max-active-runs", "2")
    run_ids = [f"backfill__2013-02-0{day}T00:00:00+00:00" for day in range(1, 5)]
    wait_until(
        lambda: [candidate for candidate in run_ids if driver_of(airflow, candidate)],
        seconds=300,
        what="a job has begun",
        poll=0.5,
    )
    at_work = [candidate for candidate in run_ids if driver_of(airflow, candidate)]
    airflow.kill("scheduler")
    tell(f"killed the scheduler while the jobs of {at_work} ran")
    time.sleep(5)
    airflow.start("scheduler")
    for run_id in run_ids:
        airflow.succeeded("appended", run_id)
    assert_appended_once(airflow, run_ids)
    tries = {task["dag_run_id"]: task["try_number"] for task in airflow.tasks("appended") if task["dag_run_id"] in run_ids}
    tell(f"tries: {tries}")
