"""A table whose Iceberg metadata is written after each commit, and the Iceberg readers pyiceberg and duckdb."""

import pytest
from pyiceberg.table import StaticTable

from tests.core.iceberg_readers import duckdb_with_iceberg
from tests.core.iceberg_tables import UNIFORM, V2, IcebergTable


@pytest.fixture(scope="session")
def duckdb_iceberg():
    with duckdb_with_iceberg() as connection:
        yield connection


class UniformTable(IcebergTable):
    """The table, and what Iceberg readers see of it."""

    duckdb = None

    @property
    def iceberg(self):
        return StaticTable.from_metadata(self.root)

    def by_pyiceberg(self, **scan):
        return sorted(self.iceberg.scan(**scan).to_arrow().to_pylist(), key=lambda row: row["id"])

    def by_duckdb(self, where="true"):
        found = self.duckdb.sql(f"FROM iceberg_scan('{self.root}') WHERE {where} ORDER BY id").to_arrow_table()
        return found.to_pylist()

    def check(self):
        """Check that all readers see the same rows; returns their ids."""
        rows = sorted(self.snapshot.to_arrow().read_all().to_pylist(), key=lambda row: row["id"])
        assert self.by_pyiceberg() == rows
        assert self.by_duckdb() == rows
        assert self.iceberg.properties["delta-version"] == str(self.snapshot.version)
        return [row["id"] for row in rows]


@pytest.fixture
def make(tmp_path, duckdb_iceberg):
    """Make a table with these columns (DDL), in a folder of its own."""

    def new(columns="id long, v string", name="a table", **options):
        table = UniformTable(tmp_path / name, columns, **{**UNIFORM, V2: "true", **options})
        table.duckdb = duckdb_iceberg
        assert table.created.hook_failures == ()
        return table

    return new
