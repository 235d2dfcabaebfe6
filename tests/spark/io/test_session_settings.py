"""Statements change no setting of their session: what one of them needs, no other thread and no user sees."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import SqlSource, WriteStatement
from airflow_delta.spark import delta_writer
from airflow_delta.spark.errors import SparkConnectUnsupportedError
from airflow_delta.spark.io.scan import read_table
from airflow_delta.spark.jvm import in_session, is_connect
from airflow_delta.spark.session import session_with
from airflow_delta.spark.statement import staged_rows
from airflow_delta.spark.write.write import write
from tests.spark.needs import needs_files_of_spark
from tests.spark.session_settings import session_settings

SMALL_FILES = {"delta.targetFileSize": "16kb", "delta.autoOptimize.optimizeWrite": "true"}
UNFIT = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "EXCEPTION",
    "spark.sql.parquet.outputTimestampType": "INT96",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "3",
}
ROWS = "SELECT id, CAST(id % 7 AS STRING) AS text, TIMESTAMP'0001-01-01 00:00:00' AS at FROM range({}, {})"


@pytest.fixture
def changed(spark, monkeypatch):
    """Names of the settings that are changed in the session from here on."""
    found = []
    kind = type(spark.conf)
    for name in ("set", "unset"):
        before = getattr(kind, name)

        def noted(conf, key, *value, before=before):
            if conf is spark.conf:
                found.append(key)
            return before(conf, key, *value)

        monkeypatch.setattr(kind, name, noted)
    return found


@pytest.mark.classic(reason="over Spark Connect, a session that is case-sensitive is refused")
def test_a_session_of_any_settings_is_left_as_it_is(spark, table, changed):
    log = DeltaLog.for_table(table)
    with session_settings(spark, UNFIT):
        changed.clear()
        write(spark, log, WriteStatement(table=table, source=SqlSource(ROWS.format(0, 3_000)), properties=SMALL_FILES))
        write(spark, log, WriteStatement(table=table, source=SqlSource(ROWS.format(3_000, 3_005).replace("text", "Text"))))
        found = read_table(spark, log.snapshot()).agg(F.count_distinct("id"), F.count("text"), F.count("at")).first()
        assert changed == []

    assert tuple(found) == (3_005, 3_005, 3_005)
    files = log.snapshot().files()
    assert len(files) > 4
    assert max(files["size"].to_pylist()) <= 16 << 10
    for path in files["path"].to_pylist():
        assert pq.read_metadata(Path(table) / path).schema.column(2).physical_type == "INT64"


@needs_files_of_spark
def test_threads_that_write_at_once_do_not_share_their_settings(spark, tmp_path, monkeypatch):
    inside, meeting = staged_rows.write_files, threading.Barrier(2, timeout=120)

    def together(*arguments, **options):
        meeting.wait()
        return inside(*arguments, **options)

    def written(name, properties):
        table = str(tmp_path / name)
        query = SqlSource("SELECT id, CAST(id % 7 AS STRING) AS text FROM range(0, 8000, 1, 2)")
        write(spark, DeltaLog.for_table(table), WriteStatement(table=table, source=query, properties=properties))
        return DeltaLog.for_table(table).snapshot().files()["size"].to_pylist()

    monkeypatch.setattr(staged_rows, "write_files", together)
    with ThreadPoolExecutor(2) as threads:
        small, plain = threads.map(written, ["small", "plain"], [SMALL_FILES, {}])
    assert len(plain) == 2
    assert len(small) > 2
    assert max(small) <= 16 << 10


@pytest.mark.classic(reason="over Spark Connect, an observation knows nothing of rows that SQL reads from a view")
def test_an_observation_of_the_user_is_answered_by_a_write_with_settings_of_its_own(spark, table):
    seen = Observation("seen")
    rows = spark.range(10).observe(seen, F.count(F.lit(1)).alias("rows"))
    delta_writer(rows).format("delta").option("delta.autoOptimize.optimizeWrite", "true").save(table)
    assert seen.get == {"rows": 10}
    assert DeltaLog.for_table(table).snapshot().to_arrow().read_all().num_rows == 10


def test_a_session_with_the_settings_is_its_own(spark):
    zone = "spark.sql.session.timeZone"
    assert session_with(spark, {zone: "UTC"}) is spark
    if is_connect(spark):
        with pytest.raises(SparkConnectUnsupportedError, match=r"set spark\.sql\.session\.timeZone = Asia/Tokyo"):
            session_with(spark, {zone: "Asia/Tokyo"})
        return
    spark.range(3).createOrReplaceTempView("three")
    other = session_with(spark, {zone: "Asia/Tokyo"})
    text = F.lit("2026-01-01 00:00:00").cast("timestamp").cast("long")
    here, there = (session.table("three").select(text.alias("at")).first().at for session in (spark, other))
    assert (there - here, spark.conf.get(zone)) == (-9 * 3600, "UTC")
    assert in_session(spark.table("three").select(F.current_timezone()), other).first()[0] == "Asia/Tokyo"
    spark.catalog.dropTempView("three")
