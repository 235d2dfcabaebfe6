"""A table in memory with a clock that the test sets."""

import json

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from tests.core.builders import metadata, protocol, remove


class AgedTable:
    """A table in memory with a clock that the test sets: times of files, commits and tombstones all come from it."""

    def __init__(self, uri="memory://aged"):
        self.now = 0
        self.store = InMemoryLogStore(uri, clock=lambda: self.now)
        self.version = -1
        features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
        self.commit(protocol(3, 7, **features), metadata())

    @property
    def log(self):
        return DeltaLog.for_table(self.store.table_uri, store=self.store, clock=lambda: self.now)

    def commit(self, *actions):
        self.version += 1
        self.store.write(commit_path(self.version), "\n".join(map(json.dumps, actions)).encode())
        return self.version

    def file(self, path):
        self.store.write(path, b"rows")
        return path

    def remove(self, path, **fields):
        return remove(path, deletionTimestamp=self.now, size=4, **fields)

    def files(self):
        return {file.path for file in self.store.list_all() if not file.path.startswith("_delta_log/")}
