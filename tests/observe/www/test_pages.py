"""What the pages show, and that content from a log is always escaped."""

import re

import pytest

from airflow_delta.observe.report import table_id
from airflow_delta.observe.www.conflicts import conflicts
from airflow_delta.observe.www.pages import conflicts_page, history_page, table_page, tables_page
from airflow_delta.observe.www.reports import Report, Run
from airflow_delta.observe.www.tables import table_rows

EVIL = "<script>alert('x')</script>"

HISTORY = {
    "table": "s3://lake/flights",
    "version": 7,
    "operation": "MERGE",
    "committed": True,
    "facts": {"version": 7, "files": 12, "bytes": 3_456_789, "small_files": 4},
    "commits": [
        {
            "version": 7,
            "timestamp": 1_357_084_800_000,
            "operation": "MERGE",
            "engineInfo": "airflow-delta/0.1.0",
            "operationMetrics": {"numTargetRowsInserted": "1200"},
            "run": {"dag_id": "daily", "task_id": "load", "run_id": "manual__2013-01-01T00:00:00+00:00", "map_index": 3},
        },
        {"version": 6, "timestamp": 1_357_000_000_000, "operation": "WRITE", "engineInfo": "Apache-Spark/4.0", "run": {}},
    ],
}


def test_the_history_names_versions_operations_runs_and_metrics():
    page = history_page(HISTORY, root="/airflow")
    assert "<h1>s3://lake/flights</h1>" in page
    assert f'<a href="/airflow/delta/tables/{table_id("s3://lake/flights")}">' in page
    assert "2013-01-02 00:00:00 UTC" in page
    assert "numTargetRowsInserted: 1,200" in page
    assert "3,456,789" in page
    run = "manual__2013-01-01T00%3A00%3A00%2B00%3A00"
    assert re.findall('href="([^"]*)" data-airflow', page) == [f"/airflow/dags/daily/runs/{run}/tasks/load/mapped/3"]
    assert "Apache-Spark/4.0" in page


def test_nothing_that_stands_in_a_log_becomes_markup():
    run = {"dag_id": EVIL, "task_id": '"><img src=x onerror=alert(1)>', "run_id": "javascript:alert(1)", "map_index": EVIL}
    commit = {
        "version": EVIL,
        "timestamp": EVIL,
        "operation": EVIL,
        "engineInfo": EVIL,
        "operationMetrics": {EVIL: EVIL},
        "run": run,
    }
    payload = {"table": EVIL, "operation": "HEALTH", "facts": {"files": EVIL}, "commits": [{**commit, "version": 5}]}
    payload |= {
        "findings": [{"severity": EVIL, "text": EVIL, "remedy": EVIL}],
        "detail": {"features": [EVIL], "clustered_by": [EVIL]},
    }
    conflict = {"version": 1, "operation": EVIL, "rule": EVIL, "run": {**run, "dag_id": "d"}}
    content = {"table": EVIL, "operation": EVIL, "due": [EVIL], "conflicts": [conflict], "head": {"operation": EVIL}}
    reports = [Report(Run("d", EVIL, EVIL), 0, table_id(EVIL), EVIL, content)]
    pages = (
        history_page({**payload, "commits": [commit]}, root=""),
        tables_page(table_rows(reports, {"d"}), root="", search=EVIL),
        tables_page(table_rows(reports, {"d"}), root=""),
        table_page(reports, [payload], {"d"}, root=""),
        conflicts_page(conflicts(reports, [], {"d"}), root=""),
    )
    for html in pages:
        assert html.count("<script") == 1
        assert "<img" not in html
        assert "&lt;script&gt;" in html
        assert all(href.startswith(("/dags/", "/delta/", "?")) for href in re.findall('href="([^"]*)"', html))


def test_a_task_that_knows_nothing_of_a_table_gives_a_page_that_says_what_to_do():
    reports = [Report(Run("d", "t", "r"), 0, table_id("s3://lake/t"), "s3://lake/t", {})]
    page = table_page(reports, [], {"d"}, root="")
    assert "DeltaMaintenanceOperator(dry_run=True)" in page
    assert "DeltaTableHealthOperator" in page
    assert "No task that you may see has committed" in page
    assert "No table has been reported yet" in tables_page([], root="")
    assert "No commits have met" in conflicts_page([], root="")


def test_the_page_tells_version_and_writer_of_the_newest_commit_and_sizes_of_the_last_report_that_has_them():
    name = "s3://lake/t"
    older = {"version": 5, "operation": "WRITE", "committed": True, "facts": {"version": 5, "bytes": 2_048}}
    newer = {"version": 1_234, "operation": "MERGE", "committed": True}
    reports = [
        Report(Run("d", task, "r"), at, table_id(name), name, content)
        for task, at, content in (("new", 9, newer), ("old", 5, older))
    ]
    shown = re.findall("<dd[^>]*>(.*?)</dd>", table_page(reports, [], {"d"}, root=""), re.DOTALL)
    assert shown[0] == "1,234"
    assert shown[2] == "2 KiB"
    assert "tasks/new" in shown[5]


@pytest.mark.parametrize("held", [{}, {"commits": "none", "facts": 3}, {"commits": [None, {"run": "x"}, {"timestamp": 1e40}]}])
def test_what_is_not_of_the_expected_form_gives_an_emptier_page(held):
    assert "<tbody>" in history_page(held, root="")
