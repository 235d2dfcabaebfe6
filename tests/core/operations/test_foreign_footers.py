"""Footers with truncated bounds lead to a column without statistics, or a typed error, but never abort the process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.operations import hostile_tables

COUNTS = {"numRecords": 3, "nullCount": {"n": 0, "d": 0}}
WHOLE = {**COUNTS, "minValues": {"n": 1, "d": 1.0}, "maxValues": {"n": 3, "d": 3.0}}
WITHOUT_D = {"numRecords": 3, "minValues": {"n": 1}, "maxValues": {"n": 3}, "nullCount": {"n": 0}}
WITHOUT_N = {"numRecords": 3, "minValues": {"d": 1.0}, "maxValues": {"d": 3.0}, "nullCount": {"d": 0}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("rows that Arrow reads", {"before": [WITHOUT_D], "recomputed": 1, "after": [WHOLE], "rows": [3, 2]}),
        (
            "rows that Arrow refuses",
            {
                "before": [WITHOUT_N],
                "recomputed": "CorruptDataFileError",
                "after": [WITHOUT_N],
                "rows": "CorruptDataFileError",
            },
        ),
        ("checkpoint of decimals", [WHOLE]),
        ("checkpoint of actions", "CorruptLogError"),
    ],
)
def test_bounds_that_are_too_short_do_not_end_the_process(tmp_path, case, expected):
    command = [sys.executable, "-m", hostile_tables.__name__, case, str(tmp_path)]
    ended = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == expected
