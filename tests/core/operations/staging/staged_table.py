"""A table with staged commits, what other readers see of it, and the content of its staging documents."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from airflow_delta.core.actions import ADD_FILE, Metadata, removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.operations.staged_folder import STAGED_FOLDER
from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.core.transaction.operation import Operation
from tests.core.faults.scenarios import SCHEMA

DAY = 86_400_000
WRITE = Operation(name="WRITE", parameters={"mode": "Append"})
AREA = "write-" + "0" * 32


class Table:
    """A table of ``n`` and ``p`` on disk, with a clock that the test may set."""

    def __init__(self, root, **configuration):
        self.root, self.later = root, 0
        self.metadata = Metadata(id="m", schema_string=SCHEMA, configuration=configuration)

    @property
    def log(self):
        clock = DeltaLog(LocalLogStore(str(self.root))).clock
        return DeltaLog(LocalLogStore(str(self.root)), clock=lambda: clock() + self.later)

    def create(self):
        self.log.create_transaction(self.metadata).commit(operation=Operation(name="CREATE TABLE"))
        return self

    def file(self, name, *numbers):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"n": pa.array(numbers, pa.int64()), "p": ["a"] * len(numbers)}), path)
        bounds = {"minValues": {"n": min(numbers)}, "maxValues": {"n": max(numbers)}, "nullCount": {"n": 0}}
        status = path.stat()
        row = {
            "path": name,
            "partition_values": [],
            "size": status.st_size,
            "modification_time": status.st_mtime_ns // 1_000_000,
            "data_change": True,
            "stats": json.dumps({"numRecords": len(numbers), **bounds}),
        }
        return pa.Table.from_pylist([row], schema=ADD_FILE)

    def append(self, name, *numbers, log=None):
        return (log or self.log).start_transaction().commit(adds=self.file(name, *numbers), operation=WRITE)

    def stage(self, *numbers, name=f"{AREA}/rows/a.parquet", token=None, **arguments):
        staging = self.log.staging(token)
        transaction = staging.start_transaction()
        return transaction.commit(adds=self.file(name, *numbers), operation=WRITE, **arguments)

    def stage_replacement(self, where, *numbers, token=None):
        """Stage an overwrite of the rows that match ``where``."""
        log = self.log
        transaction = log.staging(token).start_transaction()
        files = transaction.files(where)
        removes = removes_of(files, deletion_timestamp=log.clock(), data_change=True)
        return transaction.commit(adds=self.file(f"{AREA}/rows/b.parquet", *numbers), removes=removes, operation=WRITE)

    def numbers(self, log=None):
        return sorted((log or self.log).snapshot().to_arrow(["n"]).read_all()["n"].to_pylist())

    @property
    def documents(self):
        return sorted(path.name for path in (self.root / STAGED_FOLDER).glob("*"))


def seen_by_others(table):
    return sorted(DeltaTable(table.root).to_pyarrow_table()["n"].to_pylist())


def lose_versions(table, *versions):
    """Delete commits and checksums before the checkpoint, as a log cleanup does."""
    for version in versions:
        (table.root / f"_delta_log/{version:020d}.json").unlink()
        (table.root / f"_delta_log/{version:020d}.crc").unlink()


def document(table, handle):
    return table.root / STAGED_FOLDER / f"{handle['id']}.json"


def rewritten(table, handle, **changes):
    """Change members in the first line of the document; returns the handle without its digest."""
    path = document(table, handle)
    first, *others = path.read_text().splitlines()
    header = json.loads(first)
    header["stagedCommit"] |= changes
    path.write_text("\n".join([json.dumps(header), *others]))
    return {**handle, "digest": None}
