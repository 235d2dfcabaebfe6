import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.table_changes.column_path import overlap, parse_path, path_text
from airflow_delta.core.table_changes.refusal import Refusal


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", ("a",)),
        ("a.b.c", ("a", "b", "c")),
        ("`a.b`.c", ("a.b", "c")),
        ("`a``b`", ("a`b",)),
        ("a b", ("a b",)),
        ("ünï.x", ("ünï", "x")),
    ],
)
def test_a_path_has_parts(text, parts):
    assert parse_path(text) == parts


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "`a", "``", "`a`b", "a`b`"])
def test_a_text_that_is_no_path_is_refused(text):
    with pytest.raises(Refusal):
        parse_path(text)


@given(st.lists(st.text(min_size=1) | st.text("a.`", min_size=1), min_size=1))
def test_what_history_shows_reads_back(parts):
    assert parse_path(path_text(tuple(parts))) == tuple(parts)


def test_columns_overlap_when_one_lies_in_the_other():
    assert overlap(("a",), ("A", "b"))
    assert overlap(("a", "b"), ("a",))
    assert not overlap(("a", "b"), ("a", "c"))
