"""Untrusted values become safe text for a terminal, JSON for a store, or a number for a sum."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.foreign_values import (
    json_text,
    json_value,
    lone_surrogate,
    moment,
    natural_number,
    printable,
    printable_lines,
)

LONG = 1 << 63
TEXTS = st.text(st.characters(codec=None), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
)


@given(TEXTS)
def test_a_printable_text_has_one_line_and_can_be_encoded(text):
    shown = printable(text)
    assert len(shown.splitlines()) <= 1
    shown.encode()
    assert printable(shown) == shown


@pytest.mark.parametrize(("text", "found"), [("a\U0001f44d", None), ("a\ud83d", "\\ud83d"), ("\udc4d\ud83d", "\\udc4d")])
def test_the_first_half_of_a_character_is_named(text, found):
    assert lone_surrogate(text) == found


@pytest.mark.parametrize("text", ["plain", "Jürgen 日本 👍🏽", "C:\\lake", "a\u00a0b"])
def test_an_ordinary_text_is_shown_as_it_is(text):
    assert printable(text) == text


def test_lines_stay_lines():
    assert printable_lines("a\n\x1bb\r\n") == "a\n\\x1bb\\r\n"


@given(JSON)
def test_any_value_becomes_json_for_every_store(value):
    document = json_value(value)
    text = json.dumps(document, allow_nan=False, ensure_ascii=False)
    assert "\x00" not in text
    text.encode()
    assert json_value(document) == document
    assert json.loads(json_text(value)) == document


@pytest.mark.parametrize("value", [None, True, 0, -LONG, LONG - 1, 1.5, "é\n", ["a", {"b": [1]}], {"a": None}])
def test_ordinary_json_is_left_alone(value):
    assert json_value(value) == value


@pytest.mark.parametrize(
    ("value", "document"),
    [
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (LONG, str(LONG)),
        (10**5_000, "a number of too many digits"),
        ("a\ud800\x00", r"a\ud800\x00"),
        ({1: (2, {3})}, {"1": [2, [3]]}),
        (b"x", "b'x'"),
    ],
    ids=["nan", "infinity", "no long", "5,001 digits", "no text", "no json", "bytes"],
)
def test_what_stores_refuse_becomes_a_text(value, document):
    assert json_value(value) == document


def test_what_is_nested_too_deeply_is_left_out():
    deep = []
    for _ in range(5_000):
        deep = [deep]
    assert len(json.dumps(json_value(deep))) < 300


@pytest.mark.parametrize(("value", "number"), [(0, 0), ("7", 7), (LONG - 1, LONG - 1), (str(LONG - 1), LONG - 1)])
def test_a_count_is_a_number(value, number):
    assert natural_number(value) == number


@pytest.mark.parametrize("value", [-1, LONG, True, 1.0, math.nan, None, "", "-1", "1.0", "9" * 5_000, "٣", "x", [1]])
def test_what_cannot_be_a_count_is_none(value):
    assert natural_number(value) is None


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(978307200001, "2001-01-01 00:00:00.001 UTC"), (-1, "1969-12-31 23:59:59.999 UTC"), (10**18, "1000000000000000000 ms")],
)
def test_a_moment_is_a_time_that_people_read_or_else_the_number(milliseconds, text):
    assert moment(milliseconds) == text
