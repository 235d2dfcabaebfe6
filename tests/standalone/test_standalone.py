"""`airflow standalone` as a newcomer runs it: each engine in a DAG with real spark-submit, then a look at the pages."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.airflow_versions import AIRFLOW
from tests.standalone.commits import origins

pytestmark = pytest.mark.slow

DAG_FILES = ("engines.py",)
HAS_MENU = AIRFLOW >= (3, 1)
"""Whether the pages of plugins open inside Airflow's own."""

in_airflows_menu = pytest.mark.skipif(not HAS_MENU, reason="Airflow 3.0 has no menu for plugins")
ROWS = {"numbers": list(range(100)), "plain": [1, 2, 3], "made": []}
"""The worker restores the first version of ``numbers``."""


@pytest.fixture(scope="module")
def by_spark(standalone):
    """The id of a run of the Spark operators that has ended well."""
    run_id = standalone.trigger("by_spark")
    standalone.succeeded("by_spark", run_id)
    return run_id


@pytest.fixture(scope="module")
def by_worker(standalone, by_spark):
    """The id of a run of the worker's operators that has ended well."""
    (standalone.tables / "plain").mkdir()
    pq.write_table(pa.table({"id": [1, 2, 3]}), standalone.tables / "plain" / "a.parquet")
    run_id = standalone.trigger("by_worker")
    standalone.succeeded("by_worker", run_id)
    return run_id


def test_spark_writes_merges_and_optimizes(standalone, by_spark):
    table = DeltaTable(standalone.tables / "numbers")
    rows = sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: row["id"])
    assert rows == [{"id": n, "rest": n % 2, "text": "old" if n < 90 else "new"} for n in range(110)]
    made = [(origin.record["task_id"], origin.record["run_id"]) for _, origin in origins(standalone.tables / "numbers")]
    assert made[:3] == [(task_id, by_spark) for task_id in ("write", "merge", "optimize")]
    even = DeltaTable(standalone.tables / "even").to_pyarrow_table()
    assert sorted(even["id"].to_pylist()) == list(range(0, 110, 2))


def test_the_sensor_waited_in_the_triggerer(standalone, by_spark):
    assert standalone.xcom("by_spark", by_spark, "merge_is_there") >= 1
    assert "trigger" in standalone.log("by_spark", by_spark, "merge_is_there")


def test_the_worker_needs_no_spark(standalone, by_worker):
    states = standalone.states("by_worker", by_worker)
    results = {task_id: standalone.xcom("by_worker", by_worker, task_id) for task_id in states}
    assert [finding for finding in results["health"]["details"]["findings"] if finding["severity"] == "error"] == []
    assert results["checkpoint"]["version"] == results["pin"]["numbers"]["version"]
    rows = {name: sorted(DeltaTable(standalone.tables / name).to_pyarrow_table()["id"].to_pylist()) for name in ROWS}
    assert rows == ROWS
    for task_id in states:
        assert "spark-submit" not in standalone.log("by_worker", by_worker, task_id)


def test_an_asset_event_tells_the_version(standalone, by_spark):
    (event,) = standalone.get("assets/events")["asset_events"]
    assert event["extra"]["delta"]["version"] == standalone.xcom("by_spark", by_spark, "merge", "delta_version")


@pytest.mark.skipif(AIRFLOW < (3, 2), reason="Airflow before 3.2 reads no fields of connections from providers")
def test_the_connection_form_asks_for_what_a_delta_connection_holds(standalone, browser):
    browser.open("connections")
    browser.page.get_by_role("button", name="Add Connection").click()
    browser.page.get_by_role("combobox").first.click()
    browser.page.keyboard.type("Delta Lake")
    browser.page.keyboard.press("Enter")
    browser.sees("Table root")
    browser.page.get_by_text("Extra Fields", exact=False).first.click()
    browser.sees("Storage connection", "Storage options", "Scratch URI")
    browser.shoot("connection")


def test_a_task_links_to_the_history_of_its_table(standalone, browser, by_spark):
    browser.open(f"dags/by_spark/runs/{by_spark}/tasks/merge/details")
    browser.sees("Table history")
    address = browser.page.get_by_role("link", name="Table history").get_attribute("href")
    browser.open(address.removeprefix(standalone.url))
    browser.sees("MERGE", "WRITE", "by_spark.merge", "by_spark.write")


def test_the_tables_page_lists_what_tasks_reported_inside_airflows_own(standalone, browser, by_spark):
    browser.open("plugin/delta-tables" if HAS_MENU else "delta/tables")
    frame = browser.page.frame_locator("iframe") if HAS_MENU else browser.page
    for name in ("numbers", "even"):
        frame.get_by_role("link", name=name, exact=True).wait_for()
    frame.get_by_role("link", name="numbers", exact=True).click()
    frame.get_by_role("heading", name="File sizes").wait_for()
    assert frame.locator("svg").count() >= 2
    assert frame.get_by_role("heading", name="Maintenance").is_visible()
    frame.get_by_role("link", name="Conflicts").click()
    frame.get_by_role("heading", name="Conflicts").wait_for()


@in_airflows_menu
def test_a_run_opens_in_airflow_and_not_inside_the_frame(standalone, browser, by_spark):
    browser.open("plugin/delta-tables")
    browser.page.frame_locator("iframe").locator("a[data-airflow][href*='/by_spark/']").first.click()
    browser.page.wait_for_url("**/dags/by_spark/runs/**")
    browser.page.locator("iframe").wait_for(state="detached")


@in_airflows_menu
def test_the_frame_takes_over_the_theme_of_airflow(standalone, browser, by_spark):
    browser.open("plugin/delta-tables")
    shown = []
    for theme in ("dark", "light"):
        browser.page.evaluate("theme => localStorage.setItem('theme', theme)", theme)
        browser.page.reload()
        frame = browser.page.frame_locator("iframe")
        frame.get_by_role("heading", name="Delta tables").wait_for()
        shown.append(frame.locator("body").evaluate("body => getComputedStyle(body).colorScheme"))
    assert shown == ["dark", "light"]


def test_an_asset_shows_its_events_with_the_version(standalone, browser, by_spark):
    (asset,) = standalone.get("assets")["assets"]
    browser.open(f"assets/{asset['id']}")
    if AIRFLOW < (3, 2):
        browser.sees("lake.numbers", "Asset Event", "by_spark")
        return  # these show the extra in other ways; what is in it is tested by the REST API
    browser.sees("lake.numbers", "1 Asset Event", "by_spark")
    folded = browser.page.locator(".codicon-folding-collapsed")
    folded.first.wait_for()
    while folded.count():  # the event's extra, member by member
        folded.first.click()
        browser.page.wait_for_timeout(500)
    browser.sees('"version"', '"MERGE"')
    browser.shoot("asset")
