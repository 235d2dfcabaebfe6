"""The feed as a DataFrame is the feed that the core reads, and that Delta Lake 4.4.0 read from its own tables."""

import importlib.util
import json
from collections import Counter
from pathlib import Path

import pytest

from airflow_delta.core import DeltaLog
from airflow_delta.core.errors import (
    ChangeDataNotRecordedError,
    CorruptDataFileError,
    SchemaMismatchError,
    VersionNotFoundError,
)
from airflow_delta.spark.change_feed.read import read_changes
from airflow_delta.spark.io.worker_values import typed_worker_errors
from tests.golden_tables import TABLES


@pytest.mark.parametrize("name", ["cdf", "cdf_dv"])
def test_tables_of_delta_tell_what_delta_read(spark, name):
    spec = importlib.util.spec_from_file_location("canon", TABLES / "canon.py")
    canon = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(canon)
    feeds = json.loads((TABLES / name / "expected.json").read_text())["cdf"]
    widest = max(feeds, key=lambda feed: feed["row_count"])
    log = DeltaLog.for_table(str(TABLES / name / "table"))

    found = read_changes(spark, log, widest["startingVersion"], widest["endingVersion"]).select(widest["columns"])

    lines = [canon.dumps(list(row.values())) for row in found.toArrow().to_pylist()]
    assert Counter(lines) == Counter(map(canon.dumps, widest["rows"]))


def test_a_range_is_given_by_versions_or_times_and_columns_by_name(spark, recorded):
    table = recorded(partitioned=True)
    for number in range(3):
        table.insert(f"SELECT {number}L AS id, 'a' AS p, 1L AS v")
    times = {entry.version: entry.timestamp for entry in table.log.history()}
    feed = read_changes(spark, table.log, 2, columns=["v", "ID"])

    assert feed.columns == ["v", "id", "_change_type", "_commit_version", "_commit_timestamp"]
    assert [str(field.dataType) for field in feed.schema] == [
        "LongType()",
        "LongType()",
        "StringType()",
        "LongType()",
        "TimestampType()",
    ]
    rows = feed.orderBy("id").selectExpr("*", "unix_millis(_commit_timestamp) AS time").drop("_commit_timestamp").collect()
    assert list(map(tuple, rows)) == [(1, 1, "insert", 2, times[2]), (1, 2, "insert", 3, times[3])]
    moment = spark.sql(f"SELECT date_format(timestamp_millis({times[2]}), \"yyyy-MM-dd'T'HH:mm:ss.SSS\")").first()[0]
    assert [row.id for row in read_changes(spark, table.log, moment, moment).collect()] == [1]
    assert read_changes(spark, table.log, 0, 0).collect() == []


def test_an_impossible_range_is_refused_before_anything_is_read(spark, recorded):
    table = recorded()
    table.insert("SELECT 1L AS id, 'a' AS p, 1L AS v")
    with pytest.raises(VersionNotFoundError):
        read_changes(spark, table.log, 7)
    with pytest.raises(SchemaMismatchError):
        read_changes(spark, table.log, 1, columns=["w"])
    table.log.alter().set_properties({"delta.enableChangeDataFeed": "false"})
    with pytest.raises(ChangeDataNotRecordedError):
        read_changes(spark, table.log, 1)


def test_a_file_that_is_gone_is_a_typed_error_on_the_driver(spark, recorded):
    table = recorded()
    table.insert("SELECT 1L AS id, 'a' AS p, 1L AS v")
    feed = read_changes(spark, table.log, 1)
    path = table.log.snapshot().files()["path"][0].as_py()
    Path(table.log.table_uri, path).unlink()
    with pytest.raises(CorruptDataFileError) as caught, typed_worker_errors():
        feed.collect()
    assert caught.value.file.endswith(path)
