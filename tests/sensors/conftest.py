"""A table that sensors wait for, and the parts of a running task that they use."""

import pytest

from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.hooks.delta import DeltaHook
from tests.watched_table import WatchedTable


class Instance:
    """A task instance in its first and only try."""

    max_tries = 0
    try_number = 1


class Store(dict):
    """Airflow's task state store."""

    def set(self, key, value):
        self[key] = value


@pytest.fixture
def table(tmp_path):
    table = WatchedTable(tmp_path / "table")
    table.create()
    return table


@pytest.fixture
def context():
    return {"task_state_store": Store(), "ti": Instance()}


@pytest.fixture
def requests(monkeypatch):
    """The requests to the storage, in order."""
    requests = []

    class RecordingStore(LocalLogStore):
        def exists(self, path):
            requests.append(("exists", path))
            return super().exists(path)

        def list_from(self, directory, start=""):
            requests.append(("list", start))
            return super().list_from(directory, start)

        def read(self, path):
            requests.append(("read", path.rsplit("/", 1)[1]))
            return super().read(path)

    monkeypatch.setattr(DeltaHook, "log_store", lambda _, table: RecordingStore(table))
    return requests
