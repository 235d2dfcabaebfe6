"""Small tables that this process reads for a statement over Spark Connect."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import CorruptDataFileError
from airflow_delta.core.statements import DeleteStatement, FileSource, TableSource, WriteStatement
from airflow_delta.core.table_changes import NewTable
from airflow_delta.core.table_changes.ddl import parse_struct
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.io import small_work
from airflow_delta.spark.io.read_marks import shown_reads
from airflow_delta.spark.io.scan import hold_table, read_table
from airflow_delta.spark.jvm import is_connect
from airflow_delta.spark.session import explained
from airflow_delta.spark.statement.sources import open_source
from airflow_delta.spark.write.write import write
from tests.slow_cases import slow_after

COLUMNS = (
    "id BIGINT NOT NULL, t TIMESTAMP, n TIMESTAMP_NTZ, d DATE COMMENT 'the day', x DECIMAL(20, 2), f DOUBLE, b BINARY, "
    "s STRING, small TINYINT, `a.b` INT, part DATE"
)
AT, DAY = dt.datetime(2024, 3, 31, 1, 30, tzinfo=dt.UTC), dt.date(2024, 1, 2)
ROWS = [
    (
        1,
        AT,
        AT.replace(tzinfo=None),
        dt.date(1890, 2, 28),
        Decimal("1.50"),
        float("nan"),
        b"\x00",
        "",
        1,
        7,
        dt.date(2024, 1, 2),
    ),
    (2, *[None] * 10),
    (3, AT, None, dt.date(9999, 12, 31), Decimal(-1), -0.0, b"", "é", -128, None, DAY),
]


@pytest.fixture(autouse=True)
def over_connect(monkeypatch):
    """A session as of Spark Connect."""
    monkeypatch.setattr(small_work, "is_connect", lambda _: True)


def make(spark, table, tmp_path, **properties):
    log = DeltaLog.for_table(table)
    log.create(NewTable(schema=parse_struct(COLUMNS), partition_columns=("part",), properties=properties))
    feed = str(tmp_path / "feed")
    spark.createDataFrame(ROWS, COLUMNS).write.parquet(feed)
    write(spark, log, WriteStatement(table=table, source=FileSource(feed, format="parquet")))
    return log


@pytest.mark.parametrize(
    "properties",
    slow_after(
        2,
        [{"delta.columnMapping.mode": "name"}, {"delta.enableDeletionVectors": "true"}, {"delta.columnMapping.mode": "id"}, {}],
    ),
    ids=["mapped by name", "with deletion vectors", "mapped by id", "plain"],
)
def test_rows_and_columns_are_those_that_spark_reads(spark, table, tmp_path, properties):
    log = make(spark, table, tmp_path, **properties)
    delete(spark, log, DeleteStatement(table=table, where="id = 1"))
    snapshot = log.refresh()

    frame, rows = hold_table(spark, snapshot)

    by_spark = read_table(spark, snapshot)
    assert frame.columns == by_spark.columns
    assert [field.dataType for field in frame.schema] == [field.dataType for field in by_spark.schema]
    assert frame.schema["d"].metadata == by_spark.schema["d"].metadata == {"comment": "the day"}
    assert all(field.nullable for field in frame.schema)
    assert repr(sorted(frame.collect())) == repr(sorted(by_spark.collect()))
    assert sorted(rows["id"].to_pylist()) == [2, 3]
    assert rows.column_names == frame.columns


def test_an_empty_table_has_its_columns(spark, table):
    log = DeltaLog.for_table(table)
    log.create(NewTable(schema=parse_struct(COLUMNS)))

    frame, rows = hold_table(spark, log.refresh())

    assert (frame.collect(), len(rows), rows.column_names) == ([], 0, frame.columns)


def test_spark_reads_what_is_much_or_in_many_files_or_of_types_that_arrow_knows_otherwise(spark, tmp_path, monkeypatch):
    texts, lists = str(tmp_path / "texts"), str(tmp_path / "lists")
    for row in range(3):
        write_deltalake(texts, pa.table({"id": [row], "text": ["x" * 10_000]}), mode="append")
    write_deltalake(lists, pa.table({"id": [1], "list": [[1]]}))
    snapshot = DeltaLog.for_table(texts).refresh()
    assert len(hold_table(spark, snapshot).rows) == 3

    assert hold_table(spark, DeltaLog.for_table(lists).refresh()) is None
    monkeypatch.setattr(small_work, "MOST_BYTES", 20_000)  # they are more than is estimated of their files
    assert hold_table(spark, snapshot) is None
    monkeypatch.undo()
    monkeypatch.setattr(small_work, "is_connect", lambda _: True)
    monkeypatch.setattr(small_work, "MOST_FILES", 2)
    assert hold_table(spark, snapshot) is None
    monkeypatch.setattr(small_work, "MOST_FILES", 3)
    monkeypatch.setattr(small_work, "MOST_BYTES", 20)
    assert hold_table(spark, snapshot) is None


def test_spark_reads_dates_of_the_old_calendar(spark, tmp_path):
    table = str(tmp_path / "old")
    spark.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
    try:
        spark.sql("SELECT 1L AS id, DATE'1000-01-01' AS d").write.parquet(table)
    finally:
        spark.conf.unset("spark.sql.parquet.datetimeRebaseModeInWrite")
    DeltaLog.convert(table)

    assert hold_table(spark, DeltaLog.for_table(table).refresh()) is None


def test_a_missing_file_is_the_error_that_reading_by_spark_raises(spark, tmp_path):
    table = tmp_path / "birds"
    write_deltalake(table, pa.table({"id": [1]}))
    [file] = table.glob("*.parquet")
    file.unlink()

    with pytest.raises(CorruptDataFileError) as failed:
        hold_table(spark, DeltaLog.for_table(str(table)).refresh())

    assert (failed.value.table, failed.value.file) == (str(table), str(file))


def test_a_source_is_held_unless_it_is_the_target(spark, tmp_path):
    feed, birds = str(tmp_path / "feed"), str(tmp_path / "birds")
    for table in (feed, birds):
        write_deltalake(table, pa.table({"id": [1, 2]}))
    write_deltalake(feed, pa.table({"id": [3]}), mode="append")
    target = DeltaLog.for_table(birds).refresh()

    whole = open_source(spark, TableSource(feed), target=target, may_hold=True)
    older = open_source(spark, TableSource(feed, version=0), target=target, may_hold=True)
    own = open_source(spark, TableSource(birds), target=target, may_hold=True)
    unneeded = open_source(spark, TableSource(feed), target=target)

    assert sorted(whole.held["id"].to_pylist()) == [1, 2, 3]
    assert sorted(older.held["id"].to_pylist()) == [1, 2]
    assert (own.held, own.has_target) == (None, True)
    assert unneeded.held is None


@pytest.mark.skipif("not config.getoption('--spark-connect')", reason="plans of Spark Connect show reads by aliases")
def test_a_plan_shows_which_table_the_rows_are_of(spark, tmp_path):
    feed = str(tmp_path / "feed")
    write_deltalake(feed, pa.table({"id": [1, 2]}))
    assert is_connect(spark)

    [(_, mark)] = shown_reads(explained(hold_table(spark, DeltaLog.for_table(feed).refresh(), is_newest=True).frame))

    assert '"newest": 0' in mark
