"""Iceberg readers without Delta support: pyiceberg, and duckdb's Iceberg extension."""

from contextlib import contextmanager
from importlib.resources import files

import duckdb
from pyiceberg.table import StaticTable


@contextmanager
def duckdb_with_iceberg():
    """duckdb with its Iceberg and S3 extensions, from installed packages: nothing is downloaded."""
    with duckdb.connect() as connection:
        connection.sql("SET TimeZone = 'UTC'")
        for name in ("httpfs", "avro", "iceberg"):
            folder = files(f"duckdb_extension_{name}") / "extensions" / f"v{duckdb.__version__}"
            connection.load_extension(str(folder / f"{name}.duckdb_extension"))
        yield connection


def rows_of_iceberg(root, *, by="id"):
    """The rows of a local table as both readers see them, and the Delta version that they read."""
    table = StaticTable.from_metadata(str(root))
    rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row[by])
    with duckdb_with_iceberg() as connection:
        assert connection.sql(f"FROM iceberg_scan('{root}') ORDER BY {by}").to_arrow_table().to_pylist() == rows
    return rows, int(table.properties["delta-version"])
