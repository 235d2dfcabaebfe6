"""Runs a spec, which ends in a result or a typed error. Independent of where it runs: the session is passed in."""

from __future__ import annotations

import logging
import re
import time
import traceback
from dataclasses import replace
from functools import partial

from pyspark.errors import AnalysisException, ParseException, PySparkException, PythonException, QueryContextType
from pyspark.sql import SparkSession

from airflow_delta.catalogs.managed_tables import remember_managed
from airflow_delta.core.actions import Origin
from airflow_delta.core.committed import committed_result, staged_result, version_before
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import AccessDeniedError, DeltaError
from airflow_delta.core.least_versions import check_pyarrow
from airflow_delta.core.operations.staged_folder import staged_id
from airflow_delta.core.statements import OperationResult, PythonSource, SequenceStatement, Statement, TableStatement
from airflow_delta.core.statements.publish import publishes_later
from airflow_delta.core.storage.storage_failures import storage_failure
from airflow_delta.jobs.code_generation import CodeGeneration
from airflow_delta.jobs.commits import commits_of
from airflow_delta.jobs.errors import (
    OTHER_PYTHON,
    JobFailedError,
    MissingPackageError,
    PythonMismatchError,
    RowValueError,
    SparkAnalysisError,
)
from airflow_delta.jobs.outcome import with_dry_run_flag
from airflow_delta.jobs.redaction import redact
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.jobs.spark_statements import spark_runner
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.jobs.table_stats import attach_table_stats, describe_tables, other_tables
from airflow_delta.spark.errors import FunctionFailedError, SparkConnectUnsupportedError, first_line
from airflow_delta.spark.hadoop.table_log import table_log
from airflow_delta.spark.io.worker_values import typed_worker_errors
from airflow_delta.spark.statement.file_content import content_failure, reads_files
from airflow_delta.spark.statement.python_function import value_place, worker_failure

_logger = logging.getLogger(__name__)
_LONGEST_PIECE = 200
_CORRECT_ROWS = "correct it, or leave the option mode=FAILFAST out, and such values are NULL"
_MISSING_PACKAGE = re.compile(r"ModuleNotFoundError: No module named '(?P<package>[\w.]+)'")


def run(spark: SparkSession, spec: JobSpec, *, code_generation: CodeGeneration | None = None) -> ResultDocument:
    """Run the spec. Never raises; errors are in the document.

    Args:
        spark: The session.
        spec: What to do.
        code_generation: Adapts the session's code generation to each statement; None if others use the session, too.
    """
    began = time.monotonic()
    names, given = None, spec.statement
    try:
        check_pyarrow()
        remember_managed(spec.managed_tables)
        if spec.has_session_names:
            from airflow_delta.jobs.session_names import SessionNames

            names = SessionNames.of(spark)
            spec = replace(spec, statement=names.resolve(given))
        log = table_log(spark, spec.statement.table)
        _logger.info("%s on %s", _operation(spec.statement), spec.statement.table)
        if commits_of(spec.statement) != "never" and spec.start_version is None and spec.earliest_commit_time is not None:
            spec = replace(spec, start_version=version_before(log, spec.earliest_commit_time))
        with typed_worker_errors():
            outcome = with_dry_run_flag(execute(spark, log, spec, code_generation), spec.statement)
    except Exception as error:  # noqa: BLE001 - a job ends in a document, whatever happened
        return ResultDocument.of_error(typed_error(error, spec.statement), redact(traceback.format_exc()))
    document = ResultDocument(outcome=outcome, duration_ms=round(1_000 * (time.monotonic() - began)))
    described = spec.described_tables if names is None else other_tables(spec.statement)
    document = describe_tables(attach_table_stats(document, log), described, partial(table_log, spark))
    return document if names is None else names.publish(given, document)


def execute(
    spark: SparkSession, log: DeltaLog, spec: JobSpec, code_generation: CodeGeneration | None = None
) -> OperationResult:
    """Execute the statement, unless its token is already in a commit or a staged commit.

    Args:
        spark: The session.
        log: The log of the statement's table.
        spec: What to do.
        code_generation: As for ``run``.

    Raises:
        DeltaError: The statement failed.
    """
    token = spec.origin.token
    if publishes_later(spec.statement):
        found = None if token is None else staged_result(log, token)
        if found is not None:
            _logger.info("This task has staged its commit; the statement is not run again")
            return found
        log = log.staging(None if token is None else staged_id(token))
    elif token is not None and commits_of(spec.statement) == "once":
        found = committed_result(log, token, spec.start_version)
        if found is not None:
            _logger.info("Version %d holds the commit of this task; the statement is not run again", found.version)
            return found
    if code_generation is not None:
        code_generation.suit(log, spec.statement)
    on_spark = spark_runner(spec.statement)
    if on_spark is not None:
        return on_spark(spark, log, spec.statement, origin=spec.origin, start_version=spec.start_version)
    return _execute_in_core(spark, log, spec, code_generation)


def load_code(statement: Statement) -> None:
    """Import the code that runs the statement, which is otherwise imported when the statement runs."""
    steps = statement.statements if isinstance(statement, SequenceStatement) else ()
    if None in [spark_runner(step) for step in (statement, *steps)]:
        from airflow_delta.jobs import core_statements, spark_backend  # noqa: F401


def _execute_in_core(
    spark: SparkSession, log: DeltaLog, spec: JobSpec, code_generation: CodeGeneration | None
) -> OperationResult:
    """As ``execute``, for a statement of the core; Spark does the parts that it does better."""
    from airflow_delta.jobs.core_statements import execute_in_core
    from airflow_delta.jobs.spark_backend import spark_backend

    def executor(of_table: DeltaLog, step: TableStatement, origin: Origin, start_version: int | None) -> OperationResult:
        try:
            one = replace(spec, statement=step, origin=origin, start_version=start_version)
            return execute(spark, of_table, one, code_generation)
        except Exception as error:
            _logger.error("%s on %s failed", _operation(step), step.table)  # noqa: TRY400 - its traceback is in the document
            raise typed_error(error, step) from error

    backend = spark_backend(spark, log, spec, execute=executor, typed_error=typed_error)
    return execute_in_core(log, spec.statement, origin=spec.origin, start_version=spec.start_version, backend=backend)


def _operation(statement: Statement) -> str:
    return statement.type_name.replace("_", " ").upper()


def typed_error(error: Exception, statement: Statement) -> DeltaError:
    """A statement's error as a ``DeltaError``, without secrets."""
    operation = _operation(statement)
    source = getattr(statement, "source", None)
    match error:
        case FunctionFailedError():
            return replace(error, detail=redact(error.detail))
        case DeltaError():
            return error
        case AnalysisException() | ParseException():
            return SparkAnalysisError(table=statement.table, operation=operation, **_named(error))
        case PythonException() if missing := _MISSING_PACKAGE.search(str(error)):
            return MissingPackageError(table=statement.table, operation=operation, package=missing["package"])
        case PythonException() if other := OTHER_PYTHON.search(str(error)):
            return PythonMismatchError(table=statement.table, operation=operation, **other.groupdict())
        case PySparkException() if isinstance(source, PythonSource) and (failure := worker_failure(error, source)):
            return replace(failure, detail=redact(failure.detail))
        case PySparkException() if _is_of_values(error):
            named = _named(error)
            detail = named["detail"] + redact(_place(error, source))
            return RowValueError(table=statement.table, operation=operation, condition=named["condition"], detail=detail)
        case PermissionError():
            return AccessDeniedError(table=statement.table, detail=redact(str(error)))
        case OSError() if storage := storage_failure(error, statement.table):
            return replace(storage, detail=redact(storage.detail))
        case _:
            return _unforeseen(error, statement)


def _unforeseen(error: Exception, statement: Statement) -> DeltaError:
    """The error for an unreadable file, or an expression too deep for Spark Connect; others become ``JobFailedError``."""
    if type(error).__name__ == "DecodeError" and "MaxDepth" in str(error):  # protobuf's, which only Spark Connect uses
        instead = "take it apart: into steps, or into lists such as IN (…) in place of many conditions"
        return SparkConnectUnsupportedError(feature="an expression of a hundred levels", instead=instead)
    unread = content_failure(error, _CORRECT_ROWS) if reads_files(getattr(statement, "source", None)) else None
    if unread is not None:
        return replace(unread, detail=redact(unread.detail))
    detail = redact(str(error).strip())[:2_000]
    return JobFailedError(table=statement.table, operation=_operation(statement), error=type(error).__name__, detail=detail)


def _named(error: PySparkException) -> dict[str, str]:
    """Spark's error condition and text, without secrets."""
    condition = error.getCondition() or type(error).__name__
    return {"condition": condition, "detail": redact(first_line(error)).removeprefix(f"[{condition}]").strip(" ;.")}


def _place(error: PySparkException, source: object) -> str:
    """Where a value is computed, as the end of the error's text: the line of a function, or a piece of a query."""
    if isinstance(source, PythonSource) and (place := value_place(error, source)):
        return f", at {place}"
    queries = (context for context in error.getQueryContext() if context.contextType() is QueryContextType.SQL)
    piece = next((context.fragment() for context in queries), "")
    return f", in {piece[:_LONGEST_PIECE]}" if piece else ""


def _is_of_values(error: PySparkException) -> bool:
    """Whether Spark could not compute a value of a row, which a retry cannot help: SQLSTATE class 22, and ``raise_error``.

    Spark reports the error of the row itself, not those of the task and the job that failed by it. Spark's own 22K… states are
    about files and classes.
    """
    state = error.getSqlState() or ""
    return (state.startswith("22") and not state.startswith("22K")) or error.getCondition() == "USER_RAISED_EXCEPTION"
