"""Files of a write follow the table's properties."""

from pathlib import Path

import pyarrow.parquet as pq

from airflow_delta.core.actions import Metadata
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.schema import StructField, StructType, schema_json
from airflow_delta.core.schema.data_types import INTEGER, LONG, STRING, ArrayType, DecimalType, MapType
from airflow_delta.core.statements import DeleteStatement
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.write.file_sizes import rows_per_file
from tests.spark.needs import needs_files_of_spark

ROWS = "SELECT id, CAST(id % 7 AS STRING) AS text FROM range(0, {}, 1, {})"


def codecs(table, snapshot):
    paths = [Path(table) / path for path in snapshot.files()["path"].to_pylist()]
    return {pq.read_metadata(path).row_group(0).column(0).compression for path in paths}


def test_files_have_the_codec_that_the_table_asks_for_also_when_they_are_written_anew(
    spark, write_rows, reference_rows, latest, table
):
    write_rows(ROWS.format(10, 1), properties={"delta.parquet.compression.codec": "ZSTD"})
    assert codecs(table, latest()) == {"ZSTD"}
    delete(spark, DeltaLog.for_table(table), DeleteStatement(table=table, where="id = 3"))

    assert codecs(table, latest()) == {"ZSTD"}
    assert len(reference_rows()) == 9


@needs_files_of_spark
def test_files_stay_below_the_size_that_the_table_asks_for(write_rows, reference_rows, latest):
    write_rows(ROWS.format(2_000, 1), properties={"delta.targetFileSize": "16kb"})
    first = latest().files()["size"].to_pylist()
    write_rows(ROWS.format(8_000, 1))
    sizes = latest().files()["size"].to_pylist()

    assert len(first) > 1
    assert len(sizes) > len(first) + 1
    assert max(sizes) <= 16 << 10
    assert reference_rows("1", "count(*), sum(id)") == [(10_000, sum(range(2_000)) + sum(range(8_000)))]


def test_rows_of_many_tasks_become_few_files_where_the_table_optimizes_writes(write_rows, reference_rows, latest):
    write_rows(ROWS.format(40, 8), properties={"delta.autoOptimize.optimizeWrite": "true"})

    assert len(latest().files()) == 1
    assert len(reference_rows()) == 40


def test_the_size_of_a_row_is_guessed_from_its_types_where_there_is_no_file():
    schema = StructType(
        (
            StructField("a", INTEGER),
            StructField("b", STRING),
            StructField("c", ArrayType(LONG)),
            StructField("d", MapType(INTEGER, DecimalType(38, 2))),
            StructField("p", STRING),
        )
    )
    properties = {"delta.targetFileSize": "1 MB"}
    metadata = Metadata(id="t", schema_string=schema_json(schema), partition_columns=("p",), configuration=properties)

    assert rows_per_file(metadata, None) == (1 << 20) // (4 + 16 + 4 * 8 + 4 * 20)
    assert rows_per_file(Metadata(id="t", schema_string=schema_json(schema)), None) is None
