"""``delta_writer(df)`` in the place of ``df.write``."""

import pytest
from deltalake import DeltaTable as ReferenceTable

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError, TableExistsError
from airflow_delta.spark import DeltaTable, delta_writer
from airflow_delta.spark.delta_table import frame_writer
from airflow_delta.spark.errors import TableNameUnsupportedError


def test_the_save_modes_are_those_of_spark(spark, table, reference_rows):
    rows = spark.range(2)
    assert delta_writer(rows).format("delta").save(table).version == 0
    with pytest.raises(TableExistsError):
        delta_writer(rows).save(table)
    assert not delta_writer(rows).mode("ignore").save(table).committed
    delta_writer(spark.range(2, 3)).mode("append").option("userMetadata", "more").save(table)
    assert reference_rows() == [(0,), (1,), (2,)]
    assert DeltaLog.for_table(table).history(1)[0].commit_info.origin.user_metadata == "more"
    delta_writer(rows).mode("overwrite").saveAsTable(f"delta.`{table}`")
    assert reference_rows() == [(0,), (1,)]


def test_partitions_ranges_and_schemas_are_written_as_in_delta_spark(spark, table, reference_rows):
    rows = spark.range(4).selectExpr("id", "id % 2 AS part")
    delta_writer(rows).partitionBy("part").option("delta.appendOnly", "false").save(table)
    assert ReferenceTable(table).metadata().partition_columns == ["part"]
    some = spark.sql("SELECT 7L AS id, 1L AS part")
    delta_writer(some).mode("overwrite").option("partitionOverwriteMode", "dynamic").save(table)
    assert reference_rows() == [(0, 0), (2, 0), (7, 1)]
    delta_writer(some.selectExpr("id + 1 AS id", "part")).mode("overwrite").option("replaceWhere", "part = 1").save(table)
    assert reference_rows() == [(0, 0), (2, 0), (8, 1)]
    delta_writer(some.selectExpr("*", "'x' AS more")).mode("append").options(mergeSchema=True).save(table)
    assert reference_rows()[2] == (7, 1, "x")
    delta_writer(spark.range(1)).mode("overwrite").option("overwriteSchema", "true").save(table)
    assert reference_rows() == [(0,)]


def test_a_write_of_an_application_counts_once(spark, table, reference_rows):
    for _ in range(2):
        delta_writer(spark.range(1)).mode("append").options(txnAppId="app", txnVersion=3).save(table)
    assert reference_rows() == [(0,)]


def test_what_is_not_known_is_refused_before_anything_is_written(spark, table):
    writer = delta_writer(spark.range(1))
    for refused, detail in (
        (lambda: writer.option("maxRecordsPerFile", 1), "maxRecordsPerFile"),
        (lambda: writer.mode("upsert"), "upsert"),
        (lambda: writer.format("parquet"), "parquet"),
        (lambda: writer.option("txnAppId", "app").save(table), "txnVersion"),
        (lambda: writer.option("mergeSchema", "yes").save(table), "mergeschema"),
        (lambda: writer.option("partitionOverwriteMode", "dynamc").save(table), "dynamc"),
    ):
        with pytest.raises(InvalidStatementError, match=detail):
            refused()
    with pytest.raises(TableNameUnsupportedError):
        writer.saveAsTable("birds")
    assert not DeltaLog.for_table(table).exists()


@pytest.fixture
def session_setting(spark):
    """Sets a setting of the session until the test ends."""
    names = []

    def put_in(name, value):
        names.append(name)
        spark.conf.set(name, value)

    yield put_in
    for name in names:
        spark.conf.unset(name)


def test_settings_of_the_session_hold_as_in_delta_spark(spark, table, reference_rows, session_setting):
    rows = spark.range(4).selectExpr("id", "id % 2 AS part")
    delta_writer(rows).partitionBy("part").save(table)
    session_setting("spark.sql.sources.partitionOverwriteMode", "DYNAMIC")
    session_setting("spark.databricks.delta.schema.autoMerge.enabled", "true")
    delta_writer(spark.sql("SELECT 7L AS id, 1L AS part, 'x' AS more")).mode("overwrite").save(table)
    assert reference_rows() == [(0, 0, None), (2, 0, None), (7, 1, "x")]
    news = spark.sql("SELECT 7L AS id, 1L AS part, 'y' AS more, 5 AS grown")
    merged = DeltaTable.forPath(spark, table).alias("t").merge(news.alias("n"), "t.id = n.id AND t.part = n.part")
    merged.whenMatchedUpdateAll().execute()
    assert reference_rows()[2] == (7, 1, "y", 5)
    delta_writer(rows.where("id = 1")).mode("overwrite").option("partitionOverwriteMode", "static").save(table)
    assert reference_rows() == [(1, 1, None, None)]


def test_the_log_is_found_as_for_every_job(spark, monkeypatch, table):
    calls = []

    def opened(*arguments):
        calls.append(arguments)
        return DeltaLog.for_table(table)

    monkeypatch.setattr(frame_writer, "table_log", opened)
    delta_writer(spark.range(1), storage_options={"user": "etl"}, allowed_prefixes=["hdfs://lake/s/"]).save("hdfs://lake/t")
    assert calls == [(spark, "hdfs://lake/t", {"user": "etl"}, ("hdfs://lake/s/",))]
