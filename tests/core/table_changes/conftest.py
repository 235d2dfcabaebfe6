"""A table in memory, created and changed through public methods."""

import pyarrow as pa
import pytest

from airflow_delta.core.actions import ADD_FILE
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.data_types import LONG, STRING
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.table_changes import NewTable
from airflow_delta.core.table_features.support import ROW_FEATURES
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.optimistic_transaction import OptimisticTransaction

WRITE = Operation(name="WRITE")


def struct(**fields):
    return StructType(tuple(StructField(name, kind) for name, kind in fields.items()))


class Table:
    """The table and its latest version."""

    def __init__(self):
        self.now = 1_000_000
        self.store = InMemoryLogStore("memory://changed", clock=self._tick)
        self.log = self.again()

    def _tick(self):
        self.now += 1_000
        return self.now

    def again(self):
        """Another reader and writer of the table."""
        return DeltaLog.for_table("memory://changed", store=self.store, clock=self._tick)

    def create(self, schema=None, mode="error", **new):
        return self.log.create(NewTable(schema=schema or struct(id=LONG, s=STRING), **new), mode=mode)

    def append(self, *paths, **fields):
        """Commit files that exist only in the log, and meet every requirement of the table."""
        row = {"partition_values": [], "size": 1, "modification_time": 1, "data_change": True, "stats": '{"numRecords":2}'}
        adds = pa.Table.from_pylist([{**row, "path": path, **fields} for path in paths], schema=ADD_FILE)
        snapshot = self.again().snapshot()
        return OptimisticTransaction(self.store, self._tick, snapshot, enforces=ROW_FEATURES).commit(adds=adds, operation=WRITE)

    @property
    def alter(self):
        return self.log.alter()

    @property
    def snapshot(self):
        return self.log.refresh()

    @property
    def properties(self):
        return dict(self.snapshot.metadata.configuration)

    @property
    def versions(self):
        return self.snapshot.protocol.min_reader_version, self.snapshot.protocol.min_writer_version

    @property
    def features(self):
        return self.snapshot.protocol.writer_features

    def operations(self):
        return [entry.commit_info.operation for entry in reversed(self.log.history())]


@pytest.fixture
def table():
    return Table()
