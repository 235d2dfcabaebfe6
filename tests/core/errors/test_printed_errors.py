"""Error texts with content from a table are printable: one line, without control characters."""

import json

import pytest

from airflow_delta.core.errors import CorruptLogError, DeltaError
from airflow_delta.core.errors.conflict import ConcurrentAppendError

EVIL = "\x1b[2J\n2026-01-01 ERROR forged\x9b\u202e\ud800"


@pytest.mark.parametrize(
    "error",
    [
        CorruptLogError(table="/t", file=EVIL, detail=EVIL),
        ConcurrentAppendError(
            table="/t", read_version=1, winning_version=2, path=EVIL, winner={"job": {"jobName": EVIL}}, partition={"p": EVIL}
        ),
    ],
    ids=["a file's name", "the winner of a conflict"],
)
def test_the_text_of_an_error_is_one_line_without_control_characters(error):
    text = str(error)
    assert r"\x1b[2J" in text
    assert all(character.isprintable() for character in text), text


def test_an_error_travels_as_json_that_every_store_takes():
    error = CorruptLogError(table="/t", file="a\x00b\ud800", detail="x")
    document = json.loads(json.dumps(error.to_json()))
    assert document["attributes"]["file"] == r"a\x00b\ud800"
    assert json.dumps(document, ensure_ascii=False).encode()
    assert isinstance(DeltaError.from_json(document), CorruptLogError)
