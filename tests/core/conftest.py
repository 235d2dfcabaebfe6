"""Engines that we did not write, as judges of what we wrote."""

from importlib.resources import files

import duckdb
import pytest


@pytest.fixture(scope="session")
def duckdb_connection():
    """duckdb with its Delta reader: ``connection.sql("SELECT ... FROM delta_scan('path')")``."""
    extension = files("duckdb_extension_delta") / "extensions" / f"v{duckdb.__version__}" / "delta.duckdb_extension"
    with duckdb.connect() as connection:
        connection.load_extension(str(extension))
        yield connection
