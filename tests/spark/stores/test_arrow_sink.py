"""The Arrow sink beside Spark's own writer: the same files of the same rows, and nothing left of tasks that end badly."""

import json
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql import types as spark_types

from airflow_delta.core.actions import Metadata
from airflow_delta.core.data_files import StatisticsSelection
from airflow_delta.core.errors import ConstraintViolatedError, SchemaMismatchError
from airflow_delta.core.schema import StructField, StructType, schema_json
from airflow_delta.core.schema.data_types import LONG
from airflow_delta.core.storage.table_filesystems import TableFilesystems
from airflow_delta.spark.io import row_sink
from airflow_delta.spark.io.arrow_sink_worker import ArrowSinkWorker
from airflow_delta.spark.io.engines import Engine
from airflow_delta.spark.io.staging import StagingArea
from airflow_delta.spark.schema_conversion import from_spark
from airflow_delta.spark.statement.staged_rows import write_rows

ROWS = """
    SELECT id, CAST(id AS BYTE) AS b, IF(id = 3, NULL, id * 1.5D) AS x, CAST('NaN' AS FLOAT) AS nan,
           CAST(id AS DECIMAL(10, 2)) AS d, CAST(-id AS DECIMAL(38, 3)) AS e, CONCAT('name ', id) AS `a.b``c`,
           DATE'1500-01-01' + CAST(id AS INT) AS day, TIMESTAMP'1700-01-01 00:00:00.123456' + MAKE_INTERVAL(id) AS ts,
           TIMESTAMP_NTZ'2020-02-29 00:00:00' AS leap, CAST('x' AS BINARY) AS bin, id > 4 AS flag,
           NAMED_STRUCT('u', id, 'v', ARRAY(id, NULL)) AS s, MAP('k', NAMED_STRUCT('w', id)) AS m, CONCAT('p', id % 2) AS p
    FROM range(10)
"""


def metadata_of(frame, *partition_columns, **configuration):
    schema = schema_json(from_spark(frame.schema))
    return Metadata(id="m", schema_string=schema, partition_columns=partition_columns, configuration=configuration)


@pytest.fixture(params=list(Engine), ids=lambda engine: engine.value)
def sink(request, monkeypatch):
    monkeypatch.setattr(row_sink, "engine_for", lambda *_: request.param)
    return request.param


@pytest.fixture
def to_workers(monkeypatch):
    monkeypatch.setattr(row_sink, "engine_for", lambda *_: Engine.ARROW)


def described(table, staged):
    """By partition: what the files say of themselves, and the rows in them."""
    found = {}
    for add in staged.adds.to_pylist():
        content = duckdb.sql(f"SELECT * FROM read_parquet('{Path(table) / add['path']}', hive_partitioning=false) ORDER BY id")
        found[dict(add["partition_values"])["p"]] = (
            json.loads(add["stats"]),
            content.columns,
            content.types,
            content.fetchall(),
        )
    return found


def test_files_are_never_said_to_be_younger_than_they_are(spark, table, sink):
    """A staged commit expires before vacuums may delete its first file."""
    rows = spark.sql(ROWS)
    with StagingArea(table) as staging:
        for add in write_rows(rows, staging, metadata_of(rows, "p")).adds.to_pylist():
            assert add["modification_time"] <= (Path(table) / add["path"]).stat().st_mtime_ns // 1_000_000


def test_both_sinks_write_the_same_rows_types_and_statistics(spark, table, monkeypatch):
    rows, found = spark.sql(ROWS), {}
    for engine in Engine:
        monkeypatch.setattr(row_sink, "engine_for", lambda *_, engine=engine: engine)
        with StagingArea(table) as staging:
            staged = write_rows(rows, staging, metadata_of(rows, "p"), observed={"most": F.max("id")})
            assert (staged.rows, dict(staged.observed)) == (10, {"most": 9})
            found[engine] = described(table, staged)
    assert found[Engine.ARROW].keys() == {"p0", "p1"}
    for partition, (stats, *content) in found[Engine.JVM].items():
        by_workers, *same = found[Engine.ARROW][partition]
        assert repr(same) == repr(content)  # as text: a NaN equals itself there
        assert by_workers["numRecords"] == stats["numRecords"] == 5
        # Arrow's files also say of lists and maps how many are NULL.
        assert by_workers["nullCount"] == {**stats["nullCount"], "s": {"u": 0, "v": 0}, "m": 0}
        for bounds in ("minValues", "maxValues"):
            assert by_workers[bounds] == stats[bounds]


def test_a_partition_becomes_one_file_however_many_tasks_hold_its_rows(spark, table, to_workers):
    rows = spark.range(1000).repartition(7).select("id", (F.col("id") % 5).alias("p"))
    with StagingArea(table) as staging:
        staged = write_rows(rows, staging, metadata_of(rows, "p"))
        assert sorted(dict(values)["p"] for values in staged.adds["partition_values"].to_pylist()) == ["0", "1", "2", "3", "4"]
        assert sorted(path.name for path in Path(table).rglob("*.parquet")) == sorted(
            Path(path).name for path in staged.adds["path"].to_pylist()
        )
    assert not Path(table).exists()


def test_columns_that_are_mapped_are_stored_under_their_physical_names_and_ids(spark, table, sink):
    def mapped(number, name):
        return {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name}

    inside = spark_types.StructType([spark_types.StructField("in", spark_types.LongType(), True, mapped(3, "col-3"))])
    schema = spark_types.StructType(
        [
            spark_types.StructField("a b", spark_types.LongType(), True, mapped(1, "col-1")),
            spark_types.StructField("s", inside, True, mapped(2, "col-2")),
        ]
    )
    rows = spark.createDataFrame([(1, (2,))], schema)
    metadata = Metadata(
        id="m",
        schema_string=schema_json(from_spark(schema)),
        configuration={"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"},
    )
    with StagingArea(table) as staging:
        (path,) = write_rows(rows, staging, metadata).adds["path"].to_pylist()
        found = pq.read_table(Path(table) / path)
        assert found.to_pylist() == [{"col-1": 1, "col-2": {"col-3": 2}}]
        inner = found.schema.field("col-2")
        ids = [field.metadata[b"PARQUET:field_id"] for field in (found.schema.field("col-1"), inner, inner.type.field(0))]
        assert ids == [b"1", b"2", b"3"]


def test_no_rows_make_no_file(spark, table, sink):
    for rows in (
        spark.sql("SELECT 1 AS id, 'a' AS p WHERE false"),
        spark.range(5).where("id > 7").selectExpr("id", "'a' AS p"),
    ):
        for partitions in ((), ("p",)):
            with StagingArea(table) as staging:
                staged = write_rows(rows, staging, metadata_of(rows, *partitions), observed={"rows": F.count(F.lit(1))})
                assert (staged.rows, len(staged.adds), dict(staged.observed)) == (0, 0, {"rows": 0})
            assert not Path(table).exists()


def test_null_in_a_not_null_column_is_counted_over_all_rows_and_leaves_no_file(spark, table, sink):
    rows = spark.sql("SELECT IF(id % 2 = 0, NULL, id) AS id, NAMED_STRUCT('u', id) AS s FROM range(10)").repartition(3)
    fields = from_spark(rows.schema).fields
    declared = StructType((StructField(fields[0].name, fields[0].type, nullable=False), *fields[1:]))
    metadata = Metadata(id="m", schema_string=schema_json(declared))
    with pytest.raises(ConstraintViolatedError) as caught, StagingArea(table) as staging:
        write_rows(rows, staging, metadata)
    assert (caught.value.constraint, caught.value.rows) == ("NOT NULL of id", 5)
    assert not Path(table).exists()


# -- one task, without Spark


def worker(table, **options):
    return ArrowSinkWorker(
        filesystems=TableFilesystems(str(table)),
        table_uri=str(table),
        folder="write/rows",
        directory=None,
        schema=StructType((StructField("id", LONG),)),
        selection=StatisticsSelection(),
        **options,
    )


def batches(number, rows):
    return (pa.record_batch({"0": pa.array(range(step * rows, (step + 1) * rows), pa.int64())}) for step in range(number))


def test_a_file_ends_at_its_size(tmp_path):
    (result,) = worker(tmp_path, file_bytes=1)(batches(3, 1 << 20))
    assert result["num_records"].to_pylist() == [1 << 20] * 3
    assert [json.loads(text)["minValues"] for text in result["stats"].to_pylist()] == [{"id": n << 20} for n in range(3)]
    sizes = {str(path.relative_to(tmp_path)): path.stat().st_size for path in tmp_path.rglob("*.parquet")}
    assert sizes == dict(zip(result["path"].to_pylist(), result["size"].to_pylist(), strict=True))


def test_files_of_a_size_below_that_of_a_row_group_end_there_too(tmp_path):
    numbers = np.random.default_rng(7).integers(0, 1 << 62, 1_000_000)
    (result,) = worker(tmp_path, file_bytes=1 << 20)(
        pa.record_batch({"0": numbers[first : first + 10_000]}) for first in range(0, len(numbers), 10_000)
    )
    sizes = result["size"].to_pylist()
    assert sum(result["num_records"].to_pylist()) == len(numbers)
    assert all(1 << 20 <= size < 2 << 20 for size in sizes[:-1])
    assert len(sizes) in range(4, 9)


@pytest.mark.parametrize("end", [ZeroDivisionError, GeneratorExit])
def test_a_task_that_ends_badly_leaves_no_file(tmp_path, end):
    def broken():
        yield from batches(2, 1 << 20)
        assert len(list(tmp_path.rglob("*.parquet"))) == 2
        raise end

    with pytest.raises(end):
        list(worker(tmp_path, file_bytes=1)(broken()))
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_value_that_does_not_fit_is_a_typed_error_on_the_driver(spark, table, to_workers):
    rows = spark.range(3)
    wrong = Metadata(id="m", schema_string=schema_json(from_spark(spark.sql("SELECT DATE'2020-01-01' AS id").schema)))
    with pytest.raises(SchemaMismatchError), StagingArea(table) as staging:
        write_rows(rows, staging, wrong)
    assert not Path(table).exists()
