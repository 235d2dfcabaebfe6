"""Expressions of tables judged by their text alone, as over Spark Connect."""

import re

import pytest

from airflow_delta.spark.constraints.permitted import FUNCTIONS
from airflow_delta.spark.constraints.plain_expression import (
    MAX_TOKENS,
    NotPlainError,
    plain_expression,
    reads_one_row,
)


@pytest.mark.parametrize(
    ("text", "functions", "names"),
    [
        ("id > 0 AND name <> ''", set(), {"id", "name"}),
        ("CAST(at AS DATE)", {"cast"}, {"at"}),
        ("year(at) * 100 + MONTH (at)", {"year", "month"}, {"at"}),
        ("price BETWEEN 0.5 AND 1e3", set(), {"price"}),
        ("kind IN ('a', \"b\", 'it''s', 'a\\'b')", set(), {"kind"}),
        ("`odd name`.`in``side` IS NOT NULL", set(), {"odd name"}),
        ("upper(address.city) = 'OSLO (select'", {"upper"}, {"address"}),
        ("CASE WHEN a THEN 1L ELSE -2 END", set(), {"a"}),
        ("date '2020-01-01' < at::date", set(), {"at"}),
        ("cast(a as decimal(10, 2)) <=> b", {"cast", "decimal"}, {"a", "b"}),
        ("cast(a AS NUMERIC(10, 2)) <=> b::varchar(3)", {"cast"}, {"a", "b"}),
        ("CASE (a) WHEN (b) THEN (c) ELSE (d) END", set(), {"a", "b", "c", "d"}),
        ("not (a or (b))", set(), {"a", "b"}),
    ],
)
def test_what_a_text_calls_and_names_is_found(text, functions, names):
    found = plain_expression(text, FUNCTIONS)
    assert (found.functions, found.names) == (functions, names)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("java_method('java.lang.System', 'exit', 1)", "the function java_method"),
        ("`java_method`('java.lang.System', 'exit', 1)", "the function java_method"),
        ("spark_catalog.default.leak(id)", "the function leak"),
        ("`a`.`leak`(id)", "the function leak"),
        ("id IN (SELECT id FROM secrets)", "the word SELECT"),
        ("id IN (FROM secrets)", "the word FROM"),
        ("id IN (TABLE secrets)", "the word TABLE"),
        ("id IN (VALUES 1)", "the word VALUES"),
        ("id IN (MAP (id) USING 'cat')", "the word USING"),
        ("EXISTS(WITH x AS (TABLE y) TABLE x)", "the word WITH"),
        ("id > 0 -- and java_method('a')", "the sign --"),
        ("id > 0 /* ' */", "the sign /*"),
        ("name = r'\\' OR java_method('a') = ''", "the sign r'"),
        ('name = R"\\" OR x', 'the sign R"'),
        ("exists(list, x -> x > java_method('a'))", "the sign ->"),
        ("name = '${env:SECRET", "the sign '$"),
        ("numeric(id) > 0", "the function numeric"),
        ("CAST(id AS dec) + dec(id) > 0", "the function dec"),
        ("id > :x", "the sign :x"),
        ("id > 1; DROP TABLE x", "the sign ; "),
        ("näme > 1", "the sign äm"),
    ],
)
def test_a_text_that_calls_other_functions_or_may_mean_more_is_refused(text, why):
    with pytest.raises(NotPlainError, match=f"^{re.escape(why)}$"):
        plain_expression(text, FUNCTIONS)


def test_a_text_that_nests_deeper_than_spark_follows_is_refused():
    with pytest.raises(NotPlainError, match="too many words"):
        plain_expression("- " * MAX_TOKENS + "id", FUNCTIONS)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], True),
        (["target.`id` = source.id", "source.n + 1 > 2 AND source.kind IN ('a', 'b')"], True),
        (["source.n", "(SELECT max(n) FROM t)"], False),
        (["source.id IN (TABLE ids)"], False),
        (["largest_of_the_table(source.id)"], False),  # its body may be a query
        (["upper(source.name)"], False),
        (["source.n -- and more"], False),
        (["source.n::numeric(10, 2)", "source.name::VARCHAR (3) = 'a'"], True),
        (["numeric(source.n)"], False),
        (["source.n + dec(1)"], False),
        (["varchar(source.n) = 'a'"], False),
        (["1L + then(source.n)"], False),
    ],
)
def test_only_plain_texts_without_calls_certainly_read_no_table(texts, expected):
    assert reads_one_row(texts) is expected


def test_spark_takes_no_word_of_a_text_for_another(spark):
    """Spark's own parser finds the same functions and names in what is let through."""
    text = "CASE WHEN `odd name`.`in``side` > 1e3 THEN upper(address.city) = 'it''s' ELSE kind IN ('a\\'b', \"--\") END"
    found = plain_expression(text, FUNCTIONS)
    columns = "`odd name` STRUCT<`in``side`: DOUBLE>, address STRUCT<city: STRING>, kind STRING"
    rows = spark.createDataFrame([((1e4,), ("Oslo",), "a'b"), ((1.0,), ("Oslo",), "--")], columns)
    assert (found.functions, found.names) == ({"upper"}, {"odd name", "address", "kind"})
    assert [value for [value] in rows.selectExpr(text).collect()] == [False, True]
