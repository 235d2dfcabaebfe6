"""Unsupported versions of Python and pyarrow on executors become typed errors."""

import pytest
from pyspark.errors import PythonException

from airflow_delta.core import least_versions
from airflow_delta.core.statements import VacuumStatement
from airflow_delta.jobs.errors import PythonMismatchError
from airflow_delta.jobs.run import typed_error
from airflow_delta.spark.io.worker_values import with_typed_errors

OF_SPARK = (
    "Traceback (most recent call last):\npyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] "
    "Python in worker has different version: 3.10 than that in driver: 3.11, PySpark cannot run with different minor versions."
)


class PythonExceptionOfAWorker(PythonException):
    """Spark's exception on the driver, constructed without a JVM."""

    def __init__(self):
        pass

    def __str__(self):
        return OF_SPARK


def test_executors_with_another_python_are_named_with_both_versions():
    error = typed_error(PythonExceptionOfAWorker(), VacuumStatement(table="/t"))
    assert isinstance(error, PythonMismatchError)
    assert (error.driver, error.executors, error.retryable) == ("3.11", "3.10", False)


def test_a_worker_with_an_old_pyarrow_reads_nothing_and_says_which_version_it_needs(monkeypatch):
    def batches():
        raise AssertionError("read")
        yield

    monkeypatch.setattr(least_versions, "LEAST_PYARROW", (999, 0))
    with pytest.raises(RuntimeError, match=r"DELTA_PACKAGE_TOO_OLD.*expected pyarrow 999\.0 or newer"):
        list(with_typed_errors(batches()))
