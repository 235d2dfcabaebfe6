"""The tables that Delta Lake on Spark has written, copied so that operations may change them."""

import shutil
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[4] / "shared" / "tables"


@pytest.fixture
def shared_table(tmp_path):
    """Copies the table of this name and gives its root."""

    def copy(name):
        if not SHARED.is_dir():
            pytest.skip("the tables that Spark wrote are not here (../shared/tables)")
        return Path(shutil.copytree(SHARED / name / "table", tmp_path / name, copy_function=shutil.copyfile))

    return copy
