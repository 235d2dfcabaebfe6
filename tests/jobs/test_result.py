"""The result document carries outcome or typed error, appears whole, and is swept by age."""

import os
import subprocess
import sys

import pytest

from airflow_delta.core.errors import (
    ConcurrentAppendError,
    DeltaError,
    ExpectationFailedError,
    InvalidStatementError,
    SchemaMismatchError,
)
from airflow_delta.core.statements import OperationResult
from airflow_delta.jobs.errors import (
    AccessDeniedError,
    InvalidSpecError,
    JobFailedError,
    ResultMissingError,
    SparkAnalysisError,
)
from airflow_delta.jobs.result import KEPT_FOR, ResultDocument, read_result, result_uri, write_result, written_results

OUTCOME = OperationResult(
    table="t", version=3, read_version=2, operation="MERGE", committed=True, metrics={"numTargetFilesAdded": 1}
)
TOKEN = "0123456789abcdef0123456789abcdef"

ERRORS = [
    (InvalidSpecError(detail="d"), 64),
    (InvalidStatementError(statement="MERGE", detail="d"), 64),
    (SchemaMismatchError(table="t", differences=("a is missing", "b is text")), 65),
    (ExpectationFailedError(table="t", expectation="a > 0", rows=1, example="a=0"), 65),
    (SparkAnalysisError(table="t", operation="MERGE", condition="PARSE_SYNTAX_ERROR", detail="d"), 65),
    (JobFailedError(table="t", operation="MERGE", error="KeyError", detail="d"), 70),
    (ConcurrentAppendError(table="t", read_version=1, winning_version=2, winner={"job": {"jobName": "d.t"}}, path="f"), 75),
    (ResultMissingError(table="t", result_uri="u"), 75),
    (AccessDeniedError(table="t", detail="d"), 77),
]


@pytest.mark.parametrize(("error", "exit_code"), ERRORS, ids=lambda value: getattr(value, "code", value))
def test_an_error_comes_back_as_its_own_class_with_its_exit_code(tmp_path, error, exit_code):
    uri = result_uri(str(tmp_path), TOKEN, 1)
    write_result(uri, ResultDocument.of_error(error, "Traceback"))
    document = read_result(uri)
    rebuilt = document.typed_error()
    assert (type(rebuilt), str(rebuilt)) == (type(error), str(error))
    assert (document.exit_code, document.traceback) == (exit_code, "Traceback")


def test_an_outcome_comes_back_equal(tmp_path):
    uri = result_uri(str(tmp_path), TOKEN, 2)
    write_result(uri, ResultDocument(outcome=OUTCOME))
    assert read_result(uri) == ResultDocument(outcome=OUTCOME)
    assert read_result(uri).exit_code == 0
    assert written_results(str(tmp_path), TOKEN) == {2}


def test_an_error_of_another_version_is_still_told():
    error = ResultDocument(
        error={"code": "DELTA_OF_TOMORROW", "text": "[DELTA_OF_TOMORROW] moon", "attributes": {"table": "t"}}
    )
    rebuilt = error.typed_error()
    assert isinstance(rebuilt, JobFailedError)
    assert (rebuilt.error, rebuilt.detail) == ("DELTA_OF_TOMORROW", "[DELTA_OF_TOMORROW] moon")


def test_an_error_of_the_spark_floor_comes_back_where_spark_is_not():
    code = """
import sys
sys.modules["pyspark"] = None
from airflow_delta.jobs.result import ResultDocument
error = {"code": "DELTA_SOURCE_UNREADABLE", "text": "", "attributes": {"source": "s", "detail": "d"}}
print(type(ResultDocument(error=error).typed_error()).__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "SourceUnreadableError"


def test_no_document_is_none_and_reading_makes_no_directory(tmp_path):
    assert read_result(result_uri(str(tmp_path / "table"), TOKEN, 1)) is None
    assert written_results(str(tmp_path / "table"), TOKEN) == set()
    assert list(tmp_path.iterdir()) == []


def test_old_documents_are_swept_and_nothing_else(tmp_path):
    old, fresh = result_uri(str(tmp_path), TOKEN, 1), result_uri(str(tmp_path), TOKEN, 2)
    write_result(old, ResultDocument(outcome=OUTCOME))
    stranger = tmp_path / "_airflow_delta" / "results" / "notes.txt"
    stranger.write_text("mine")
    for path in (old, stranger):
        os.utime(path, (0, 0))
    write_result(fresh, ResultDocument(outcome=OUTCOME), clock=lambda: KEPT_FOR + 1)
    assert written_results(str(tmp_path), TOKEN) == {2}
    assert stranger.exists()


def test_every_error_code_is_known_to_one_registry():
    codes = [type(error).code for error, _ in ERRORS]
    assert all(DeltaError.from_json(error.to_json()) is not None for error, _ in ERRORS)
    assert len(set(codes)) == len(codes)
