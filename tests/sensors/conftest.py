"""A table that sensors wait for, and the parts of a running task that they use."""

import pytest

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
