"""What is due, from numbers alone."""

import pytest

from airflow_delta.jobs import maintenance_needs as needs


@pytest.mark.parametrize(
    ("need", "due"),
    [
        (needs.of_optimize(files=0, size=0, small_file_size=1, min_files=2), False),
        (needs.of_optimize(files=2, size=1, small_file_size=1, min_files=2), True),
        (needs.of_clustering(files=0, size=0, cubes=0, small_file_size=5, min_files=3), False),
        (needs.of_clustering(files=0, size=0, cubes=2, small_file_size=5, min_files=3), True),
        (needs.of_clustering(files=2, size=14, cubes=1, small_file_size=5, min_files=3), False),
        (needs.of_clustering(files=3, size=3, cubes=0, small_file_size=5, min_files=3), True),
        (needs.of_clustering(files=1, size=15, cubes=0, small_file_size=5, min_files=3), True),
        (needs.of_statistics(files=0), False),
        (needs.of_statistics(files=1), True),
        (needs.of_vacuum(files=0, size=0), False),
        (needs.of_vacuum(files=1, size=0), True),
        (needs.of_checkpoint(commits=10, max_commits=10, broken=0), False),
        (needs.of_checkpoint(commits=11, max_commits=10, broken=0), True),
        (needs.of_checkpoint(commits=0, max_commits=10, broken=1), True),
        (needs.of_log_compaction(commits=50, max_commits=50), False),
        (needs.of_log_compaction(commits=51, max_commits=50), True),
        (needs.of_cleanup(files=0, keeps_log=False), False),
        (needs.of_cleanup(files=1, keeps_log=False), True),
        (needs.of_cleanup(files=1, keeps_log=True), False),
    ],
)
def test_a_step_is_due_from_its_threshold_on(need, due):
    assert need.due is due


def test_why_holds_the_numbers_that_decided():
    need = needs.of_optimize(files=12, size=3_000, small_file_size=16 << 20, min_files=10)
    assert need.why == "12 files (3,000 bytes) in partitions that have 10 or more files below 16,777,216 bytes"
