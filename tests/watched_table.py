"""A table on disk with hand-written commits, for tests that only read its log."""

import itertools
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_delta.core.errors.conflict import RECORD_KEY
from airflow_delta.core.log.file_names import checkpoint_path, commit_path
from airflow_delta.core.storage.local_log_store import LocalLogStore
from tests.core.builders import CHECKPOINT, add, metadata, protocol, remove


class WatchedTable:
    """A table partitioned by ``day`` (a date); ``commit`` returns the version."""

    def __init__(self, root):
        self.root = Path(root)
        self.store = LocalLogStore(str(root))
        self.next_version = 0
        self._names = itertools.count()

    def commit(self, operation, *actions, run=None, metrics=None, **info):
        record = {RECORD_KEY: {**run, "token": "secret"}} if run else {}
        document = {"timestamp": 1, "operation": operation, "operationMetrics": metrics or {}, **record, **info}
        lines = [json.dumps(action) for action in ({"commitInfo": document}, *actions)]
        self.store.write_if_absent(commit_path(self.next_version), "\n".join(lines).encode())
        self.next_version += 1
        return self.next_version - 1

    def create(self, table_id="the-table"):
        definition = metadata(partition_columns=["day"])
        definition["metaData"]["schemaString"] = definition["metaData"]["schemaString"].replace('"string"', '"date"', 1)
        definition["metaData"]["id"] = table_id
        return self.commit("CREATE TABLE", protocol(), definition)

    def replace(self, table_id):
        definition = json.loads(self.store.read(commit_path(0)).splitlines()[2])
        definition["metaData"]["id"] = table_id
        return self.commit("CREATE OR REPLACE TABLE", definition, remove(f"{next(self._names)}.parquet"))

    def write(self, day="2013-01-01", rows=1, operation="WRITE", **commit):
        metrics = {"numOutputRows": str(rows)}
        file = add(f"{next(self._names)}.parquet", partitionValues={"day": day}, stats=json.dumps({"numRecords": rows}))
        return self.commit(operation, file, metrics=metrics, **commit)

    def delete(self, day="2013-01-01", **fields):
        return self.commit("DELETE", remove(f"{next(self._names)}.parquet", partitionValues={"day": day}, **fields))

    def optimize(self, day="2013-01-01"):
        files = (make(f"{next(self._names)}.parquet", dataChange=False, partitionValues={"day": day}) for make in (remove, add))
        return self.commit("OPTIMIZE", *files)

    def clean_up(self, before):
        """Leave a checkpoint of version ``before``, and no earlier commit."""
        definition = json.loads(self.store.read(commit_path(0)).splitlines()[2])
        with self.store.open_output(checkpoint_path(before)) as stream:
            pq.write_table(pa.Table.from_pylist([protocol(), definition], CHECKPOINT), stream)
        self.store.delete([commit_path(version) for version in range(before)])

    def drop(self):
        shutil.rmtree(self.root)
        self.next_version = 0
