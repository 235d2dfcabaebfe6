"""Predicates as values: what they refer to, and their sound weakenings."""

import math

import pyarrow as pa
import pytest

from airflow_delta.core.errors import InvalidPredicateError
from airflow_delta.core.predicate import (
    FALSE,
    TRUE,
    And,
    Column,
    Comparison,
    In,
    Literal,
    Not,
    Or,
    conjunction,
    disjunction,
    is_exact,
    is_partition_only,
    parse_predicate,
    partition_part,
    referenced_columns,
    to_arrow_expression,
)
from airflow_delta.core.predicate.expression import with_negation_at_leaves
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.data_types import DATE, DOUBLE, LONG, STRING

SCHEMA = StructType(
    (
        StructField("day", DATE),
        StructField("hub", STRING),
        StructField("id", LONG),
        StructField("load", DOUBLE),
        StructField("s", StructType((StructField("x", LONG),))),
    )
)
PARTITIONS = ("day", "hub")
ONE, TWO = (Comparison("=", Column("id"), Literal(number, LONG)) for number in (1, 2))


def parse(sql):
    return parse_predicate(sql, SCHEMA, "t")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("day = '2013-01-01' AND id = 1", "day = '2013-01-01'"),
        ("day = '2013-01-01' OR id = 1", "true"),
        ("(day = '2013-01-01' AND id = 1) OR (day = '2013-01-02' AND id = 2)", "day = '2013-01-01' OR day = '2013-01-02'"),
        ("NOT (day = '2013-01-01' OR id = 1)", "day != '2013-01-01'"),
        ("NOT (day = '2013-01-01' AND id = 1)", "true"),
        ("NOT NOT (hub LIKE 'J%' AND id = 1)", "hub LIKE 'J%'"),
        ("id = 1", "true"),
        ("false AND id = 1", "false"),
        ("year(day) = 2013 AND id = 1", "year(day) = 2013"),
        ("NOT (year(day) = 2013 OR id = 1)", "NOT year(day) = 2013"),
        ("concat(hub, id) = 'a1' AND hub = 'a'", "hub = 'a'"),
    ],
)
def test_the_partition_part_keeps_what_every_selected_row_fulfils(sql, expected):
    assert partition_part(parse(sql), PARTITIONS) == with_negation_at_leaves(parse(expected))


def test_a_predicate_knows_its_columns_and_whether_it_can_be_decided_here():
    exact, opaque = parse("day = '2013-01-01' AND NOT s.x = 1"), parse("upper(hub) = 'JFK' OR id IS NULL")
    assert (referenced_columns(exact), is_exact(exact)) == ({"day", "s"}, True)
    assert (referenced_columns(opaque), is_exact(opaque)) == ({"hub", "id"}, False)
    assert not is_partition_only(exact, PARTITIONS)
    assert is_partition_only(parse("day = '2013-01-01' AND year(day) = 2013"), PARTITIONS)
    assert (referenced_columns(TRUE), is_partition_only(TRUE, ())) == (frozenset(), True)


def test_joining_flattens_and_drops_what_changes_nothing():
    assert conjunction([]) == TRUE
    assert disjunction([]) == FALSE
    assert conjunction([TRUE, ONE, conjunction([ONE, TWO])]) == And((ONE, TWO))
    assert conjunction([ONE, FALSE]) == FALSE
    assert disjunction([ONE, TRUE]) == TRUE
    assert disjunction([FALSE, ONE]) == ONE


def test_negation_moves_to_the_leaves_and_keeps_null():
    assert with_negation_at_leaves(Not(Literal(None))) == Literal(None)
    assert with_negation_at_leaves(parse("NOT (id < 1 OR id <=> 2)")) == And(
        (Comparison(">=", Column("id"), Literal(1, LONG)), Not(Comparison("<=>", Column("id"), Literal(2, LONG))))
    )


def test_rows_are_filtered_with_nan_as_the_greatest_number():
    rows = pa.table({"load": [1.0, math.nan, None, math.inf]})
    counts = {
        sql: len(rows.filter(to_arrow_expression(parse(sql)))) for sql in ("load > 5", "load = double('NaN')", "NOT load < 5")
    }
    assert counts == {"load > 5": 2, "load = double('NaN')": 1, "NOT load < 5": 2}


def test_zero_and_minus_zero_are_one_number():
    rows = pa.table({"load": [0.0, -0.0, 1.0, None]})
    counts = [
        len(rows.filter(to_arrow_expression(parse(sql)))) for sql in ("load = 0", "load IN (0, 5)", "load NOT IN (-0.0D, 5)")
    ]
    assert counts == [2, 2, 1]


def test_a_chain_longer_than_arrow_can_stand_is_refused_and_a_list_is_not():
    rows = pa.table({"id": [1, 1_999, 70_000]})
    leaves = [Comparison("=", Column("id"), Literal(number, LONG)) for number in range(2_001)]
    assert len(rows.filter(to_arrow_expression(Or(tuple(leaves[:-1]))))) == 2
    assert len(rows.filter(to_arrow_expression(Not(Or(tuple(leaves[:-1])))))) == 1
    with pytest.raises(InvalidPredicateError, match="more than 2000 parts"):
        to_arrow_expression(Or(tuple(leaves)))
    values = tuple(Literal(number, LONG) for number in range(70_001))
    assert len(rows.filter(to_arrow_expression(In(Column("id"), values)))) == 3


def test_a_constant_filters_all_or_nothing():
    rows = pa.table({"id": [1, 2]})
    assert [len(rows.filter(to_arrow_expression(parse(sql)))) for sql in ("true", "false", "NULL", "NULL OR id = 1")] == [
        2,
        0,
        0,
        1,
    ]


def test_what_only_spark_can_decide_is_refused_with_the_part_concerned():
    with pytest.raises(InvalidPredicateError) as caught:
        to_arrow_expression(parse("id = 1 AND upper(hub) = 'JFK'"), table="s3://lake/t")
    assert (caught.value.table, caught.value.predicate) == ("s3://lake/t", "UPPER(hub) = 'JFK'")
