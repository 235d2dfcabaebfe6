"""Which rows about files go to which task."""

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.spark.io.file_tasks import spread_by_file

MIB = 1 << 20


def spread(spark, numbers, *, mib_each):
    """Which files' rows meet in which task, of three rows about each file."""
    rows = spark.range(3 * len(numbers)).select(F.get(F.lit(numbers), (F.col("id") % len(numbers)).cast("int")).alias("file"))
    files = pa.table({"size": pa.array([mib_each * MIB] * len(numbers), pa.int64())})
    spread = spread_by_file(rows, "file", pa.array(numbers, pa.int32()), files)
    by_task = spread.withColumn("task", F.spark_partition_id()).groupBy("task").agg(F.sort_array(F.collect_list("file")))
    return dict(by_task.collect())


def test_a_few_files_are_dealt_out_evenly_whatever_their_numbers(spark):
    assert spread(spark, [3, 8, 16, 24], mib_each=64) == {0: [3] * 3, 1: [8] * 3, 2: [16] * 3, 3: [24] * 3}
    assert spread(spark, [8, 16, 24, 40], mib_each=1) == {0: [8] * 3 + [24] * 3, 1: [16] * 3 + [40] * 3}


def test_the_rows_of_one_of_many_files_meet_in_one_task(spark):
    tasks = spread(spark, list(range(0, 200, 2)), mib_each=64)
    assert sorted(file for met in tasks.values() for file in met) == sorted(3 * list(range(0, 200, 2)))
    assert sum(len(set(met)) for met in tasks.values()) == 100
