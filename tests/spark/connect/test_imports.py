"""What a process with pyspark-client alone imports."""

import subprocess
import sys

FINDER = """
import pkgutil, importlib.util, sys
sys.path.insert(0, "tests/spark/connect")
from client import CLASSIC
import airflow_delta.jobs, airflow_delta.spark
left_out = {"airflow_delta.jobs.doctor"}
if importlib.util.find_spec("pyspark.sql.streaming.datasource") is None:  # Spark has it from 4.2 on
    left_out.add("airflow_delta.spark.streaming.source")
for package in (airflow_delta.spark, airflow_delta.jobs):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if module.name not in left_out:
            importlib.import_module(module.name)
            print(module.name)
"""


def test_everything_but_the_start_of_a_job_by_spark_submit_is_imported_without_classic_spark():
    found = subprocess.run([sys.executable, "-c", FINDER], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert "airflow_delta.spark.dml.merge.merge" in found.stdout.split()
    assert "airflow_delta.jobs.run" in found.stdout.split()
