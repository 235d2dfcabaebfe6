"""The same DAG with table names on each catalog: what its tasks do, and what others find under the names afterwards."""

import json

import boto3
import pendulum
import pytest
from airflow.sdk import DAG
from deltalake import DeltaTable
from moto.server import ThreadedMotoServer

from airflow_delta.catalogs.hive import HiveCatalog, ttypes
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.operators import (
    UPSERT,
    AddColumns,
    AlterStatement,
    DeltaCreateOperator,
    DeltaDropOperator,
    DeltaPinOperator,
    DeltaSqlOperator,
    DeltaStatementsOperator,
    DeltaTableHealthOperator,
    ExpectStatement,
    MergeStatement,
    OptimizeStatement,
    SqlSource,
    TableSource,
    WriteStatement,
)
from airflow_delta.sensors import DeltaCommitSensor
from tests.catalogs.hive_server import start_metastore
from tests.catalogs.unity_readers import rows_by_name

DAY = pendulum.datetime(2013, 1, 2)


@pytest.fixture
def connect(monkeypatch, tmp_path):
    """Name a catalog in the connection ``lake``."""

    def name(catalog):
        lake = {"conn_type": "delta", "host": str(tmp_path / "lake"), "extra": {"catalog": catalog}}
        monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(lake))

    return name


@pytest.fixture
def of_unity(unity, tmp_path):
    """The names in Unity Catalog, with their locations; the connection is that of the fixture."""
    return lambda: {table: found["location"] for (_, _, table), found in unity.tables.items()}


@pytest.fixture
def metastore(tmp_path):
    """The address of a Hive metastore with the database ``sales``, and the names that it has there."""
    folder = tmp_path / "hive"
    folder.mkdir()
    uri, stop = start_metastore(folder)
    catalog = HiveCatalog(uri)
    database = ttypes.Database(name="sales", locationUri=f"file:{tmp_path}/sales.db", parameters={})
    catalog._request(TableName("orders", "sales"), "CREATE", lambda client: client.create_database(database))

    def tables():
        def look(client):
            found = [client.get_table("sales", table) for table in client.get_all_tables("sales")]
            return {table.tableName: table.sd.serdeInfo.parameters["path"] for table in found}

        return catalog._request(TableName("any", "sales"), "SELECT", look)

    yield uri, tables
    stop()


@pytest.fixture
def of_hive(connect, metastore):
    uri, tables = metastore
    connect({"type": "hive", "uri": uri})
    return tables


@pytest.fixture
def session():
    """Settings of the jobs' sessions."""
    return {}


@pytest.fixture
def of_spark(connect, metastore, session):
    """Only the sessions know the metastore."""
    uri, tables = metastore
    connect("spark")
    session.update({"spark.sql.catalogImplementation": "hive", "spark.hadoop.hive.metastore.uris": uri})
    return tables


@pytest.fixture
def of_glue(connect, tmp_path, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    client = boto3.client("glue", endpoint_url=endpoint, region_name="eu-west-1")
    client.create_database(DatabaseInput={"Name": "sales", "LocationUri": f"{tmp_path}/sales.db"})
    connect({"type": "glue", "region": "eu-west-1", "endpoint_url": endpoint})
    yield lambda: {
        table["Name"]: table["StorageDescriptor"]["Location"] for table in client.get_tables(DatabaseName="sales")["TableList"]
    }
    client.delete_database(Name="sales")  # moto's servers of one process have one Glue
    server.stop()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["unity", "hive", "glue", "spark"])
def test_a_table_is_made_written_merged_evolved_optimized_watched_pinned_and_dropped_by_its_name(
    name, session, request, tmp_path, run_dag, xcom
):
    tables = request.getfixturevalue(f"of_{name}")
    lake = {"conn_id": "spark_local", "conf": session, "scratch_uri": str(tmp_path / "scratch"), "delta_conn_id": "lake"}
    orders = "sales.orders"
    watched = "{{ ti.xcom_pull(task_ids='create')['table'] }}" if name == "spark" else orders  # a sensor has no session
    feed = SqlSource("SELECT id, id * 10 AS n FROM range(1, 4)")
    rows = SqlSource("SELECT * FROM o", views={"o": TableSource("sales.orders")})
    statements = {
        "write": WriteStatement(table="sales.orders", source=SqlSource("SELECT id, id AS n FROM range(2)")),
        "merge": MergeStatement(table="sales.orders", source=feed, on="target.id = source.id", clauses=UPSERT),
        "evolve": AlterStatement(table="sales.orders", changes=AddColumns("note STRING")),
        "feed": WriteStatement(table="sales.feed", source=rows),
        "check": ExpectStatement(table="sales.feed", expect="n < 100"),
        "optimize": OptimizeStatement(table="sales.orders", min_files=2),
    }
    text = """MERGE INTO sales.orders USING (SELECT id + 3 AS id, n, note FROM sales.feed) f ON orders.id = f.id
              WHEN NOT MATCHED THEN INSERT *"""
    with DAG(f"each_{name}", schedule=None, start_date=DAY) as dag:
        (
            DeltaCreateOperator(task_id="create", table=orders, columns="id BIGINT, n BIGINT", engine="auto", **lake)
            >> DeltaStatementsOperator(task_id="statements", statements=statements, **lake)
            >> DeltaSqlOperator(task_id="text", sql=text, **lake)
            >> DeltaCommitSensor(task_id="wait", table=watched, min_version=4, delta_conn_id="lake")
            >> DeltaPinOperator(task_id="pin", tables={"orders": orders}, **lake)
            >> DeltaTableHealthOperator(task_id="check", table=orders, **lake)
        )
    done = run_dag(dag, logical_date=DAY)
    assert str(done.state.value) == "success"
    assert [finding["code"] for finding in xcom(done, "check")["details"]["findings"]] == []
    assert xcom(done, "check")["warnings"] == []
    assert xcom(done, "pin")["orders"]["version"] == xcom(done, "text")["version"] >= 4
    found = tables()
    assert sorted(found) == ["feed", "orders"]
    rows = DeltaTable(found["orders"].removeprefix("file:")).to_pyarrow_table().sort_by("id").to_pydict()
    if name == "unity":
        seen = rows_by_name(request.getfixturevalue("unity").url, "sales.orders")
        assert seen == [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]
    assert rows == {"id": [0, 1, 2, 3, 4, 5, 6], "n": [0, 10, 20, 30, 10, 20, 30], "note": [None] * 7}
    with DAG(f"dropped_{name}", schedule=None, start_date=DAY) as drops:
        for table in ("orders", "feed"):
            DeltaDropOperator(task_id=table, table=f"sales.{table}", delete_files=table == "orders", **lake)
    done = run_dag(drops, logical_date=DAY)
    assert str(done.state.value) == "success"
    dropped = {"catalog": name, "name": "sales.orders", "dropped": True}
    assert xcom(done, "orders")["details"]["catalog"] == dropped
    assert tables() == {}
    assert not DeltaTable.is_deltatable(found["orders"].removeprefix("file:"))
    assert DeltaTable(found["feed"].removeprefix("file:")).to_pyarrow_table().num_rows == 4
