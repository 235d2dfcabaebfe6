"""What Spark's versions do in different ways: the same outcome on each of them."""

import sys
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.dataframe import DataFrame
from pyspark.sql.types import StructField, StructType, TimestampNTZType, TimestampType

from airflow_delta.core.statements import (
    CopyIntoStatement,
    MatchedUpdate,
    MergeStatement,
    SqlSource,
    UpdateStatement,
    WriteStatement,
)
from airflow_delta.spark import spark_features
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.errors import SparkFeatureMissingError
from airflow_delta.spark.spark_features import arrow_schema, check_stream_source, observe, repartition_by_id
from airflow_delta.spark.write.copy_into import copy_into
from airflow_delta.spark.write.write import write


@pytest.mark.parametrize("is_new", [True, False])
def test_rows_go_to_the_partition_of_their_number(spark, monkeypatch, is_new):
    if not is_new:
        for frame in (DataFrame, ClassicDataFrame):
            monkeypatch.delattr(frame, "repartitionById", raising=False)
    numbers = spark.range(500).select((F.col("id") % 100).cast("int").alias("number"))
    parts = repartition_by_id(numbers, 37, F.col("number")).select("number", F.spark_partition_id().alias("part"))
    assert {(row.number, row.part) for row in parts.collect()} == {(number, number % 37) for number in range(100)}


def test_aggregates_arrive_as_values_of_python_whatever_their_types(spark):
    both = F.struct(F.col("id").alias("a"), F.lit(None).cast("date").alias("b"))
    rows, observed = observe(spark.range(2), {"n": F.count(F.lit(1)), "last": F.max(both), "all": F.collect_set(both)})
    assert rows.count() == 2
    found = observed()
    assert (found["n"], found["last"]) == (2, Row(a=1, b=None))
    assert sorted(row.a for row in found["all"]) == [0, 1]


def test_times_in_the_batches_of_a_data_source_are_in_utc():
    columns = StructType([StructField("t", TimestampType()), StructField("n", TimestampNTZType())])
    assert arrow_schema(columns) == pa.schema([("t", pa.timestamp("us", "UTC")), ("n", pa.timestamp("us"))])


def test_writing_over_spark_connect_to_an_older_server_is_refused_by_name_and_version(monkeypatch):
    monkeypatch.setattr(spark_features, "is_connect", lambda _: True)
    rows = SimpleNamespace(sparkSession=SimpleNamespace(version="4.0.5"))
    with pytest.raises(SparkFeatureMissingError) as refusal:
        spark_features.observe(rows, {})
    assert (refusal.value.feature, refusal.value.version) == ("writing over Spark Connect", "4.0.5")
    assert "4.1" in str(refusal.value)


ROW, ASSIGNED = SqlSource("SELECT 1 AS id"), {"v": "'new'"}
WRITING = [
    (
        merge,
        MergeStatement(
            table="t", source=SqlSource("SELECT 1 AS id"), on="true", clauses=(MatchedUpdate(assignments=ASSIGNED),)
        ),
    ),
    (update, UpdateStatement(table="t", assignments=ASSIGNED)),
    (write, WriteStatement(table="t", source=ROW)),
    (copy_into, CopyIntoStatement(table="t", path="/landing", format="json")),
]


@pytest.mark.parametrize(("run", "statement"), WRITING, ids=lambda part: getattr(part, "__name__", ""))
def test_a_statement_that_an_older_server_cannot_carry_out_is_refused_before_the_table_is_read(monkeypatch, run, statement):
    monkeypatch.setattr(spark_features, "is_connect", lambda _: True)
    untouched = object()
    log = SimpleNamespace(table_uri="file:///t", store=untouched)
    with pytest.raises(
        SparkFeatureMissingError, match=r"writing over Spark Connect needs Spark 4\.1 or newer; this is Spark 4\.0\.5"
    ):
        run(SimpleNamespace(version="4.0.5"), log, statement)


def test_a_stream_of_a_table_on_an_older_spark_is_refused_by_name_and_version(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    with pytest.raises(SparkFeatureMissingError, match=r"as a stream needs Spark 4\.2 or newer; this is Spark 4"):
        check_stream_source()
