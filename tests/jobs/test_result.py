"""The result document has an outcome or a typed error, appears atomically, and is deleted by age."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from airflow_delta.core.errors import (
    AccessDeniedError,
    ConcurrentAppendError,
    DeltaError,
    ExpectationFailedError,
    InvalidStatementError,
    SchemaMismatchError,
)
from airflow_delta.core.statements import OperationResult
from airflow_delta.jobs.errors import (
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


@pytest.mark.parametrize("uri", ["{folder}/out.json", "file://{folder}/out.json"])
def test_a_document_is_written_where_a_spec_of_your_own_says(tmp_path, uri):
    write_result(uri.format(folder=tmp_path), ResultDocument(outcome=OUTCOME))

    assert read_result(uri.format(folder=tmp_path)) == ResultDocument(outcome=OUTCOME)
    assert list(tmp_path.iterdir()) == [tmp_path / "out.json"]


def test_an_error_of_another_version_is_still_reported():
    error = ResultDocument(
        error={"code": "DELTA_OF_TOMORROW", "text": "[DELTA_OF_TOMORROW] moon", "attributes": {"table": "t"}}
    )
    rebuilt = error.typed_error()
    assert isinstance(rebuilt, JobFailedError)
    assert (rebuilt.error, rebuilt.detail) == ("DELTA_OF_TOMORROW", "[DELTA_OF_TOMORROW] moon")


def test_an_error_of_the_spark_floor_comes_back_where_spark_is_not():
    code = """
import sys
from dataclasses import replace
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
    foreign_file = tmp_path / "_airflow_delta" / "results" / "notes.txt"
    foreign_file.write_text("mine")
    for path in (old, foreign_file):
        os.utime(path, (0, 0))
    write_result(fresh, ResultDocument(outcome=OUTCOME), clock=lambda: KEPT_FOR + 1)
    assert written_results(str(tmp_path), TOKEN) == {2}
    assert foreign_file.exists()


def test_every_error_code_is_known_to_one_registry():
    codes = [type(error).code for error, _ in ERRORS]
    assert all(DeltaError.from_json(error.to_json()) is not None for error, _ in ERRORS)
    assert len(set(codes)) == len(codes)


OF_RESULT = '{"table": "t", "version": 9, "read_version": 0, "operation": "MERGE", "committed": true%s}'
OF_DOCUMENT = '{"outcome": %s, "error": %s, "traceback": ""%s}'
ABSURD = [
    "",
    "\udcff",
    "[]",
    "7",
    OF_DOCUMENT % (7, "null", ""),
    OF_DOCUMENT % ('{"table": 1}', "null", ""),
    OF_DOCUMENT % (OF_RESULT % ', "version": "9"', "null", ""),
    OF_DOCUMENT % (OF_RESULT % ', "metrics": 7', "null", ""),
    OF_DOCUMENT % (OF_RESULT % ', "conflicts": 7', "null", ""),
    OF_DOCUMENT % ("null", '{"code": []}', ""),
    OF_DOCUMENT % ("null", '{"code": "x"}', ""),
    OF_DOCUMENT % ("null", '{"code": "DELTA_CONCURRENT_APPEND", "attributes": 7}', ""),
    OF_DOCUMENT % ("null", '{"code": "DELTA_SCHEMA_MISMATCH", "attributes": {"table": "t", "differences": [1]}}', ""),
    OF_DOCUMENT % ("9" * 5_000, "null", ""),
    "[" * 100_000,
]


@pytest.mark.parametrize("text", ABSURD, ids=range(len(ABSURD)))
def test_a_document_that_cannot_be_read_is_like_none(tmp_path, text):
    uri = result_uri(str(tmp_path), TOKEN, 1)
    write_result(uri, ResultDocument(outcome=OUTCOME))
    (tmp_path / "_airflow_delta" / "results" / TOKEN / "1.json").write_bytes(text.encode(errors="surrogateescape"))
    assert read_result(uri) is None


def test_figures_that_cannot_be_so_are_left_out():
    facts = '{"version": 1, "files": -5, "bytes": NaN, "small_files": "many", "x": ' + "9" * 400 + "}"
    described = f', "table_facts": {facts}, "history": [7], "schema_string": 1'
    document = ResultDocument.from_text(OF_DOCUMENT % (OF_RESULT % "", "null", described))
    assert (document.table_facts, document.history, document.schema_string) == ({"version": 1}, (), None)
    assert document.outcome.version == 9


def test_a_document_of_absurd_values_can_be_written():
    deep = []
    for _ in range(2_000):
        deep = [deep]
    outcome = replace(OUTCOME, metrics={"n": float("nan")}, details={"deep": deep, "large": 10**5_000, "text": "\ud800"})
    document = ResultDocument.from_text(ResultDocument(outcome=outcome, history=({"version": 1, "x": deep},)).to_text())
    assert (document.outcome.version, document.history[0]["version"]) == (3, 1)
    assert document.outcome.details["text"] == r"\ud800"
