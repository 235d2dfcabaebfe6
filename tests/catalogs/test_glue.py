"""Glue, by moto's server."""

import dataclasses
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
import pytest
from botocore.stub import Stubber
from moto.server import ThreadedMotoServer

from airflow_delta.catalogs.catalog import publish, publish_changes, resolve
from airflow_delta.catalogs.entry import differences
from airflow_delta.catalogs.errors import (
    CatalogAccessDeniedError,
    CatalogRequestError,
    CatalogUnavailableError,
    InvalidCatalogError,
    InvalidTableNameError,
    NotADeltaTableError,
)
from airflow_delta.catalogs.glue import GlueCatalog
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.schema import PrimitiveType, StructField, StructType
from tests.catalogs.contract import ORDERS, CatalogContract, described

KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}


@pytest.fixture(scope="module")
def endpoint():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture
def glue(endpoint):
    client = boto3.client("glue", endpoint_url=endpoint, region_name="eu-west-1", **KEYS)
    client.create_database(DatabaseInput={"Name": "sales", "LocationUri": "s3://lake/sales.db/"})
    yield client
    for table in client.get_tables(DatabaseName="sales")["TableList"]:
        client.delete_table(DatabaseName="sales", Name=table["Name"])
    client.delete_database(Name="sales")


@pytest.fixture
def catalog(glue, endpoint):
    return GlueCatalog(region="eu-west-1", endpoint_url=endpoint, credentials=KEYS)


@pytest.fixture
def root():
    return "s3://lake/sales.db"


class TestGlue(CatalogContract):
    pass


def test_a_table_of_another_catalog_is_not_taken_for_this_ones(catalog, root):
    publish(catalog, ORDERS, described(f"{root}/orders"))
    assert catalog.find(TableName("orders", "sales", "AwsDataCatalog")).location == f"{root}/orders"
    with pytest.raises(InvalidTableNameError):
        catalog.find(TableName("orders", "sales", "prod"))


def test_the_table_is_what_spark_and_athena_look_for(catalog, glue, root):
    publish(catalog, ORDERS, described(f"{root}/orders"))
    table = glue.get_table(DatabaseName="sales", Name="orders")["Table"]
    parameters, storage = table["Parameters"], table["StorageDescriptor"]
    assert table["TableType"] == "EXTERNAL_TABLE"
    assert (parameters["spark.sql.sources.provider"], parameters["table_type"]) == ("delta", "DELTA")
    assert parameters["spark.sql.sources.schema.partCol.0"] == "day"
    assert (storage["Location"], storage["SerdeInfo"]["Parameters"]["path"]) == (f"{root}/orders",) * 2
    assert tuple(storage["Columns"][0][key] for key in ("Name", "Type", "Comment")) == (
        "id", "bigint", "the order's number",
    )  # fmt: skip
    assert storage["Columns"][2]["Type"] == "array<struct<sku:string,price:decimal(10,2)>>"


def test_comments_and_names_that_glue_does_not_take_are_published_in_sparks_form_alone(catalog, glue, root):
    """Glue's ``CommentString`` and ``NameString`` are lines; moto takes any."""
    text = "first\nsecond\ttabbed\r\n"
    noted = StructField("id", PrimitiveType("long"), metadata={"comment": text})
    table = described(f"{root}/orders", schema=StructType((noted,)), partition_columns=(), comment="of\nlines\x00")
    assert differences(publish(catalog, ORDERS, table), table) == ()
    shown = glue.get_table(DatabaseName="sales", Name="orders")["Table"]
    (column,) = shown["StorageDescriptor"]["Columns"]
    assert (column["Comment"], shown["Description"]) == ("first second\ttabbed ", "of\nlines ")
    broken = dataclasses.replace(table, schema=StructType((noted, StructField("a\nb", PrimitiveType("long")))))
    assert differences(publish(catalog, ORDERS, broken), broken) == ()
    (column,) = glue.get_table(DatabaseName="sales", Name="orders")["Table"]["StorageDescriptor"]["Columns"]
    assert column["Type"] == "array<string>"


def test_what_others_wrote_beside_stays(catalog, glue, root):
    publish(catalog, ORDERS, described(f"{root}/orders"))
    given = glue.get_table(DatabaseName="sales", Name="orders")["Table"]
    given = {key: given[key] for key in ("Name", "TableType", "Parameters", "StorageDescriptor")}
    given |= {"Parameters": {**given["Parameters"], "lakeformation.note": "kept"}, "Owner": "team"}
    glue.update_table(DatabaseName="sales", TableInput=given)
    publish(catalog, ORDERS, described(f"{root}/orders", version=5, properties={}))
    table = glue.get_table(DatabaseName="sales", Name="orders")["Table"]
    assert (table["Parameters"]["lakeformation.note"], table["Owner"]) == ("kept", "team")
    assert "team" not in table["Parameters"]


NO_COLUMNS = '{"type":"struct","fields":[]}'


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"spark.sql.sources.schema": NO_COLUMNS},
        {"spark.sql.sources.schema.numParts": "1", "spark.sql.sources.schema.part.0": NO_COLUMNS},
    ],
    ids=["no schema", "no columns", "no columns in parts"],
)
def test_a_table_of_delta_spark_is_found_by_its_path_and_becomes_ours_when_told_so(catalog, glue, schema):
    storage = {
        "Location": "s3://lake/sales.db/events-__PLACEHOLDER__",
        "SerdeInfo": {"Parameters": {"path": "s3://lake/events"}},
        "Columns": [{"Name": "col", "Type": "array<string>"}],
    }
    given = {"Name": "events", "StorageDescriptor": storage, "Parameters": {"spark.sql.sources.provider": "delta", **schema}}
    glue.create_table(DatabaseName="sales", TableInput=given)
    name, table = TableName("events", "sales"), described("s3://lake/events")
    entry = catalog.find(name)
    assert (entry.location, entry.table_id, entry.schema) == ("s3://lake/events", None, None)
    assert publish_changes(catalog, name, table) == ()
    assert catalog.find(name) == entry
    assert publish_changes(catalog, name, table, relocate=True) == ()
    mended = catalog.find(name)
    assert (mended.table_id, mended.version, differences(mended, table)) == (table.table_id, 3, ())


def test_another_format_is_not_a_delta_table(catalog, glue):
    given = {"Name": "ice", "Parameters": {"table_type": "ICEBERG"}, "StorageDescriptor": {"Location": "s3://lake/ice"}}
    glue.create_table(DatabaseName="sales", TableInput=given)

    with pytest.raises(NotADeltaTableError, match="iceberg"):
        resolve(catalog, TableName("ice", "sales"))


def test_a_new_table_goes_below_the_database(catalog):
    assert catalog.default_location(TableName("new", "sales")) == "s3://lake/sales.db/new"


@pytest.mark.parametrize(
    ("message", "principal", "privilege"),
    [
        (
            "User: arn:aws:iam::12:user/alice is not authorized to perform: glue:GetTable on resource: arn:aws:glue:x",
            "arn:aws:iam::12:user/alice",
            "glue:GetTable",
        ),
        (
            "Insufficient permission(s): Required Describe on orders",
            "the AWS identity of this process",
            "Describe",
        ),
    ],
)
def test_what_glue_refuses_names_principal_and_privilege(catalog, message, principal, privilege):
    with Stubber(catalog._client) as stub:
        stub.add_client_error("get_table", "AccessDeniedException", message, 400)
        with pytest.raises(CatalogAccessDeniedError) as denied:
            catalog.find(ORDERS)
    assert (denied.value.table, denied.value.principal, denied.value.privilege) == ("sales.orders", principal, privilege)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("ThrottlingException", 400),
        ("RequestLimitExceeded", 400),
        ("ResourceNotReadyException", 400),
        ("503", 503),
        ("InternalFailure", 500),
    ],
)
def test_a_glue_that_is_busy_or_out_of_order_can_be_tried_again(catalog, code, status):
    with Stubber(catalog._client) as stub:
        stub.add_client_error("get_table", code, "Rate exceeded", status)
        with pytest.raises(CatalogUnavailableError) as busy:
            catalog.find(ORDERS)
    assert busy.value.retryable


def test_a_process_without_credentials_is_denied_and_does_not_ask_again(endpoint, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(
        CatalogAccessDeniedError, match="denied a process without credentials the privilege glue:GetTable"
    ) as denied:
        GlueCatalog(region="eu-west-1", endpoint_url=endpoint).find(ORDERS)
    assert not denied.value.retryable


def test_any_other_answer_is_a_request_that_was_not_taken(catalog):
    with Stubber(catalog._client) as stub:
        stub.add_client_error("get_table", "InvalidInputException", "not a name", 400)
        with pytest.raises(CatalogRequestError, match="not a name"):
            catalog.find(ORDERS)


@pytest.mark.parametrize(
    "content",
    [b"{}", b"<html>", b"[]", b'{"Table": [], "Database": 1}', b"\xff", b'{"Table": {"CreateTime": "x"}}'],
)
def test_what_cannot_be_an_answer_of_glue_is_a_request_that_was_not_taken(content):
    class Page(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        catalog = GlueCatalog(region="eu-west-1", endpoint_url=f"http://127.0.0.1:{proxy.server_port}", credentials=KEYS)
        for request in (catalog.find, catalog.default_location):
            with pytest.raises(CatalogRequestError, match="its answer"):
                request(ORDERS)
        proxy.shutdown()


def test_without_a_region_the_settings_are_wrong(monkeypatch):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(InvalidCatalogError, match="region"):
        GlueCatalog(credentials=KEYS)
