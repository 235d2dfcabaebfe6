"""A catalog-managed table in memory: its files, its catalog, and concurrent writers."""

import itertools
import json
import uuid
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest

from airflow_delta.core.actions import ADD_FILE, Metadata, Protocol
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.log.file_names import commit_path, staged_commit_file, staged_commit_path
from airflow_delta.core.log.in_memory_managed_commits import InMemoryManagedCommits
from airflow_delta.core.log.managed_commits import ProposedCommit
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.transaction.operation import Operation

WRITE = Operation(name="WRITE")
FIELDS = [{"name": "n", "type": "long", "nullable": True, "metadata": {}}]
METADATA = Metadata(
    id="m",
    schema_string=json.dumps({"type": "struct", "fields": FIELDS}),
    configuration={"delta.enableInCommitTimestamps": "true"},
)
FEATURES = frozenset({"catalogManaged", "inCommitTimestamp", "appendOnly", "invariants"})
PROTOCOL = Protocol(
    min_reader_version=3, min_writer_version=7, reader_features=frozenset({"catalogManaged"}), writer_features=FEATURES
)


def adds(*paths):
    row = {"partition_values": [], "size": 10, "modification_time": 1, "data_change": True, "stats": '{"numRecords":1}'}
    return pa.Table.from_pylist([{"path": path, **row} for path in paths], schema=ADD_FILE)


@dataclass
class Managed:
    """The table; ``log()`` gives one of our writers or readers its own view."""

    catalog: InMemoryManagedCommits = field(default_factory=InMemoryManagedCommits)
    feature: str = "catalogManaged"
    configuration: dict = field(default_factory=dict)
    now: itertools.count = field(default_factory=lambda: itertools.count(1_700_000_000_000, 1_000))

    def __post_init__(self):
        self.store = InMemoryLogStore(clock=self.tick)
        readers = frozenset({self.feature})
        protocol = replace(PROTOCOL, reader_features=readers, writer_features=FEATURES - PROTOCOL.reader_features | readers)
        metadata = replace(METADATA, configuration={**METADATA.configuration, **self.configuration})
        self.log().create_transaction(metadata, protocol).commit(operation=Operation(name="CREATE TABLE"))

    def tick(self):
        return next(self.now)

    def days_pass(self, days):
        self.now = itertools.count(next(self.now) + days * 86_400_000, 1_000)

    def log(self, store=None):
        return DeltaLog.for_table("memory://table", store=store or self.store, commits=self.catalog, clock=self.tick)

    def append(self, *paths, log=None):
        return (log or self.log()).start_transaction().commit(adds=adds(*paths), operation=WRITE)

    def text(self, *paths, size=1):
        """The content of another engine's commit."""
        time = self.tick()
        info = {"inCommitTimestamp": time, "timestamp": time, "operation": "WRITE", "txnId": str(uuid.uuid4())}
        file = {"partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": True}
        lines = [{"commitInfo": info}, *({"add": {"path": path, **file}} for path in paths)]
        return "\n".join(map(json.dumps, lines)).encode(), time

    def stage(self, version, *paths, size=1):
        """Stage another engine's commit, and optionally have it ratified."""
        content, time = self.text(*paths, size=size)
        name = staged_commit_file(version, str(uuid.uuid4()))
        self.store.write_if_absent(staged_commit_path(name), content)
        status = self.store.status(staged_commit_path(name))
        return ProposedCommit(
            version=version, file_name=name, size=status.size, modification_time=status.modification_time, timestamp=time
        )

    def foreign_commit(self, version, *paths, size=1):
        """A commit of another engine, ratified but not published."""
        proposed = self.stage(version, *paths, size=size)
        self.catalog.ratify(proposed)
        return proposed

    def publish(self, proposed):
        self.store.write_if_absent(commit_path(proposed.version), self.store.read(staged_commit_path(proposed.file_name)))

    def published_versions(self):
        names = (file.path.rpartition("/")[2] for file in self.store.list_from("_delta_log"))
        return [int(name[:20]) for name in names if name.endswith(".json") and len(name) == 25]

    def paths(self, version=None, log=None):
        return sorted((log or self.log()).snapshot(version).files()["path"].to_pylist())


@pytest.fixture
def managed():
    return Managed()
