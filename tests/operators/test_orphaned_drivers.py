"""A worker is killed for real while its driver is at work: the driver ends, and the retry works alone and commits once."""

import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

import psutil
import pytest
from deltalake import DeltaTable

from airflow_delta.operators import DeltaPythonOperator
from tests.operators.test_exactly_once import commit_files, tokens

pytestmark = pytest.mark.slow  # its Spark jobs take half a minute and more

SECONDS_OF_A_JOB = 600


def rows(spark, begun):
    import time  # noqa: PLC0415 - it travels as text
    from pathlib import Path  # noqa: PLC0415

    if not Path(begun).exists():
        Path(begun).touch()
        time.sleep(3_600)
    return spark.range(3)


def drivers(table):
    """JVM and Python of the jobs that work on the table."""
    commands = {process: process.info["cmdline"] or [""] for process in psutil.process_iter(["cmdline"])}
    return [process for process, command in commands.items() if "--spec" in command and str(table) in command[-1]]


class LosesItsWorkerOnce(DeltaPythonOperator):
    """The first try's submit is made by a process that is killed when the driver computes its rows."""

    def _submit(self, spec, target, private, token, context):
        submit = partial(super()._submit, spec, target, private, token, context)
        if context["ti"].try_number > 1:
            self.seen.append(drivers(self.table))
            return submit()
        worker = os.fork()
        if not worker:
            submit()
            os._exit(0)
        deadline = time.monotonic() + SECONDS_OF_A_JOB
        while not Path(self.op_kwargs["begun"]).exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        found = drivers(self.table)
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)
        killed = time.monotonic()
        _, alive = psutil.wait_procs(found, timeout=60)
        self.seen.extend([found, alive, time.monotonic() - killed])
        raise RuntimeError("the worker is lost")


def test_the_driver_of_a_killed_worker_ends_and_the_retry_works_alone(tmp_path, run_task, capsys, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_DELTA_DEFAULT", "delta://")  # a forked process of dag.test() must not ask its Airflow
    table, seen = tmp_path / "table", []

    def make():
        operator = LosesItsWorkerOnce(
            task_id="write",
            table=str(table),
            python_callable=rows,
            op_kwargs={"begun": str(tmp_path / "begun")},
            conn_id="spark_local",
        )
        operator.seen = seen
        return operator

    run = run_task(make, retries=1)
    (orphan, alive, seconds, beside_retry) = seen
    with capsys.disabled():
        sys.stdout.write(f"\n{len(orphan)} processes, {len(alive)} alive {seconds:.1f} s after the kill\n")
    assert len(orphan) == 2
    assert (alive, beside_retry) == ([], [])
    assert (run.state, run.version, run.result["already_committed"], len(run.errors)) == ("success", 0, False, 1)
    assert len(DeltaTable(str(table)).to_pyarrow_table()) == 3
    assert (len(commit_files(table)), len(tokens(table))) == (1, 1)
