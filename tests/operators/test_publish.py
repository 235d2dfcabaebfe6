"""Staging, publishing and discarding as tasks."""

import time
from functools import partial

import pendulum
import pyarrow as pa
import pytest
from airflow.models.asset import AssetEvent
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException
from airflow.sdk import DAG, task_group
from airflow.sdk import task as task_decorator
from airflow.utils.session import create_session
from deltalake import DeltaTable, write_deltalake
from sqlalchemy import select

from airflow_delta.assets import delta_asset
from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError, PublishIncompleteError, StagedCommitOutdatedError
from airflow_delta.core.operations.staged_folder import staged_id
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.operators import (
    DeltaCopyIntoOperator,
    DeltaDeleteOperator,
    DeltaDiscardOperator,
    DeltaExpectOperator,
    DeltaMergeOperator,
    DeltaPublishOperator,
    DeltaPythonOperator,
    DeltaUpdateOperator,
    SqlSource,
)
from tests.slow_cases import slow_after

NOW = round(1_000 * time.time())


@pytest.fixture
def stage(tmp_path):
    """Stage a second version of a table: its one file once more, under another name."""

    def make(name, token="t", *, reads_all=False):
        table = tmp_path / name
        if not table.exists():
            write_deltalake(str(table), pa.table({"id": [1]}))
        log = DeltaLog.for_table(str(table))
        transaction = log.staging(staged_id(token)).start_transaction()
        files = transaction.files() if reads_all else transaction.snapshot.files()
        new = table / f"{name}-{token}.parquet"
        new.write_bytes((table / files["path"][0].as_py()).read_bytes())
        columns = {"path": pa.array([new.name]), "modification_time": pa.array([NOW])}
        adds = pa.table({field: columns.get(field, files[field].slice(0, 1)) for field in files.column_names}, files.schema)
        return transaction.commit(adds=adds, operation=Operation(name="WRITE"), origin=Origin(token=token)).staged

    return make


def rows(handle):
    return len(DeltaTable(handle["table"]).to_pyarrow_table())


def test_a_handle_of_another_task_is_published_by_the_worker(stage, run_task, xcom):
    handle = stage("flights")
    asset = delta_asset("flights", handle["table"])

    def make():
        @task_decorator
        def staged():
            return handle

        return DeltaPublishOperator(task_id="publish", handles=staged(), asset=asset)

    run = run_task(make)
    assert (run.state, run.version, run.errors) == ("success", 1, [])
    (entry,) = run.result["details"]["published"]
    assert (entry["version"], entry["published"], entry["already_published"]) == (1, True, False)
    assert rows(handle) == 2
    record = DeltaLog.for_table(handle["table"]).history(1)[0].commit_info.origin.record
    assert record["published_by"]["task_id"] == "publish"
    with create_session() as session:
        event = session.scalars(select(AssetEvent).where(AssetEvent.source_task_id == "publish")).all()[-1]
    assert (event.extra["delta"]["version"], event.extra["delta"]["operation"]) == (1, "PUBLISH")


def test_the_event_is_that_of_the_last_commit_to_the_table_of_the_asset(stage, tmp_path, run_task):
    for _ in range(2):
        write_deltalake(str(tmp_path / "flights"), pa.table({"id": [1]}), mode="append")
    first = stage("flights")
    orders = [stage("orders", "one"), stage("orders", "two")]
    handles = [first, {"table": orders[0]["table"], "id": None}, *orders]
    asset = delta_asset("orders", orders[0]["table"])
    run = run_task(lambda: DeltaPublishOperator(task_id="publish_orders", handles=handles, asset=asset))
    assert (run.state, run.version, run.errors) == ("success", 2, [])
    with create_session() as session:
        [event] = session.scalars(select(AssetEvent).where(AssetEvent.source_task_id == "publish_orders")).all()
    delta = event.extra["delta"]
    read = [entry["read_version"] for entry in run.result["details"]["published"]]
    assert (delta["table"], delta["version"], delta["committed"]) == (f"file://{orders[0]['table']}", 2, True)
    assert (delta["read_version"], read) == (0, [1, 0, 0, 0])


@pytest.mark.parametrize("native", [False, True])
def test_handles_are_templates(stage, run_task, native):
    handles = [stage("flights"), stage("orders")]
    run = run_task(
        lambda: DeltaPublishOperator(
            task_id="publish", handles=["{{ params.one | tojson }}", "{{ params.two | tojson }}"], engine="worker"
        ),
        params={"one": handles[0], "two": handles[1]},
        native=native,
    )
    assert run.state == "success", run.errors
    assert [rows(handle) for handle in handles] == [2, 2]


class LosesItsWorkerOnce(DeltaPublishOperator):
    def _execute_in_worker(self, log, attempt, origin):
        done = super()._execute_in_worker(log, attempt, origin)
        if origin.record["try_number"] == 1:
            raise RuntimeError("the worker is lost")
        return done


def test_a_retry_finds_what_the_lost_try_has_published(stage, run_task):
    handle = stage("flights")
    run = run_task(lambda: LosesItsWorkerOnce(task_id="publish", handles=handle), retries=1)
    assert (run.state, [type(error) for error in run.errors]) == ("success", [RuntimeError])
    assert run.result["details"]["published"][0]["already_published"]
    assert rows(handle) == 2


def test_where_one_table_is_outdated_none_is_published_and_nothing_is_tried_again(stage, run_task):
    handles = [stage("flights"), stage("orders", reads_all=True)]
    write_deltalake(handles[1]["table"], pa.table({"id": [9]}), mode="append")
    run = run_task(lambda: DeltaPublishOperator(task_id="publish", handles=handles), retries=2)
    assert (run.state, [type(error) for error in run.errors]) == ("failed", [StagedCommitOutdatedError])
    assert [rows(handle) for handle in handles] == [1, 2]


def test_where_what_is_staged_for_one_table_excludes_each_other_none_is_published(stage, run_task):
    handles = [stage("flights"), stage("orders", "one"), stage("orders", "two", reads_all=True)]
    run = run_task(lambda: DeltaPublishOperator(task_id="publish", handles=handles), retries=2)
    assert (run.state, [type(error) for error in run.errors]) == ("failed", [StagedCommitOutdatedError])
    assert [rows(handle) for handle in handles] == [1, 1, 1]
    both = run_task(lambda: DeltaPublishOperator(task_id="publish", handles=handles[:0:-1]), dag_id="the_other_way_round")
    assert (both.state, rows(handles[1])) == ("success", 3)


class MeetsAnotherWriterInBetween(DeltaPublishOperator):
    """Another writer commits to the second table once the first is published."""

    def _execute_in_worker(self, log, attempt, origin):
        second = attempt.statement.handles[1].table
        start = DeltaLog.start_transaction

        def racing(self, snapshot=None, **arguments):
            if self.table_uri == second and not racing.met:
                racing.met = True
                write_deltalake(second, pa.table({"id": [9]}), mode="append")
            return start(self, snapshot, **arguments)

        racing.met = False
        DeltaLog.start_transaction = racing
        try:
            return super()._execute_in_worker(log, attempt, origin)
        finally:
            DeltaLog.start_transaction = start


def test_where_something_comes_in_between_the_error_names_what_is_published_and_what_is_not(stage, run_task):
    handles = [stage("flights"), stage("orders", reads_all=True)]
    run = run_task(lambda: MeetsAnotherWriterInBetween(task_id="publish", handles=handles), retries=1)
    assert [type(error) for error in run.errors] == [PublishIncompleteError, StagedCommitOutdatedError]
    assert run.errors[0].published == (f"{handles[0]['table']} (version 1)",)
    assert run.errors[0].left == (handles[1]["table"],)
    assert [rows(handle) for handle in handles] == [2, 2]


def test_what_is_discarded_cannot_be_published_by_a_later_task(stage, run_task):
    handle = stage("flights")
    discarded = run_task(lambda: DeltaDiscardOperator(task_id="discard", handles=handle), dag_id="discards")
    assert (discarded.state, discarded.result["operation"]) == ("success", "DISCARD")
    published = run_task(lambda: DeltaPublishOperator(task_id="publish", handles=handle), retries=1, dag_id="publishes")
    assert [error.code for error in published.errors] == ["DELTA_STAGED_COMMIT_DISCARDED"]
    assert rows(handle) == 1


def test_nothing_staged_is_nothing_to_publish(stage, run_task):
    table = stage("flights")["table"]
    run = run_task(lambda: DeltaPublishOperator(task_id="publish", handles=[{"table": table, "id": None}, None]))
    assert (run.state, run.version, run.result["committed"]) == ("success", 0, False)


def _publish_behind(handle, *, is_skipped, is_failed=False, publish=DeltaPublishOperator):
    """Publish what two tasks have staged, the second of which may be skipped, or fail; mapped, where ``publish`` is partial."""

    @task_decorator
    def stage(index, ti=None):
        if index in is_skipped:
            raise AirflowSkipException("not today")
        if is_failed and index:
            raise AirflowFailException("broken")
        ti.xcom_push(key="delta_staged", value=handle)

    with DAG("staged_or_not", schedule=None, start_date=pendulum.datetime(2026, 1, 1)) as dag:
        staged = [stage.override(task_id=f"stage_{index}")(index) for index in range(2)]
        handles = [task["delta_staged"] for task in staged]
        published = publish(task_id="publish", handles=handles, trigger_rule="all_done")
        if publish is not DeltaPublishOperator:
            published.expand(engine=["worker"])
    return dag


def test_what_was_staged_is_published_where_another_task_that_stages_was_skipped(stage, run_dag, xcom):
    handle = stage("flights")
    dag_run = run_dag(_publish_behind(handle, is_skipped={1}))
    assert [entry["version"] for entry in xcom(dag_run, "publish")["details"]["published"]] == [1]
    assert rows(handle) == 2


def test_a_mapped_task_publishes_beside_a_skipped_one_that_is_not_mapped(stage, run_dag):
    handle = stage("flights")
    dag = _publish_behind(handle, is_skipped={1}, publish=DeltaPublishOperator.partial)
    states = {(ti.task_id, ti.map_index): str(ti.state) for ti in run_dag(dag).get_task_instances()}
    assert states == {("stage_0", -1): "success", ("stage_1", -1): "skipped", ("publish", 0): "success"}
    assert rows(handle) == 2


def test_where_each_task_that_stages_was_skipped_publishing_is_skipped_too(stage, run_dag):
    dag_run = run_dag(_publish_behind(stage("flights"), is_skipped={0, 1}))
    assert {str(ti.state) for ti in dag_run.get_task_instances()} == {"skipped"}


def _staged_or_not(handle, is_skipped):
    @task_decorator
    def staged_or_not(index, ti=None):
        if index in is_skipped:
            raise AirflowSkipException("not today")
        ti.xcom_push(key="delta_staged", value=handle)

    return staged_or_not


@pytest.mark.parametrize(("is_skipped", "state"), [({0}, "success"), ({0, 1}, "skipped")])
@pytest.mark.parametrize("in_group", [False, True])
def test_skipped_tasks_that_are_mapped_have_staged_nothing(stage, run_dag, is_skipped, state, in_group):
    handle = stage("flights")
    staged_or_not = _staged_or_not(handle, is_skipped)
    with DAG(f"stages_{in_group}_{len(is_skipped)}", schedule=None, start_date=pendulum.datetime(2026, 1, 1)) as dag:
        if in_group:
            task_group(group_id="group")(staged_or_not).expand(index=[0, 1])
            staged = dag.get_task("group.staged_or_not").output
        else:
            staged = staged_or_not.expand(index=[0, 1])
        DeltaPublishOperator(task_id="publish", handles=staged["delta_staged"], trigger_rule="all_done")
    states = {ti.task_id: str(ti.state) for ti in run_dag(dag).get_task_instances()}
    assert states["publish"] == state
    assert rows(handle) == (2 if state == "success" else 1)


def test_a_template_of_what_no_task_has_pushed_is_an_error_and_no_skip(stage, run_task):
    text = "{{ ti.xcom_pull(task_ids='stage', key='delta_stagd') }}"
    run = run_task(lambda: DeltaPublishOperator(task_id="publish", handles=text), native=True)
    assert (run.state, [type(error) for error in run.errors]) == ("failed", [InvalidStatementError])


@pytest.mark.parametrize("are_listed", [True, False])
def test_a_template_that_gives_nothing_beside_a_handle_is_an_error_and_nothing_is_published(stage, run_task, are_listed):
    handle = stage("flights")
    template = "{{ ti.xcom_pull(task_ids='stage', key='delta_stagd') }}"
    handles = [handle, template] if are_listed else f"{{{{ [params.handle, {template[2:-2]}] }}}}"
    run = run_task(lambda: DeltaPublishOperator(task_id="publish", handles=handles), native=True, params={"handle": handle})
    assert (run.state, [type(error) for error in run.errors]) == ("failed", [InvalidStatementError])
    assert "delta_stagd" in str(run.errors[0])
    assert rows(handle) == 1


def test_the_result_of_a_task_that_has_failed_is_an_error_and_no_skip(stage, run_dag):
    @task_decorator
    def broken():
        raise AirflowFailException("broken")

    with DAG("fails_to_stage", schedule=None, start_date=pendulum.datetime(2026, 1, 1)) as dag:
        DeltaPublishOperator(task_id="publish", handles=broken(), trigger_rule="all_done")
    assert {str(ti.state) for ti in run_dag(dag).get_task_instances()} == {"failed"}


def test_nothing_is_published_where_a_task_that_stages_has_failed(stage, run_dag):
    handle = stage("flights")
    dag_run = run_dag(_publish_behind(handle, is_skipped=set(), is_failed=True))
    assert {ti.task_id: str(ti.state) for ti in dag_run.get_task_instances()}["publish"] == "failed"
    assert rows(handle) == 1


@pytest.mark.parametrize(
    ("handles", "text"),
    [
        ([], "one handle or more"),
        (None, "one handle or more"),
        ("flights", "delta_staged"),
        ([{"table": "/t"}], "delta_staged"),
        (7, "delta_staged"),
        ({"flights"}, "handles must be a list, found the set"),
    ],
    ids=str,
)
def test_handles_that_are_none_are_refused_when_the_dag_is_parsed(handles, text):
    with DAG("dag", schedule=None), pytest.raises(InvalidStatementError, match=text):
        DeltaPublishOperator(task_id="publish", handles=handles)


STAGED = """
import pathlib
from airflow_delta.core.statements import OperationResult
from airflow_delta.jobs.result import ResultDocument, write_result
details = dict(staged=dict(table=spec["statement"]["table"], id="abc")) if {staged} else dict()
done = OperationResult(table=spec["statement"]["table"], version=0, read_version=0, operation="MERGE", committed=False,
                       details=details)
write_result(spec["result_uri"], ResultDocument(outcome=done))
sys.exit(0)
"""


STAGING = {
    "merge": partial(DeltaMergeOperator, source=SqlSource("SELECT 1"), on="target.id = source.id"),
    "delete": partial(DeltaDeleteOperator, where="id = 1"),
    "update": partial(DeltaUpdateOperator, assignments={"id": "id + 1"}),
    "copy into": partial(DeltaCopyIntoOperator, path="/in", format="csv"),
    "function": partial(DeltaPythonOperator, python_callable="team.jobs:daily"),
}


def staging(operator, table, submit):
    """A task of a kind of operator that stages its commit, by a program in place of ``spark-submit``."""
    given = {"publish": "{{ 'later' }}", "conn_id": "spark_local", "spark_binary": str(submit.path)}
    return STAGING[operator](task_id="stage", table=str(table), **given)


@pytest.mark.parametrize(
    ("operator", "staged", "name"), slow_after(3, [("merge", False, None), *((operator, True, "abc") for operator in STAGING)])
)
def test_a_task_that_stages_pushes_the_handle(empty_table, recording_submit, run_task, operator, staged, name):
    submit, pulled = recording_submit(STAGED.format(staged=staged)), []

    def more(task):
        @task_decorator
        def look(handle):
            pulled.append(handle)

        look(task.output["delta_staged"])

    run = run_task(
        lambda: staging(operator, empty_table, submit),
        more=more,
    )
    assert (run.state, run.errors) == ("success", [])
    counts = {} if staged else {"files": 0, "rows": 0, "bytes": 0, "paths": []}
    assert pulled == [{"table": str(empty_table), "id": name, **counts}]
    assert submit.calls[0]["spec"]["statement"]["publish"] == "later"


STAGES_AND_DIES = """
import signal
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.operations.staged_folder import staged_id
from airflow_delta.core.transaction.operation import Operation
log = DeltaLog.for_table(spec["statement"]["table"]).staging(staged_id(spec["origin"]["token"]))
log.start_transaction().commit(operation=Operation(name="MERGE"), allow_empty=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_retry_finds_what_a_killed_driver_has_staged_and_submits_nothing(empty_table, recording_submit, run_task):
    submit = recording_submit(STAGES_AND_DIES)
    run = run_task(
        lambda: staging("merge", empty_table, submit),
        retries=1,
    )
    assert (run.state, len(submit.calls)) == ("success", 1)
    assert run.result["details"]["staged"]["operation"] == "MERGE"


def test_a_check_of_what_is_staged_takes_the_handle_of_another_task(stage, recording_submit, run_task):
    handle, submit = stage("flights"), recording_submit()

    def make():
        @task_decorator
        def staged():
            return handle

        return DeltaExpectOperator(
            task_id="check",
            table=handle["table"],
            staged=staged(),
            expect="id > 0",
            conn_id="spark_local",
            spark_binary=str(submit.path),
        )

    assert run_task(make).state == "success"
    assert submit.calls[0]["spec"]["statement"]["staged"]["id"] == handle["id"]


def test_a_dag_of_all_of_them_can_be_read():
    with DAG("dag", schedule=None, start_date=pendulum.datetime(2026, 1, 1)):
        merge = DeltaMergeOperator(task_id="stage", table="/t", source="/s", on="target.id = source.id", publish="later")
        check = DeltaExpectOperator(task_id="check", table="/t", staged=merge.output["delta_staged"], expect="id > 0")
        publish = DeltaPublishOperator(task_id="publish", handles=[merge.output["delta_staged"]])
        check >> publish
    assert publish.upstream_task_ids == {"stage", "check"}
