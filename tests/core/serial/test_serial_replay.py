"""Processes that read and change one table at once: their history, replayed commit by commit, gives each what it read."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from airflow_delta.core.actions import Metadata
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.transaction.operation import Operation
from tests.core.object_stores import moto_server, s3  # noqa: F401 - fixtures
from tests.core.serial.worker import matches, rows_of

PROJECT = Path(__file__).parents[3]
SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in {"p": "string", "key": "long", "value": "long"}.items()
        ],
    }
)


@pytest.fixture
def place(request, tmp_path):
    """URI and options of a table that is to be."""
    if request.param == "local":
        return str(tmp_path / "table"), None
    store = request.getfixturevalue(request.param)
    return f"{store.uri}/table", store.options


def work(place, go, *, processes, statements, seed):
    """The log after all processes have ended, and the versions that they reported."""
    uri, options = place
    log = DeltaLog.for_table(uri, options)
    metadata = Metadata(id="m", schema_string=SCHEMA, partition_columns=("p",), configuration={"delta.checkpointInterval": "7"})
    log.create_transaction(metadata).commit(operation=Operation(name="CREATE TABLE"))
    order = {"uri": uri, "options": options, "seed": seed, "statements": statements, "go": str(go)}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.core.serial.worker", json.dumps({**order, "writer": writer})],
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for writer in range(processes)
    ]
    for process in started:
        assert process.stdout.readline() == "ready\n"
    go.touch()
    outputs = [process.communicate(timeout=900)[0] for process in started]
    assert [process.returncode for process in started] == [0] * processes
    return log, [int(line) for output in outputs for line in output.split()]


def commits(store, version):
    """The actions of a commit, as its text says them."""
    lines = store.read(f"_delta_log/{version:020}.json").splitlines()
    return [action for line in lines for action in json.loads(line).items()]


class Replay:
    """The history, one commit after the other; rows come from the files that are live then."""

    def __init__(self, store):
        self.store = store
        self.files = {}
        self.rows = Counter()

    def apply(self, version):
        actions = commits(self.store, version)
        for key, action in actions:
            if key == "remove":
                del self.files[action["path"]]  # never twice, never one that is not there
        for key, action in actions:
            if key == "add":
                assert action["path"] not in self.files
                self.files[action["path"]] = rows_of(self.store, action["path"], action["partitionValues"]["p"])
        self._check(version, json.loads(dict(actions)["commitInfo"]["userMetadata"]))

    def _check(self, version, record):
        before, after = self.rows, Counter(row for rows in self.files.values() for row in rows)
        where, reported = record["where"], {name: Counter(map(tuple, record[name])) for name in ("read", "old", "new")}
        if where:
            read = Counter({row: count for row, count in before.items() if matches(where, row)})
            assert read == reported["read"], f"version {version} has not read the state before it: {record}"
        assert reported["old"] <= before, f"version {version} changes rows that are not there: {record}"
        assert after == before - reported["old"] + reported["new"], f"version {version} loses or invents rows: {record}"
        if record["kind"] == "compact":
            assert after == before
        self.rows = after


def check_serial(log, reported):
    latest = log.refresh()
    assert sorted(reported) == list(range(1, latest.version + 1))
    replay = Replay(log.store)
    for version in range(1, latest.version + 1):
        replay.apply(version)
    assert set(latest.files()["path"].to_pylist()) == replay.files.keys()
    rows = latest.to_arrow().read_all().select(["p", "key", "value"])
    assert Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True)) == replay.rows


@pytest.mark.parametrize("place", ["local", pytest.param("s3", marks=pytest.mark.slow)], indirect=True)
def test_the_history_of_few_processes_is_that_of_a_serial_execution(place, tmp_path):
    check_serial(*work(place, tmp_path / "go", processes=3, statements=10, seed=1))


@pytest.mark.slow
@pytest.mark.parametrize("place", ["local", "s3"], indirect=True)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_history_of_many_processes_is_that_of_a_serial_execution(place, tmp_path, seed):
    check_serial(*work(place, tmp_path / "go", processes=8, statements=40, seed=seed))
