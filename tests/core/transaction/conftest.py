"""Small tables for transactions: files exist only as Arrow rows, unless a test makes real ones."""

import json

import pyarrow as pa
import pytest

from airflow_delta.core.actions import ADD_FILE, REMOVE_FILE, Metadata
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.transaction.operation import Operation

CREATE = Operation(name="CREATE TABLE")


@pytest.fixture(scope="session")
def schema_string():
    names = {"day": "string", "key": "long"}
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in names.items()]
    return json.dumps({"type": "struct", "fields": fields})


@pytest.fixture(scope="session")
def metadata(schema_string):
    """A table of ``day`` and ``key``, partitioned by ``day``."""
    return Metadata(id="6e7a", schema_string=schema_string, partition_columns=("day",))


@pytest.fixture(scope="session")
def flat_metadata(schema_string):
    """Metadata of the same table without partitions."""
    return Metadata(id="6e7a", schema_string=schema_string)


@pytest.fixture(scope="session")
def added():
    """Added files from ``(path, day, (min key, max key) or None without statistics)``."""

    def make(*files, data_change=True):
        return pa.Table.from_pylist(
            [
                {
                    "path": path,
                    "partition_values": [("day", day)] if day else [],
                    "size": 10,
                    "modification_time": 1,
                    "data_change": data_change,
                    "stats": keys and json.dumps(statistics(*keys)),
                }
                for path, day, keys in files
            ],
            schema=ADD_FILE,
        )

    return make


def statistics(low, high):
    return {"numRecords": 2, "minValues": {"key": low}, "maxValues": {"key": high}, "nullCount": {"key": 0}}


@pytest.fixture(scope="session")
def removed():
    """Removed files, by their paths."""

    def make(*paths, data_change=True):
        rows = [{"path": path, "deletion_timestamp": 1, "data_change": data_change} for path in paths]
        return pa.Table.from_pylist(rows, schema=REMOVE_FILE)

    return make


class Ticking:
    """A clock that advances by a second on every call."""

    def __init__(self):
        self.now = 1_700_000_000_000

    def __call__(self):
        self.now += 1000
        return self.now


@pytest.fixture
def clock():
    return Ticking()


@pytest.fixture
def table(metadata, clock):
    """The log of a partitioned table in memory, at version 0."""
    log = DeltaLog(InMemoryLogStore(clock=clock), clock=clock)
    log.create_transaction(metadata).commit(operation=CREATE)
    return log
