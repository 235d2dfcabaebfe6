"""How the list of tables and the page of a table use reports, and how charts are drawn."""

import re

import pytest

from airflow_delta.observe.report import table_id
from airflow_delta.observe.www import formats
from airflow_delta.observe.www.health import health_of
from airflow_delta.observe.www.plots import Bar, histogram, line_chart, sparkline
from airflow_delta.observe.www.reports import Report, Run
from airflow_delta.observe.www.table import commits, file_sizes, growth, layouts, maintenance
from airflow_delta.observe.www.tables import ROWS_OF_PAGE, listing, series, table_rows

TABLE = "s3://lake/orders"
RUN = Run("daily", "load", "r")


def report(version=1, *, at=None, table=TABLE, run=RUN, committed=True, **content):
    facts = {"version": version, "bytes": 100 * version, "files": version, "small_files": 0}
    base = {"table": table, "version": version, "operation": "MERGE", "committed": committed, "facts": facts}
    return Report(run, version if at is None else at, table_id(table), table, base | content)


def test_a_row_is_what_the_report_of_the_newest_version_says():
    late = report(3, at=50, head={"version": 3, "timestamp": 40, "operation": "OPTIMIZE", "run": {}})
    later_of_an_older_version = report(2, at=60, head={"version": 2, "timestamp": 30, "operation": "MERGE", "run": {}})
    [row] = table_rows([later_of_an_older_version, late, report(1)], {"daily"})
    assert (row.version, row.size, row.files, row.writer, row.operation, row.written) == (3, 300, 3, None, "OPTIMIZE", 40)
    assert series(row.reports, "bytes") == {1: 100, 2: 200, 3: 300}
    assert row.sparkline("bytes", formats.size).count("<polyline") == 1


def test_a_newer_report_without_sizes_tells_the_version_and_who_made_it_and_an_older_one_the_sizes():
    older = report(5, at=50, head={"version": 5, "timestamp": 45, "operation": "WRITE", "run": {}})
    second_table_of_its_task = report(9, at=90, run=Run("other", "statements", "r"), facts={})
    [row] = table_rows([second_table_of_its_task, older], {"daily", "other"})
    assert (row.version, row.operation, row.writer, row.written) == (9, "MERGE", Run("other", "statements", "r"), 90)
    assert (row.size, row.files) == (500, 5)


def seen(version, minute, **content):
    at = minute * 60_000
    return report(version, at=at, head={"version": version, "timestamp": at, "operation": "WRITE", "run": {}}, **content)


def test_a_table_that_was_made_anew_shows_nothing_of_the_one_before():
    reports = [seen(1, 200), seen(0, 190), seen(5_000, 100), seen(4_999, 90), seen(0, 2)]
    [row] = table_rows(reports, {"daily"})
    assert (row.version, row.size) == (1, 100)
    assert [entry.version for entry in commits(row.reports, [], {"daily"})] == [1, 0]


def test_a_table_that_was_made_anew_and_has_outgrown_the_one_before_shows_nothing_of_it():
    reports = [seen(9, 220), seen(3, 200), seen(7, 100), report(8, at=99 * 60_000, facts={}), seen(2, 90)]
    [row] = table_rows(reports, {"daily"})
    assert series(row.reports, "bytes") == {3: 300, 9: 900}
    assert [entry.version for entry in commits(row.reports, [], {"daily"})] == [9, 3]


def test_a_late_report_of_an_earlier_commit_hides_nothing():
    late = report(5, at=300 * 60_000, facts={})  # committed at an unknown time by a task that then went on
    [row] = table_rows([late, seen(6, 200), seen(4, 100)], {"daily"})
    assert (row.version, row.size) == (6, 600)
    assert [entry.version for entry in commits(row.reports, [], {"daily"})] == [6, 5, 4]


def test_clocks_that_differ_by_seconds_make_no_second_table():
    earlier = {"version": 4, "timestamp": 100 * 60_000 + 2_000, "operation": "WRITE", "run": {}}
    [row] = table_rows([seen(5, 100), report(4, head=earlier)], {"daily"})
    assert (row.version, len(row.reports)) == (5, 2)


def test_the_last_writer_is_not_named_where_the_user_may_not_see_it():
    head = {"version": 1, "timestamp": 1, "run": {"dag_id": "hidden", "task_id": "t", "run_id": "r"}}
    assert table_rows([report(head=head)], {"daily"})[0].writer is None
    assert table_rows([report(head=head)], {"daily", "hidden"})[0].writer == Run("hidden", "t", "r")


def test_tables_are_sorted_searched_and_paged():
    rows = table_rows(
        [report(number, table=f"s3://lake/t{number:04d}") for number in range(1, 2 * ROWS_OF_PAGE + 1)], {"daily"}
    )
    first = listing(rows, search="", sort="size", page=1)
    assert [row.version for row in first.shown[:2]] == [2 * ROWS_OF_PAGE, 2 * ROWS_OF_PAGE - 1]
    assert (first.pages, len(first.shown), first.tables) == (2, ROWS_OF_PAGE, 2 * ROWS_OF_PAGE)
    assert listing(rows, search="", sort="table", page=99).shown[-1].table == f"s3://lake/t{2 * ROWS_OF_PAGE:04d}"
    found = listing(rows, search="T0007", sort="table", page=1)
    assert ([row.version for row in found.shown], found.size) == ([7], first.size)


@pytest.mark.parametrize(
    ("reports", "level", "text"),
    [
        ([report()], "unknown", "not known"),
        ([report(due=[])], "good", "good"),
        ([report(due=["optimize", "checkpoint"]), report(due=[])], "due", "optimize, checkpoint due"),
        ([report(due=[]), report(operation="HEALTH", findings={"hint": 3})], "good", "good"),
        ([report(due=["optimize"]), report(operation="HEALTH", findings={"warning": 2})], "warning", "2 warnings"),
        ([report(operation="HEALTH", findings={"error": 1, "warning": 2})], "error", "1 error"),
        ([report(operation="HEALTH"), report(operation="HEALTH", findings={"error": 1})], "unknown", "not known"),
    ],
)
def test_health_is_the_last_check_and_what_is_due(reports, level, text):
    health = health_of(reports)
    assert (health.level, health.text) == (level, text)


def test_the_history_is_what_tasks_reported_and_what_they_saw_of_others():
    seen = [
        {"version": 4, "timestamp": 9, "operation": "MERGE", "operationMetrics": {"numFiles": "7"}, "run": {"dag_id": "daily"}},
        {"version": 3, "timestamp": 8, "operation": "UPDATE", "run": {"dag_id": "hidden", "task_id": "t", "run_id": "r"}},
        {"version": 2, "timestamp": 7, "operation": "WRITE", "engineInfo": "Spark", "run": {}},
    ]
    found = commits([report(5, committed=False), report(4, rows=20)], [{"commits": seen}], {"daily"})
    assert [(commit.version, commit.operation, commit.run, commit.rows) for commit in found] == [
        (4, "MERGE", RUN, 20),
        (2, "WRITE", None, None),
    ]
    assert (found[0].metrics, found[1].engine) == ({"numFiles": "7"}, "Spark")


def test_growth_needs_two_values():
    assert growth([report(2)]) == []
    assert [title for title, _ in growth([report(2), report(1)])] == ["Size", "Files"]


def test_a_chart_names_the_versions_of_its_values_not_of_reports_without_them():
    without_rows = [report(19), report(18)]
    counted = [report(number, facts={"version": number, "rows": 10 * number}) for number in (4, 3)]
    charts = dict(growth([*without_rows, *counted, report(1)]))
    assert re.findall(r">version (\d+)<", charts["Rows"]) == ["3", "4"]
    assert re.findall(r">version (\d+)<", charts["Size"]) == ["1", "19"]


def test_file_sizes_are_bars_of_which_the_small_ones_are_marked():
    drawn = file_sizes({"sizes": {"bounds": [1 << 20, 16 << 20], "counts": [3, 0, 1234], "small": 16 << 20}})
    assert re.findall(r'class="tick"[^>]*>([^<]*)<', drawn) == ["&lt;1M", "1M", "16M"]
    assert re.findall(r'class="count"[^>]*>([^<]*)<', drawn) == ["3", "", "1,234"]
    assert (drawn.count('"bar small"'), drawn.count('"bar "')) == (2, 1)
    assert file_sizes({"sizes": {"bounds": [1], "counts": [0, 0], "small": 1}}) is None
    assert file_sizes({"sizes": {"bounds": [1], "counts": [1], "small": 1}}) is None


def test_layout_is_judged_by_how_many_files_hold_one_value():
    members = [
        {"column": name, "files": 100, "mean": mean, "most": 9, "unknown": 0}
        for name, mean in (("a", 1.5), ("b", 30.0), ("c", 80.0))
    ]
    assert [(layout.column, layout.level) for layout in layouts({"layout": members})] == [
        ("a", "good"),
        ("b", "due"),
        ("c", "warning"),
    ]


def test_maintenance_is_what_is_due_now_and_what_only_the_last_one_could_see():
    steps = [
        {"step": "vacuum", "due": True, "done": True, "why": "v"},
        {"step": "optimize", "due": True, "done": True, "why": "old"},
    ]
    detail = {"maintenance": [{"step": "optimize", "due": False, "why": "new"}]}
    found = maintenance(detail, [{"operation": "MERGE"}, {"operation": "MAINTENANCE", "steps": steps}])
    assert [(need.step, need.due, need.done, need.why) for need in found] == [
        ("vacuum", True, True, "v"),
        ("optimize", False, False, "new"),
    ]


@pytest.mark.parametrize("values", [[1, 2], [5, 5, 5], [0, 1 << 62], list(range(1_000))])
def test_every_point_of_a_line_is_inside_the_picture(values):
    for drawn, width, height in (
        (sparkline(values, "<x>"), 84, 22),
        (line_chart(values, ends=("a", "b"), levels=("<", "9"), description="<x>"), 420, 150),
    ):
        points = [tuple(map(float, point.split(","))) for point in re.search('polyline[^>]*points="([^"]*)"', drawn)[1].split()]
        assert len(points) == len(values)
        assert all(0 <= x <= width and 0 <= y <= height for x, y in points)
        assert "<x>" not in drawn
        assert "<title>&lt;x&gt;</title>" in drawn


def test_one_value_is_no_line_and_no_bars_are_a_picture():
    assert sparkline([1], "x") == ""
    assert "<svg" in histogram([], "x")
    assert histogram([Bar("a", 1)], "x").count("<rect") == 1


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (formats.size(0), "0 B"),
        (formats.size(1_536), "1.5 KiB"),
        (formats.size(1 << 62), "4 EiB"),
        (formats.size("x"), formats.UNKNOWN),
        (formats.short_size(16 << 20), "16M"),
        (formats.short_number(9_999), "9,999"),
        (formats.short_number(12_345_678), "12 M"),
        (formats.short_number(None), formats.UNKNOWN),
        (formats.duration(1_234), "1.2 s"),
        (formats.duration(61_000), "1 min 1 s"),
        (formats.age(0, 7_200_000), "2 h ago"),
        (formats.age(5, 0), "now"),
        (formats.age("x", 0), formats.UNKNOWN),
        (formats.name_of("s3://lake/a/"), "a"),
    ],
)
def test_values_are_written_for_people(shown, text):
    assert shown == text
