"""Rewriting existing files as new ones."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import ConstraintViolatedError, CorruptDataFileError
from airflow_delta.spark.rewrite.rewrite import FileRewrite
from airflow_delta.spark.rewrite.row_changes import DROP, OUTPUT, ROW
from tests.spark.needs import needs_files_of_spark

DAY = dt.date(2020, 1, 1)


def rewrite_of(table, outputs, **where):
    snapshot = DeltaLog.for_table(table).snapshot()
    inputs = snapshot.files(**where).sort_by("modification_time")
    return FileRewrite(
        snapshot=snapshot, inputs=inputs, outputs=pa.array(outputs, pa.int32()), directory="new", data_change=True
    )


def written_rows(table, adds, add=0):
    return pq.read_table(f"{table}/{adds['path'][add].as_py()}", partitioning=None)


def changes(spark, rows, columns=""):
    return spark.createDataFrame(rows, f"{OUTPUT} int, {ROW} bigint, {DROP} boolean{columns}")


def changed(*outputs):
    return pa.array(outputs, pa.int32())


def test_outputs_are_their_inputs_in_order(spark, table):
    for first in (0, 10, 20, 30):
        write_deltalake(table, pa.table({"id": range(first, first + 3)}), mode="append")

    rewritten = rewrite_of(table, [0, 0, 0, 1]).concatenate(spark, clock=lambda: 77)

    assert (rewritten.rows_read, rewritten.rows_written, rewritten.outputs.to_pylist()) == (12, 12, [0, 1])
    assert written_rows(table, rewritten.adds)["id"].to_pylist() == [0, 1, 2, 10, 11, 12, 20, 21, 22]
    assert written_rows(table, rewritten.adds, 1)["id"].to_pylist() == [30, 31, 32]
    assert rewritten.adds["modification_time"].to_pylist() == [77, 77]
    assert rewritten.adds["data_change"].to_pylist() == [True, True]
    assert '"numRecords":9' in rewritten.adds["stats"][0].as_py()


def test_rows_change_by_their_position_over_all_inputs_and_only_asked_outputs_are_written(spark, table):
    for first in (0, 10, 20):
        write_deltalake(table, pa.table({"id": range(first, first + 3), "v": ["x", None, "z"]}), mode="append")
    requested = changes(spark, [(0, 4, True, None), (0, 3, False, "new"), (0, 0, False, None)], ", v string")

    rewritten = rewrite_of(table, [0, 0, 1]).change(spark, requested, changed(0))

    assert written_rows(table, rewritten.adds).to_pydict() == {"id": [0, 1, 2, 10, 12], "v": [None, None, "z", "new", "z"]}
    assert (rewritten.rows_read, rewritten.rows_written, len(rewritten.adds)) == (6, 5, 1)


@needs_files_of_spark
def test_columns_that_do_not_change_are_copied_byte_for_byte_where_no_row_goes(spark, write_rows, table):
    write_rows("SELECT id, CONCAT('text ', id % 7) AS s, CAST(id AS INT) AS v, DATE'2020-01-01' AS d FROM range(0, 5000, 1, 1)")
    requested = changes(spark, [(0, 7, False, -1), (0, 4999, False, None)], ", v int")
    (old,) = DeltaLog.for_table(table).snapshot().files()["path"].to_pylist()

    kept = rewrite_of(table, [0]).change(spark, requested, changed(0), drops_rows=False)
    written = rewrite_of(table, [0]).change(spark, requested, changed(0))

    new, other = (rewritten.adds["path"][0].as_py() for rewritten in (kept, written))
    assert written_rows(table, kept.adds).to_pydict() == written_rows(table, written.adds).to_pydict()
    assert kept.adds["stats"].to_pylist() == written.adds["stats"].to_pylist()
    assert (kept.rows_read, kept.rows_written) == (5000, 5000)
    for column in ("id", "s", "d"):
        assert content_of(f"{table}/{new}", column) == content_of(f"{table}/{old}", column)
    assert content_of(f"{table}/{other}", "s") != content_of(f"{table}/{old}", "s")
    by_spark = spark.read.parquet(f"{table}/{new}")
    assert by_spark.where("v = -1 OR v IS NULL").orderBy("id").collect() == [
        (7, "text 0", -1, DAY),
        (4999, "text 1", None, DAY),
    ]
    assert by_spark.where("id = 4321").collect() == [(4321, "text 2", 4321, DAY)]


def content_of(path, column):
    """The bytes of a column's only chunk."""
    chunks = pq.read_metadata(path).row_group(0)
    (chunk,) = (chunks.column(at) for at in range(chunks.num_columns) if chunks.column(at).path_in_schema == column)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    return Path(path).read_bytes()[start : start + chunk.total_compressed_size]


@pytest.mark.parametrize("few", [64, 1], ids=["few", "many"])
def test_some_outputs_of_many_are_written_each_once_with_its_changes(spark, table, monkeypatch, few):
    monkeypatch.setattr("airflow_delta.spark.io.file_tasks._FEW_FILES", few)
    for first in range(0, 60, 10):
        write_deltalake(table, pa.table({"id": [first, first + 1], "v": ["x", "y"]}), mode="append")
    requested = changes(spark, [(5, 0, True, None), (1, 1, False, "new"), (3, 0, False, "news")], ", v string")

    rewritten = rewrite_of(table, range(6)).change(spark, requested, changed(1, 3, 5))

    assert rewritten.outputs.to_pylist() == [1, 3, 5]
    found = [written_rows(table, rewritten.adds, add).to_pylist() for add in range(3)]
    assert found == [
        [{"id": 10, "v": "x"}, {"id": 11, "v": "new"}],
        [{"id": 30, "v": "news"}, {"id": 31, "v": "y"}],
        [{"id": 51, "v": "y"}],
    ]


def test_an_output_without_rows_makes_no_file(spark, table, tmp_path):
    write_deltalake(table, pa.table({"id": [1, 2]}))
    rewritten = rewrite_of(table, [0]).change(spark, changes(spark, [(0, 0, True), (0, 1, True)]), changed(0))
    assert (len(rewritten.adds), rewritten.rows_read, rewritten.rows_written) == (0, 2, 0)
    assert list(tmp_path.glob("table/new/*")) == []


def test_a_file_stays_in_its_partition_and_becomes_the_schema_of_today(spark, table):
    former = pa.table({"day": [dt.date(2020, 1, 1)] * 2, "id": [1, 2]})
    wider = former.set_column(1, "id", [[3, 4]]).append_column("more", [["m", "n"]])
    write_deltalake(table, former, partition_by=["day"])
    write_deltalake(table, wider, mode="append", schema_mode="merge", partition_by=["day"])

    rewritten = rewrite_of(table, [0, 0]).concatenate(spark)

    assert rewritten.adds["partition_values"].to_pylist() == [[("day", "2020-01-01")]]
    assert written_rows(table, rewritten.adds).to_pydict() == {"id": [1, 2, 3, 4], "more": [None, None, "m", "n"]}


def test_errors_of_workers_arrive_as_what_they_are(spark, table, tmp_path):
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.string(), nullable=False)])
    write_deltalake(table, pa.table({"id": [1, 2], "v": ["a", "b"]}, schema=schema))
    with pytest.raises(ConstraintViolatedError) as violated:
        rewrite_of(table, [0]).change(spark, changes(spark, [(0, 1, False, None)], ", v string"), changed(0))
    assert violated.value.rows == 1
    next(tmp_path.glob("table/*.parquet")).write_bytes(b"no parquet")
    with pytest.raises(CorruptDataFileError) as corrupt:
        rewrite_of(table, [0]).concatenate(spark)
    assert corrupt.value.file.endswith(".parquet")
