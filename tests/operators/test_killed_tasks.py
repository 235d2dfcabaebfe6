"""Tasks whose driver or worker is killed at every step and retried: their rows are in the table once, or not yet."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext, suppress
from dataclasses import dataclass

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.operations.staged_folder import STAGED_FOLDER
from airflow_delta.shipping.archive import build_archive
from tests.connect_server import connect_server
from tests.operators.killed_tasks import stage_appends

pytestmark = pytest.mark.slow  # a server, and a hundred tries

BEFORE, AFTER, LOADED = [1, 2, 3], [1, 2, 3, 4, 5], [1, 2, 3, 7, 8]
PLACES = {"driver": 9, "worker": 6}
"""Least number of kill points per half of a test, evenly spread: each try of a worker starts a Python for its driver."""


@dataclass(frozen=True)
class Outcome:
    """The states of the two tables that others may see while a task runs, in order, and in the end."""

    states: list
    commits: int
    staged: int = 0


OUTCOMES = {
    "function": Outcome([(BEFORE, BEFORE), ([1, 2, 3, 104, 105], BEFORE)], commits=1),
    "statements": Outcome([(BEFORE, BEFORE), (AFTER, BEFORE), (AFTER, [1, 3])], commits=2),
    "stage": Outcome([(BEFORE, BEFORE)], commits=0, staged=1),
    "publish": Outcome([(BEFORE, BEFORE), (AFTER, BEFORE), (AFTER, AFTER)], commits=2, staged=2),
    "copy into": Outcome([(BEFORE, BEFORE), (LOADED, BEFORE)], commits=1),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory, pytestconfig):
    """A process that runs one try: how it ended, and what it returned."""
    folder = tmp_path_factory.mktemp("killed")
    archive = str(build_archive(folder))
    given = pytestconfig.getoption("--spark-connect")
    with nullcontext(given) if given else connect_server(folder) as address:
        port = int(address.rpartition(":")[2])
        connections = {
            "AIRFLOW_CONN_SERVER": json.dumps({"conn_type": "spark_connect", "host": "127.0.0.1", "port": port}),
            "AIRFLOW_CONN_DELTA_DEFAULT": json.dumps({"conn_type": "delta"}),
            "SPARK_REMOTE": address,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.operators.killed_tasks"],
            env=os.environ | connections,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        answer = folder / "answer.json"

        def run(root, task, victim, number, attempt):
            """Run one try; also waits for the end of the driver of a killed worker."""
            answer.unlink(missing_ok=True)
            request = {
                "root": str(root),
                "task": task,
                "victim": victim,
                "number": number,
                "try": attempt,
                "token": f"{abs(hash(str(root))):032x}"[:32],
                "archive": archive,
                "answer": str(answer),
            }
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            code = int(process.stdout.readline())
            if attempt > 1:
                psutil.wait_procs(drivers(address), timeout=300)
            return code, json.loads(answer.read_text()) if answer.exists() else None

        yield run
        process.stdin.close()
        process.wait()


def drivers(address):
    """The processes that drive jobs on a server."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        with suppress(psutil.Error):
            if "airflow_delta.jobs.connect" in (process.info["cmdline"] or []) and address in process.environ()["SPARK_REMOTE"]:
                found.append(process)
    return found


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Two tables, one with rows for them, and files."""
    root = tmp_path_factory.mktemp("template") / "root"
    for name in ("table", "other"):
        write_deltalake(str(root / name), pa.table({"id": BEFORE}))
    write_deltalake(str(root / "seen"), pa.table({"id": [4, 5]}))
    write_deltalake(str(root / "seen"), pa.table({"id": [6]}), mode="append")  # behind the version that tasks read
    for name in ("state", "xcoms", "incoming"):
        (root / name).mkdir()
    for number in (7, 8):
        pq.write_table(pa.table({"id": [number]}), root / "incoming" / f"{number}.parquet")
    (root / "marker").touch()
    return root


def rows(root):
    """The rows of both tables, as another engine reads them."""
    return tuple(sorted(DeltaTable(str(root / name)).to_pyarrow_table()["id"].to_pylist()) for name in ("table", "other"))


def tokens(root):
    logs = [DeltaLog.for_table(str(root / name)) for name in ("table", "other")]
    return [entry.commit_info.origin.token for log in logs for entry in log.history()[:-1]]


def staged(root):
    return [path.name for name in ("table", "other") for path in (root / name / STAGED_FOLDER).glob("*.json")]


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("victim", ["driver", "worker"])
@pytest.mark.parametrize("task", OUTCOMES)
def test_one_killed_at_any_step_is_seen_whole_or_not_at_all_and_does_its_work_once(
    runs, template, tmp_path, task, victim, half, capsys
):
    never, expected = 1 << 30, OUTCOMES[task]

    def begun(name):
        shutil.copytree(template, tmp_path / name)
        if task == "publish":
            stage_appends(tmp_path / name)
        return tmp_path / name

    code, undisturbed = runs(begun("undisturbed"), task, victim, never, 1)
    assert (code, rows(tmp_path / "undisturbed")) == (0, expected.states[-1]), undisturbed
    count = undisturbed["count"]
    places = list(range(0, count, count // (2 * PLACES[victim])))[half::2]
    seen = []
    for number in places:
        root = begun(f"{number}")
        code, _ = runs(root, task, victim, number, 1)
        assert code == -signal.SIGKILL
        state = rows(root)
        assert state in expected.states, number
        seen.append((expected.states.index(state), len(staged(root)) if task == "stage" else 0))
        code, done = runs(root, task, victim, never, 2)
        assert code == 0
        assert "error" not in done["outcome"], done
        assert rows(root) == expected.states[-1], number
        assert len(tokens(root)) == expected.commits, number
        assert len(staged(root)) == expected.staged, number
        shutil.rmtree(root)
    with capsys.disabled():
        sys.stdout.write(f"\n{task}, {victim} killed before the events {places} of {count}; seen {sorted({*seen})}\n")
    assert len(places) >= PLACES[victim]
    assert len({*seen}) > 1
