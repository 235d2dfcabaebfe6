"""A table is one asset however its URI is written, and stays the same on its way through Airflow's database."""

import json

import pendulum
import pytest
from airflow.providers.openlineage.utils.utils import translate_airflow_asset
from airflow.sdk import DAG, Asset

from airflow_delta.assets import create_asset, delta_asset, lineage_name, sanitize_uri, to_openlineage
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.errors import InvalidStatementError, RelativePathError
from airflow_delta.hooks.errors import AirflowFeatureMissingError
from airflow_delta.operators import DeltaMergeOperator
from airflow_delta.operators.asset_events import is_asset_of
from airflow_delta.watch.asset_uri import name_of_asset
from tests.airflow_versions import AIRFLOW, DagSerialization

ACCOUNT = "lake@company.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("table", "uri", "lineage"),
    [
        ("s3://lake/flights", "s3://lake/flights", ("s3://lake", "flights")),
        ("s3a://lake/a/flights/", "s3://lake/a/flights", ("s3://lake", "a/flights")),
        ("S3N://lake/flights?versionId=1#top", "s3://lake/flights", ("s3://lake", "flights")),
        ("s3://lake", "s3://lake/", ("s3://lake", "/")),
        ("gcs://lake/flights", "gs://lake/flights", ("gs://lake", "flights")),
        (f"abfs://{ACCOUNT}/flights/", f"abfss://{ACCOUNT}/flights", (f"abfss://{ACCOUNT}", "flights")),
        ("az://lake/flights", "az://lake/flights", ("az://lake", "flights")),
        ("/lake/flights/", "file:///lake/flights", ("file", "/lake/flights")),
        ("file:/lake/flights", "file:///lake/flights", ("file", "/lake/flights")),
        ("memory://lake/flights/", "memory://lake/flights", None),
        ("hdfs://name:8020/lake/flights/", "hdfs://name:8020/lake/flights", None),
        ("hdfs:///lake/flights/", "hdfs:/lake/flights", None),
        ("hdfs:/lake/flights", "hdfs:/lake/flights", None),
    ],
)
def test_every_spelling_is_one_uri_and_one_name_in_lineage(table, uri, lineage):
    assert sanitize_uri(table) == uri == sanitize_uri(uri)
    assert lineage_name(table) == lineage
    if AIRFLOW == (3, 0) and "@" in uri:
        with pytest.raises(AirflowFeatureMissingError, match=r"an asset of abfss://.* needs Airflow 3\.1"):
            delta_asset("flights", table)
    else:
        assert delta_asset("flights", table).uri == uri  # Airflow changes nothing more


@pytest.mark.parametrize("table", ["/lake/flights#2", "file:///lake/flights?"])
def test_a_local_path_of_which_airflow_would_drop_a_part_is_refused(table):
    """The asset would be that of /lake/flights, and its consumers would read that table."""
    with pytest.raises(InvalidStatementError, match=r"without \? and #, found .*flights.*keeps file:///lake/flights:"):
        delta_asset("flights", table)


def test_a_uri_that_airflow_does_not_store_is_refused_when_the_dag_is_parsed():
    """The processor would find no error in the DAG, and then fail to store it."""
    with pytest.raises(InvalidStatementError, match=r"ASCII characters, .* found s3://lake/größen"):
        delta_asset("sizes", "s3://lake/größen")
    assert delta_asset("sizes", "lake.größen").uri.isascii()


def test_arguments_of_a_watcher_are_refused_where_nothing_watches():
    with pytest.raises(InvalidStatementError, match="poll_interval, start expects watch=True"):
        delta_asset("flights", "/lake/flights", start="earliest", poll_interval=5)


@pytest.mark.parametrize("name", ["s3://lake/orders", "/lake/orders"])
def test_name_and_table_in_the_wrong_order_are_refused(name):
    with pytest.raises(InvalidStatementError, match="the name comes first"):
        delta_asset(name, "lake.orders")
    assert delta_asset("team/orders", "lake.orders").name == "team/orders"


@pytest.mark.parametrize("table", ["s3://KEY:SECRET@lake/flights", "s3:///flights"])
def test_credentials_in_a_uri_are_refused_and_not_shown(table):
    with pytest.raises(InvalidStatementError) as raised:
        delta_asset("flights", table)
    assert "SECRET" not in str(raised.value)


@pytest.mark.parametrize(
    ("table", "uri"),
    [
        ("sales.orders", "delta-table://lake/sales/orders"),
        ("`Sales`.ORDERS", "delta-table://lake/sales/orders"),
        ("main.sales.orders", "delta-table://lake/main/sales/orders"),
        ("sales.`a b?.c`", "delta-table://lake/sales/a%20b%3F.c"),
    ],
)
def test_every_spelling_of_a_name_is_one_uri_and_the_name_is_in_it(table, uri):
    asset = delta_asset("orders", table, delta_conn_id="lake", watch=True)
    assert asset.uri == uri
    connection, name = name_of_asset(uri)
    assert (connection, name) == ("lake", TableName.parse(table.lower()))
    assert asset.watchers[0].trigger.serialize()[1].items() >= {"table": table, "delta_conn_id": "lake"}.items()
    assert to_openlineage(asset, None) is None


@pytest.mark.parametrize(
    ("table", "of_asset", "published", "is_its"),
    [
        ("s3a://lake/orders", "s3://lake/orders", None, True),
        ("s3://lake/orders", "s3://lake/orders", "sales.orders", True),
        ("s3://lake/other", "s3://lake/orders", "sales.orders", False),
        ("s3://lake/orders", "sales.orders", "Sales.Orders", True),
        ("s3://lake/orders", "sales.orders", "main.sales.orders", True),
        ("s3://lake/orders", "main.sales.orders", "other.sales.orders", False),
        ("s3://lake/orders", "sales.orders", "sales.other", False),
        ("s3://lake/orders", "sales.orders", None, False),
    ],
)
def test_a_result_is_of_an_asset_by_the_place_or_by_the_name(table, of_asset, published, is_its):
    assert is_asset_of(delta_asset(None, of_asset), table, published and {"name": published}) is is_its


@pytest.mark.parametrize("watch", [False, True])
def test_a_relative_table_is_no_asset(watch):
    """Its URI would name the working directory of whatever process parses the DAG."""
    with pytest.raises(RelativePathError, match="'lake/flights' is a relative path"):
        delta_asset("flights", "lake/flights", watch=watch)


def test_the_name_is_the_uri_unless_another_is_given():
    assert delta_asset(None, "s3a://lake/flights").name == "s3://lake/flights"
    assert create_asset(table="s3a://lake/flights", extra={"owner": "us"}) == delta_asset(
        None, "s3://lake/flights", extra={"owner": "us"}
    )


@pytest.mark.skipif(AIRFLOW == (3, 0), reason="Airflow 3.0 has no assets on Azure")
def test_openlineage_gets_the_dataset_of_an_asset_on_azure():
    """Through the provider's entry, as a task's outlets are translated."""
    dataset = translate_airflow_asset(delta_asset("flights", f"abfss://{ACCOUNT}/a/flights"), None)
    assert (dataset.namespace, dataset.name) == (f"abfss://{ACCOUNT}", "a/flights")
    assert to_openlineage(Asset("flights", "memory://flights"), None) is None


def test_a_watched_asset_is_the_same_after_the_scheduler_has_read_it():
    asset = delta_asset("flights", "s3a://lake/flights", watch=True, delta_conn_id="lake", start="earliest", poll_interval=5)
    with DAG("watching", schedule=asset, start_date=pendulum.datetime(2013, 1, 1)) as dag:
        DeltaMergeOperator(task_id="merge", table="t", source="s", on="a = b", asset=asset)
    written = json.dumps(DagSerialization.to_dict(dag))
    read = DagSerialization.from_dict(json.loads(written))
    ((_, found),) = list(read.timetable.asset_condition.iter_assets())
    (outlet,) = read.get_task("merge").outlets
    for deserialized in (found, outlet):
        assert (deserialized.name, deserialized.uri, deserialized.group) == ("flights", "s3://lake/flights", "delta")
    (watcher,) = found.watchers
    assert watcher.name == "flights: commits"
    assert watcher.trigger == {
        "classpath": "airflow_delta.triggers.commit_event.DeltaCommitEventTrigger",
        "kwargs": {**asset.watchers[0].trigger.serialize()[1]},
    }
    assert watcher.trigger["kwargs"]["asset"] == "flights"


@pytest.mark.parametrize("table", [None, " ", 7])
def test_an_asset_without_a_table_such_as_of_an_unset_variable_is_refused(table):
    with pytest.raises(InvalidStatementError, match=r"table must be a text.*, found"):
        delta_asset("lake.orders", table)
