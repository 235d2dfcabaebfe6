"""A process that is killed (SIGKILL) before or after each of its storage operations while it commits through a server."""

import json
import signal
import subprocess
import sys

import pytest

from tests.catalogs.test_managed_table_processes import ID, PROJECT, TOKEN, Table, check
from tests.catalogs.unity_commits_server import UnityServer

FORKS = """
import json, os, sys
from airflow_delta.catalogs.unity_commits import UnityCommits
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.log.managed_log_store import ManagedLogStore
from airflow_delta.core.storage.resolve import log_store_for
from airflow_delta.core.transaction.operation import Operation
from tests.core.faults.faulty_log_store import Fault, FaultyLogStore
from tests.core.managed.conftest import adds

def commit(order):
    fault = Fault(**order["fault"], is_kill=True) if order["fault"] else None
    store = FaultyLogStore(log_store_for(order["uri"]), fault)
    commits = UnityCommits(uri=order["server"], table_id=order["id"], table_uri=order["uri"], token=lambda: order["token"])
    log = DeltaLog(ManagedLogStore(store, commits))
    log.start_transaction().commit(adds=adds(order["path"]), operation=Operation(name="WRITE"))
    return len(store.operations)

for line in sys.stdin:
    process = os.fork()
    if process == 0:
        os._exit(commit(json.loads(line)))
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""


class Writer:
    """Appends one file in a separate process, which takes milliseconds because it is forked from one without threads."""

    def __init__(self, table):
        self.table = table
        command = [sys.executable, "-c", FORKS]
        self.process = subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def commit(self, path, fault=None):
        """Commit; returns the exit status: the number of storage operations, or the signal that ended the process."""
        order = {"server": self.table.server.uri, "id": ID, "uri": self.table.uri, "token": TOKEN, "path": path, "fault": fault}
        self.process.stdin.write(f"{json.dumps(order)}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@pytest.fixture
def table(tmp_path):
    server = UnityServer(token=TOKEN)
    yield Table(server, tmp_path)
    server.close()


@pytest.fixture
def writer(table):
    writer = Writer(table)
    yield writer
    writer.process.communicate()


@pytest.mark.slow
def test_killed_before_and_after_each_operation_a_commit_is_whole_or_not_there(table, writer):
    expected = ["first", "second"]
    operations = [writer.commit(path) for path in expected][-1]
    assert operations > 0
    kills = 0
    for number in range(operations):
        for moment in ("before", "after"):
            path = f"{moment}-{number}"
            is_killed = writer.commit(path, {"number": number, "moment": moment}) == -signal.SIGKILL
            assert is_killed or moment == "after"  # a read of what is not there has no moment after it
            kills += is_killed
            is_there = path in table.log().refresh().files()["path"].to_pylist()
            assert is_there == (len(table.kept.record) > len(expected))
            expected += [path] if is_there else []
            assert writer.commit(f"next-{path}") > 0
            expected.append(f"next-{path}")
    assert kills > operations
    check(table, expected)
