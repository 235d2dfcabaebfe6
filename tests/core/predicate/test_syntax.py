"""The bound on the work of the SQL parser."""

import time
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp
from sqlglot.errors import SqlglotError, TokenError

from airflow_delta.core.predicate import named_columns
from airflow_delta.core.predicate.syntax import MAX_WORK_OF_TABLE, may_lack_plus, parsed, parsing_work, tokens_of, words_of
from tests.core.cost import cost_of

_AT_ONCE = 2.0  # CPU seconds, many times what a text within the bound takes


@pytest.mark.parametrize("sql", ["+a = 1", "a + +b", "a = +'1'", "-+a = 1", "f(+a) + 1", "SELECT +a FROM t", "+5 + +a"])
def test_a_tree_may_lack_a_plus_before_anything_but_a_number(sql):
    assert may_lack_plus(parsed(sql), sql)


@pytest.mark.parametrize("sql", ["a + b", "a = +1", "a + -b + 'c'", "+1 + 2", "a BETWEEN +1 AND +2", "'+' = a || '+b'"])
def test_a_tree_has_every_other_plus(sql):
    assert not may_lack_plus(parsed(sql), sql)


@pytest.mark.parametrize("sql", ["a = 1 --\\\nAND b", "a --c\\\n", "--\\\n\\\na", "/* x */ --\\\n' + a'"])
def test_a_comment_that_spark_continues_in_the_next_line_is_refused(sql):
    for words in (tokens_of, words_of):
        with pytest.raises(TokenError, match="a comment ends with a backslash"):
            words(sql)


@pytest.mark.parametrize("part", ["--", "/*", "--x\n", "/**/", "--\\"])
def test_comments_are_read_in_time_that_grows_as_they_do(part):
    cost = cost_of(partial(tokens_of, max_work=MAX_WORK_OF_TABLE * 10), "a " + part * 100_000 + "\\\n")
    assert cost.seconds < _AT_ONCE
    assert cost.error is None or isinstance(cost.error, SqlglotError)


@pytest.mark.parametrize("sql", ["a -- c\nAND b", "a = '--\\\n'", "a /* --\\\n */", "a -- c\\ \nAND b", "a -- c\\\r\nAND b"])
def test_other_comments_and_strings_are_read(sql):
    assert tokens_of(sql)[0].text == "a"


def test_type_names_beside_each_other_do_not_multiply():
    sql = " AND ".join(["date(name) > day", "int(name) > delay"] * 200)
    assert parsing_work(tokens_of(sql)) < MAX_WORK_OF_TABLE
    assert named_columns(sql) == {("name",), ("day",), ("delay",)}


def test_a_comparison_inside_parentheses_closes_none_of_them():
    nested = "date(delay > 1 AND date(delay > 1 AND date(delay)))"
    assert parsing_work(tokens_of(nested)) > 2 * parsing_work(tokens_of(nested.replace("date", "foo")))


_PIECES = st.sampled_from(
    [
        "date(",
        "struct(",
        "foo(",
        "(",
        "case when ",
        "cast(",
        "array<",
        "x -> ",
        "[",
        "not ",
        "a",
        " as int)",
        ")",
        "> 1",
        ", a",
        "]",
    ]
)


@given(st.lists(_PIECES, max_size=60).map("".join))
def test_any_text_is_parsed_or_refused_in_the_time_that_the_bound_gives_it(sql):
    start = time.process_time()
    with suppress(SqlglotError, RecursionError):
        parsed(sql, exp.Condition, max_work=MAX_WORK_OF_TABLE)
    assert time.process_time() - start < _AT_ONCE
