"""Numbers in sentences."""

import pytest

from airflow_delta.core.wording import counted


@pytest.mark.parametrize(("count", "text"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (1_234_567, "1,234,567 files")])
def test_a_number_has_its_noun(count, text):
    assert counted(count, "file") == text
