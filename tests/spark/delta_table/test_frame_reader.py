"""``delta_reader``, the replacement of ``spark.read``."""

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.spark import DeltaTable, delta_reader
from airflow_delta.spark.errors import TableNameUnsupportedError
from tests.spark.session_settings import session_settings


@pytest.fixture
def versions(spark, write_rows, table):
    """Version 0 holds 0 to 3, version 1 also 4 to 7, and version 2 lacks 7."""
    properties = {"delta.enableChangeDataFeed": "true"}
    write_rows("SELECT id, id % 2 AS p, id * 2 AS x FROM range(4)", partition_by=("p",), properties=properties)
    write_rows("SELECT id, id % 2 AS p, id * 2 AS x FROM range(4, 8)")
    DeltaTable.forPath(spark, table).delete("id = 7")


def rows(frame):
    return sorted(map(tuple, frame.collect()))


def test_columns_and_rows_are_chosen_and_older_versions_read(spark, versions, table):
    reader = delta_reader(spark).format("delta")
    assert rows(reader.load(table)) == [(n, n % 2, n * 2) for n in range(7)]
    assert reader.load(table).schema == DeltaTable.forPath(spark, table).toDF().schema
    chosen = reader.columns("x", "id").where("p = 1")
    assert rows(chosen.load(f"delta.`{table}`")) == [(2, 1), (6, 3), (10, 5)]
    assert rows(chosen.where("id > 2 -- and no more").where("id < 5 OR false").load(table)) == [(6, 3)]
    snapshot = DeltaLog.for_table(table).snapshot()
    assert len(chosen.load(table).inputFiles()) == len(snapshot.files("p = 1")) < len(snapshot.files())
    assert rows(chosen.option("versionAsOf", 0).table(f"delta.`{table}`")) == [(2, 1), (6, 3)]


def test_a_time_is_one_of_the_session_unless_it_names_its_zone(spark, versions, table):
    time = DeltaLog.for_table(table).snapshot(0).timestamp
    for zone in ("UTC", "America/New_York"):
        with session_settings(spark, {"spark.sql.session.timeZone": zone}):
            text = spark.sql(f"SELECT CAST(timestamp_millis({time}) AS STRING)").first()[0]
            assert delta_reader(spark).option("timestampAsOf", text).load(table).count() == 4


def test_changes_are_read_with_the_columns_that_say_what_changed(spark, versions, table):
    reader = delta_reader(spark).options(readChangeFeed=True, startingVersion=1)
    of_change = ("_change_type", "_commit_version")
    assert rows(reader.columns("id").load(table).drop("_commit_timestamp")) == [
        (4, "insert", 1),
        (5, "insert", 1),
        (6, "insert", 1),
        (7, "delete", 2),
        (7, "insert", 1),
    ]
    some = reader.option("endingVersion", 1).columns("x").where("id > 5 AND _change_type = 'insert'").load(table)
    assert rows(some.select("x", *of_change)) == [(12, "insert", 1), (14, "insert", 1)]
    assert some.columns == ["x", *of_change, "_commit_timestamp"]


@pytest.mark.classic(reason="over Spark Connect, a text with ${ is refused")
def test_a_condition_on_changes_means_its_own_characters(spark, versions, table):
    reader = delta_reader(spark).options(readChangeFeed=True, startingVersion=1)
    with session_settings(spark, {"run.id": "5"}):
        assert reader.where("CAST(id AS STRING) = '${run.id}'").load(table).collect() == []


def test_what_is_not_known_is_refused(spark, versions, table):
    reader = delta_reader(spark)
    with pytest.raises(InvalidStatementError, match="the format delta, not 'parquet'"):
        reader.format("parquet")
    with pytest.raises(InvalidStatementError, match="mergeschema"):
        reader.option("mergeSchema", "true").load(table)
    with pytest.raises(InvalidStatementError, match="exclude each other"):
        reader.options(versionAsOf=0, timestampAsOf="2020-01-01").load(table)
    with pytest.raises(InvalidStatementError, match="no time"):
        reader.option("timestampAsOf", "some day").load(table)
    with pytest.raises(TableNameUnsupportedError):
        reader.table("birds")
