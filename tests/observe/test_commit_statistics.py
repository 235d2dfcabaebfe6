"""Statistics of a commit from the metric names of each operation."""

import pytest

from airflow_delta.observe.commit_statistics import commit_statistics


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({"numFiles": "2", "numOutputRows": "30", "numOutputBytes": "999"}, (30, 2, 999)),
        (
            {
                "numTargetRowsInserted": 1,
                "numTargetRowsUpdated": 2,
                "numTargetRowsDeleted": 4,
                "numTargetRowsCopied": 90,
                "numOutputRows": 93,
                "numTargetFilesAdded": 3,
                "numTargetBytesAdded": 500,
            },
            (7, 3, 500),
        ),
        ({"numDeletedRows": 5, "numAddedFiles": 1, "numAddedBytes": 70}, (5, 1, 70)),
        ({"numAddedFiles": 1, "numRemovedFiles": 9, "numAddedBytes": 80}, (None, 1, 80)),
        ({"numOutputRows": "many"}, (None, None, None)),
        ({}, (None, None, None)),
    ],
)
def test_rows_files_and_bytes_of_an_operation(metrics, expected):
    statistics = commit_statistics(metrics)
    assert (statistics.rows, statistics.files, statistics.bytes) == expected


@pytest.mark.parametrize("figure", ["9" * 5_000, "-5", -5, 1 << 70, True, float("nan"), None, ["1"], "\ud800"], ids=range(9))
def test_figures_that_cannot_be_so_do_not_count(figure):
    expected = commit_statistics({"numOutputRows": figure, "numFiles": figure, "numOutputBytes": "7"})
    assert (expected.rows, expected.files, expected.bytes) == (None, None, 7)
