"""The pages benchmark: seeded reports are shown like those of real tasks."""

from datetime import UTC, datetime

from airflow_delta.observe.www.conflicts import of_report
from airflow_delta.observe.www.reports import Report, Run
from airflow_delta.observe.www.table import file_sizes
from benchmarks.pages import history, report

WRITER = {"dag_id": "daily", "task_id": "load", "run_id": "r", "map_index": -1}


def test_a_seeded_conflict_is_shown_by_the_name_of_its_rule():
    content = report("s3://lake/t", 1, datetime(2026, 1, 1, tzinfo=UTC), WRITER)
    [shown] = of_report(Report(Run("daily", "load", "r"), 0, content["id"], content["table"], content), {"daily"})
    assert (shown.rule, shown.outcome, shown.version, shown.lost_ms) == ("concurrent append", "redone", 0, 900)


def test_seeded_file_sizes_are_a_histogram():
    drawn = file_sizes(history("s3://lake/t", 1, WRITER)["detail"])
    assert drawn is not None
    assert "Number of files by size: 10 &lt;64K, 10 64K, 10 256K" in drawn
