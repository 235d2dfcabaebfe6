"""A DAG file is read again and again: what only a running task needs is not loaded for it."""

import json
import subprocess
import sys

SLOW = ("numpy", "pandas", "pyarrow.dataset", "pyspark", "sqlglot", "fsspec", "s3fs", "gcsfs", "adlfs", "duckdb", "deltalake")
OF_ARROW = {"numpy"}
"""``pyarrow`` itself loads it where it is installed."""


def test_reading_a_dag_file_loads_no_parser_no_pandas_and_no_storage():
    program = f"""
import json, sys
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
before = set(sys.modules)
import airflow_delta.operators, airflow_delta.sensors
print(json.dumps([name for name in {SLOW!r} if name in sys.modules and name not in before]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout.splitlines()[-1])) <= OF_ARROW
