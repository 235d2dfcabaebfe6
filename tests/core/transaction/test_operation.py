"""What an operation leaves in the log of its parameters."""

import json

import pytest

from airflow_delta.core.actions import Origin
from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.transaction.operation import MAX_PARAMETER, Operation
from airflow_delta.core.user_metadata import MAX_USER_METADATA
from tests.core.builders import HandmadeLog

LONG = "1," * MAX_PARAMETER


def logged(value):
    return Operation(name="X", parameters={"value": value}).logged_parameters().get("value")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        (5, 5),
        (0.5, 0.5),
        (True, True),
        (None, None),
        (["a"], '["a"]'),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ("x" * MAX_PARAMETER, "x" * MAX_PARAMETER),
    ],
    ids=lambda value: str(value)[:20],
)
def test_parameters_are_logged_as_delta_does(value, text):
    assert logged(value) == text


def test_a_text_that_is_too_long_is_cut():
    assert logged(LONG) == f"{LONG[:MAX_PARAMETER]}..."


def test_the_texts_of_a_list_are_cut_so_that_it_stays_json():
    found = json.loads(logged([{"actionType": "update", "predicate": f"id IN ({LONG})"}, {"actionType": "delete", "at": 5}]))
    assert [clause["actionType"] for clause in found] == ["update", "delete"]
    assert found[0]["predicate"].startswith("id IN (1,1,")
    assert found[0]["predicate"].endswith("...")
    assert found[1]["at"] == 5
    assert len(json.dumps(found)) <= MAX_PARAMETER


def test_a_list_of_very_many_texts_is_cut_as_a_text():
    assert logged(list(map(str, range(MAX_PARAMETER)))).endswith("...")


@pytest.mark.parametrize("value", [LONG * 10, [LONG * 10], {"a": {"b": LONG * 10}}, list(range(MAX_PARAMETER * 10))])
def test_a_commit_with_five_parameters_that_are_too_long_can_be_read_again(value):
    handmade = HandmadeLog().create()
    operation = Operation(name="MERGE", parameters={f"p{number}": value for number in range(5)})
    origin = Origin(token="t", user_metadata="," * MAX_USER_METADATA)
    transaction = handmade.log.start_transaction()
    assert transaction.commit(operation=operation, origin=origin, allow_empty=True).version == 1
    info = handmade.log.snapshot().commit_info
    assert set(info.operation_parameters) == set(operation.parameters)
    assert info.origin == origin


def test_a_text_of_the_user_that_is_too_long_is_refused_and_nothing_is_committed():
    handmade = HandmadeLog().create()
    origin = Origin(user_metadata="x" * (MAX_USER_METADATA + 1))
    with pytest.raises(InvalidStatementError, match="at most 100000 characters, found 100001"):
        handmade.log.start_transaction().commit(operation=Operation(name="WRITE"), origin=origin, allow_empty=True)
    assert not handmade.store.exists(commit_path(1))


def test_a_text_of_the_user_that_utf_8_cannot_hold_is_refused_and_nothing_is_committed():
    handmade = HandmadeLog().create()
    origin = Origin(user_metadata="half an emoji \ud83d")
    with pytest.raises(
        InvalidStatementError, match=r"user_metadata must be .*, found the lone surrogate \\ud83d; leave it out"
    ):
        handmade.log.start_transaction().commit(operation=Operation(name="WRITE"), origin=origin, allow_empty=True)
    assert not handmade.store.exists(commit_path(1))


@pytest.mark.parametrize("is_staged", [False, True])
def test_an_operation_with_a_text_that_utf_8_cannot_hold_is_refused_and_nothing_is_written(is_staged):
    handmade = HandmadeLog().create()
    log = handmade.log.staging("s") if is_staged else handmade.log
    before = {file.path for file in handmade.store.list_all()}
    operation = Operation(name="DELETE", parameters={"predicate": "a = '\ud83d'"})
    with pytest.raises(InvalidStatementError, match=r"DELETE is not valid: .* found a lone surrogate: .*a = .*\\ud83d"):
        log.start_transaction().commit(operation=operation, allow_empty=True)
    assert {file.path for file in handmade.store.list_all()} == before
