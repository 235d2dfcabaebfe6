"""The catalog of a session: the contract of all catalogs, and what Spark's own SQL says of what was published there."""

import pytest
from pyspark.errors import AnalysisException

from airflow_delta.catalogs.catalog import publish, resolve
from airflow_delta.catalogs.errors import (
    CatalogAccessDeniedError,
    CatalogRequestError,
    CatalogUnavailableError,
    InvalidTableNameError,
    NotADeltaTableError,
    TableNameNotFoundError,
)
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.spark.delta_table.named_tables import NamedTables
from airflow_delta.spark.session_catalog import SessionCatalog
from tests.catalogs.contract import ORDERS, CatalogContract, described

pytestmark = pytest.mark.classic(reason="over Spark Connect, the catalog of a session is refused")


@pytest.fixture(scope="module")
def root(tmp_path_factory, spark):
    folder = tmp_path_factory.mktemp("sales")
    spark.sql(f"CREATE DATABASE sales LOCATION '{folder}'")
    yield str(folder)
    spark.sql("DROP DATABASE sales CASCADE")


@pytest.fixture
def catalog(root, spark):
    catalog = SessionCatalog(spark)
    yield catalog
    spark.sql("DROP VIEW IF EXISTS sales.shown")
    entry = catalog.find(ORDERS)
    if entry is not None and entry.provider == "delta":
        catalog.drop(ORDERS)
    spark.sql("DROP TABLE IF EXISTS sales.orders")


class TestSessionCatalog(CatalogContract):
    pass


def test_spark_shows_what_was_published(catalog, root, spark):
    publish(catalog, ORDERS, described(f"{root}/orders"))
    (row,) = spark.sql("SHOW TABLE EXTENDED IN sales LIKE 'orders'").collect()
    for shown in ("Type: EXTERNAL", "Provider: delta", f"{root}/orders\n", "Comment: orders, as they came: 'all' of them"):
        assert shown in row.information
    assert "|-- id: long (nullable = false)" in row.information


def test_a_new_table_goes_below_its_schema(catalog, root):
    assert catalog.default_location(TableName("New", "sales")).removeprefix("file:") == f"{root}/new"


def test_views_and_other_tables_are_no_delta_tables(catalog, root, spark):
    spark.sql(f"CREATE TABLE sales.orders USING parquet LOCATION '{root}/plain' AS SELECT 1 AS id")
    spark.sql("CREATE VIEW sales.shown AS SELECT 1 AS id")
    assert (catalog.find(ORDERS).provider, catalog.find(TableName("shown", "sales")).provider) == ("parquet", "view")
    with pytest.raises(NotADeltaTableError):
        resolve(catalog, ORDERS)


def test_a_script_and_a_job_tell_a_view_from_a_name_that_is_not_there(catalog, spark):
    spark.sql("CREATE VIEW sales.shown AS SELECT 1 AS id")
    with pytest.raises(NotADeltaTableError, match="has it as 'view'"):
        NamedTables(catalog).resolve(("sales", "shown"))
    with pytest.raises(TableNameNotFoundError):
        NamedTables(catalog).resolve(("sales", "nothing"))


def test_a_managed_table_is_not_dropped_as_its_files_would_go(catalog, spark):
    spark.sql("CREATE TABLE sales.orders USING parquet AS SELECT 1 AS id")
    with pytest.raises(CatalogRequestError, match="DROP TABLE"):
        catalog.drop(ORDERS)
    assert spark.table("sales.orders").count() == 1


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "HiveException: Unable to instantiate org.apache.hadoop.hive.ql.metadata.SessionHiveMetaStoreClient",
            CatalogUnavailableError,
        ),
        ("org.apache.thrift.transport.TTransportException: java.net.SocketException: Broken pipe", CatalogUnavailableError),
        ("MetaException: Permission denied: user=alice, access=WRITE", CatalogAccessDeniedError),
        ("MetaException: no column", CatalogRequestError),
    ],
)
def test_what_the_metastore_behind_the_session_says_is_told_apart(catalog, text, error):
    def fail():
        raise AnalysisException(f"org.apache.hadoop.hive.ql.metadata.HiveException: {text}")

    with pytest.raises(error):
        catalog._request(ORDERS, "SELECT", fail)


def test_a_table_of_another_catalog_is_refused(catalog, root):
    publish(catalog, ORDERS, described(f"{root}/orders"))
    assert catalog.find(TableName("orders", "sales", "spark_catalog")).location.removeprefix("file:") == f"{root}/orders"
    with pytest.raises(InvalidTableNameError, match="spark_catalog"):
        catalog.find(TableName("orders", "sales", "other"))
