"""Compares the rows that ``deltalake`` reads from the table with those that duckdb computes from the inputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb
from deltalake import DeltaTable, QueryBuilder

from benchmarks.spark_ops.inputs import data_files


def differing_rows(table: Path, base: Path, sources: Mapping[str, Path], expected: str) -> int:
    """Number of rows that one side has more often than the other.

    Args:
        table: The table after the operation.
        base: The table before it.
        sources: The sources by kind.
        expected: SQL over ``base`` and the sources.
    """
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    found = QueryBuilder().register("found", DeltaTable(table)).execute("SELECT * FROM found")
    connection.register("batches", found)
    connection.execute("CREATE TABLE found AS SELECT * FROM batches")
    connection.execute(f"CREATE VIEW base AS SELECT * FROM read_parquet({data_files(base)})")
    for kind, path in sources.items():
        connection.execute(f"CREATE VIEW \"{kind}\" AS SELECT * FROM '{path}/*.parquet'")
    instant = "* REPLACE (departed::TIMESTAMP AS departed)"  # INT96 has no zone, microseconds have one
    count = "SELECT count(*) FROM ((SELECT {instant} FROM ({a})) EXCEPT ALL (SELECT {instant} FROM ({b})))"
    both = ("SELECT * FROM found", expected)
    return sum(connection.execute(count.format(instant=instant, a=a, b=b)).fetchone()[0] for a, b in (both, both[::-1]))
