"""Tables to write to, with deltalake and duckdb as reference readers."""

import pytest
from deltalake import DeltaTable

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import SqlSource, WriteStatement
from airflow_delta.spark.write.write import write


@pytest.fixture
def table(tmp_path):
    """A path for a new table."""
    return str(tmp_path / "table")


@pytest.fixture
def write_rows(spark, table):
    """Writes the rows of a query (or of a source) into the table."""

    def run(source, *, origin=None, start_version=None, **statement):
        source = SqlSource(source) if isinstance(source, str) else source
        statement = WriteStatement(table=table, source=source, **statement)
        return write(spark, DeltaLog.for_table(table), statement, origin=origin, start_version=start_version)

    return run


@pytest.fixture
def reference_rows(duckdb_connection, table):
    """The rows of the table, sorted by ``order``; fails unless deltalake and duckdb read the same."""

    def rows(relation):
        return [tuple(row.values()) for row in relation.to_arrow_table().to_pylist()]

    def read(order="id", columns="*", version=None):
        query = f"SELECT {columns} FROM {{}} ORDER BY {order} NULLS FIRST"
        frame = duckdb_connection.from_arrow(DeltaTable(table, version=version).to_pyarrow_table())
        by_deltalake = rows(frame.query("frame", query.format("frame")))
        if version is None:
            assert rows(duckdb_connection.sql(query.format(f"delta_scan('{table}')"))) == by_deltalake
        return by_deltalake

    return read
