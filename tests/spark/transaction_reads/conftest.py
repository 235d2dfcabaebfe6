"""A store that lets a rival commit at a chosen point of a statement's work on the log."""

import pytest
from deltalake import DeltaTable

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.storage.local_log_store import LocalLogStore


class RacedStore(LocalLogStore):
    """A local store that runs an action right before its call of this ordinal, or before its first commit when None."""

    def __init__(self, table_uri, action, call):
        super().__init__(table_uri)
        self.action, self.call = action, call

    def _count(self, *, commits=False):
        if self.action is not None and (commits if self.call is None else self.call <= 0):
            action, self.action = self.action, None
            action()
        elif self.call is not None:
            self.call -= 1

    def list_from(self, directory, start=""):
        self._count()
        return super().list_from(directory, start)

    def read(self, path):
        self._count()
        return super().read(path)

    def status(self, path):
        self._count()
        return super().status(path)

    def write_if_absent(self, path, content):
        self._count(commits=path.endswith(".json"))
        super().write_if_absent(path, content)


@pytest.fixture
def raced(table):
    """The table's log, whose user meets the rival's commit."""

    def log(rival, *, call=None):
        return DeltaLog.for_table(table, store=RacedStore(table, rival, call))

    return log


@pytest.fixture
def rows(table):
    """The rows of the table, sorted, as deltalake reads them."""

    def read():
        return sorted(tuple(row.values()) for row in DeltaTable(table).to_pyarrow_table().to_pylist())

    return read


@pytest.fixture
def last_commit(table):
    """The newest commit's info as it stands in the log."""
    return lambda: DeltaTable(table).history(1)[0]
