"""A reader for tables with features that deltalake cannot read, and a way to commit during a write."""

import pytest

from airflow_delta.core.delta_log import DeltaLog


@pytest.fixture
def seen(duckdb_connection, table):
    """The rows of the table as duckdb reads them, sorted."""

    def read(columns="*"):
        found = duckdb_connection.sql(f"SELECT {columns} FROM delta_scan('{table}')").fetchall()
        return sorted(found, key=repr)

    return read


@pytest.fixture
def latest(table):
    """The latest version of the table."""
    return lambda: DeltaLog.for_table(table).snapshot()


@pytest.fixture
def during_staging(monkeypatch):
    """Runs a function between a write's read of the table and its commit."""

    def arrange(action):
        def once(self):
            monkeypatch.undo()
            action()
            return self.keep()

        monkeypatch.setattr("airflow_delta.spark.io.staging.StagingArea.keep", once)

    return arrange
