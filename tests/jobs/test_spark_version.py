"""Versions of Spark on which no job runs are refused before anything is done; those that were not tested are a warning."""

import logging
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from airflow_delta.core.statements import VacuumStatement
from airflow_delta.jobs.errors import SparkTooOldError
from airflow_delta.jobs.result import read_result
from airflow_delta.jobs.spark_version import FIRST_UNTESTED_SPARK, LEAST_SPARK, TESTED, check_spark
from airflow_delta.jobs.spec import JobSpec

ROOT = Path(__file__).parents[2]

OLD = """
import sys

import pyspark.errors

pyspark.__version__ = "3.5.7"
del pyspark.errors.QueryContextType  # which Spark 3 does not have

from airflow_delta.jobs.main import main

sys.exit(main("vacuum", ["--spec", sys.argv[1]]))
"""


def test_an_older_spark_is_a_typed_error_in_the_result_that_no_retry_follows(tmp_path):
    spec = JobSpec(statement=VacuumStatement(table=str(tmp_path / "table")), result_uri=str(tmp_path / "result.json"))
    done = subprocess.run([sys.executable, "-c", OLD, spec.to_text()], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (65, "")
    assert (tmp_path / "result.json").exists()
    error = read_result(spec.result_uri).typed_error()
    assert isinstance(error, SparkTooOldError)
    assert (error.found, error.needed, error.retryable) == ("3.5.7", "4.0", False)
    assert "expected Spark 4.0 or newer, found 3.5.7" in done.stderr


@pytest.mark.parametrize(("version", "warns"), [("4.0.0", False), ("4.3.9", False), ("4.4.0-amzn-0", True), ("5.0.0", True)])
def test_a_spark_that_was_not_tested_is_a_warning(caplog, version, warns):
    with caplog.at_level(logging.WARNING):
        check_spark(version)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == (
        [f"Spark {version} was not tested, expected 4.0 to 4.3"] if warns else []
    )


def test_the_versions_are_those_that_the_package_allows():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra, package in {"spark": "pyspark", "connect": "pyspark-client"}.items():
        [named] = [name for name in extras[extra] if re.match(rf"{package}[<>=]", name)]
        assert named == f"{package}>={_text(LEAST_SPARK)},<{_text(FIRST_UNTESTED_SPARK)}"
    assert TESTED.split(" to ")[0] == _text(LEAST_SPARK)


def _text(version):
    return ".".join(map(str, version))
