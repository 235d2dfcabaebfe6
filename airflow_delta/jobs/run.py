"""A spec becomes a commit, or a typed error. The session is passed in; nothing here knows where it runs."""

from __future__ import annotations

import re
import traceback

from pyspark.errors import AnalysisException, ParseException, PythonException
from pyspark.sql import SparkSession

from airflow_delta.core.committed import committed_result
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.statements import (
    CheckpointStatement,
    MergeStatement,
    OperationResult,
    OptimizeStatement,
    Statement,
    VacuumStatement,
    WriteStatement,
)
from airflow_delta.jobs.errors import AccessDeniedError, JobFailedError, MissingPackageError, SparkAnalysisError
from airflow_delta.jobs.maintenance import checkpoint, vacuum
from airflow_delta.jobs.redaction import redact
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.spark.merge.merge import merge
from airflow_delta.spark.optimize.optimize import optimize
from airflow_delta.spark.write.write import write

_MISSING_PACKAGE = re.compile(r"ModuleNotFoundError: No module named '(?P<package>[\w.]+)'")


def run(spark: SparkSession, spec: JobSpec) -> ResultDocument:
    """Do what the spec says; never raises, the document tells."""
    try:
        return ResultDocument(outcome=execute(spark, spec))
    except Exception as error:  # noqa: BLE001 - a job ends in a document, whatever happened
        return ResultDocument.of_error(_typed(error, spec.statement), redact(traceback.format_exc()))


def execute(spark: SparkSession, spec: JobSpec) -> OperationResult:
    """Do what the spec says, unless a commit with its token is there already.

    Raises:
        DeltaError: What the statement can end in. Nothing was committed then.
    """
    statement, origin = spec.statement, spec.origin
    log = DeltaLog.for_table(statement.table)
    if origin.token is not None:
        found = committed_result(log, origin.token, spec.start_version)
        if found is not None:
            return found
    match statement:
        case WriteStatement():
            return write(spark, log, statement, origin=origin, start_version=spec.start_version)
        case MergeStatement():
            return merge(spark, log, statement, origin=origin, start_version=spec.start_version)
        case OptimizeStatement():
            return optimize(spark, log, statement, origin=origin, start_version=spec.start_version)
        case VacuumStatement():
            return vacuum(log, statement, origin=origin)
        case CheckpointStatement():
            return checkpoint(log, statement)


def _typed(error: Exception, statement: Statement) -> DeltaError:
    operation = type(statement).__name__.removesuffix("Statement").upper()
    match error:
        case DeltaError():
            return error
        case AnalysisException() | ParseException():
            condition = error.getCondition() or type(error).__name__
            detail = redact(str(error).strip().splitlines()[0])
            return SparkAnalysisError(table=statement.table, operation=operation, condition=condition, detail=detail)
        case PythonException() if missing := _MISSING_PACKAGE.search(str(error)):
            return MissingPackageError(table=statement.table, operation=operation, package=missing["package"])
        case PermissionError():
            return AccessDeniedError(table=statement.table, detail=redact(str(error)))
        case _:
            detail = redact(str(error).strip())[:2_000]
            return JobFailedError(table=statement.table, operation=operation, error=type(error).__name__, detail=detail)
