"""Real processes on one managed table at one server: writers of ours beside a foreign one, and writers that are killed."""

import itertools
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_delta.catalogs.unity_commits import TABLE_ID, UnityCommits
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.transaction.operation import Operation
from tests.catalogs.unity_commits_server import UnityServer
from tests.core.managed.conftest import METADATA, PROTOCOL

PROJECT = Path(__file__).parents[2]
FOREIGN = Path(__file__).with_name("foreign_committer.py").read_text()
ID, TOKEN = "0c5ee4a8-18a3-4f60-a2c9-1f1c1e6a1b55", "t0ken"

WRITER = """
import json, sys, time
from pathlib import Path
from airflow_delta.catalogs.unity_commits import UnityCommits
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.transaction.operation import Operation
from tests.core.managed.conftest import adds

order = json.loads(sys.argv[1])
place = {"table_id": order["table_id"], "table_uri": order["table_uri"]}
commits = UnityCommits(uri=order["server"], token=lambda: order["token"], **place)
log = DeltaLog.for_table(order["table_uri"], commits=commits)
print("ready", flush=True)
while not Path(order["go"]).exists():
    time.sleep(0.01)
for number in range(order["appends"]):
    path = f"{order['writer']}-{number}"
    result = log.start_transaction().commit(adds=adds(path), operation=Operation(name="WRITE"), max_attempts=1000)
    print(result.version, flush=True)
"""


class Table:
    def __init__(self, server, root):
        self.server, self.go, self.root = server, root / "go", root / "table"
        self.uri = self.root.as_uri()
        self.kept = server.add_table(ID, self.uri)
        metadata = replace(METADATA, configuration={**METADATA.configuration, TABLE_ID: ID, "delta.checkpointInterval": "25"})
        self.log().create_transaction(metadata, PROTOCOL).commit(operation=Operation(name="CREATE TABLE"))

    def log(self):
        commits = UnityCommits(uri=self.server.uri, table_id=ID, table_uri=self.uri, token=lambda: TOKEN)
        return DeltaLog.for_table(self.uri, commits=commits)

    def start(self, writer, appends, program=WRITER):
        order = {"server": self.server.uri, "table_id": ID, "table_uri": self.uri, "token": TOKEN}
        order |= {"writer": writer, "appends": appends, "go": str(self.go)}
        command = [sys.executable, "-c", program, json.dumps(order)]
        return subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)

    def race(self, orders):
        """Start all processes at the same moment; returns the versions that each reported."""
        writers = [self.start(number, appends, program) for number, (program, appends) in enumerate(orders)]
        for writer in writers:
            assert writer.stdout.readline() == "ready\n"
        self.go.touch()
        outputs = [writer.communicate(timeout=900)[0] for writer in writers]
        assert [writer.returncode for writer in writers] == [0] * len(writers)
        return [list(map(int, output.split())) for output in outputs]

    def published(self):
        """Version and content of each published commit, read without our core."""
        files = sorted((self.root / "_delta_log").glob("?" * 20 + ".json"))
        return {int(file.name[:20]): [json.loads(line) for line in file.read_text().splitlines()] for file in files}


@pytest.fixture
def table(tmp_path):
    server = UnityServer(token=TOKEN)
    yield Table(server, tmp_path)
    server.close()


def check(table, expected):
    """Check that commits are ratified in order and published unchanged, and that no row is lost or duplicated."""
    count = len(expected)
    assert [info["version"] for info in table.kept.record] == list(range(1, count + 1))
    log = table.log()
    assert log.refresh().version == count
    assert sorted(log.refresh().files()["path"].to_pylist()) == sorted(expected)
    log.checkpoint()  # publishes what a killed writer left
    published = table.published()
    assert list(published) == list(range(count + 1))
    added = [line["add"]["path"] for version in range(1, count + 1) for line in published[version] if "add" in line]
    assert sorted(added) == sorted(expected)
    for info in table.kept.record:
        staged = table.root / "_delta_log" / "_staged_commits" / info["file_name"]
        assert staged.read_bytes() == (table.root / "_delta_log" / f"{info['version']:020d}.json").read_bytes()
    times = [published[version][0]["commitInfo"]["inCommitTimestamp"] for version in published]
    assert times == sorted(set(times))


def names(orders):
    return [f"{writer}-{number}" for writer, (_, appends) in enumerate(orders) for number in range(appends)]


@pytest.mark.parametrize(
    "appends",
    [pytest.param((6, 6, 6), id="small"), pytest.param((70, 70, 60), id="200-commits", marks=pytest.mark.slow)],
)
def test_two_writers_beside_a_foreign_committer_lose_nothing_double_nothing_and_are_ratified_in_order(table, appends):
    orders = list(zip([WRITER, WRITER, FOREIGN], appends, strict=True))
    versions = table.race(orders)
    assert sorted(itertools.chain(*versions)) == list(range(1, sum(appends) + 1))
    check(table, names(orders))


@pytest.mark.slow
def test_killed_writers_leave_each_commit_whole_or_not_at_all_and_the_next_ones_go_on(table):
    table.go.touch()
    expected = []
    for writer_number in range(12):
        writer = table.start(writer_number, 10_000)
        assert writer.stdout.readline() == "ready\n"
        writer.stdout.readline()
        time.sleep(0.004 * writer_number)
        writer.send_signal(signal.SIGKILL)
        reported = 1 + len(writer.communicate()[0].split())

        paths = table.log().refresh().files()["path"].to_pylist()
        own = [path for path in paths if path.startswith(f"{writer_number}-")]
        assert len(own) in (reported, reported + 1)
        assert sorted(own) == sorted(f"{writer_number}-{number}" for number in range(len(own)))
        expected += own
    check(table, expected)
