"""Scripts that name their tables: found in the catalog that the environment names, and published there behind each commit."""

import json

import pytest
from deltalake import DeltaTable as IndependentTable

from airflow_delta.catalogs.entry import TableDescription, differences
from airflow_delta.catalogs.errors import CatalogAccessDeniedError, TableNameNotFoundError, TableNameTakenError
from airflow_delta.catalogs.settings import VARIABLE
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.catalogs.unity import UnityCatalog
from airflow_delta.core import DeltaLog
from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.spark import DeltaTable, delta_writer, sql
from airflow_delta.spark.delta_table.named_tables import NotPublishedWarning
from tests.catalogs.unity_server import Unity, serve

ORDERS = TableName("orders", "sales")


@pytest.fixture
def unity(monkeypatch):
    """A catalog without users, which the environment names."""
    unity = Unity(tokens={"": None})
    url, stop = serve(unity)
    monkeypatch.setenv(VARIABLE, json.dumps({"type": "unity", "uri": url, "name": "main"}))
    unity.client = UnityCatalog(url, catalog="main")
    yield unity
    stop()


def drift(unity, name=ORDERS):
    entry = unity.client.find(name)
    return differences(entry, TableDescription.of(DeltaLog.for_table(entry.location).snapshot()))


def rows(root):
    return sorted(IndependentTable(str(root)).to_pyarrow_table()["id"].to_pylist())


def test_frames_are_saved_under_a_name_and_appended_to_it(spark, unity, tmp_path):
    root = str(tmp_path / "orders")
    made = delta_writer(spark.range(2)).option("path", root).saveAsTable("sales.orders")
    assert made.details["catalog"] == {"catalog": "unity", "name": "sales.orders", "published": ["missing"]}
    assert (unity.client.find(ORDERS).location, drift(unity)) == (root, ())
    more = spark.sql("SELECT 7L AS id, 'x' AS note")
    added = delta_writer(more).mode("append").option("mergeSchema", True).saveAsTable("main.sales.orders")
    assert (added.version, added.details["catalog"]["published"]) == (1, ["schema"])
    assert (rows(root), drift(unity)) == ([0, 1, 7], ())
    assert DeltaTable.forName(spark, "sales.orders").toDF().count() == 3


def test_a_new_table_needs_a_place_and_a_name_that_is_free(spark, unity, tmp_path):
    with pytest.raises(InvalidStatementError, match=r"allots no place to sales\.orders; say where it is to lie: option"):
        delta_writer(spark.range(2)).saveAsTable("sales.orders")
    delta_writer(spark.range(2)).option("path", str(tmp_path / "orders")).saveAsTable("sales.orders")
    elsewhere = tmp_path / "elsewhere"
    with pytest.raises(TableNameTakenError, match="orders"):
        delta_writer(spark.range(2)).mode("overwrite").option("path", str(elsewhere)).saveAsTable("sales.orders")
    with pytest.raises(InvalidStatementError, match="path"):
        delta_writer(spark.range(2)).option("path", str(elsewhere)).save(str(tmp_path / "third"))
    assert not elsewhere.exists()


def test_what_cannot_be_published_is_a_warning_and_the_commit_stands(spark, unity, tmp_path):
    root = str(tmp_path / "orders")
    delta_writer(spark.range(2)).option("path", root).saveAsTable("sales.orders")
    unity.tokens[""] = ("GET",)
    with pytest.warns(NotPublishedWarning, match=r"publishing sales\.orders in the catalog failed") as shown:
        done = sql(spark, "ALTER TABLE sales.orders ADD COLUMN note STRING")
    assert isinstance(shown[0].message.error, CatalogAccessDeniedError)
    assert (done.count(), drift(unity)) == (0, ("schema",))
    unity.tokens[""] = None
    sql(spark, "INSERT INTO sales.orders VALUES (5, 'n')")
    assert (rows(root), drift(unity)) == ([0, 1, 5], ())


def test_a_builder_makes_a_table_with_a_name(spark, unity, tmp_path):
    root = str(tmp_path / "orders")
    builder = DeltaTable.createIfNotExists(spark).tableName("sales.orders").addColumn("id", "BIGINT", comment="number")
    with pytest.raises(InvalidStatementError, match="allots no place"):
        builder.execute()
    builder.location(root).execute()
    assert (unity.client.find(ORDERS).location, drift(unity)) == (root, ())
    builder.execute()
    DeltaTable.replace(spark).tableName("sales.orders").addColumn("day", "DATE").execute()
    assert [column.name for column in unity.client.find(ORDERS).schema.fields] == ["day"]
    assert (DeltaLog.for_table(root).snapshot().version, drift(unity)) == (1, ())


def test_statements_and_queries_name_their_tables(spark, unity, tmp_path):
    root, feed = str(tmp_path / "orders"), str(tmp_path / "feed")
    sql(spark, f"CREATE TABLE sales.orders (id BIGINT, n INT) USING delta LOCATION '{root}'")
    assert drift(unity) == ()
    sql(spark, f"CREATE TABLE sales.feed USING delta LOCATION '{feed}' AS SELECT id, 1 AS n FROM range(3)")
    sql(spark, "INSERT INTO sales.orders SELECT id + 1, n FROM sales.feed WHERE feed.id > 0")
    merged = sql(
        spark,
        """MERGE INTO sales.orders USING sales.feed AS f ON orders.id = f.id
           WHEN MATCHED THEN UPDATE SET n = orders.n + f.n WHEN NOT MATCHED THEN INSERT *""",
    ).collect()
    assert (merged[0]["num_updated_rows"], merged[0]["num_inserted_rows"], rows(root)) == (1, 2, [0, 1, 2, 3])
    query = "SELECT orders.id, f.n FROM sales.orders JOIN sales.feed f ON f.id = orders.id ORDER BY orders.id"
    assert [row.id for row in sql(spark, query).collect()] == [0, 1, 2]
    assert sql(spark, "SELECT count(*) AS rows FROM sales.orders VERSION AS OF 1").collect()[0]["rows"] == 2
    assert [row["version"] for row in sql(spark, "DESCRIBE HISTORY sales.orders").collect()] == [2, 1, 0]
    sql(spark, f"CREATE TABLE sales.copy SHALLOW CLONE sales.orders LOCATION '{tmp_path}/copy'")
    assert drift(unity, TableName("copy", "sales")) == ()
    with pytest.raises(TableNameNotFoundError, match=r"sales\.nothing"):
        sql(spark, "OPTIMIZE sales.nothing")


def test_what_a_table_found_by_its_name_becomes_is_published(spark, unity, tmp_path):
    delta_writer(spark.range(2)).option("path", str(tmp_path / "orders")).saveAsTable("sales.orders")
    orders = DeltaTable.forName(spark, "sales.orders")
    source = spark.sql("SELECT 1L AS id, 'x' AS note").alias("s")
    merge = orders.alias("o").merge(source, "o.id = s.id").withSchemaEvolution()
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert [column.name for column in unity.client.find(ORDERS).schema.fields] == ["id", "note"]
    orders.restoreToVersion(0)
    assert [column.name for column in unity.client.find(ORDERS).schema.fields] == ["id"]
    orders.addFeatureSupport("deletionVectors")
    assert drift(unity) == ()


def test_names_that_the_catalog_does_not_have_are_spark_s(spark, unity, tmp_path):
    spark.sql("CREATE DATABASE IF NOT EXISTS other")
    spark.sql(f"CREATE TABLE other.plain USING parquet LOCATION '{tmp_path}/plain' AS SELECT 4L AS id")
    try:
        assert sql(spark, "SELECT id FROM other.plain").collect()[0].id == 4
        sql(spark, "INSERT INTO other.plain VALUES (5)")
        assert sql(spark, "SELECT count(*) AS n FROM other.plain").collect()[0].n == 2
    finally:
        spark.sql("DROP DATABASE other CASCADE")
    assert unity.tables == {}
