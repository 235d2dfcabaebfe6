"""Tables with real files, for operations whose result other engines check."""

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_delta.core.actions import ADD_FILE, Metadata, removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.transaction.operation import Operation
from tests.core.object_stores import azure, azurite, gcs, gcs_server, moto_server, object_store, s3  # noqa: F401 - fixtures

FIELDS = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in {"n": "long", "p": "string"}.items()]
SCHEMA = json.dumps({"type": "struct", "fields": FIELDS})
WRITE = Operation(name="WRITE")


class RealTable:
    """A table of ``n`` and ``p``, partitioned by ``p``, with a one-row file per number."""

    def __init__(self, root, clock, configuration):
        self.root = Path(root)
        self.log = DeltaLog.for_table(str(root), clock=clock)
        metadata = Metadata(id="m", schema_string=SCHEMA, partition_columns=("p",), configuration=configuration)
        self.log.create_transaction(metadata).commit(operation=Operation(name="CREATE TABLE"))

    def file(self, path, number=0, age_days=0.0):
        """Make a data file, which need not become part of the table."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"n": pa.array([number], pa.int64())}), target)
        then = time.time() - age_days * 86_400
        os.utime(target, (then, then))
        return target

    def add(self, path, number=0, partition=None, age_days=0.0, log_path=None):
        """The add action of a new file; ``log_path`` is its path as spelled in the log."""
        target = self.file(path, number, age_days)
        row = {
            "path": log_path or path,
            "partition_values": [("p", partition)],
            "size": target.stat().st_size,
            "modification_time": 1,
            "data_change": True,
            "stats": json.dumps({"numRecords": 1, "minValues": {"n": number}, "maxValues": {"n": number}}),
        }
        return pa.Table.from_pylist([row], schema=ADD_FILE)

    def tombstones(self, files):
        return removes_of(files, deletion_timestamp=self.log.clock(), data_change=True)

    def commit(self, **actions):
        transaction = self.log.start_transaction()
        transaction.read_whole_table()
        return transaction.commit(operation=WRITE, **actions)


@pytest.fixture
def real_table(tmp_path):
    """A new table on disk; keyword arguments are its properties."""

    def make(clock=lambda: time.time_ns() // 1_000_000, **configuration):
        return RealTable(tmp_path / "table", clock, configuration)

    return make
