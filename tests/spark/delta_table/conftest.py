"""A table of birds, small enough to be compared row by row."""

import pytest

from airflow_delta.spark import DeltaTable


@pytest.fixture
def birds(spark, table, write_rows):
    """The ``DeltaTable`` of three birds."""
    write_rows(
        "SELECT /*+ COALESCE(1) */ * FROM VALUES (1L, 'wren', 9), (2L, 'owl', 480), (3L, NULL, 20) AS t(id, name, grams)"
    )
    return DeltaTable.forPath(spark, table)
