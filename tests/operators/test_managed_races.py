"""Writers that open one managed table by its name, through a connection: beside a foreign committer, and killed."""

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from airflow_delta.core.storage.table_uri import local_path
from tests.catalogs.managed_unity import TOKEN, managed_unity

PROJECT = Path(__file__).parents[2]
FOREIGN = (PROJECT / "tests" / "catalogs" / "foreign_committer.py").read_text()

ROWS = 50  # in each commit

# An Airflow worker that resolves the name again with every tenth commit, and writes rows with the core's writer.
WRITER = """
import json, sys, time
from pathlib import Path
import pyarrow as pa
from airflow_delta.core.actions import ADD_FILE
from airflow_delta.core.data_files import DataFileWriter
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.hooks.delta import DeltaHook

def added(log, path, first):
    filesystem, root = log.store.data_filesystem()
    writer = DataFileWriter(filesystem, f"{root}/{path}", log.snapshot().schema)
    notes = [f"writer {order['writer']}"] * order["rows"]
    writer.write(pa.record_batch({"id": range(first, first + order["rows"]), "note": notes}))
    file = writer.close()
    row = {"path": path, "partition_values": [], "modification_time": 1, "data_change": True}
    return pa.Table.from_pylist([{**row, "size": file.size, "stats": file.stats}], schema=ADD_FILE)

order = json.loads(sys.argv[1])
hook = DeltaHook("lake")
log = hook.delta_log("sales.orders")
print("ready", flush=True)
while not Path(order["go"]).exists():
    time.sleep(0.01)
for number in range(order["appends"]):
    path = f"{order['writer']}-{number}"
    if number % 10 == 9:
        log = DeltaHook("lake").delta_log("sales.orders")
    rows = added(log, path, order["writer"] * 1_000_000 + number * 1_000)
    result = log.start_transaction().commit(adds=rows, operation=Operation(name="WRITE"), max_attempts=1000)
    print(result.version, flush=True)
"""

# Forks of it, each killed at a storage operation; each resolves the name again.
FORKS = """
import json, os, sys
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.storage.resolve import log_store_for
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.hooks.delta import DeltaHook
from tests.core.faults.faulty_log_store import Fault, FaultyLogStore
from tests.core.managed.conftest import adds

def commit(order):
    fault = Fault(**order["fault"], is_kill=True) if order["fault"] else None
    hook = DeltaHook("lake")
    uri = hook.table_uri("sales.orders")
    (table,) = hook.managed_tables
    store = FaultyLogStore(log_store_for(uri), fault)
    log = DeltaLog(table.log_store(lambda _vended: store, hook.catalog_settings))
    log.start_transaction().commit(adds=adds(order["path"]), operation=Operation(name="WRITE"))
    return len(store.operations)

for line in sys.stdin:
    process = os.fork()
    if process == 0:
        os._exit(commit(json.loads(line)))
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""


@pytest.fixture
def unity(tmp_path, monkeypatch):
    """The server behind the connection ``lake``, which processes find in their environment."""
    with managed_unity() as unity:
        server = {"conn_type": "http", "host": unity.uri, "password": TOKEN}
        catalog = {"type": "unity", "name": "main", "conn_id": "unity_server"}
        lake = {"conn_type": "delta", "host": str(tmp_path), "extra": {"catalog": catalog}}
        monkeypatch.setenv("AIRFLOW_CONN_UNITY_SERVER", json.dumps(server))
        monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(lake))
        yield unity


@pytest.fixture
def orders(unity, tmp_path):
    return unity.make("orders", (tmp_path / "orders").as_uri(), **{"delta.checkpointInterval": "25"})


def start(program, **options):
    return subprocess.Popen(
        [sys.executable, "-c", program], cwd=PROJECT, env=os.environ | {"PYTHONPATH": str(PROJECT)}, text=True, **options
    )


def race(orders, go, writers):
    """The versions that each of the processes reported, after all have begun at the same moment."""
    known = {
        "server": orders.unity.uri,
        "table_id": orders.table_id,
        "table_uri": orders.location,
        "token": TOKEN,
        "go": str(go),
        "rows": ROWS,
    }
    processes = []
    for number, (program, appends) in enumerate(writers):
        order = json.dumps({**known, "writer": number, "appends": appends})
        command = [sys.executable, "-c", program, order]
        environment = os.environ | {"PYTHONPATH": str(PROJECT)}
        processes.append(subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, text=True))
    for process in processes:
        while process.stdout.readline() != "ready\n":  # Airflow may say something first
            assert process.poll() is None
    go.touch()
    outputs = [process.communicate(timeout=900)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return [list(map(int, output.split())) for output in outputs]


def ids_read_without_our_core(orders):
    """The id of each row in the published table's files, as named by the commits."""
    root = Path(local_path(orders.location))
    lines = [json.loads(line) for file in (root / "_delta_log").glob("*.json") for line in file.read_text().splitlines()]
    files = [root / line["add"]["path"] for line in lines if "add" in line]
    return sorted(number for file in files for number in pq.read_table(file, columns=["id"])["id"].to_pylist())


def check(orders, expected):
    """Check, without our core, that commits are ratified in order and published unchanged, with no row lost or duplicated."""
    count = len(expected)
    assert orders.ratified == list(range(1, count + 1))
    log = orders.log()
    log.checkpoint()  # publishes what a killed writer left
    folder = local_path(orders.location) / "_delta_log"
    commits = sorted(folder.glob("?" * 20 + ".json"))
    assert [int(file.stem) for file in commits] == list(range(count + 1))
    lines = [json.loads(line) for file in commits for line in file.read_text().splitlines()]
    assert sorted(line["add"]["path"] for line in lines if "add" in line) == sorted(expected)
    for info in orders.kept.record:
        assert (folder / "_staged_commits" / info["file_name"]).read_bytes() == commits[info["version"]].read_bytes()
    times = [line["commitInfo"]["inCommitTimestamp"] for line in lines if "commitInfo" in line]
    assert times == sorted(set(times))
    assert sorted(log.refresh().files()["path"].to_pylist()) == sorted(expected)


@pytest.mark.slow
def test_two_workers_by_name_that_append_rows_beside_a_foreign_committer_lose_and_double_none_and_are_ratified_in_order(
    orders, tmp_path
):
    writers = list(zip([WRITER, WRITER, FOREIGN], (70, 70, 60), strict=True))
    versions = race(orders, tmp_path / "go", writers)
    assert sorted(itertools.chain(*versions)) == list(range(1, 201))
    check(orders, [f"{writer}-{number}" for writer, (_, appends) in enumerate(writers) for number in range(appends)])
    numbers = ((writer, number) for writer, (_, appends) in enumerate(writers) for number in range(appends))
    expected = [writer * 1_000_000 + number * 1_000 + row for writer, number in numbers for row in range(ROWS)]
    assert len(expected) == 200 * ROWS
    assert [row["id"] for row in orders.rows()] == expected
    assert ids_read_without_our_core(orders) == expected
    found = orders.log().snapshot().to_arrow().read_all().group_by("note").aggregate([("id", "count")]).to_pylist()
    assert sorted((row["note"], row["id_count"]) for row in found) == [
        (f"writer {writer}", appends * ROWS) for writer, (_, appends) in enumerate(writers)
    ]


@pytest.mark.slow
def test_a_worker_by_name_that_is_killed_at_any_operation_leaves_its_commit_whole_or_not_there(orders):
    """At staging, before and after ratification, and at each step of publication; the next worker goes on."""
    process = start(FORKS, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def commit(path, fault=None):
        process.stdin.write(f"{json.dumps({'path': path, 'fault': fault})}\n")
        process.stdin.flush()
        while not (line := process.stdout.readline()).strip().lstrip("-").isdigit():
            assert line, "the process has ended"
        return int(line)

    expected, kills = ["first", "second"], 0
    operations = [commit(path) for path in expected][-1]
    for number in range(operations):
        for moment in ("before", "after"):
            path = f"{moment}-{number}"
            is_killed = commit(path, {"number": number, "moment": moment}) == -signal.SIGKILL
            assert is_killed or moment == "after"  # a read of what is not there has no moment after it
            kills += is_killed
            is_there = path in orders.log().refresh().files()["path"].to_pylist()
            assert is_there == (len(orders.ratified) > len(expected))
            expected += [path] if is_there else []
            assert commit(f"next-{path}") > 0
            expected.append(f"next-{path}")
    process.communicate()
    assert kills > operations
    check(orders, expected)
