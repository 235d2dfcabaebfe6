"""The tables that Delta Lake on Spark has written, copied so that operations may change them."""

import shutil
from pathlib import Path

import pytest

from tests.golden_tables import TABLES


@pytest.fixture
def golden_table(tmp_path):
    """Copies the table of this name and returns its root."""

    def copy(name):
        return Path(shutil.copytree(TABLES / name / "table", tmp_path / name, copy_function=shutil.copyfile))

    return copy
