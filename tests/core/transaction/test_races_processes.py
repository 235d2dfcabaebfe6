"""Real processes on one local table: many that append at once, and one that is killed in the middle."""

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

PROJECT = Path(__file__).parents[3]
PROCESSES, APPENDS = 8, 20

WRITER = """
import json, sys, time
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
from airflow_delta.core.actions import ADD_FILE
from airflow_delta.core.actions import Metadata
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.operation import Operation

table, writer, appends, go = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
log = DeltaLog.for_table(str(table))

def data_file(number):
    path = table / f"part-{writer}-{number}.parquet"
    pq.write_table(pa.table({"n": pa.array([writer * 1_000_000 + number], pa.int64())}), path)
    add = {"path": path.name, "partition_values": [], "size": path.stat().st_size, "modification_time": int(time.time() * 1000),
           "data_change": True, "stats": json.dumps({"numRecords": 1})}
    return pa.Table.from_pylist([add], schema=ADD_FILE)

print("ready", flush=True)
while not go.exists():
    time.sleep(0.01)
for number in range(appends):
    adds = data_file(number)
    result = log.start_transaction().commit(adds=adds, operation=Operation(name="WRITE"))
    print(result.version, flush=True)
"""

OTHER_WRITER = """
import sys, time
from pathlib import Path
import pyarrow as pa
from deltalake import CommitProperties, write_deltalake

table, writer, appends, go = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
print("ready", flush=True)
while not go.exists():
    time.sleep(0.01)
for number in range(appends):
    rows = pa.table({"n": pa.array([writer * 1_000_000 + number], pa.int64())})
    write_deltalake(table, rows, mode="append", commit_properties=CommitProperties(max_commit_retries=1000))
"""


@pytest.fixture
def make_table(tmp_path):
    """An empty table on disk with one column ``n``; the log and the root."""

    def make(**configuration):
        field = {"name": "n", "type": "long", "nullable": True, "metadata": {}}
        root = tmp_path / "table"
        log = DeltaLog.for_table(str(root))
        metadata = Metadata(
            id="m", schema_string=json.dumps({"type": "struct", "fields": [field]}), configuration=configuration
        )
        log.create_transaction(metadata).commit(operation=Operation(name="CREATE TABLE"))
        return log, root

    return make


def start_writer(root, number, appends, go, program=WRITER):
    command = [sys.executable, "-c", program, str(root), str(number), str(appends), str(go)]
    return subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)


def test_appends_of_many_processes_fill_consecutive_versions_and_lose_nothing(make_table, tmp_path, duckdb_connection):
    _, root = make_table()
    writers = [start_writer(root, number, APPENDS, tmp_path / "go") for number in range(PROCESSES)]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    (tmp_path / "go").touch()

    outputs = [writer.communicate(timeout=240)[0] for writer in writers]

    assert [writer.returncode for writer in writers] == [0] * PROCESSES
    versions = [int(line) for output in outputs for line in output.split()]
    assert sorted(versions) == list(range(1, PROCESSES * APPENDS + 1))
    rows = sorted(writer * 1_000_000 + number for writer in range(PROCESSES) for number in range(APPENDS))
    assert sorted(DeltaTable(root).to_pyarrow_table()["n"].to_pylist()) == rows
    assert duckdb_connection.sql(f"SELECT n FROM delta_scan('{root}') ORDER BY n").fetchall() == [(row,) for row in rows]
    assert len(DeltaLog.for_table(str(root)).refresh().files()) == len(rows)
    assert not [path for path in (root / "_delta_log").iterdir() if path.name.endswith(".tmp")]


def test_appends_race_with_those_of_another_engine_and_nothing_is_lost(make_table, tmp_path):
    log, root = make_table()
    programs = [WRITER, OTHER_WRITER, WRITER, OTHER_WRITER]
    writers = [start_writer(root, number, 10, tmp_path / "go", program) for number, program in enumerate(programs)]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    (tmp_path / "go").touch()

    for writer in writers:
        writer.communicate(timeout=240)

    assert [writer.returncode for writer in writers] == [0] * 4
    rows = sorted(writer * 1_000_000 + number for writer in range(4) for number in range(10))
    assert log.refresh().version == 40
    assert sorted(log.refresh().to_arrow().read_all()["n"].to_pylist()) == rows
    assert sorted(DeltaTable(root).to_pyarrow_table()["n"].to_pylist()) == rows


def test_a_killed_writer_leaves_each_commit_whole_or_not_at_all(make_table, tmp_path):
    log, root = make_table(**{"delta.checkpointInterval": "3"})
    (tmp_path / "go").touch()
    for writer_number in range(6):
        writer = start_writer(root, writer_number, 10_000, tmp_path / "go")
        assert writer.stdout.readline() == "ready\n"
        writer.stdout.readline()  # in the middle of the second commit, or thereabouts
        time.sleep(0.003 * writer_number)
        writer.send_signal(signal.SIGKILL)
        told = [int(line) for line in writer.communicate()[0].split()]

        version = DeltaLog.for_table(str(root)).refresh().version
        assert version >= max(told, default=0)
        files = DeltaLog.for_table(str(root)).refresh().files()
        assert len(files) == version  # every commit added one file
        assert DeltaTable(root).version() == version
        assert DeltaTable(root).to_pyarrow_table().num_rows == version
        assert sorted(log.refresh().files()["path"].to_pylist()) == sorted(files["path"].to_pylist())
