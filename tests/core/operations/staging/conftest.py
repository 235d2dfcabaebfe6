"""A table of two rows into which commits are staged."""

import pytest

from tests.core.operations.staging.staged_table import Table


@pytest.fixture
def table(tmp_path):
    table = Table(tmp_path / "t").create()
    table.append("first.parquet", 1, 2)
    return table
