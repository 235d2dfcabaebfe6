"""Every error keeps its text and attributes through pickling and result documents."""

import json
import pickle
from dataclasses import fields

import pytest

from airflow_delta.core import errors
from airflow_delta.core.errors import (
    ConcurrentAppendError,
    DeltaError,
    ExpectationFailedError,
    InvalidStatementError,
    UnsupportedReaderFeatureError,
)

VALUES = {
    "str": "a text with {braces}",
    "str | None": None,
    "int": 3,
    "int | None": 7,
    "float": 1.5,
    "tuple[str, ...]": ("first", "second"),
    "dict[str, Any]": {"operation": "WRITE", "job": {"jobName": "daily", "jobRunId": "r1"}},
    "dict[str, str | None]": {"day": None},
}
ALL = [getattr(errors, name) for name in errors.__all__ if name != "DeltaError"]


def example_of(error):
    return error(**{field.name: VALUES[field.type] for field in fields(error)})


@pytest.mark.parametrize("error", ALL)
def test_an_error_survives_a_pickle_and_a_result_document(error):
    raised = example_of(error)
    copies = [pickle.loads(pickle.dumps(raised)), DeltaError.from_json(json.loads(json.dumps(raised.to_json())))]
    for copy in copies:
        assert type(copy) is error
        assert copy.attributes() == raised.attributes()
        assert str(copy) == str(raised)


@pytest.mark.parametrize(
    ("detail", "shown"),
    [("said Spark. ;", "said Spark. Remedy"), ("did you mean 'a'?", "mean 'a'? Remedy"), ("found 'abc...", "'abc... Remedy")],
)
def test_a_text_of_others_ends_in_one_mark_before_the_remedy(detail, shown):
    assert shown in str(InvalidStatementError(statement="WRITE", detail=detail))


@pytest.mark.parametrize("error", ALL)
def test_an_error_shows_its_code_and_ends_in_a_remedy(error):
    text = str(example_of(error))
    assert text.startswith(f"[{error.code}] ")
    assert ". Remedy: " in text
    assert text.endswith(".")
    assert "('" not in text


def test_several_features_are_reported_as_text():
    error = UnsupportedReaderFeatureError(table="t", features=("columnMapping", "v2Checkpoint"))
    assert "it needs columnMapping; v2Checkpoint, which" in str(error)


def test_a_check_on_the_whole_result_shows_its_answer_and_no_number_of_rows():
    error = ExpectationFailedError(table="t", expectation="SELECT false", rows=None, example="Row(false=False)")
    assert "failed on t: expected one row with TRUE, found Row(false=False). Remedy" in str(error)


def test_an_error_of_one_of_several_statements_says_which_wherever_it_arrives():
    place = "statement gate (3 of 4; committed before it: silver as version 7)"
    raised = ExpectationFailedError(table="t", expectation="id < 5", rows=2, example="Row(id=9)", statement_place=place)
    for copy in (raised, pickle.loads(pickle.dumps(raised)), DeltaError.from_json(json.loads(json.dumps(raised.to_json())))):
        assert str(copy) == (
            f"[DELTA_EXPECTATION_FAILED] {place}: the expectation 'id < 5' failed on t: 2 row(s), for example Row(id=9). "
            "Remedy: correct the source or the expectation; the statement has committed nothing."
        )


def test_a_winner_of_another_engine_may_call_anything_its_job():
    assert "made by" not in str(ConcurrentAppendError(table="t", read_version=1, winning_version=2, winner={"job": "nightly"}))


def test_an_error_of_another_version_of_the_package_is_not_known():
    assert DeltaError.from_json({"code": "DELTA_OF_TOMORROW", "attributes": {}}) is None
    assert DeltaError.from_json({"code": "DELTA_TABLE_NOT_FOUND", "attributes": {"place": "t"}}) is None
    known = DeltaError.from_json({"code": "DELTA_TABLE_NOT_FOUND", "attributes": {"table": "t", "news": 1}})
    assert known.attributes() == {"table": "t"}
