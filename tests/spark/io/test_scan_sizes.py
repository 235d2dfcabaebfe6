"""Spark knows how large the rows are that Python workers read: what is small is broadcast in a join, and nothing else."""

import subprocess
import sys

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.data_types import LONG
from airflow_delta.core.statements import DeleteStatement, SqlSource, WriteStatement
from airflow_delta.core.table_changes import NewTable
from airflow_delta.spark.change_feed.read import read_changes
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.io.scan import read_table
from airflow_delta.spark.write.write import write
from tests.spark.needs import looks_into_the_jvm
from tests.spark.session_settings import session_settings

ROWS = 300_000
LIMIT = "spark.sql.autoBroadcastJoinThreshold"


@pytest.fixture
def log(spark, table):
    """Rows of which a deletion vector hides one, so that Python workers read them."""
    log = DeltaLog.for_table(table)
    properties = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
    log.create(NewTable(schema=StructType((StructField("id", LONG), StructField("v", LONG))), properties=properties))
    write(spark, log, WriteStatement(table=table, source=SqlSource(f"SELECT id, 7L AS v FROM range({ROWS})")))
    delete(spark, log, DeleteStatement(table=table, where="id = 3"))
    return log


def joined(spark, rows, limit):
    """How Spark joins the rows with more of them."""
    with session_settings(spark, {LIMIT: limit}):
        plan = spark.range(100_000_000).join(rows, "id")._jdf.queryExecution().executedPlan().toString()
    return {kind for kind in ("SortMergeJoin", "BroadcastHashJoin") if kind in plan}


@looks_into_the_jvm
def test_a_table_that_workers_read_is_broadcast_only_where_it_is_small(spark, log):
    snapshot = log.refresh()
    for rows in (read_table(spark, snapshot), read_changes(spark, log, 1)):
        assert joined(spark, rows, "256k") == {"SortMergeJoin"}
        assert joined(spark, rows, "100m") == {"BroadcastHashJoin"}
    assert read_table(spark, snapshot).count() == ROWS - 1


LARGE_SOURCE = """
import sys
from pyspark.sql import SparkSession
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.data_types import LONG, STRING
from airflow_delta.core.statements import (
    DeleteStatement, MatchedUpdate, MergeStatement, NotMatchedBySourceDelete, SqlSource, TableSource, WriteStatement
)
from airflow_delta.core.table_changes import NewTable
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.write.write import write

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.driver.maxResultSize", "32m").config("spark.ui.enabled", "false").getOrCreate()
)
source, target = (DeltaLog.for_table(f"{sys.argv[1]}/{name}") for name in ("source", "target"))
schema = StructType((StructField("id", LONG), StructField("v", STRING)))
for log, rows in ((source, 1_500_000), (target, 1_600_000)):
    log.create(NewTable(schema=schema, properties={"delta.enableDeletionVectors": "true"}))
    query = f"SELECT id, sha2(cast(id AS string), 256) AS v FROM range(0, {rows}, 1, 4)"
    write(spark, log, WriteStatement(table=log.table_uri, source=SqlSource(query)))
delete(spark, source, DeleteStatement(table=source.table_uri, where="id % 1000 = 1"))
result = merge(
    spark,
    target,
    MergeStatement(
        table=target.table_uri,
        source=TableSource(source.table_uri),
        on="target.id = source.id",
        clauses=(MatchedUpdate(assignments={"v": "source.v"}), NotMatchedBySourceDelete()),
    ),
)
print(result.metrics["numTargetRowsUpdated"], result.metrics["numTargetRowsDeleted"])
"""


@pytest.mark.slow
def test_a_source_of_a_million_rows_that_workers_read_is_not_collected(tmp_path):
    arguments = [sys.executable, "-c", LARGE_SOURCE, str(tmp_path)]
    ran = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=900)
    assert ran.stdout.split()[-2:] == ["1498500", "101500"], ran.stderr[-3000:]
