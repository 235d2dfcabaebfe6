"""The predicates that the core decides mean what they mean in Spark, value by value."""

import datetime as dt
import math
from contextlib import contextmanager, suppress
from decimal import Decimal

import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from airflow_delta.core.errors import InvalidPredicateError
from airflow_delta.core.least_versions import is_at_least
from airflow_delta.core.predicate import is_exact, parse_predicate
from airflow_delta.core.predicate.row_values import row_values
from airflow_delta.core.schema import struct_from_arrow

NOON = dt.datetime(2013, 1, 1, 12, 0, 0, 500, dt.UTC)
COLUMNS = {
    "b8": pa.array([-128, -1, 0, 1, 127, None], pa.int8()),
    "i": pa.array([-1, 0, 1, 5, 2**31 - 1, None], pa.int32()),
    "l": pa.array([-(2**63), 0, 1, 2**53, 2**53 + 1, None], pa.int64()),
    "f": pa.array([math.nan, 0.1, -0.0, 0.5, -math.inf, None], pa.float32()),
    "d": pa.array([math.nan, 0.1, -0.0, 2.5, math.inf, None], pa.float64()),
    "dec": pa.array([*map(Decimal, ("-1.50", "0.00", "1.50", "1.51", "9999.99")), None], pa.decimal128(6, 2)),
    "s": pa.array(["", "a", "ab", "b%", "a_c", None]),
    "o": pa.array([True, False, True, False, True, None]),
    "day": pa.array(
        [dt.date(1969, 12, 31), dt.date(2013, 1, 1), dt.date(2013, 1, 2), dt.date(1, 1, 1), dt.date(9999, 12, 31), None]
    ),
    "ts": pa.array(
        [
            NOON,
            NOON.replace(microsecond=0),
            NOON.replace(hour=0, microsecond=0),
            NOON.replace(year=1969),
            NOON.replace(day=2),
            None,
        ],
        pa.timestamp("us", "UTC"),
    ),
    "ntz": pa.array([time and time.replace(tzinfo=None) for time in (NOON, NOON.replace(hour=0, microsecond=0))] + [None] * 4),
    "n": pa.array([{"x": 1}, {"x": 5}, {"x": None}, None, {"x": -1}, {"x": 0}], pa.struct({"x": pa.int32()})),
}
FRACTIONS = ["1.5BD"] if is_at_least(sqlglot.__version__, (30, 22)) else []
"""Older ones read it as a decimal without digits behind the point, and it is left to Spark."""
LITERALS = {
    "b8": ["1", "-128", "300", "1.0", "1.5", "'1'", "1e0", "1S"],
    "i": ["1", "5L", "1.5", "-1.5", "5.0D", "0.5D", "'5'", "3000000000"],
    "l": ["0", "9007199254740993", "1.5", "1e3", "-9223372036854775808", "'1'"],
    "f": [
        "0",
        "0.1",
        "0.5",
        "0.1F",
        "0.1D",
        "CAST('NaN' AS FLOAT)",
        "-0.0D",
        "1e39",
        "double('NaN')",
        "CAST('Infinity' AS DOUBLE)",
    ],
    "d": ["0", "0.1", "2.5D", "double('NaN')", "0.1F", "CAST('-Infinity' AS DOUBLE)", "3", "1BD"],
    "dec": ["1.5", "1.50", "1.505", "2", *FRACTIONS, "10000", "CAST(0 AS DECIMAL(3,1))", "-1.5", "0.000000000000000001"],
    "s": ["'a'", "''", "'ab'", '"b%"', "'A'"],
    "o": ["true", "false"],
    "day": ["DATE'2013-01-01'", "'2013-01-01'", "CAST('1969-12-31' AS DATE)", "date('2013-01-02')", "DATE'9999-12-31'"],
    "ts": [
        "TIMESTAMP'2013-01-01 12:00:00'",
        "'2013-01-01 12:00:00.0005'",
        "DATE'2013-01-01'",
        "'2013-01-01'",
        "TIMESTAMP'2013-01-01 13:00:00.0005+01:00'",
        "TIMESTAMP_LTZ'1969-01-01T12:00:00.000500Z'",
    ],
    "ntz": [
        "TIMESTAMP_NTZ'2013-01-01 12:00:00.0005'",
        "DATE'2013-01-01'",
        "'2013-01-01 00:00'",
        "TIMESTAMP'2013-01-01 00:00:00'",
    ],
    "n.x": ["1", "0.5", "-1L"],
}
OPERATORS = ["=", "!=", "<", "<=", ">", ">=", "<=>"]
OTHERS = [
    "i IN (1, 5)",
    "i NOT IN (1, NULL)",
    "i IN (1.5, 5.0, 3000000000)",
    "b8 IN (300)",
    "b8 NOT IN (300)",
    "f IN (0.5, 0.1F)",
    "d IN (0, double('NaN'))",
    "d NOT IN (0.0D, 2.5D)",
    "dec IN (1.5, 1.505, 100000)",
    "s IN ('a', 'b%')",
    "o IN (true, NULL)",
    "day IN ('2013-01-01', DATE'1969-12-31')",
    "ts IN (TIMESTAMP'2013-01-01 12:00:00', DATE'2013-01-01')",
    "i BETWEEN 0 AND 5",
    "ts NOT BETWEEN '2013-01-01' AND '2013-01-01 12:00:00'",
    "s LIKE 'a%'",
    "s NOT LIKE 'a%'",
    "s LIKE '%'",
    "s LIKE 'ab'",
    "s LIKE ''",
    "startswith(s, 'a_')",
    "s IS NULL",
    "n IS NULL",
    "n.x IS NOT NULL",
    "N.X = 5",
    "`o`",
    "NOT o",
    "! o AND true",
    "o IS TRUE",
    "o IS NOT FALSE",
    "o = NULL",
    "o <=> NULL",
    "NULL",
    "NULL OR o",
    "NULL AND o",
    "NOT (o OR i > 1 AND NOT s = 'a')",
    "i IS DISTINCT FROM 5",
    "1 = 1",
    "'a' = 'b' OR o",
]
LEFT_TO_SPARK = [
    "s = 1",
    "b8 = '300'",
    "i < '-3000000000'",
    "s = 'a\\n'",
    "s IN ('a', '\\141')",
    "i = '5x'",
    "d = '0.1'",
    "o = 'true'",
    "day = TIMESTAMP'2013-01-01 00:00:00'",
    "day = '2013-01-01 10:00'",
    "s LIKE 'a_c'",
    "s LIKE '%c'",
    "s LIKE 'a\\\\_%'",
    "s = 'it''s'",
    "i = l",
    "i + 1 = 2",
    "ts IN ('2013-01-01 12:00:00')",
    "dec = 1.5D",
    "f = 16777217",
    "l < 9223372036854775808",
    "i IN (9223372036854775808)",
    "(i, l) = (1, 1)",
    "s RLIKE 'a'",
    "day = current_date()",
    "length(s) BETWEEN 1 AND 2",
    "(o AND NOT o) = true",
    "ts = DATE'2013-01-01 12:00:00'",
    "ntz = date('2013-01-01 12:00')",
    "i = int('0x1')",
    "l IN (0BD, '9007199254740993')",  # compared as doubles
    "l IN (0e0, 9007199254740993)",
    "i > CAST('0.00000000000000000000000000000000000001' AS DECIMAL(38, 38))",
    "dec = CAST('1_000' AS DECIMAL(6, 2))",
    "day = '\uff12\uff10\uff11\uff13-01-01'",
]


@contextmanager
def uncompiled(spark):
    """Hundreds of expressions on six rows are computed faster than compiled."""
    settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    former = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield
    for key, value in former.items():
        spark.conf.set(key, value)


@pytest.fixture(scope="module")
def frame(spark):
    return spark.createDataFrame(pa.table(COLUMNS)).coalesce(1).cache()


def decided(texts):
    """What the core says of each row, for the texts that it decides."""
    table = pa.table(COLUMNS)
    schema = struct_from_arrow(table.schema)

    def operand(column):
        values = table[column.name]
        return pa.compute.struct_field(values, list(column.members)) if column.members else values

    found = {}
    for text in texts:
        with suppress(InvalidPredicateError):
            expression = parse_predicate(text, schema, "t")
            if is_exact(expression):
                values = row_values(expression, operand)
                found[text] = [values.as_py()] * len(table) if isinstance(values, pa.Scalar) else values.to_pylist()
    return found


def decided_by_spark(frame, texts):
    """What Spark says of each row, for the texts that it does not refuse."""
    try:
        rows = frame.selectExpr(*(f"CAST(({text}) AS BOOLEAN) AS p{index}" for index, text in enumerate(texts))).collect()
    except PySparkException:
        middle = len(texts) // 2
        return decided_by_spark(frame, texts[:middle]) | decided_by_spark(frame, texts[middle:]) if middle else {}
    return {text: [row[index] for row in rows] for index, text in enumerate(texts)}


def test_every_comparison_that_is_decided_here_is_decided_as_spark_decides_it(spark, frame):
    compared = [
        text
        for name, literals in LITERALS.items()
        for literal in literals
        for op in OPERATORS
        for text in (f"{name} {op} {literal}", f"{literal} {op} {name}")
    ]
    wanted = list(dict.fromkeys([*compared, *OTHERS]))
    ours = decided(wanted)
    assert [text for text in wanted if text not in ours] == []
    theirs = {}
    with uncompiled(spark):
        for start in range(0, len(wanted), 200):
            theirs |= decided_by_spark(frame, wanted[start : start + 200])
    assert {text: values for text, values in ours.items() if values != theirs[text]} == {}


_WORDS = """
    2013-01-01 2013-1-1 2013 2013-01-01T12:00 epoch now 9999-12-31 1582-10-10 2013-02-29 \uff12\uff10\uff11\uff13-01-01 0 1 -1
    +5 1.5 -1.50 .5 5. 1e0 1E2 1e39 -0 -0.0 127 128 300 2147483648 9007199254740993 9223372036854775808 9999.99 1_000 0x1 01
    0.000000000000000001 0.00000000000000000000000000000000000001 99999999999999999999999999999999999999
    NaN nan Infinity -inf 1L true t
"""
_TYPES = """
    TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL DECIMAL(6,2) DECIMAL(38,38) DECIMAL(0,0) DECIMAL(1,2) STRING BOOLEAN DATE
    TIMESTAMP TIMESTAMP_NTZ BINARY
"""
_DIGITS = "0 1 5 1.5 .5 5. 128 2147483648 9007199254740993 16777217 1.505 1_000 0x1"
_TIMES = ["2013-01-01 12:00:00.0005", "2013-01-01 12:00:00Z", "2013-01-01 12:00:00+01:00", " 1 ", ""]
_NUMBERS = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "", "-", "- ", "+", "~"]),
    st.sampled_from(_DIGITS.split()),
    st.sampled_from(["", "L", "S", "Y", "D", "F", "BD", "e0", "e-1"]),
)
_QUOTED = st.sampled_from([*_WORDS.split(), *_TIMES]).map("'{}'".format)
_CONSTANTS = st.one_of(
    _NUMBERS,
    _QUOTED,
    st.builds("{}{}".format, st.sampled_from(["DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "date "]), _QUOTED),
    st.builds("CAST({} AS {})".format, _QUOTED | _NUMBERS, st.sampled_from(_TYPES.split())),
    st.builds("{}({})".format, st.sampled_from(["int", "bigint", "float", "double", "decimal", "date", "timestamp"]), _QUOTED),
    st.sampled_from(["NULL", "true", "CAST(CAST('1.5' AS DOUBLE) AS INT)"]),
)
_NAMES = st.sampled_from(list(LITERALS))
_CONDITIONS = st.one_of(
    st.builds("{} {} {}".format, _NAMES, st.sampled_from(OPERATORS), _CONSTANTS),
    st.builds("{} {} {}".format, _CONSTANTS, st.sampled_from(OPERATORS), _NAMES),
    st.builds("{} IN ({}, {})".format, _NAMES, _CONSTANTS, _CONSTANTS),
    st.builds("{} NOT BETWEEN {} AND {}".format, _NAMES, _CONSTANTS, _CONSTANTS),
)


def decided_otherwise(spark, frame, conditions):
    """Conditions of which the core and Spark say something else, with what they say."""
    ours = decided(conditions)
    with uncompiled(spark):
        theirs = decided_by_spark(frame, [*ours])
    return {text: (ours[text], values) for text, values in theirs.items() if values != ours[text]}


_MANY_CONDITIONS = st.lists(_CONDITIONS, min_size=100, max_size=100, unique=True)


@settings(max_examples=15)
@given(_MANY_CONDITIONS)
def test_no_condition_is_decided_otherwise_than_spark_decides_it(spark, frame, conditions):
    assert decided_otherwise(spark, frame, conditions) == {}


@pytest.mark.slow
@settings(max_examples=300)
@given(_MANY_CONDITIONS)
def test_a_search_finds_no_condition_that_spark_decides_otherwise(spark, frame, conditions):
    assert decided_otherwise(spark, frame, conditions) == {}


@pytest.mark.parametrize("text", LEFT_TO_SPARK)
def test_what_spark_may_decide_otherwise_is_left_to_spark(text):
    assert not is_exact(parse_predicate(text, struct_from_arrow(pa.table(COLUMNS).schema), "t"))
