"""The main function of every job script: reads the spec, creates the session, runs the statement, writes the result."""

from __future__ import annotations

import argparse
import json
import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyspark

from airflow_delta.core.errors import DeltaError
from airflow_delta.core.statements.json_form import TYPES
from airflow_delta.core.storage.ambient_options import PREFIXES_VARIABLE
from airflow_delta.jobs.errors import InvalidSpecError
from airflow_delta.jobs.orphan import exit_with_jvm, exit_with_worker
from airflow_delta.jobs.progress import log_progress
from airflow_delta.jobs.result import ResultDocument, print_outcome, write_result
from airflow_delta.jobs.session import job_session
from airflow_delta.jobs.spark_version import check_spark
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.jobs.step_log import log_steps

_logger = logging.getLogger(__name__)


def main(statement_type: str, arguments: Sequence[str] | None = None) -> int:
    """Run one job and return its exit code.

    Args:
        statement_type: Name in JSON of the only statement type that the script accepts.
        arguments: The command line; the process's own when None.
    """
    parser = argparse.ArgumentParser(description=f"{statement_type} on a Delta table, with no Delta JAR")
    parser.add_argument("--spec", required=True, help="the job's spec: JSON, or @ and the path of a file that holds it")
    try:
        spec = _spec(parser.parse_args(arguments).spec, statement_type)
    except DeltaError as error:
        return print_outcome(ResultDocument.of_error(error))
    if spec.allowed_prefixes:
        os.environ[PREFIXES_VARIABLE] = json.dumps(spec.allowed_prefixes)
    if spec.result_uri is not None:  # when run by hand, stdout is only for the result, and spark-submit merges the streams
        log_steps()
    exit_with_jvm()
    exit_with_worker()
    try:
        check_spark(pyspark.__version__)
    except DeltaError as error:
        document = ResultDocument.of_error(error)
        _leave(spec, document)
        return print_outcome(document, is_by_hand=spec.result_uri is None)
    from airflow_delta.jobs.run import run  # imported after the check, as an older Spark lacks its imports

    spark = job_session(f"{statement_type} {spec.statement.table}")
    context = spark.sparkContext
    _logger.info("Spark %s is up on %s as %s", context.version, context.master, context.applicationId)
    try:
        with log_progress(context):
            document = replace(run(spark, spec), application_id=context.applicationId)
        _leave(spec, document)
    finally:
        spark.stop()
    return print_outcome(document, is_by_hand=spec.result_uri is None)


def _leave(spec: JobSpec, document: ResultDocument) -> None:
    if spec.result_uri is not None:
        write_result(spec.result_uri, document)


def _spec(text: str, statement_type: str) -> JobSpec:
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:  # ValueError: the file is not UTF-8
            detail = f"{text[1:]!r} cannot be read: {getattr(error, 'strerror', None) or error}"
            raise InvalidSpecError(detail=detail) from error
    spec = JobSpec.from_text(text)
    if not isinstance(spec.statement, TYPES[statement_type]):
        raise InvalidSpecError(
            detail=f"expected a {statement_type}, found a {type(spec.statement).__name__}; submit the script of that statement"
        )
    return spec
