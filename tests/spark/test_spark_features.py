"""What Spark's versions do in different ways: the same outcome on each of them."""

import sys
from types import SimpleNamespace

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.dataframe import DataFrame
from pyspark.sql.types import StructField, StructType, TimestampNTZType, TimestampType

from airflow_delta.core.least_versions import is_at_least
from airflow_delta.spark import spark_features
from airflow_delta.spark.errors import SparkFeatureMissingError
from airflow_delta.spark.spark_features import arrow_schema, check_stream_source, observe, repartition_by_id, suit_client


@pytest.mark.parametrize("is_new", [True, False])
def test_rows_go_to_the_partition_of_their_number(spark, monkeypatch, is_new):
    if not is_new:
        monkeypatch.setattr(spark_features, "_are_at_least", lambda *_: False)
        for frame in (DataFrame, ClassicDataFrame):
            monkeypatch.delattr(frame, "repartitionById", raising=False)
    numbers = spark.range(500).select((F.col("id") % 100).cast("int").alias("number"))
    parts = repartition_by_id(numbers, 37, F.col("number")).select("number", F.spark_partition_id().alias("part"))
    assert {(row.number, row.part) for row in parts.collect()} == {(number, number % 37) for number in range(100)}


@pytest.mark.parametrize("sends", [True, False])
def test_aggregates_arrive_as_values_of_python_whatever_their_types(spark, monkeypatch, sends):
    if sends and not spark_features.sends_observations(spark):
        pytest.skip("this server sends no structs")
    monkeypatch.setattr(spark_features, "sends_observations", lambda _: sends)
    both = F.struct(F.col("id").alias("a"), F.lit(None).cast("date").alias("b"))
    rows, observed = observe(spark.range(2), {"n": F.count(F.lit(1)), "last": F.max(both), "all": F.collect_set(both)})
    assert rows.count() == 2
    found = observed()
    assert (found["n"], found["last"]) == (2, Row(a=1, b=None))
    assert sorted(row.a for row in found["all"]) == [0, 1]


def test_rows_that_are_looked_at_once_more_are_those_that_the_action_saw(spark, monkeypatch):
    monkeypatch.setattr(spark_features, "sends_observations", lambda _: False)
    rows, observed = observe(spark.range(50).select(F.rand().alias("r")), {"sum": F.sum("r")})
    assert rows.agg(F.sum("r")).first()[0] == pytest.approx(observed()["sum"])


def test_times_in_the_batches_of_a_data_source_are_in_utc():
    columns = StructType([StructField("t", TimestampType()), StructField("n", TimestampNTZType())])
    assert arrow_schema(columns) == pa.schema([("t", pa.timestamp("us", "UTC")), ("n", pa.timestamp("us"))])


def test_a_stream_of_a_table_on_an_older_spark_is_refused_by_name_and_version(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    with pytest.raises(SparkFeatureMissingError, match=r"as a stream needs Spark 4\.2 or newer; this is Spark 4"):
        check_stream_source()


class Settings(dict):
    """Of a server that knows no setting beside those that the client sets."""

    set = dict.__setitem__


def settings_asked_for():
    """What this client asks the server for before it sends rows."""
    asked = []
    client = SimpleNamespace(get_config_dict=lambda *names: asked.extend(names) or {}, _user_id="")
    with pytest.raises(KeyError):
        SparkSession.createDataFrame(SimpleNamespace(_client=client), [(1,)], ["id"])
    return asked


@pytest.mark.skipif(not is_at_least(pyspark.__version__, (4, 1)), reason="the first client asks for what every server knows")
def test_an_older_server_gets_the_settings_that_the_client_asks_for_and_keeps_those_that_it_has():
    session = SimpleNamespace(conf=Settings({"spark.sql.session.localRelationSizeLimit": "7"}))
    suit_client(session, "4.0.2")
    since = [name for name in settings_asked_for() if name.startswith("spark.sql.session.localRelation")]
    assert set(since) - session.conf.keys() == {"spark.sql.session.localRelationCacheThreshold"}  # of 4.0
    assert session.conf["spark.sql.session.localRelationSizeLimit"] == "7"
    assert session.conf["spark.sql.session.localRelationChunkSizeRows"] == 10_000


@pytest.mark.parametrize("version", [pyspark.__version__, "4.10.0", "5.0.0"])
def test_a_server_as_new_as_the_client_keeps_its_settings(monkeypatch, version):
    monkeypatch.setattr(spark_features.pyspark, "__version__", min(pyspark.__version__, "4.2.0"))
    session = SimpleNamespace(conf=Settings())
    suit_client(session, version)
    assert session.conf == {}
