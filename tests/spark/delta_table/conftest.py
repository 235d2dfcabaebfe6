"""A table of birds, small enough to be judged row by row."""

import pytest

from airflow_delta.spark import DeltaTable


@pytest.fixture
def birds(spark, table, put):
    """The ``DeltaTable`` of three birds."""
    put("SELECT /*+ COALESCE(1) */ * FROM VALUES (1L, 'wren', 9), (2L, 'owl', 480), (3L, NULL, 20) AS t(id, name, grams)")
    return DeltaTable.forPath(spark, table)
