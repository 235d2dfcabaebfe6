"""Statements on a table whose partition columns were replaced by another engine."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.statements import DeleteStatement, OptimizeStatement
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.optimize.optimize import optimize


@pytest.mark.parametrize(("before", "after"), [(["a"], ["b"]), (["a", "b"], ["a"])], ids=str)
def test_delete_and_optimize_write_values_of_the_partition_columns_in_force(spark, table, reference_rows, before, after):
    rows = pa.table({"id": [1, 2, 3, 4], "a": ["1", None, "1", "1"], "b": ["x", "x", None, "x"]})
    write_deltalake(table, rows, partition_by=before)
    write_deltalake(table, rows, partition_by=after, mode="overwrite", schema_mode="overwrite")
    write_deltalake(table, rows.set_column(0, "id", pa.array([5, 6, 7, 8])), mode="append")

    delete(spark, DeltaLog.for_table(table), DeleteStatement(table=table, where="id = 1"))
    optimize(spark, DeltaLog.for_table(table), OptimizeStatement(table=table))

    assert [row[0] for row in reference_rows()] == [2, 3, 4, 5, 6, 7, 8]
    for version in (3, 4):
        lines = map(json.loads, (Path(table) / commit_path(version)).read_text().splitlines())
        assert {key for line in lines if "add" in line for key in line["add"]["partitionValues"]} == set(after)
