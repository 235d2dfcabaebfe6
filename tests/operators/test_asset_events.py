"""Commits, and nothing else, become events of the table's asset, as Airflow stores them."""

from types import SimpleNamespace

import pendulum
import pytest
from airflow.models.asset import AssetDagRunQueue, AssetEvent, AssetModel
from airflow.sdk import DAG, Asset
from airflow.sdk.execution_time.context import OutletEventAccessors
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_delta.assets import delta_asset
from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements import OperationResult
from airflow_delta.hooks.airflow_features import HAS_PARTITION_KEYS
from airflow_delta.hooks.errors import AirflowFeatureMissingError
from airflow_delta.operators import DeleteStatement, DeltaMergeOperator, DeltaPublishOperator, DeltaStatementsOperator
from airflow_delta.operators.asset_events import declared, emit_asset_events

START = pendulum.datetime(2013, 1, 1)

NOTHING_TO_DO = """
from airflow_delta.core.statements import OperationResult
from airflow_delta.jobs.result import ResultDocument, write_result
outcome = OperationResult(table=spec["statement"]["table"], version=7, read_version=7, operation="MERGE", committed=False)
write_result(spec["result_uri"], ResultDocument(outcome=outcome))
sys.exit(0)
"""

COMMIT_AND_VANISH = """
commit = {"commitInfo": {"timestamp": 1, "operation": "MERGE", "readVersion": 0, "operationMetrics": {"numOutputRows": "3"},
                         "airflowDelta": {"token": spec["origin"]["token"]}}}
(Path(spec["statement"]["table"]) / "_delta_log" / f"{1:020d}.json").write_text(json.dumps(commit))
sys.exit(1)
"""


@pytest.fixture
def asset(tmp_path, request):
    return delta_asset(f"events.{request.node.name}", str(tmp_path / "table"))


@pytest.fixture
def events(asset):
    """Extras and partition keys of the asset's events, oldest first."""

    def get():
        with create_session() as session:
            query = (
                select(AssetEvent).join(AssetModel, AssetModel.id == AssetEvent.asset_id).where(AssetModel.name == asset.name)
            )
            return [
                (event.extra, getattr(event, "partition_key", None)) for event in session.scalars(query.order_by(AssetEvent.id))
            ]

    return get


def merge(table, submit, **arguments):
    defaults = {
        "source": "/lake/feed",
        "on": "target.id = source.id",
        "conn_id": "spark_local",
        "spark_binary": str(submit.path),
    }
    return DeltaMergeOperator(task_id="merge", table=str(table), **(defaults | arguments))


def test_a_commit_is_announced_small_and_flat(empty_table, recording_submit, run_task, asset, events):
    submit = recording_submit()
    assert run_task(lambda: merge(empty_table, submit, asset=asset), dag_id="announces").state == "success"
    ((extra, key),) = events()
    delta = extra["delta"]
    run_id = delta.pop("run_id")
    assert run_id.startswith("manual__")
    assert delta == {
        "table": f"file://{empty_table}",
        "version": 1,
        "read_version": 0,
        "operation": "MERGE",
        "committed": True,
        "metrics": {"rows": 1},
        "dag_id": "announces",
        "task_id": "merge",
    }
    assert key is None


@pytest.mark.parametrize(("emit", "versions"), [("on_commit", []), ("always", [7]), ("never", [])])
def test_a_run_without_a_commit_is_announced_only_with_emit_always(
    empty_table, recording_submit, run_task, asset, events, emit, versions
):
    submit = recording_submit(NOTHING_TO_DO)
    run = run_task(lambda: merge(empty_table, submit, asset=asset, emit=emit), dag_id=f"nothing_{emit}")
    assert (run.state, run.result["committed"]) == ("success", False)
    assert [extra["delta"]["version"] for extra, _ in events()] == versions


def test_the_commit_of_an_earlier_try_is_announced_once(empty_table, recording_submit, run_task, asset, events, clear_once):
    submit = recording_submit(COMMIT_AND_VANISH)
    run = run_task(
        lambda: merge(empty_table, submit, asset=asset, on_clear="reuse"), retries=1, more=clear_once, dag_id="found_again"
    )
    assert (run.state, run.version, len(submit.calls)) == ("success", 1, 1)
    # Two successes of the task, the second after a clear; the lost job in between does not count.
    assert [extra["delta"]["version"] for extra, _ in events()] == [1, 1]


def test_a_failed_task_announces_nothing(empty_table, recording_submit, run_task, asset, events):
    submit = recording_submit("sys.exit(1)")
    assert run_task(lambda: merge(empty_table, submit, asset=asset), dag_id="fails_silently").state == "failed"
    assert events() == []


def test_the_user_s_own_outlets_stay(empty_table, recording_submit, run_task, asset, events):
    other = Asset(name="events.other", uri="file:///elsewhere")
    submit = recording_submit(NOTHING_TO_DO)
    operator = []

    def make():
        operator.append(merge(empty_table, submit, asset=asset, outlets=[other], inlets=[other]))
        return operator[0]

    assert run_task(make, dag_id="own_outlets").state == "success"
    assert operator[0].outlets == [other, asset]  # in the DAG both are declared
    assert events() == []
    with create_session() as session:
        query = select(AssetEvent).join(AssetModel, AssetModel.id == AssetEvent.asset_id).where(AssetModel.name == other.name)
        assert len(session.scalars(query).all()) == 1


def test_every_mapped_task_announces_its_own_commit(empty_table, recording_submit, run_dag, asset, events):
    """The mapped tasks share one list of outlets."""
    commits, idle = recording_submit(), recording_submit(NOTHING_TO_DO)
    arguments = {"task_id": "merge", "source": "/lake/feed", "table": str(empty_table), "conn_id": "spark_local"}
    with DAG("mapped_events", schedule=None, start_date=START) as dag:
        DeltaMergeOperator.partial(**arguments, asset=asset, outlets=[asset]).expand_kwargs(
            [
                {"on": f"target.id = source.id + {n}", "spark_binary": str(submit.path)}
                for n, submit in enumerate((commits, idle, commits))
            ]
        )
    assert run_dag(dag, logical_date=START).state == "success"
    assert [extra["delta"]["version"] for extra, _ in events()] == [1, 2]


@pytest.mark.skipif(HAS_PARTITION_KEYS, reason="this Airflow has partition keys")
def test_partition_keys_are_refused_when_the_dag_is_parsed(empty_table, recording_submit, asset):
    with pytest.raises(AirflowFeatureMissingError, match=r"partition_keys needs Airflow 3\.3"):
        merge(empty_table, recording_submit(), asset=asset, partition_keys=True)


@pytest.mark.skipif(not HAS_PARTITION_KEYS, reason="this Airflow has no partition keys")
def test_with_partition_keys_the_version_wakes_only_those_who_read_by_partition(
    empty_table, recording_submit, run_dag, asset, events
):
    """An event with a partition key does not queue DAGs that are scheduled on the asset without partitions."""
    from airflow.models.asset import AssetPartitionDagRun  # noqa: PLC0415
    from airflow.sdk import PartitionedAssetTimetable  # noqa: PLC0415

    submit = recording_submit()
    with DAG("by_version", schedule=PartitionedAssetTimetable(assets=asset), start_date=START) as by_version:
        pass
    with DAG("plain", schedule=asset, start_date=START) as plain:
        pass
    with DAG("keyed_producer", schedule=None, start_date=START) as dag:
        merge(empty_table, submit, asset=asset, partition_keys=True)
    for consumer in (by_version, plain):
        _register(consumer)
    assert run_dag(dag, logical_date=START).state == "success"
    ((extra, key),) = events()
    assert (extra["delta"]["version"], key) == (1, "1")
    with create_session() as session:
        runs = session.scalars(select(AssetPartitionDagRun).where(AssetPartitionDagRun.target_dag_id == "by_version")).all()
        assert [run.partition_key for run in runs] == ["1"]
        assert session.scalars(select(AssetDagRunQueue).where(AssetDagRunQueue.target_dag_id == "plain")).all() == []


TWO_COMMITS = """
from airflow_delta.core.statements import OperationResult
from airflow_delta.jobs.result import ResultDocument, write_result
first = dict(table=spec["statement"]["statements"][0]["table"], read_version=6)
each = dict(silver=OperationResult(**first, version=7, operation="MERGE", committed=True),
            other=OperationResult(table="/lake/other", read_version=1, version=2, operation="MERGE", committed=True),
            late=OperationResult(**first, version=8, operation="DELETE", committed=True),
            compact=OperationResult(**first, version=9, operation="OPTIMIZE", committed=True))
details = dict(statements={name: result.to_json() for name, result in each.items()})
done = OperationResult(**first, version=9, operation="SEQUENCE", committed=True, details=details)
write_result(spec["result_uri"], ResultDocument(outcome=done))
sys.exit(0)
"""


@pytest.mark.skipif(not HAS_PARTITION_KEYS, reason="this Airflow has no partition keys")
def test_each_commit_of_several_statements_is_a_partition_of_its_own(empty_table, recording_submit, run_task, asset, events):
    submit = recording_submit(TWO_COMMITS)
    run = run_task(
        lambda: DeltaStatementsOperator(
            task_id="daily",
            statements={
                name: DeleteStatement(table="/lake/other" if name == "other" else str(empty_table))
                for name in ("silver", "other", "late", "compact")
            },
            asset=asset,
            partition_keys=True,
            conn_id="spark_local",
            spark_binary=str(submit.path),
        )
    )
    assert run.state == "success"
    assert sorted((key, extra["delta"]["version"]) for extra, key in events()) == [("7", 8), ("8", 8)]


@pytest.mark.skipif(not HAS_PARTITION_KEYS, reason="this Airflow has no partition keys")
def test_each_commit_that_is_published_to_the_table_of_the_asset_is_a_partition_of_its_own(asset):
    table = asset.uri.removeprefix("file://")
    entries = [(table, 3, True), (table, 4, True), ("/lake/other", 9, True), (table, 4, False)]
    published = [{"table": table, "version": version, "published": done} for table, version, done in entries]
    first = {"table": table, "version": 3, "read_version": 2, "operation": "PUBLISH", "committed": True}
    result = OperationResult(**first, details={"published": published})
    publish = DeltaPublishOperator(task_id="publish", handles="{{ handles }}", asset=asset)
    assert publish.announced_versions(result) == [3, 4]


def _register(dag):
    """Register the DAG with Airflow, unpaused."""
    from airflow.models.dag import DagModel  # noqa: PLC0415

    from tests.airflow_versions import DagBag, sync_bag_to_db  # noqa: PLC0415 - needs the tests' Airflow

    bag = DagBag(dag_folder="/dev/null")
    bag.bag_dag(dag)
    sync_bag_to_db(bag, "tests", None)
    with create_session() as session:
        session.get(DagModel, dag.dag_id).is_paused = False


def test_an_unknown_word_is_refused_where_the_dag_is_written(asset):
    with pytest.raises(InvalidStatementError):
        DeltaMergeOperator(task_id="merge", table="t", source="s", on="a = b", asset=asset, emit="sometimes")


@pytest.mark.parametrize("wrap", [lambda asset: asset.name, lambda asset: asset.uri, lambda asset: [asset]])
def test_what_is_no_asset_is_refused_where_the_dag_is_written(asset, wrap):
    with pytest.raises(InvalidStatementError, match="asset must be one that delta_asset"):
        DeltaMergeOperator(task_id="merge", table="t", source="s", on="a = b", asset=wrap(asset))


def test_an_asset_that_is_an_outlet_already_is_none_twice(asset):
    assert declared([asset], asset) == [asset]
    assert declared(asset, asset) == [asset]
    assert declared(None, None) == []


@pytest.mark.parametrize("operation", ["COMPUTE STATS", "MAINTENANCE", "OPTIMIZE", "REORG", "VACUUM"])
def test_commits_of_maintenance_are_announced_only_with_emit_always(asset, operation):
    """Else a DAG that compacts the table which it is scheduled on would start itself forever."""
    result = OperationResult(table="/t", version=1, read_version=0, operation=operation, committed=True)
    ti = SimpleNamespace(dag_id="d", task_id="t", run_id="r")
    for emit, left in (("on_commit", []), ("always", [asset])):
        operator, events = SimpleNamespace(outlets=[asset]), OutletEventAccessors()
        context = {"outlet_events": events, "ti": ti}
        emit_asset_events(operator, result, context, asset=asset, emit=emit, partition_keys=False)
        assert operator.outlets == left


def test_without_an_asset_nothing_is_said():
    result = OperationResult(table="t", version=1, read_version=0, operation="MERGE", committed=True)
    emit_asset_events(None, result, {}, asset=None, emit="always", partition_keys=False)
