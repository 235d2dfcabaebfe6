"""A store that lets concurrent writers commit at chosen log operations of a statement."""

import pytest
from deltalake import DeltaTable

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.storage.local_log_store import LocalLogStore


class RacedStore(LocalLogStore):
    """A local store that runs one action right before each commit, until all have run.

    Attributes:
        actions: The remaining actions.
        call: Ordinal of the store call before which the first action runs instead; None for a commit.
    """

    def __init__(self, table_uri, actions, call):
        super().__init__(table_uri)
        self.actions, self.call = list(actions), call

    def _pass(self, *, is_commit=False):
        if self.call:
            self.call -= 1
        elif self.actions and (is_commit or self.call == 0):
            self.call = None
            self.actions.pop(0)()

    def list_from(self, directory, start=""):
        self._pass()
        return super().list_from(directory, start)

    def read(self, path):
        self._pass()
        return super().read(path)

    def status(self, path):
        self._pass()
        return super().status(path)

    def write_if_absent(self, path, content):
        self._pass(is_commit=path.endswith(".json"))
        super().write_if_absent(path, content)


@pytest.fixture
def raced(table):
    """The log of the table for one statement, which races with the commits of these writers."""

    def log(*writers, call=None):
        return DeltaLog.for_table(table, store=RacedStore(table, writers, call))

    return log


@pytest.fixture
def rows(table):
    """The rows of the table, sorted, as deltalake reads them."""

    def read():
        return sorted(tuple(row.values()) for row in DeltaTable(table).to_pyarrow_table().to_pylist())

    return read


@pytest.fixture
def last_commit(table):
    """The ``commitInfo`` of the latest commit in the log."""
    return lambda: DeltaTable(table).history(1)[0]
