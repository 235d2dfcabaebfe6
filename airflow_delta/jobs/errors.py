"""Errors of the job around a statement: of its spec, its Spark, its result.

::

    DeltaError
    ├── InvalidSpecError     the spec is invalid
    ├── SparkAnalysisError   Spark refused the statement's SQL
    ├── RowValueError        a value of a row cannot be computed, or does not fit
    ├── MissingPackageError  the cluster's Python lacks a package
    ├── SparkTooOldError     jobs do not run on the cluster's version of Spark
    ├── PythonMismatchError  driver and executors have different versions of Python
    ├── ServerUnreachableError  no Spark Connect server answers     (retryable)
    ├── ServerDeniedError    the Spark Connect server refuses token or user
    ├── JobFailedError       internal error                         (retryable)
    ├── MaintenanceFailedError  some steps of a maintenance failed  (retryable)
    ├── TableUnhealthyError  a health check found problems
    └── ResultMissingError   the job ended and left no result       (retryable)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_delta.core.errors import DeltaError

OTHER_PYTHON = re.compile(r"has different version: (?P<executors>[\d.]+) than that in driver: (?P<driver>[\d.]+)")
"""Spark's error text for a worker whose Python differs from the driver's."""


@dataclass(kw_only=True, eq=False)
class InvalidSpecError(DeltaError):
    """The spec of the job is invalid, or was changed on its way to the job."""

    code = "DELTA_INVALID_SPEC"
    message = "invalid job spec: {detail}"
    remedy = "write it as the documentation of airflow_delta.jobs.spec shows; operator and job must have the same version"
    detail: str


@dataclass(kw_only=True, eq=False)
class SparkAnalysisError(DeltaError):
    """Spark refused the SQL of the statement before it read any rows.

    Attributes:
        condition: Spark's name of the error, such as ``UNRESOLVED_COLUMN.WITH_SUGGESTION``.
    """

    code = "DELTA_SPARK_ANALYSIS"
    message = "Spark refused the {operation} on {table} ({condition}): {detail}"
    remedy = "correct the SQL, the columns or the path it names; the statement has committed nothing"
    table: str
    operation: str
    condition: str
    detail: str


@dataclass(kw_only=True, eq=False)
class RowValueError(DeltaError):
    """A value of a row cannot be computed, or does not fit its column (SQLSTATE class 22); nothing was committed.

    Attributes:
        condition: Spark's name of the error, such as ``CAST_OVERFLOW``.
    """

    code = "DELTA_ROW_VALUE"
    message = "the {operation} on {table} met a value that cannot be computed or stored ({condition}): {detail}"
    remedy = "correct or filter such rows of the source, or compute NULL in their place (try_cast, try_divide, nullif)"
    table: str
    operation: str
    condition: str
    detail: str


@dataclass(kw_only=True, eq=False)
class MissingPackageError(DeltaError):
    """A Python worker of Spark could not import what it needs."""

    code = "DELTA_MISSING_PACKAGE"
    message = "the {operation} on {table} needs the package {package}, which Spark's Python workers do not have"
    remedy = (
        "install it for the Python that PYSPARK_PYTHON (or spark.pyspark.python) names, on every node; "
        "or send it along: airflow-delta pack"
    )
    table: str
    operation: str
    package: str


@dataclass(kw_only=True, eq=False)
class PythonMismatchError(DeltaError):
    """The minor versions of Python differ between driver and executors, so that Spark cannot run Python functions.

    Attributes:
        driver: The driver's version.
        executors: The version of the executor that failed first.
    """

    code = "DELTA_PYTHON_MISMATCH"
    message = "the {operation} on {table} expected the driver's Python {driver} on executors, found {executors}"
    remedy = "name a Python {driver} there by spark.pyspark.python (or PYSPARK_PYTHON), or the executors' one for the driver"
    table: str
    operation: str
    driver: str
    executors: str


@dataclass(kw_only=True, eq=False)
class SparkTooOldError(DeltaError):
    """Spark, on the cluster or as a Spark Connect server, is older than jobs need; found before any work is done.

    Attributes:
        found: The version found.
        needed: The lowest version that jobs run on.
    """

    code = "DELTA_SPARK_TOO_OLD"
    message = "expected Spark {needed} or newer, found {found}"
    remedy = "upgrade it, or name another one: by SPARK_HOME or spark-binary, or by the connection of a newer server"
    found: str
    needed: str


@dataclass(kw_only=True, eq=False)
class ServerUnreachableError(DeltaError):
    """No Spark Connect server answered; nothing was done.

    Attributes:
        address: Of the server, without secrets.
        detail: gRPC's status.
    """

    code = "DELTA_SPARK_SERVER_UNREACHABLE"
    retryable = True
    message = "expected a server of Spark Connect at {address}, found none: {detail}"
    remedy = (
        "start it, or correct host, port and use_ssl of the connection; a server that takes tokens beyond localhost needs TLS; "
        "for a certificate of your own authority set GRPC_DEFAULT_SSL_ROOTS_FILE_PATH on the worker"
    )
    address: str
    detail: str


@dataclass(kw_only=True, eq=False)
class ServerDeniedError(DeltaError):
    """The Spark Connect server refused the token or the user; nothing was done.

    Attributes:
        address: Of the server, without secrets.
        detail: gRPC's status.
    """

    code = "DELTA_SPARK_SERVER_DENIED"
    message = "the server of Spark Connect at {address} refused the connection's token or user: {detail}"
    remedy = "set the token as the connection's password, and the user as its login, as the server expects them"
    address: str
    detail: str


@dataclass(kw_only=True, eq=False)
class JobFailedError(DeltaError):
    """The job failed for an unexpected reason."""

    code = "DELTA_JOB_FAILED"
    retryable = True
    message = "the {operation} on {table} failed with {error}: {detail}"
    remedy = "see the traceback in the task log"
    table: str
    operation: str
    error: str
    detail: str


@dataclass(kw_only=True, eq=False)
class ResultMissingError(DeltaError):
    """The job succeeded, but its result document is missing."""

    code = "DELTA_RESULT_MISSING"
    retryable = True
    message = "the job of {table} ended without a result document: expected it at {result_uri}"
    remedy = "set scratch_uri to a location that Spark's driver can write and the Airflow worker can read"
    table: str
    result_uri: str


@dataclass(kw_only=True, eq=False)
class MaintenanceFailedError(DeltaError):
    """Some steps of a maintenance failed; the others were done if they were due and could be done here.

    Attributes:
        failed: The steps and their errors, as texts.
        done: The steps that were done and why they were due, as texts.
    """

    code = "DELTA_MAINTENANCE_FAILED"
    retryable = True
    message = "maintenance of {table} failed in {failed}; done: {done}"
    remedy = "follow the remedy of each failed step; the next run does what is still due"
    table: str
    failed: tuple[str, ...]
    done: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class TableUnhealthyError(DeltaError):
    """A health check has findings on which the task is configured to fail.

    Attributes:
        findings: Code and text of each such finding.
        cure: What to do about them, in the same order.
    """

    code = "DELTA_TABLE_UNHEALTHY"
    message = "the health check of {table} failed: {findings}"
    remedy = "{cure}"
    table: str
    findings: tuple[str, ...]
    cure: str
