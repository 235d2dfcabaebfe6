"""The SQL parser gets no text that would keep it busy, from any source."""

import time
from contextlib import suppress

import pytest

from airflow_delta.core.errors import InvalidPredicateError
from airflow_delta.core.predicate import Opaque, named_columns, parse_predicate
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.data_types import DATE, INTEGER, STRING

SCHEMA = StructType((StructField("day", DATE), StructField("delay", INTEGER), StructField("name", STRING)))
_AT_ONCE = 2.0  # CPU seconds, many times what a text within the bound takes


def _nested(call: str, end: str, levels: int) -> str:
    return f"{call * levels}delay{end * levels} > 0"


@pytest.mark.parametrize("levels", [16, 60])
@pytest.mark.parametrize(
    ("call", "end"),
    [("date(", ")"), ("struct(", ")"), ("decimal(", ")"), ("int(", ", delay)"), ("`date`(", ")"), ("date(struct(", "))")],
)
def test_nested_calls_of_type_names_are_reported_at_once_to_be_too_much(call, end, levels):
    sql, start = _nested(call, end, levels), time.process_time()
    assert named_columns(sql) is None
    assert time.process_time() - start < _AT_ONCE


@pytest.mark.parametrize("call", ["date(", "struct(", "timestamp("])
def test_a_predicate_of_an_author_that_is_nested_too_deeply_is_refused_by_a_typed_error(call):
    start = time.process_time()
    with pytest.raises(InvalidPredicateError, match="too long, or nested too deeply"):
        parse_predicate(_nested(call, ")", 22), SCHEMA, "s3://lake/flights")
    assert time.process_time() - start < _AT_ONCE


@pytest.mark.parametrize(
    "sql",
    [
        _nested("date(", ")", 5),
        _nested("(", ")", 20),
        _nested("abs(", ")", 20),
        _nested("case when delay > 1 then ", " else 2 end", 20),
        "date(timestamp(substring(name, 1, 10))) > day AND decimal(delay) > 1 OR struct(day, delay) IS NULL",
        "cast(name AS struct<a: array<map<string, array<decimal(10, 2)>>>>) IS NULL",
        "name IN (" + ", ".join(f"'{number}'" for number in range(3_000)) + ")",
    ],
)
def test_what_tables_really_say_is_parsed(sql):
    assert named_columns(sql) is not None
    parse_predicate(sql, SCHEMA, "s3://lake/flights")


@pytest.mark.parametrize(
    "sql", ["(" * 500 + "delay" + ")" * 500, "not " * 5_000 + "true", "delay" + " + delay" * 9_000 + " > 0"]
)
def test_no_text_ends_in_an_error_of_python(sql):
    with suppress(InvalidPredicateError):
        parse_predicate(sql, SCHEMA, "s3://lake/flights")


@pytest.mark.parametrize(
    "sql",
    [
        "delay > '" + "9" * 6_000 + "'",
        "delay > cast(1 AS decimal(" + "9" * 6_000 + ", 1))",
    ],
)
def test_absurd_numbers_are_left_to_spark(sql):
    assert isinstance(parse_predicate(sql, SCHEMA, "s3://lake/flights"), Opaque)


def test_half_a_character_is_no_sql():
    with pytest.raises(InvalidPredicateError, match="lone surrogate"):
        parse_predicate("name = '\ud800'", SCHEMA, "s3://lake/flights")
