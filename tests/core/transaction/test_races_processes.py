"""Real processes on one table, on disk and in object stores: many that append at once, and one that is killed in the middle."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from airflow_delta.core.actions import Metadata
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.transaction.operation import Operation
from tests.core.object_stores import ObjectStore

PROJECT = Path(__file__).parents[3]
PLACES = ["local", "s3", "azure"]  # where deltalake can read what we wrote
SMALL, FULL = (3, 5), (8, 50)  # processes, and commits of each

WRITER = """
import json, sys, time
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
from airflow_delta.core.actions import ADD_FILE
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.transaction.operation import Operation

order = json.loads(sys.argv[1])
log = DeltaLog.for_table(order["uri"], order["options"])
filesystem, root = log.store.data_filesystem()

def data_file(number):
    name = f"part-{order['writer']}-{number}.parquet"
    rows = pa.table({"n": pa.array([order["writer"] * 1_000_000 + number], pa.int64())})
    pq.write_table(rows, f"{root}/{name}", filesystem=filesystem)
    size = filesystem.get_file_info(f"{root}/{name}").size
    add = {"path": name, "partition_values": [], "size": size, "modification_time": int(time.time() * 1000),
           "data_change": True, "stats": json.dumps({"numRecords": 1})}
    return pa.Table.from_pylist([add], schema=ADD_FILE)

print("ready", flush=True)
while not Path(order["go"]).exists():
    time.sleep(0.01)
for number in range(order["appends"]):
    adds = data_file(number)
    result = log.start_transaction().commit(adds=adds, operation=Operation(name="WRITE"))
    print(result.version, flush=True)
"""

OTHER_WRITER = """
import json, sys, time
from pathlib import Path
import pyarrow as pa
from deltalake import CommitProperties, write_deltalake

order = json.loads(sys.argv[1])
print("ready", flush=True)
while not Path(order["go"]).exists():
    time.sleep(0.01)
for number in range(order["appends"]):
    rows = pa.table({"n": pa.array([order["writer"] * 1_000_000 + number], pa.int64())})
    patience = CommitProperties(max_commit_retries=1000)
    write_deltalake(order["uri"], rows, mode="append", storage_options=order["other_options"], commit_properties=patience)
"""


class Table:
    """An empty table with one column ``n``, and the processes that write into it."""

    def __init__(self, place, tmp_path, configuration):
        self.place, self.go = place, tmp_path / "go"
        self.uri = f"{place.uri}/table"
        self.log = DeltaLog.for_table(self.uri, place.options)
        field = {"name": "n", "type": "long", "nullable": True, "metadata": {}}
        schema = json.dumps({"type": "struct", "fields": [field]})
        metadata = Metadata(id="m", schema_string=schema, configuration=configuration)
        self.log.create_transaction(metadata).commit(operation=Operation(name="CREATE TABLE"))

    def start(self, writer, appends, program=WRITER):
        order = {"uri": self.uri, "writer": writer, "appends": appends, "go": str(self.go)}
        order |= {"options": self.place.options, "other_options": self.place.other_options}
        command = [sys.executable, "-c", program, json.dumps(order)]
        return subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)

    def race(self, programs, appends):
        """What each of the processes printed, after all have begun at the same moment."""
        writers = [self.start(number, appends, program) for number, program in enumerate(programs)]
        for writer in writers:
            assert writer.stdout.readline() == "ready\n"
        self.go.touch()
        outputs = [writer.communicate(timeout=900)[0] for writer in writers]
        assert [writer.returncode for writer in writers] == [0] * len(writers)
        return outputs

    def as_deltalake_sees_it(self):
        return DeltaTable(self.uri, storage_options=self.place.other_options or None)


@pytest.fixture
def make_table(tmp_path):
    def make(place=None, **configuration):
        return Table(place or ObjectStore(uri=str(tmp_path), options={}), tmp_path, configuration)

    return make


@pytest.fixture
def place(request, tmp_path):
    """Where the table lies: the fixture's parameter is its name."""
    return ObjectStore(uri=str(tmp_path), options={}) if request.param == "local" else request.getfixturevalue(request.param)


def races(small):
    """The full size everywhere, and a small one at these places for every day."""
    full = [pytest.param(place, *FULL, id=f"{place}-full", marks=pytest.mark.slow) for place in PLACES]
    return pytest.mark.parametrize(
        ("place", "processes", "appends"),
        [*(pytest.param(place, *SMALL, id=place) for place in small), *full],
        indirect=["place"],
    )


def expected(processes, appends):
    return sorted(writer * 1_000_000 + number for writer in range(processes) for number in range(appends))


@races(small=["local"])
def test_appends_of_many_processes_fill_consecutive_versions_and_lose_nothing(
    make_table, place, processes, appends, duckdb_connection
):
    table = make_table(place)
    outputs = table.race([WRITER] * processes, appends)

    versions = [int(line) for output in outputs for line in output.split()]
    assert sorted(versions) == list(range(1, processes * appends + 1))
    rows = expected(processes, appends)
    assert sorted(table.log.refresh().to_arrow().read_all()["n"].to_pylist()) == rows
    assert sorted(table.as_deltalake_sees_it().to_pyarrow_table()["n"].to_pylist()) == rows
    fresh = DeltaLog.for_table(table.uri, place.options)
    assert len(fresh.refresh().files()) == len(rows)
    assert not [file.path for file in fresh.store.list_from("_delta_log") if "tmp" in file.path or "probe" in file.path]
    if "://" not in table.uri:
        found = duckdb_connection.sql(f"SELECT n FROM delta_scan('{table.uri}') ORDER BY n").fetchall()
        assert found == [(row,) for row in rows]


@pytest.mark.slow
def test_racing_appends_give_each_row_an_id_of_its_own_and_each_version_a_later_time(make_table, duckdb_connection):
    processes, appends = SMALL
    table = make_table(**{"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"})
    table.race([WRITER] * processes, appends)

    files = table.log.refresh().files().to_pylist()
    count = processes * appends
    assert sorted(file["base_row_id"] for file in files) == list(range(count))
    assert sorted(file["default_row_commit_version"] for file in files) == list(range(1, count + 1))
    assert json.loads(table.log.refresh().domains["delta.rowTracking"].configuration)["rowIdHighWaterMark"] == count - 1
    times = [entry.commit_info.in_commit_timestamp for entry in table.log.history()]
    assert times == sorted(set(times), reverse=True)
    rows = expected(processes, appends)
    assert sorted(table.as_deltalake_sees_it().to_pyarrow_table()["n"].to_pylist()) == rows
    assert sorted(n for (n,) in duckdb_connection.sql(f"SELECT n FROM delta_scan('{table.uri}')").fetchall()) == rows


@pytest.mark.slow
@races(small=PLACES)
def test_appends_race_with_those_of_another_engine_and_nothing_is_lost(make_table, place, processes, appends):
    table = make_table(place)
    programs = [*[WRITER] * (processes - 1), OTHER_WRITER]
    outputs = table.race(programs, appends)

    versions = [int(line) for output in outputs for line in output.split()]
    assert len(versions) == len(set(versions)) == (processes - 1) * appends
    rows = expected(processes, appends)
    assert table.log.refresh().version == processes * appends
    assert sorted(table.log.refresh().to_arrow().read_all()["n"].to_pylist()) == rows
    theirs = table.as_deltalake_sees_it()
    assert theirs.version() == processes * appends
    assert sorted(theirs.to_pyarrow_table()["n"].to_pylist()) == rows


@pytest.mark.slow
def test_a_killed_writer_leaves_each_commit_whole_or_not_at_all(make_table):
    table = make_table(**{"delta.checkpointInterval": "3"})
    table.go.touch()
    for writer_number in range(6):
        writer = table.start(writer_number, 10_000)
        assert writer.stdout.readline() == "ready\n"
        writer.stdout.readline()  # in the middle of the second commit, or thereabouts
        time.sleep(0.003 * writer_number)
        writer.send_signal(signal.SIGKILL)
        reported = [int(line) for line in writer.communicate()[0].split()]

        version = DeltaLog.for_table(table.uri).refresh().version
        assert version >= max(reported, default=0)
        files = DeltaLog.for_table(table.uri).refresh().files()
        assert len(files) == version  # every commit added one file
        assert DeltaTable(table.uri).version() == version
        assert DeltaTable(table.uri).to_pyarrow_table().num_rows == version
        assert sorted(table.log.refresh().files()["path"].to_pylist()) == sorted(files["path"].to_pylist())
