"""SQL text to predicates: shapes, names, constants, and what is refused."""

import datetime as dt
from decimal import Decimal

import pytest

from airflow_delta.core.errors import InvalidPredicateError
from airflow_delta.core.predicate import (
    FALSE,
    TRUE,
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Literal,
    Not,
    Opaque,
    Or,
    StartsWith,
    parse_predicate,
)
from airflow_delta.core.schema import ArrayType, DecimalType, MapType, StructField, StructType
from airflow_delta.core.schema.data_types import BOOLEAN, DATE, DOUBLE, FLOAT, INTEGER, LONG, STRING, TIMESTAMP, TIMESTAMP_NTZ

SCHEMA = StructType(
    (
        StructField("day", DATE),
        StructField("Carrier", STRING),
        StructField("delay", INTEGER),
        StructField("fare", DecimalType(8, 2)),
        StructField("load", DOUBLE),
        StructField("share", FLOAT),
        StructField("late", BOOLEAN),
        StructField("at", TIMESTAMP),
        StructField("local", TIMESTAMP_NTZ),
        StructField("origin", StructType((StructField("code", STRING), StructField("gate.no", LONG)))),
        StructField("odd name", LONG),
        StructField("legs", ArrayType(LONG)),
        StructField("tags", MapType(STRING, STRING)),
        StructField("padded", STRING, metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}),
        StructField("short", STRING, metadata={"__CHAR_VARCHAR_TYPE_STRING": "varchar(5)"}),
        StructField("collated", STRING, metadata={"__COLLATIONS": {"collated": "spark.UTF8_LCASE"}}),
    )
)
DELAY, CARRIER, DAY = Column("delay"), Column("Carrier"), Column("day")
FIRST = Literal(dt.date(2013, 1, 1), DATE)


def parse(sql, **options):
    return parse_predicate(sql, SCHEMA, "s3://lake/flights", **options)


def at(*moment):
    return Literal(dt.datetime(*moment, tzinfo=dt.UTC), TIMESTAMP)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("delay > 5", Comparison(">", DELAY, Literal(5, INTEGER))),
        ("5 < delay", Comparison(">", DELAY, Literal(5, INTEGER))),
        ("-5 >= delay", Comparison("<=", DELAY, Literal(-5, INTEGER))),
        ("+5 >= delay", Comparison("<=", DELAY, Literal(5, INTEGER))),
        ("delay == 5L", Comparison("=", DELAY, Literal(5, INTEGER))),
        ("delay <> 3000000000", Comparison("!=", DELAY, Literal(3_000_000_000, LONG))),
        ("delay < 1.5", Comparison("<", DELAY, Literal(Decimal("1.5"), DecimalType(2, 1)))),
        ("delay = '7'", Comparison("=", DELAY, Literal(7, INTEGER))),
        ("fare = 12", Comparison("=", Column("fare"), Literal(Decimal(12), DecimalType(2, 0)))),
        ("load >= 0.1", Comparison(">=", Column("load"), Literal(0.1, DOUBLE))),
        ("share = 0.1", Comparison("=", Column("share"), Literal(0.1, DOUBLE))),
        ("day = DATE'2013-01-01'", Comparison("=", DAY, FIRST)),
        ("day = '2013-01-01'", Comparison("=", DAY, FIRST)),
        ("CAST('2013-01-01' AS DATE) = day", Comparison("=", DAY, FIRST)),
        ("at = TIMESTAMP'2013-01-01 10:00:00'", Comparison("=", Column("at"), at(2013, 1, 1, 10))),
        ("at >= '2013-01-01'", Comparison(">=", Column("at"), at(2013, 1, 1))),
        ("at >= DATE'2013-01-01'", Comparison(">=", Column("at"), at(2013, 1, 1))),
        ("at = TIMESTAMP'2013-01-01T10:00:00.5+02:00'", Comparison("=", Column("at"), at(2013, 1, 1, 8, 0, 0, 500_000))),
        ("CARRIER <=> 'UA'", Comparison("<=>", CARRIER, Literal("UA", STRING))),
        ("delay <=> NULL", IsNull(DELAY)),
        ("delay IS DISTINCT FROM NULL", Not(IsNull(DELAY))),
        ("delay = NULL", Literal(None)),
        ("delay IS NOT NULL", Not(IsNull(DELAY))),
        ("legs IS NULL", IsNull(Column("legs"))),
        ("late", Comparison("=", Column("late"), TRUE)),
        ("NOT late", Not(Comparison("=", Column("late"), TRUE))),
        ("late IS FALSE", Comparison("<=>", Column("late"), FALSE)),
        ("delay IN (1, 2, NULL, 1)", In(DELAY, (Literal(1, INTEGER), Literal(2, INTEGER), Literal(None, INTEGER)))),
        ("delay NOT IN (1.5, 3000000000, 4)", Not(In(DELAY, (Literal(4, INTEGER),)))),
        ("fare IN (1.5, 1.555)", In(Column("fare"), (Literal(Decimal("1.5"), DecimalType(8, 2)),))),
        ("share IN (0.5, 0.1)", In(Column("share"), (Literal(0.5, FLOAT),))),
        (
            "delay BETWEEN -1 AND 1",
            And((Comparison(">=", DELAY, Literal(-1, INTEGER)), Comparison("<=", DELAY, Literal(1, INTEGER)))),
        ),
        ("carrier LIKE 'U%'", StartsWith(CARRIER, "U")),
        ("carrier NOT LIKE 'U%'", Not(StartsWith(CARRIER, "U"))),
        ("carrier LIKE 'UA'", Comparison("=", CARRIER, Literal("UA", STRING))),
        ("startswith(carrier, 'U_')", StartsWith(CARRIER, "U_")),
        ('origin.code = "JFK"', Comparison("=", Column("origin", ("code",)), Literal("JFK", STRING))),
        ("Origin.`gate.no` = 1", Comparison("=", Column("origin", ("gate.no",)), Literal(1, LONG))),
        ("`odd name` = 1", Comparison("=", Column("odd name"), Literal(1, LONG))),
        ("(delay) = (1)", Comparison("=", DELAY, Literal(1, INTEGER))),
        ("short = 'a'", Comparison("=", Column("short"), Literal("a", STRING))),
        ("true", TRUE),
        ("NULL", Literal(None)),
        ("1 = 1", TRUE),
        ("1 = 2 OR 'a' != 'b'", Or((FALSE, TRUE))),
        (
            "late AND (delay = 1 OR NOT delay = 2) AND day = '2013-01-01'",
            And(
                (
                    Comparison("=", Column("late"), TRUE),
                    Or((Comparison("=", DELAY, Literal(1, INTEGER)), Not(Comparison("=", DELAY, Literal(2, INTEGER))))),
                    Comparison("=", DAY, FIRST),
                )
            ),
        ),
    ],
)
def test_a_text_of_the_closed_list_becomes_its_predicate(sql, expected):
    assert parse(sql) == expected


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("year(day) = 2013", ["day"]),
        ("delay + 1 > 5", ["delay"]),
        ("delay < fare", ["delay", "fare"]),
        ("legs[0] = 1", ["legs"]),
        ("tags['a'] = 'b'", ["tags"]),
        ("exists(legs, x -> x > 1)", ["legs"]),
        ("extract(YEAR FROM day) = 2013", ["day"]),
        ("datediff(DAY, day, at) > 1", ["at", "day"]),
        ("carrier LIKE '%A'", ["Carrier"]),
        ("carrier LIKE 'U!%%' ESCAPE '!'", ["Carrier"]),
        ("carrier ILIKE 'u%'", ["Carrier"]),
        ("carrier = 5", ["Carrier"]),
        ("+carrier = '5'", ["Carrier"]),  # a number
        ("carrier = +'5' AND delay = 1", ["Carrier", "delay"]),
        ("delay = 'five'", ["delay"]),
        ("delay = '07'", ["delay"]),
        ("load = '0.1'", ["load"]),
        ("share = 16777217", ["share"]),
        ("load = 9007199254740993", ["load"]),
        ("delay < 9223372036854775808", ["delay"]),
        ("delay < 1e300", ["delay"]),
        ("day = '2013'", ["day"]),
        ("day = TIMESTAMP'2013-01-01 00:00:00'", ["day"]),
        ("at = 1357034400", ["at"]),
        ("at = '2013-01-01 10:00:00 Europe/Berlin'", ["at"]),
        ("at IN ('2013-01-01 10:00:00')", ["at"]),
        ("late = 1", ["late"]),
        ("padded = 'a'", ["padded"]),
        ("padded IN ('a')", ["padded"]),
        ("collated = 'a'", ["collated"]),
        ("collated LIKE 'a%'", ["collated"]),
        ("origin = struct('JFK', 1)", ["origin"]),
        ("delay IN (1, delay)", ["delay"]),
        ("(delay, day) IN ((1, '2013-01-01'))", ["day", "delay"]),
        ("(delay = 1) = late", ["delay", "late"]),
        ("carrier = 'it''s'", ["Carrier"]),
        ("carrier = 'back\\\\slash'", ["Carrier"]),
    ],
)
def test_everything_else_is_opaque_and_knows_its_columns(sql, names):
    expression = parse(sql)
    assert isinstance(expression, Opaque)
    assert sorted(column.name for column in expression.columns) == names


def test_a_plus_stays_in_an_opaque_text():
    assert parse("+carrier = '5'") == Opaque("+carrier = '5'", (CARRIER,))


def test_an_opaque_part_leaves_the_rest_decidable():
    known, opaque = parse("delay > 5 AND upper(carrier) = 'UA'").operands
    assert known == Comparison(">", DELAY, Literal(5, INTEGER))
    assert opaque == Opaque("UPPER(carrier) = 'UA'", (CARRIER,))


def test_nulls_of_padded_and_collated_columns_are_decided():
    assert parse("padded IS NULL OR collated IS NULL") == Or((IsNull(Column("padded")), IsNull(Column("collated"))))


def test_times_without_a_zone_are_in_the_given_zone():
    winter, summer = at(2013, 1, 1, 5), at(2013, 7, 1, 4)
    assert parse("at = '2013-01-01 00:00:00'", time_zone="America/New_York") == Comparison("=", Column("at"), winter)
    assert parse("at = DATE'2013-07-01'", time_zone="America/New_York") == Comparison("=", Column("at"), summer)
    assert parse("at = '2013-07-01T04:00:00Z'", time_zone="America/New_York") == Comparison("=", Column("at"), summer)


@pytest.mark.parametrize(
    ("moment", "time_zone"),
    [("9999-12-31 23:59:59", "America/New_York"), ("0001-01-01", "Asia/Tokyo"), ("2013-01-01", "+02:00")],
)
def test_a_time_that_python_cannot_bring_to_utc_is_left_to_spark(moment, time_zone):
    assert isinstance(parse(f"at < '{moment}'", time_zone=time_zone), Opaque)


@pytest.mark.parametrize(
    "number", ["CAST(CAST('inf' AS DOUBLE) AS INT)", "CAST(1e400 AS INT)", "CAST(CAST('NaN' AS DOUBLE) AS INT)"]
)
def test_a_number_that_no_integer_is_near_is_left_to_spark(number):
    assert isinstance(parse(f"delay = {number}"), Opaque)


@pytest.mark.parametrize(
    "number",
    [
        "CAST('0x1' AS INT)",
        "CAST('1_000' AS DECIMAL(6, 2))",
        "CAST('9223372036854775808' AS DECIMAL(38, 38))",
        "CAST(1 AS DECIMAL(0, 0))",
        "CAST(1 AS DECIMAL(1, 2))",
        "CAST(1 AS DECIMAL(39, 0))",
        ". 1F",
    ],
)
def test_what_is_a_number_to_arrow_or_python_alone_is_left_to_spark(number):
    assert isinstance(parse(f"fare = {number}"), Opaque)


@pytest.mark.parametrize("day", ["DATE'2013-01-01 12:00:00'", "date('2013-01-01T12:00')", "CAST('2013-01-01 12:00Z' AS DATE)"])
def test_a_date_with_a_time_which_spark_drops_is_left_to_spark(day):
    assert isinstance(parse(f"at = {day}"), Opaque)
    assert isinstance(parse(f"local < {day}"), Opaque)


def test_digits_of_other_scripts_are_left_to_spark():
    assert isinstance(parse("day = '２０１３-01-01'"), Opaque)  # noqa: RUF001


def test_a_decimal_type_without_a_scale_has_none():
    assert parse("fare = CAST(7 AS DECIMAL(5))") == parse("fare = CAST(7 AS DECIMAL(5, 0))") == parse("fare = 7")


def test_floats_among_doubles_are_doubles():
    assert parse("load IN (0.5F, CAST(2 AS FLOAT))") == In(Column("load"), (Literal(0.5, DOUBLE), Literal(2.0, DOUBLE)))


def test_a_wall_clock_column_is_compared_with_an_instant_only_where_both_are_one():
    sql = "local = TIMESTAMP'2013-01-01 10:00:00'"
    expected = Literal(dt.datetime(2013, 1, 1, 10), TIMESTAMP_NTZ)  # noqa: DTZ001
    assert parse(sql) == Comparison("=", Column("local"), expected)
    assert isinstance(parse(sql, time_zone="America/New_York"), Opaque)
    assert parse(sql.replace("TIMESTAMP'", "TIMESTAMP_NTZ'"), time_zone="America/New_York") == parse(sql)


@pytest.mark.parametrize("sql", ["dleay > 5", "origin.name = 'JFK'", "delay.x = 1", "upper(carier) = 'UA'", "legs.element = 1"])
def test_a_column_that_is_not_there_is_an_error_that_lists_those_that_are(sql):
    with pytest.raises(InvalidPredicateError) as caught:
        parse(sql)
    assert (caught.value.table, caught.value.predicate) == ("s3://lake/flights", sql)
    assert "does not exist; the columns are" in caught.value.detail
    assert "day, Carrier, delay" in caught.value.detail


@pytest.mark.parametrize(
    ("sql", "detail"),
    [
        ("", "a single SQL condition"),
        ("delay >", "a single SQL condition (an operand of GT is missing. Line 1, Col: 7)"),
        ("delay == = 1", "a single SQL condition (an operand of EQ is missing. Line 1, Col: 10)"),
        ("delay = 1 carrier", "a single SQL condition"),
        ("delay = 1; DROP TABLE x", "a single SQL condition"),
        ("SELECT 1", "a single SQL condition"),
        ("DELETE FROM x", "a single SQL condition"),
        ("5", "a single SQL condition"),
        ("'text'", "a single SQL condition"),
        ("delay", "the column 'delay' is int, not boolean"),
        ("NOT carrier", "the column 'Carrier' is string, not boolean"),
        ("delay IN (SELECT 1)", "subquery"),
        ("EXISTS (SELECT 1)", "subquery"),
        ("(" * 1_000 + "delay = 1" + ")" * 1_000, "nested too deeply"),
        ("delay > (SELECT max(x) FROM y)", "subquery"),
        ("delay < 1F ('a')", "a single SQL condition"),
        ("delay < . 1.5BD", "a single SQL condition"),
        ("delay = 1 --\\\n+ 1", "a comment ends with a backslash"),
    ],
)
def test_a_text_that_is_no_condition_on_the_table_is_refused(sql, detail):
    with pytest.raises(InvalidPredicateError) as caught:
        parse(sql)
    assert detail in caught.value.detail


def test_a_long_chain_is_read_without_deep_recursion():
    sql = " OR ".join(f"delay = {number}" for number in range(5_000))
    assert len(parse(sql).operands) == 5_000
