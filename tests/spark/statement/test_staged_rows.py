"""Spark's own writer as a maker of table files: what is staged, what is checked, what is left."""

import json
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.actions import Metadata
from airflow_delta.core.errors import CommitStateUnknownError, DeltaError, TableNotFoundError, UnwritablePartitionValueError
from airflow_delta.core.schema import schema_json
from airflow_delta.spark.errors import StagedFilesError
from airflow_delta.spark.io import footers
from airflow_delta.spark.io.staging import StagingArea
from airflow_delta.spark.schema_conversion import from_spark
from airflow_delta.spark.statement import staged_rows
from airflow_delta.spark.statement.staged_rows import write_rows
from tests.spark.needs import looks_into_the_jvm, needs_files_of_spark


def metadata_of(frame, *partition_columns, **configuration):
    schema = schema_json(from_spark(frame.schema))
    return Metadata(id="m", schema_string=schema, partition_columns=partition_columns, configuration=configuration)


@pytest.fixture
def rows(spark):
    return spark.sql("SELECT id, id * 1.5D AS x, CONCAT('p', id % 2) AS p FROM range(10)")


# -- what is staged


def test_files_lie_below_the_staging_directory_and_say_what_they_hold(rows, table):
    with StagingArea(table) as staging:
        staged = write_rows(rows, staging, metadata_of(rows, "p"), observed={"most": F.max("id")}, data_change=False)
        found = {path: pq.read_table(Path(table) / path)["id"].to_pylist() for path in staged.adds["path"].to_pylist()}

        assert staging.name.startswith("write-")
        assert all(path.startswith(f"{staging.name}/rows/part=") for path in found)
        assert sorted(found.values()) == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]
        assert (staged.rows, dict(staged.observed)) == (10, {"most": 9})
        assert staged.size == sum((Path(table) / path).stat().st_size for path in found)
        for add in staged.adds.to_pylist():
            odd = found[add["path"]][0]
            assert dict(add["partition_values"]) == {"p": f"p{odd}"}
            assert json.loads(add["stats"]) == {
                "numRecords": 5,
                "minValues": {"id": odd, "x": odd * 1.5},
                "maxValues": {"id": odd + 8, "x": (odd + 8) * 1.5},
                "nullCount": {"id": 0, "x": 0},
            }
            assert add["data_change"] is False
    assert not Path(table).exists()


@looks_into_the_jvm
def test_the_plan_is_computed_once(spark, rows, table):
    seen = spark.sparkContext.accumulator(0)

    def count(number):
        seen.add(1)
        return number

    counted = rows.withColumn("id", F.udf(count, "long")("id")).withColumn("p", F.udf(count, "string")("p"))
    with StagingArea(table) as staging:
        write_rows(counted, staging, metadata_of(counted, "p"))
    assert seen.value == 20


def test_properties_choose_the_statistics(rows, table):
    metadata = metadata_of(rows, "p", **{"delta.dataSkippingNumIndexedCols": "1"})
    with StagingArea(table) as staging:
        stats = write_rows(rows.limit(1), staging, metadata).adds["stats"].to_pylist()
    assert stats == ['{"numRecords":1,"minValues":{"id":0},"maxValues":{"id":0},"nullCount":{"id":0}}']


def test_footers_of_very_many_files_are_read_by_workers(rows, table, monkeypatch):
    monkeypatch.setattr(footers, "_DRIVER_FILES", 0)
    with StagingArea(table) as staging:
        staged = write_rows(rows, staging, metadata_of(rows, "p"))
    assert staged.rows == 10


@needs_files_of_spark
def test_no_file_is_shown_before_all_tasks_are_done_whatever_the_session_says(spark, rows, table):
    def look(number):
        shown = list(Path(table).glob("*/rows/*.parquet"))
        if shown:
            raise AssertionError(shown)
        return number

    looking = rows.repartition(6).withColumn("id", F.udf(look, "long")("id"))
    spark.conf.set("mapreduce.fileoutputcommitter.algorithm.version", "2")
    try:
        with StagingArea(table) as staging:
            assert write_rows(looking, staging, metadata_of(rows)).rows == 10
    finally:
        spark.conf.unset("mapreduce.fileoutputcommitter.algorithm.version")


# -- what is checked


@needs_files_of_spark
def test_a_file_that_is_missing_or_too_much_is_noticed(rows, table, monkeypatch):
    listed = StagingArea.list_files
    for change, detail in [
        (lambda files: files[1:], "10 rows, but the 1 files found hold 5"),
        (lambda files: [*files, *files], "10 rows, but the 4 files found hold 20"),
    ]:
        monkeypatch.setattr(StagingArea, "list_files", lambda self, folder, change=change: change(listed(self, folder)))
        with pytest.raises(StagedFilesError, match=detail), StagingArea(table) as staging:
            write_rows(rows, staging, metadata_of(rows, "p"))
        assert not Path(table).exists()


@needs_files_of_spark
def test_a_directory_that_no_row_belongs_to_is_noticed(rows, table, monkeypatch):
    listed = StagingArea.list_files

    def after_a_rename(self, folder):
        next(Path(table).glob("*/rows/part=*")).rename(Path(table) / self.name / folder / "part=1")
        return listed(self, folder)

    monkeypatch.setattr(StagingArea, "list_files", after_a_rename)
    with pytest.raises(StagedFilesError, match="directories 1, into which Spark wrote no rows"), StagingArea(table) as staging:
        write_rows(rows, staging, metadata_of(rows, "p"))


def test_two_partitions_of_one_hash_are_not_mixed(rows, table, monkeypatch):
    monkeypatch.setattr(staged_rows.PartitionTransport, "directory_id", lambda _self: F.lit(7))
    with pytest.raises(StagedFilesError, match="hash 7"), StagingArea(table) as staging:
        write_rows(rows, staging, metadata_of(rows, "p"))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("X'FF'", ""),
        ("DATE'+12345-01-01'", "12345-01-01"),
        ("timestamp_micros(316537891200000000)", "12000-09-08 00:00:00.000000Z"),
        ("TIMESTAMP_NTZ'+12345-01-01 00:00:00'", "12345-01-01 00:00:00"),
    ],
)
def test_a_partition_value_that_the_log_cannot_hold_is_named(spark, table, value, shown):
    rows = spark.sql(f"SELECT 1 AS id, {value} AS p")
    with pytest.raises(UnwritablePartitionValueError) as caught, StagingArea(table) as staging:
        write_rows(rows, staging, metadata_of(rows, "p"))
    assert caught.value.column == "p"
    assert shown in caught.value.value


# -- what is left


def staged_file(staging, table):
    file = Path(table) / staging.name / "f.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"rows")
    return file


def test_nothing_is_created_before_the_first_file(table):
    with StagingArea(table):
        assert not Path(table).exists()


@pytest.mark.parametrize(
    ("error", "is_left"),
    [
        (None, True),
        (TableNotFoundError(table="t"), False),
        (CommitStateUnknownError(table="t", version=1, txn_id="x", detail=""), True),
        (KeyboardInterrupt(), True),
    ],
    ids=lambda source: type(source).__name__,
)
def test_kept_files_are_deleted_only_when_nothing_was_committed(table, error, is_left):
    with suppress(DeltaError, KeyboardInterrupt), StagingArea(table) as staging:
        file = staged_file(staging, table)
        staging.keep()
        if error:
            raise error
    assert file.exists() is is_left


@pytest.mark.parametrize(
    "error", [None, TableNotFoundError(table="t"), KeyboardInterrupt()], ids=lambda source: type(source).__name__
)
def test_files_that_no_commit_got_are_deleted_with_the_directories_they_needed(tmp_path, error):
    table = tmp_path / "a" / "b" / "table"
    with suppress(DeltaError, KeyboardInterrupt), StagingArea(str(table)) as staging:
        staged_file(staging, table)
        if error:
            raise error
    assert list(tmp_path.iterdir()) == []


def test_what_others_put_beside_stays(table):
    with StagingArea(table) as staging:
        file = staged_file(staging, table)
        other = Path(table) / "_delta_log" / "00000000000000000000.json"
        other.parent.mkdir()
        other.write_text("{}")
    assert other.exists()
    assert not file.exists()
