"""DAG files are parsed repeatedly, so importing ours must not load what only a running task needs."""

import json
import subprocess
import sys

SLOW = ("numpy", "pandas", "pyarrow.dataset", "pyspark", "sqlglot", "fsspec", "s3fs", "gcsfs", "adlfs", "duckdb", "deltalake")
OF_ARROW = {"numpy"}
"""``pyarrow`` itself imports it if it is installed."""

LOADED = """
import json, sys
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
before = set(sys.modules)
import {rooms}
print(json.dumps([name for name in {names!r} if name in sys.modules and name not in before]))
"""


def loaded(rooms, names):
    program = LOADED.format(rooms=rooms, names=names)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_reading_a_dag_file_loads_no_parser_no_pandas_and_no_storage():
    assert loaded("airflow_delta.operators, airflow_delta.sensors, airflow_delta.triggers.commit_event", SLOW) <= OF_ARROW


def test_operators_sensors_and_assets_load_no_arrow_and_no_log():
    rooms = "airflow_delta.operators, airflow_delta.sensors, airflow_delta.assets"
    assert loaded(rooms, ("pyarrow", "airflow_delta.core.delta_log")) == set()
