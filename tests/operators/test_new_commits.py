"""A consumer gets every version of a table until one of its runs has succeeded, whatever events there were."""

import json
from types import SimpleNamespace

import pendulum
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG, Asset, task

from airflow_delta.assets import delta_asset
from airflow_delta.core.errors import InvalidStatementError, TableNotFoundError
from airflow_delta.operators import DeltaNewCommitsOperator
from airflow_delta.watch.commit_cursor import WatchCursor
from airflow_delta.watch.errors import StoredProgressError
from airflow_delta.watch.processed_versions import MOST_CLAIMS, ProcessedVersions, due_versions
from tests.airflow_versions import AIRFLOW, xcoms
from tests.watched_table import WatchedTable

FIRST_DAY = pendulum.datetime(2013, 1, 1)


@pytest.fixture
def table(tmp_path):
    table = WatchedTable(tmp_path / "table")
    table.create()
    return table


class Consumer:
    """A DAG that runs day after day, and fails on the given days."""

    def __init__(self, table, run_dag, xcom, name, **arguments):
        self.run_dag, self.xcom = run_dag, xcom
        self.days = 0
        self.fails = set()
        asset = delta_asset(f"consumed by {name}", str(table.root))
        with DAG(f"consumer_{name}", schedule=None, start_date=FIRST_DAY) as self.dag:

            @task
            def process(day):
                if day in self.fails:
                    raise AirflowFailException

            DeltaNewCommitsOperator(task_id="new", asset=asset, **arguments) >> process("{{ ds }}")

    def run(self, *, fails=False):
        """Run the next day; returns the versions that the run gets."""
        self.days += 1
        day = FIRST_DAY.add(days=self.days)
        (self.fails.add if fails else self.fails.discard)(day.date().isoformat())
        run = self.run_dag(self.dag, logical_date=day)
        assert run.state == ("failed" if fails else "success")
        given = self.xcom(run, "new")
        assert self.xcom(run, "new", "delta_version") == (given and given["to_version"])
        return given and (given["from_version"], given["to_version"])


@pytest.fixture
def consumer(table, run_dag, xcom, request):
    def make(**arguments):
        return Consumer(table, run_dag, xcom, request.node.name.partition("[")[0], **arguments)

    return make


def test_what_a_failed_run_was_given_comes_again_and_nothing_twice_otherwise(table, consumer):
    consumer = consumer()
    assert consumer.run() is None  # a table without rows: skipped, with all downstream work
    table.write()
    table.write()
    assert consumer.run() == (1, 2)
    assert consumer.run() is None
    table.write()
    assert consumer.run(fails=True) == (3, 3)
    table.write()
    assert consumer.run(fails=True) == (3, 4)
    assert consumer.run() == (3, 4)
    assert consumer.run() is None
    table.write()
    assert consumer.run() == (5, 5)


def test_maintenance_is_nothing_new_and_is_passed_over(table, consumer):
    """Else a consumer that compacts the table it reads would start itself forever."""
    consumer = consumer()
    table.write()
    assert consumer.run() == (0, 1)
    table.optimize()
    assert consumer.run() is None
    table.write()
    assert consumer.run() == (3, 3)


@pytest.mark.parametrize(("start", "first"), [("latest", None), ("{{ 2 }}", (2, 3)), ("earliest", (0, 3))])
def test_where_a_new_consumer_begins(table, run_dag, xcom, start, first):
    for _ in range(3):
        table.write()
    consumer = Consumer(table, run_dag, xcom, f"start_{start.strip('{} ')}", start=start)
    assert consumer.run() == first
    table.write()
    assert consumer.run() == (4, 4)


def test_a_mapped_consumer_keeps_the_place_of_each_table(table, tmp_path, run_dag):
    """The mapped tasks may share one asset, and so one state store."""
    other = WatchedTable(tmp_path / "other")
    other.create(table_id="the-other-table")
    other.write()
    asset = Asset("mapped consumer")
    with DAG("mapped_consumer", schedule=None, start_date=FIRST_DAY) as dag:
        new = DeltaNewCommitsOperator.partial(task_id="new", asset=asset, inlets=[asset])
        new.expand(table=[str(table.root), str(other.root)])

    def run(days):
        dag_run = run_dag(dag, logical_date=FIRST_DAY.add(days=days))
        values = xcoms(run_id=dag_run.run_id, dag_ids=dag.dag_id, task_ids="new", key="return_value")
        given = ((value["table"][-5:], value["from_version"], value["to_version"], value["reset"]) for value in values)
        return str(dag_run.state.value), sorted(given)

    table.write()
    assert run(1) == ("success", [("other", 0, 1, False), ("table", 0, 1, False)])
    table.write()
    assert run(2) == ("success", [("table", 2, 2, False)])


@pytest.mark.skipif(AIRFLOW < (3, 3), reason="before 3.3 the state lies in a file, which needs no inlet")
def test_a_mapped_consumer_whose_asset_is_no_inlet_says_so(table, run_task):
    """Airflow makes the state store before it unmaps the task."""
    asset = delta_asset("no inlet", str(table.root))
    run = run_task(lambda: DeltaNewCommitsOperator.partial(task_id="new", asset=asset).expand(start=["earliest"]))
    (error,) = run.errors
    assert isinstance(error, InvalidStatementError)
    assert "partial(inlets=[...])" in str(error)


class Memory(dict):
    def set(self, key, value, retention=None):
        self[key] = value


class OfAnyAsset(Memory):
    def __getitem__(self, asset):
        return self


def instance(dag_id="d", task_id="new", map_index=-1):
    return SimpleNamespace(
        dag_id=dag_id,
        task_id=task_id,
        run_id="r",
        map_index=map_index,
        xcom_push=lambda key, value: None,
        get_dr_count=lambda *_, **__: 0,
    )


def test_a_retried_or_cleared_task_gets_its_own_versions(table):
    table.write()
    pushed = {}
    ti = SimpleNamespace(
        dag_id="d",
        task_id="new",
        run_id="r",
        map_index=-1,
        xcom_push=lambda key, value: pushed.update({key: value}),
        get_dr_count=lambda *_, **__: 0,
    )
    context = {"ti": ti, "task_state_store": Memory(), "asset_state_store": OfAnyAsset()}
    operator = DeltaNewCommitsOperator(task_id="new", asset=delta_asset("cleared", str(table.root)))
    first = operator.execute(context)
    table.write()
    assert operator.execute(context) == first
    assert pushed == {**first, "delta_version": 1}


def test_a_cleared_task_that_is_now_of_another_table_gets_the_versions_of_that_one(table, tmp_path):
    """As with ``.expand(table=...)`` over the tables below a folder, when a new table has shifted the map indexes."""
    other = WatchedTable(tmp_path / "other")
    other.create(table_id="the-other-table")
    for _ in range(3):
        other.write()
    table.write()
    ti = SimpleNamespace(
        dag_id="d",
        task_id="new",
        run_id="r",
        map_index=0,
        xcom_push=lambda key, value: None,
        get_dr_count=lambda *_, **__: 0,
    )
    context = {"ti": ti, "task_state_store": Memory(), "asset_state_store": OfAnyAsset()}

    def given(of):
        operator = DeltaNewCommitsOperator(task_id="new", asset=Asset("moved indexes"), table=str(of.root))
        found = operator.execute(context)
        return found["table"], found["from_version"], found["to_version"]

    assert given(table) == (table.root.as_uri(), 0, 1)
    assert given(other) == (other.root.as_uri(), 0, 3)
    table.write()
    other.write()
    assert given(other) == (other.root.as_uri(), 0, 3)


@pytest.mark.parametrize("versions", [1, 5])
def test_a_task_that_is_cleared_after_its_table_was_made_anew_gets_the_versions_of_the_new_one(table, versions):
    for _ in range(3):
        table.write()
    context = {"ti": instance(), "task_state_store": Memory(), "asset_state_store": OfAnyAsset()}
    operator = DeltaNewCommitsOperator(task_id="new", asset=delta_asset("made anew", str(table.root)))
    assert operator.execute(context)["to_version"] == 3
    table.drop()
    with pytest.raises(TableNotFoundError):
        operator.execute(context)
    table.create(table_id="another")
    for _ in range(versions):
        table.write()
    found = operator.execute(context)
    assert (found["from_version"], found["to_version"], found["reset"]) == (0, versions, True)
    assert operator.execute(context) == found
    assert "table_id" not in found


def test_a_task_that_is_cleared_after_a_replace_table_gets_its_own_versions(table):
    table.write()
    context = {"ti": instance(), "task_state_store": Memory(), "asset_state_store": OfAnyAsset()}
    operator = DeltaNewCommitsOperator(task_id="new", asset=delta_asset("replaced", str(table.root)))
    first = operator.execute(context)
    table.replace("another")
    assert operator.execute(context) == first
    stored = context["task_state_store"]["airflow_delta.due"]
    del stored["table_id"]  # as stored by an earlier release
    assert operator.execute(context) == first


def due(table, stored=None, succeeded=(), start="earliest"):
    return due_versions(table.store, stored, start, lambda run_id: run_id in succeeded)


def test_a_start_below_0_is_the_first_version_and_no_gap(table):
    table.write()
    found = due(table, start=-1)
    assert (found.from_version, found.to_version, found.gap) == (0, 1, False)


def test_events_that_come_twice_late_or_in_another_order_do_not_matter(table):
    """The range comes from the log and from earlier runs, never from events."""
    for _ in range(3):
        table.write()
    first = due(table)
    assert (first.from_version, first.to_version) == (0, 3)
    stored = first.processed.claimed_by("a", 3).to_json()
    # Two more runs start while the first is running (max_active_runs above 1): each may get the same versions again.
    assert due(table, stored).from_version == 0
    assert due(table, stored, {"a"}).from_version == 4
    assert not due(table, stored, {"a"}).changes_data


def test_a_consumer_that_was_paused_or_busy_gets_all_that_came_meanwhile_in_one_run(table):
    """With max_active_runs=1, or paused, a DAG is started once for many events, or not at all."""
    stored = {"table_id": "the-table", "version": 0, "claims": {}}
    for _ in range(25):
        table.write()
    assert (due(table, stored).from_version, due(table, stored).to_version) == (1, 25)


def test_what_is_kept_of_a_consumer_fits_the_state_store_and_its_asset_is_an_inlet(table):
    """Only assets among inlets and outlets have a store; values are JSON, not None, below 64 KB."""
    processed = ProcessedVersions(table_id="t" * 36, version=10**18, claims={})
    for number in range(50):
        processed = processed.claimed_by(f"{number:0250d}", 10**18 + number)
    assert len(json.dumps(processed.to_json())) < 10_000
    asset, other = delta_asset("inlet", str(table.root)), Asset("other")
    assert DeltaNewCommitsOperator(task_id="new", asset=asset).inlets == [asset]
    for given in ([other], other):
        assert DeltaNewCommitsOperator(task_id="new", asset=asset, inlets=given).inlets == [other, asset]
    assert DeltaNewCommitsOperator(task_id="new", asset=asset, inlets=None).inlets == [asset]


@pytest.mark.parametrize("map_index", [-1, 0])
def test_the_progress_of_tasks_with_the_longest_ids_has_keys_of_their_own_that_fit_the_state_store(table, map_index):
    """PostgreSQL refuses a key of more than 512 characters."""
    table.write()
    progress = OfAnyAsset()
    for last in "ab":
        context = {"ti": instance("d" * 250, "t" * 249 + last, map_index), "task_state_store": Memory()}
        operator = DeltaNewCommitsOperator(task_id="new", asset=delta_asset("long ids", str(table.root)))
        assert operator.execute(context | {"asset_state_store": progress})["to_version"] == 1
    assert [len(key) <= 512 for key in progress] == [True, True]


def test_commits_that_were_cleaned_up_are_a_gap_and_a_table_made_anew_begins_again(table):
    for _ in range(6):
        table.write()
    stored = {"table_id": "the-table", "version": 1, "claims": {}}
    table.clean_up(4)
    lost = due(table, stored)
    assert (lost.from_version, lost.to_version, lost.gap, lost.reset, lost.changes_data) == (2, 6, True, False, True)
    table.drop()
    table.create(table_id="another")
    table.write()
    anew = due(table, stored)
    assert (anew.from_version, anew.to_version, anew.gap, anew.reset) == (0, 1, False, True)
    assert anew.processed.table_id == "another"


def test_a_log_that_was_taken_back_behind_the_processed_version_begins_again(table):
    """As by a restored backup: new versions would have numbers that were already processed."""
    for _ in range(3):
        table.write()
    stored = {"table_id": "the-table", "version": 5, "claims": {}}
    found = due(table, stored)
    assert (found.from_version, found.to_version, found.changes_data, found.reset) == (0, 3, True, True)
    assert due(table, stored | {"version": 3}).reset is False


@pytest.mark.parametrize(
    "stored", ["3", [3], {"version": "3"}, {"version": -2}, {"table_id": "t"}, {"version": 3, "claims": {"r": "4"}}], ids=str
)
def test_a_stored_progress_that_is_none_says_so(table, stored):
    """Airflow 3.3 lets users edit the state store of an asset; before 3.3, it is a file."""
    with pytest.raises(StoredProgressError, match="expected a version"):
        due(table, stored)
    with pytest.raises(StoredProgressError, match="expected a version"):
        WatchCursor.from_json(stored | {"size": "1"} if isinstance(stored, dict) else stored)


def test_a_version_alone_is_a_progress_to_go_on_from(table):
    for _ in range(3):
        table.write()
    found = due(table, {"version": 1})
    assert (found.from_version, found.to_version, found.reset, found.processed.table_id) == (2, 3, False, "the-table")
    assert WatchCursor.from_json({"version": 1}) == WatchCursor(version=1)


def test_a_table_that_has_not_reached_the_start_yet_is_waited_for(table):
    table.write()
    first = due(table, start=5)
    again = due(table, first.processed.moved_to(first.to_version).to_json(), start=5)
    assert [(found.from_version, found.to_version, found.reset) for found in (first, again)] == [(5, 4, False)] * 2


def test_versions_of_a_replaced_table_go_on(table):
    """Spark's REPLACE TABLE is an ordinary commit, and gives the table another id."""
    table.write()
    table.write()
    stored = {"table_id": "the-table", "version": 2, "claims": {"r": 2}}
    table.replace(table_id="another")
    table.write()
    replaced = due(table, stored)
    assert (replaced.from_version, replaced.to_version, replaced.gap, replaced.reset) == (3, 4, False, False)
    table.write()
    later = due(table, replaced.processed.moved_to(4).to_json())
    assert (later.from_version, later.to_version, later.reset) == (5, 5, False)


def test_a_missing_table_is_an_error(tmp_path):
    with pytest.raises(TableNotFoundError):
        due(WatchedTable(tmp_path / "nowhere"))


def test_open_claims_are_few_and_a_success_settles_all_before_it():
    processed = ProcessedVersions(table_id="t", version=0, claims={})
    for number in range(1, 30):
        processed = processed.claimed_by(f"run {number}", number)
    assert len(processed.claims) == MOST_CLAIMS
    assert ProcessedVersions(**processed.to_json()) == processed
    settled = processed.with_succeeded({"run 25", "run 22"}.__contains__)
    assert (settled.version, list(settled.claims)) == (25, [f"run {number}" for number in range(26, 30)])
