"""A Python task whose driver or worker is killed at every step and tried again: its rows are there once, or not yet."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext, suppress

import psutil
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.shipping.archive import build_archive
from tests.connect_server import connect_server

pytestmark = pytest.mark.slow  # a server, and a hundred tries

BEFORE, AFTER = [1, 2, 3], [1, 2, 3, 104, 105]
PLACES = {"driver": 9, "worker": 6}
"""At least so many in each half of a test, evenly among all: a try of a worker starts a Python for its driver."""


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
            [sys.executable, "-m", "tests.operators.killed_functions"],
            env=os.environ | connections,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        answer = folder / "answer.json"

        def run(root, victim, number, attempt):
            """One try, and until also the driver has ended of a worker that was killed before."""
            answer.unlink(missing_ok=True)
            request = {
                "root": str(root),
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
    """A table, and another whose rows are to be appended to it."""
    root = tmp_path_factory.mktemp("template") / "root"
    write_deltalake(str(root / "table"), pa.table({"id": BEFORE}))
    write_deltalake(str(root / "seen"), pa.table({"id": [4, 5]}))
    write_deltalake(str(root / "seen"), pa.table({"id": [6]}), mode="append")  # behind the version that the task reads
    for name in ("state", "xcoms"):
        (root / name).mkdir()
    (root / "marker").touch()
    return root


def rows(root):
    return sorted(DeltaTable(str(root / "table")).to_pyarrow_table()["id"].to_pylist())


def tokens(root):
    return [entry.commit_info.origin.token for entry in DeltaLog.for_table(str(root / "table")).history()][:-1]


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("victim", ["driver", "worker"])
def test_one_killed_at_any_step_appends_its_rows_once(runs, template, tmp_path, victim, half, capsys):
    never = 1 << 30
    shutil.copytree(template, tmp_path / "undisturbed")
    code, undisturbed = runs(tmp_path / "undisturbed", victim, never, 1)
    assert (code, rows(tmp_path / "undisturbed")) == (0, AFTER), undisturbed
    count = undisturbed["count"]
    step = count // (2 * PLACES[victim])
    places = list(range(0, count, step))[half::2]
    committed = []
    for number in places:
        root = tmp_path / f"{number}"
        shutil.copytree(template, root)
        code, _ = runs(root, victim, number, 1)
        assert code == -signal.SIGKILL
        assert rows(root) in (BEFORE, AFTER)
        is_committed = len(tokens(root)) == 1
        code, done = runs(root, victim, never, 2)
        assert code == 0
        assert done["outcome"].get("version") == 1, done
        assert rows(root) == AFTER, number
        assert len(tokens(root)) == 1, number
        # a driver whose worker was killed may have committed a moment later
        assert done["outcome"]["already_committed"] >= is_committed
        committed.append(is_committed)
        if victim == "worker":
            assert json.loads((root / "xcoms" / "delta_version").read_text()) == 1
        shutil.rmtree(root)
    with capsys.disabled():
        sys.stdout.write(f"\n{victim} killed before the events {places} of {count}; {sum(committed)} had committed\n")
    assert len(places) >= PLACES[victim]
    assert {*committed} == {False, True}
