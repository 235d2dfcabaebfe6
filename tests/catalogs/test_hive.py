"""A Hive metastore, by a process of its own."""

import socket
import struct
import threading

import pytest

from airflow_delta.catalogs.catalog import publish, resolve
from airflow_delta.catalogs.errors import (
    CatalogAccessDeniedError,
    CatalogRequestError,
    CatalogUnavailableError,
    InvalidCatalogError,
    InvalidTableNameError,
    NotADeltaTableError,
    TableNameNotFoundError,
)
from airflow_delta.catalogs.hive import HiveCatalog, ttypes
from airflow_delta.catalogs.table_name import TableName
from tests.catalogs.contract import ORDERS, CatalogContract, described
from tests.catalogs.hive_server import start_metastore
from tests.free_port import free_port


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    return tmp_path_factory.mktemp("hive")


@pytest.fixture(scope="module")
def root(warehouse):
    return f"{warehouse}/sales.db"


@pytest.fixture(scope="module")
def metastore(warehouse, root):
    uri, stop = start_metastore(warehouse)
    database = ttypes.Database(name="sales", locationUri=f"file:{root}", parameters={})
    HiveCatalog(uri)._request(ORDERS, "CREATE", lambda client: client.create_database(database))
    yield uri
    stop()


@pytest.fixture
def catalog(metastore):
    catalog = HiveCatalog(metastore)
    yield catalog
    catalog.drop(ORDERS)


@pytest.mark.slow
class TestHive(CatalogContract):
    def test_the_table_is_what_spark_and_trino_look_for(self, catalog, root):
        publish(catalog, ORDERS, described(f"{root}/orders"))
        table = catalog._request(ORDERS, "SELECT", lambda client: client.get_table("sales", "orders"))
        assert table.tableType == "EXTERNAL_TABLE"
        assert table.parameters["spark.sql.sources.provider"] == "delta"
        assert [(column.name, column.type) for column in table.sd.cols] == [("col", "array<string>")]
        assert table.sd.serdeInfo.parameters["path"] == f"file://{root}/orders"
        assert table.sd.location == f"file:{root}/orders"

    def test_a_new_table_goes_below_the_database(self, catalog, root):
        assert catalog.default_location(TableName("New", "sales")) == f"file:{root}/new"

    def test_a_name_that_the_metastore_does_not_take_is_refused_before_and_behind_the_commit(self, catalog, root):
        name = TableName("web visits", "sales")
        for request in (catalog.default_location, lambda name: publish(catalog, name, described(f"{root}/visits"))):
            with pytest.raises(InvalidTableNameError, match="letters, digits and _"):
                request(name)

    def test_a_name_in_a_database_that_is_not_there_says_so_and_what_to_do(self, catalog):
        with pytest.raises(TableNameNotFoundError, match=r"no schema \(database\) sale\..*CREATE SCHEMA sale"):
            resolve(catalog, TableName("orders", "sale"))
        with pytest.raises(TableNameNotFoundError, match="the name is not there"):
            resolve(catalog, TableName("oders", "sales"))

    def test_a_view_is_called_a_view(self, catalog, root):
        view = TableName("v", "sales")
        publish(catalog, view, described(f"{root}/v"))

        def as_view(client):
            table = client.get_table("sales", "v")
            table.tableType, table.parameters = "VIRTUAL_VIEW", {}
            table.viewOriginalText = table.viewExpandedText = "SELECT 1"
            client.drop_table("sales", "v", False)
            client.create_table(table)

        catalog._request(view, "CREATE", as_view)
        with pytest.raises(NotADeltaTableError, match="has it as 'view'"):
            resolve(catalog, view)
        catalog.drop(view)


@pytest.mark.parametrize(
    ("message", "principal", "privilege"),
    [
        (
            'AccessControlException: Permission denied: user=alice, access=WRITE, inode="/lake":hdfs:hdfs:drwxr-xr-x',
            "alice",
            "WRITE",
        ),
        ("User bob does not have privileges for DROPTABLE", "bob", "DROPTABLE"),
        ("not authorized", "the user of this process", "SELECT"),
    ],
)
def test_what_a_metastore_refuses_names_principal_and_privilege(message, principal, privilege):
    refusal = HiveCatalog("thrift://metastore:9083")._refusal(ORDERS, "SELECT", message)
    assert isinstance(refusal, CatalogAccessDeniedError)
    assert (refusal.principal, refusal.privilege) == (principal, privilege)


def test_any_other_answer_is_a_request_that_was_not_taken():
    refusal = HiveCatalog("thrift://metastore:9083")._refusal(ORDERS, "SELECT", "MetaException: no column")
    assert isinstance(refusal, CatalogRequestError)


@pytest.mark.parametrize(
    "message",
    [
        "MetaException: javax.jdo.JDODataStoreException: Communications link failure",
        "com.mysql.cj.jdbc.exceptions.CommunicationsException: The last packet sent",
    ],
)
def test_a_metastore_that_has_lost_its_database_can_be_tried_again(message):
    refusal = HiveCatalog("thrift://metastore:9083")._refusal(ORDERS, "SELECT", message)
    assert isinstance(refusal, CatalogUnavailableError)
    assert refusal.retryable


def test_a_metastore_that_is_not_there_can_be_tried_again():
    with pytest.raises(CatalogUnavailableError) as unavailable:
        HiveCatalog(f"thrift://127.0.0.1:{free_port()}").find(ORDERS)
    assert unavailable.value.retryable


def test_an_answer_whose_texts_are_not_utf8_is_a_request_that_was_not_taken():
    call = struct.pack(">II9sI", 0x80010002, 9, b"get_table", 0)
    table = struct.pack(">bhbhI2s", 12, 0, 11, 1, 2, b"\xff\xfe") + bytes(2)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            with listener.accept()[0] as connection:
                connection.recv(1 << 16)
                connection.sendall(call + table)

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(CatalogRequestError, match="not UTF-8"):
            HiveCatalog(f"thrift://127.0.0.1:{listener.getsockname()[1]}").find(ORDERS)


def test_a_table_of_another_catalog_is_not_taken_for_this_ones():
    with pytest.raises(InvalidTableNameError):
        HiveCatalog("thrift://127.0.0.1:1").find(TableName("orders", "sales", "prod"))


@pytest.mark.parametrize("uri", ["metastore:9083", "http://metastore", "thrift://", "thrift://user:pw@metastore:1"])
def test_a_uri_that_is_none_is_refused_without_showing_it(uri):
    with pytest.raises(InvalidCatalogError) as refused:
        HiveCatalog(uri)
    assert "pw" not in str(refused.value)
