"""Tables by name: the catalog of a delta connection."""

import json

import boto3
import pytest
from moto.server import ThreadedMotoServer

from airflow_delta.catalogs.catalog import publish
from airflow_delta.catalogs.errors import InvalidCatalogError, NotADeltaTableError, TableNameNotFoundError
from airflow_delta.catalogs.settings import CatalogSettings
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.errors import RelativePathError
from airflow_delta.core.statements import (
    CloneStatement,
    CreateStatement,
    MergeStatement,
    OptimizeStatement,
    PinnedTable,
    SequenceStatement,
    SqlSource,
    TableSource,
    WriteStatement,
)
from airflow_delta.hooks.catalog_connection import catalog_settings
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.hooks.errors import DeltaConnectionError
from tests.catalogs.contract import described


@pytest.fixture(scope="module")
def glue():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    client = boto3.client(
        "glue", endpoint_url=endpoint, region_name="eu-west-1", aws_access_key_id="test", aws_secret_access_key="test"
    )
    client.create_database(DatabaseInput={"Name": "sales", "LocationUri": "s3://lake/sales.db"})
    client.create_database(DatabaseInput={"Name": "bare"})
    client.create_database(DatabaseInput={"Name": "local", "LocationUri": "file:/lake/local.db"})
    client.create_table(DatabaseName="sales", TableInput={"Name": "ice", "Parameters": {"table_type": "ICEBERG"}})
    yield endpoint
    for name in ("sales", "bare", "local"):  # moto's servers of one process have one Glue
        client.delete_database(Name=name)
    server.stop()


@pytest.fixture
def hook(glue, monkeypatch):
    keys = {"conn_type": "aws", "login": "AKIAEXAMPLE", "password": "secret-of-aws"}
    monkeypatch.setenv("AIRFLOW_CONN_KEYS", json.dumps(keys))
    catalog = {"type": "glue", "region": "eu-west-1", "endpoint_url": glue}
    lake = {"conn_type": "delta", "host": "s3://lake/tables", "extra": {"storage_conn_id": "keys", "catalog": catalog}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(lake))
    found = DeltaHook("lake")
    publish(found.catalog, TableName("orders", "sales"), described("s3://lake/somewhere/orders"))
    return found


def test_a_name_is_resolved_wherever_a_table_is_named(hook):
    source = SqlSource("SELECT 1", views={"v": TableSource("`sales`.orders")})
    resolved = hook.resolve_table_uris(WriteStatement(table="sales.orders", source=source))
    assert (resolved.table, resolved.source.views["v"].table) == ("s3://lake/somewhere/orders",) * 2
    assert hook.table_uri("sales.orders") == "s3://lake/somewhere/orders"
    assert hook.resolve_table_uris(PinnedTable(alias="a", table="sales.orders")).table == "s3://lake/somewhere/orders"


@pytest.mark.parametrize(
    ("path", "uri"),
    [("s3://other/x.y", "s3://other/x.y"), ("raw/x.y", "s3://lake/tables/raw/x.y"), ("orders", "s3://lake/tables/orders")],
)
def test_a_word_with_a_scheme_or_a_slash_or_without_a_dot_stays_a_path(hook, path, uri):
    assert hook.table_uri(path) == uri


def test_a_table_that_is_created_goes_where_its_schema_lies_or_below_the_table_root(hook):
    def created(table):
        return hook.resolve_table_uris(CreateStatement(table=table, columns="n INT")).table

    assert created("sales.new") == "s3://lake/sales.db/new"
    assert created("bare.new") == "s3://lake/tables/bare/new"
    assert created("sales.orders") == "s3://lake/somewhere/orders"


def test_what_is_read_or_changed_has_to_be_in_the_catalog(hook):
    for statement in (
        OptimizeStatement(table="sales.new"),
        MergeStatement(table="sales.orders", source=TableSource("sales.new"), on="a = b"),
        CloneStatement(table="sales.copy", source=TableSource("sales.new")),
    ):
        with pytest.raises(TableNameNotFoundError, match=r"sales\.new"):
            hook.resolve_table_uris(statement)
    with pytest.raises(NotADeltaTableError, match="iceberg"):
        hook.table_uri("sales.ice")
    with pytest.raises(TableNameNotFoundError, match="nowhere"):
        hook.resolve_table_uris(CreateStatement(table="nowhere.new", columns="n INT"))


def test_a_later_statement_of_a_sequence_may_use_what_an_earlier_one_creates(hook):
    steps = (CreateStatement(table="sales.new", columns="n INT"), OptimizeStatement(table="sales.new"))
    resolved = hook.resolve_table_uris(SequenceStatement(statements=steps))
    assert [step.table for step in resolved.statements] == ["s3://lake/sales.db/new"] * 2


def test_without_a_catalog_a_name_is_a_relative_path_as_ever(monkeypatch):
    monkeypatch.delenv("AIRFLOW_CONN_DELTA_DEFAULT", raising=False)
    with pytest.raises(RelativePathError):
        DeltaHook().table_uri("sales.orders")


def test_keys_of_the_storage_connection_are_glues(hook, glue):
    settings = catalog_settings({"type": "glue", "region": "eu-west-1"}, hook.get_connection, "keys")
    assert settings.credentials == {"aws_access_key_id": "AKIAEXAMPLE", "aws_secret_access_key": "secret-of-aws"}
    assert "secret-of-aws" not in repr(settings)


@pytest.mark.parametrize(
    ("catalog", "connection", "settings"),
    [
        (
            {"type": "unity", "conn_id": "server", "name": "main"},
            {"conn_type": "http", "host": "unity.example", "login": "alice", "password": "secret-token"},
            CatalogSettings(
                type="unity",
                uri="https://unity.example",
                name="main",
                principal="alice",
                credentials={"token": "secret-token"},
            ),
        ),
        (
            {"type": "hive", "conn_id": "server"},
            {"conn_type": "http", "host": "thrift://metastore/", "port": 9084},
            CatalogSettings(type="hive", uri="thrift://metastore:9084"),
        ),
        (
            {"type": "hive", "conn_id": "server"},
            {"conn_type": "hive_metastore", "host": "metastore", "port": 9083},
            CatalogSettings(type="hive", uri="thrift://metastore:9083"),
        ),
        ('{"type": "hive", "uri": "thrift://m:1"}', {"conn_type": "http"}, CatalogSettings(type="hive", uri="thrift://m:1")),
    ],
)
def test_a_server_and_its_token_come_from_a_connection(monkeypatch, catalog, connection, settings):
    monkeypatch.setenv("AIRFLOW_CONN_SERVER", json.dumps(connection))
    assert catalog_settings(catalog, DeltaHook.get_connection, None) == settings


@pytest.mark.parametrize(
    "catalog",
    [
        {"type": "glue", "credentials": {"token": "pw"}},
        {"type": "glue", "password": "pw"},
        {"type": "unity", "conn_id": ["pw"]},
        ["pw"],
        "oracle",
    ],
)
def test_settings_that_are_wrong_are_refused_and_not_shown(monkeypatch, catalog):
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "delta", "extra": {"catalog": catalog}}))
    with pytest.raises(InvalidCatalogError) as refused:
        DeltaHook("lake").table_uri("sales.orders")
    assert "pw" not in str(refused.value)


@pytest.mark.parametrize("service_config", [None, "glue", {"glue": None}, {"glue": "http://glue"}])
def test_an_aws_connection_without_an_endpoint_of_glue_takes_that_of_the_region(monkeypatch, service_config):
    extra = {"region_name": "eu-west-1", "service_config": service_config}
    monkeypatch.setenv("AIRFLOW_CONN_AWS", json.dumps({"conn_type": "aws", "extra": extra}))
    found = catalog_settings({"type": "glue", "conn_id": "aws"}, DeltaHook.get_connection, None)
    assert found == CatalogSettings(type="glue", region="eu-west-1")


def test_a_connection_of_the_catalog_that_is_missing_is_said(monkeypatch):
    catalog = {"type": "unity", "conn_id": "nowhere"}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "delta", "extra": {"catalog": catalog}}))
    with pytest.raises(DeltaConnectionError, match="nowhere"):
        DeltaHook("lake").table_uri("sales.orders")


def test_a_local_table_is_spelled_alike_before_it_is_published_and_after(hook):
    statement = CreateStatement(table="local.orders", columns="id BIGINT")
    new = hook.resolve_table_uris(statement)
    assert new.table == "/lake/local.db/orders"
    publish(hook.catalog, TableName("orders", "local"), described(new.table))
    assert hook.resolve_table_uris(statement) == new
