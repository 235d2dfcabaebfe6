"""Random tables of random files with statistics as various writers leave them, and random predicates in two SQL dialects."""

import datetime as dt
import json
import math
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
from hypothesis import strategies as st

from airflow_delta.core.schema import DecimalType, StructField, StructType, arrow_schema, serialize
from airflow_delta.core.schema.data_types import BOOLEAN, DATE, DOUBLE, FLOAT, INTEGER, LONG, STRING, TIMESTAMP

SCHEMA = StructType(
    (
        StructField("part_day", DATE),
        StructField("part_n", INTEGER),
        StructField("part_f", DOUBLE),
        StructField("i", INTEGER),
        StructField("l", LONG),
        StructField("d", DecimalType(6, 2)),
        StructField("wide", DecimalType(24, 4)),
        StructField("f", DOUBLE),
        StructField("g", FLOAT),
        StructField("s", STRING),
        StructField("b", BOOLEAN),
        StructField("day", DATE),
        StructField("ts", TIMESTAMP),
        StructField("n", StructType((StructField("x", INTEGER),))),
    )
)
PARTITION_COLUMNS = ("part_day", "part_n", "part_f")

DAYS = [dt.date(2013, 1, 1), dt.date(2013, 1, 2), dt.date(1969, 12, 31)]
INTEGERS = [-2, 0, 1, 2, 5]
FLOATS = [-0.0, 0.0, 0.1, 0.5, 2.0, -1.5, math.inf, -math.inf, math.nan]
STRINGS = ["", "a", "ab", "abc", "b", "é", "z\U0001f600", 'a:"NaN"', "a\\b\n"]
TIMES = [
    dt.datetime(2013, 1, 1, tzinfo=dt.UTC),
    dt.datetime(2013, 1, 1, 0, 0, 0, 400, dt.UTC),
    dt.datetime(2013, 1, 1, 0, 0, 0, 999, dt.UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.UTC),
]
DECIMALS = [Decimal("0.00"), Decimal("1.50"), Decimal("-3.25"), Decimal("9999.99")]
WIDE = [Decimal("12345678901234567.8901"), Decimal("12345678901234567.8902"), Decimal("-5.0000")]

VALUES = {
    "part_day": DAYS,
    "part_n": INTEGERS,
    "part_f": FLOATS,
    "i": INTEGERS,
    "l": [*INTEGERS, 2**53, 2**53 + 1],
    "d": DECIMALS,
    "wide": WIDE,
    "f": FLOATS,
    "g": [0.5, 2.0, float(pa.scalar(0.1, pa.float32()).as_py()), math.nan, 0.0],
    "s": STRINGS,
    "b": [True, False],
    "day": DAYS,
    "ts": TIMES,
    "n.x": INTEGERS,
}


# -- files


@dataclass(frozen=True)
class Sample:
    """Files (``ADD_FILE``), and the rows of each."""

    files: pa.Table
    rows: list[pa.Table]


@st.composite
def samples(draw):
    files, rows = [], []
    for _ in range(draw(st.integers(1, 4))):
        partition = {name: draw(st.none() | st.sampled_from(VALUES[name])) for name in PARTITION_COLUMNS}
        drawn = draw(
            st.lists(
                st.fixed_dictionaries({name: _value(name) for name in VALUES if name not in PARTITION_COLUMNS}), max_size=4
            )
        )
        texts = {name: serialize(value, SCHEMA.find(name).type) for name, value in partition.items()}
        records = [
            {**partition, **{k: v for k, v in row.items() if k != "n.x"}, "n": _nested(draw, row["n.x"])} for row in drawn
        ]
        files.append({"partition_values": list(texts.items()), "stats": draw(_stats(records))})
        rows.append(pa.Table.from_pylist(records, arrow_schema(SCHEMA)))
    types = pa.schema([("partition_values", pa.map_(pa.string(), pa.string())), ("stats", pa.string())])
    return Sample(pa.Table.from_pylist(files, types), rows)


def _value(name):
    return st.none() | st.sampled_from(VALUES[name])


def _nested(draw, value):
    return draw(st.sampled_from([None, {"x": None}])) if value is None else {"x": value}


@st.composite
def _stats(draw, records):
    """Correct statistics in the style of one of several writers."""
    broken = draw(st.sampled_from([None] * 8 + ["", "{", "[]", "null", '{"numRecords":"1"}', '{"minValues":5}', "{}{}"]))
    if broken is not None or draw(st.integers(0, 9)) == 0:
        return broken
    stats = {"numRecords": len(records)}
    nan_counts, cuts_strings = draw(st.booleans()), draw(st.booleans())
    low, high, nulls = {}, {}, {}
    for name in VALUES:
        if name in PARTITION_COLUMNS or draw(st.integers(0, 9)) == 0:
            continue
        values = [(record["n"] or {}).get("x") if name == "n.x" else record[name] for record in records]
        known = [value for value in values if value is not None]
        _put(nulls, name, len(values) - len(known))
        least, most = _bounds(known, nan_counts=nan_counts)
        if least is None or isinstance(least, bool):
            continue
        _put(low, name, _json(least, name, is_high=False, cuts=cuts_strings))
        _put(high, name, _json(most, name, is_high=True, cuts=cuts_strings))
    parts = (("minValues", low), ("maxValues", high), ("nullCount", nulls))
    stats |= {key: part for key, part in parts if draw(st.integers(0, 9)) > 0}
    if draw(st.integers(0, 9)) == 0:
        del stats["numRecords"]
    return json.dumps(stats, ensure_ascii=draw(st.booleans())).replace('"@', "").replace('@"', "")


def _put(target, name, value):
    if name == "n.x":
        target.setdefault("n", {})["x"] = value
    else:
        target[name] = value


def _bounds(values, *, nan_counts):
    numbers = [value for value in values if not (isinstance(value, float) and math.isnan(value))]
    if nan_counts and len(numbers) < len(values):  # as Spark does: NaN is the greatest value
        return (min(numbers, default=math.nan), math.nan)
    return (min(numbers), max(numbers)) if numbers else (None, None)


def _json(value, name, *, is_high, cuts):
    match value:
        case float() if math.isnan(value) or math.isinf(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Decimal():
            return f"@{float(value) if name == 'wide' else value}@"  # a JSON number; some writers write it as a double
        case dt.datetime():
            return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case dt.date():
            return value.isoformat()
        case str() if cuts and len(value) > 1:
            return value[0] + ("\U0010ffff" if is_high else "")
    return value


# -- predicates, as (Spark SQL, duckdb's SQL)


def _both(*texts):
    return [(text, text) for text in texts]


_INTEGER_LITERALS = [*_both("0", "2", "1.5", "-2", "3000000000"), ("'5'", "5")]
_FLOAT_LITERALS = [
    *_both("0", "0.1", "1.0E300", "CAST('NaN' AS DOUBLE)"),
    ("2.0D", "2.0::DOUBLE"),
    ("-0.0D", "-0.0::DOUBLE"),
]
LITERALS = {
    "part_day": _both("DATE'2013-01-01'", "'2013-01-02'"),
    "part_n": _INTEGER_LITERALS,
    "part_f": _FLOAT_LITERALS,
    "i": _INTEGER_LITERALS,
    "l": _both("2", "9007199254740993", "1.5", "-2"),
    "d": _both("1.5", "1.505", "-3.25", "2"),
    "wide": _both("12345678901234567.8901", "12345678901234567.89015", "0"),
    "f": _FLOAT_LITERALS,
    "g": [("0.5D", "0.5::DOUBLE"), ("0.1D", "0.1::DOUBLE"), *_both("CAST('NaN' AS DOUBLE)")],
    "s": _both("'a'", "'ab'", "'é'", "''"),
    "b": _both("true", "false"),
    "day": _both("DATE'2013-01-01'", "'1969-12-31'"),
    "ts": _both("TIMESTAMP'2013-01-01 00:00:00'", "TIMESTAMP'2013-01-01 00:00:00.0005'", "TIMESTAMP'1969-12-31 23:59:59.9995'"),
    "n.x": _INTEGER_LITERALS,
}
OPERATORS = [(op, op) for op in ("=", "<", "<=", ">", ">=", "!=", "<>")] + [("<=>", "IS NOT DISTINCT FROM")]
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@st.composite
def _leaves(draw):
    name = draw(st.sampled_from(list(VALUES)))
    column = (name, f"{name}::DOUBLE" if name == "g" else name)
    literal = st.sampled_from(LITERALS[name])
    match draw(st.sampled_from(["compare", "compare", "mirror", "in", "between", "null", "like", "bool", "opaque"])):
        case "mirror":
            op, other = draw(st.sampled_from(OPERATORS))
            value = draw(literal)
            return f"{value[0]} {MIRRORED.get(op, op)} {column[0]}", f"{column[1]} {other} {value[1]}"
        case "in":
            values = draw(st.lists(literal | st.just(("NULL", "NULL")), min_size=1, max_size=3))
            word = draw(st.sampled_from(["IN", "NOT IN"]))
            return tuple(f"{column[side]} {word} ({', '.join(value[side] for value in values)})" for side in (0, 1))
        case "between":
            low, high = draw(literal), draw(literal)
            word = draw(st.sampled_from(["BETWEEN", "NOT BETWEEN"]))
            return tuple(f"{column[side]} {word} {low[side]} AND {high[side]}" for side in (0, 1))
        case "null":
            word = draw(st.sampled_from(["IS NULL", "IS NOT NULL"]))
            return tuple(f"{name} {word}" for name in column)
        case "like":
            word, pattern = draw(st.sampled_from(["LIKE", "NOT LIKE"])), draw(st.sampled_from(["a%", "ab", "%", "é%"]))
            return (f"s {word} '{pattern}'",) * 2
        case "bool":
            return draw(st.sampled_from([("b",) * 2, ("true",) * 2, ("b IS TRUE", "b IS TRUE"), ("NULL", "NULL::BOOLEAN")]))
        case "opaque":
            return draw(st.sampled_from([("i + 0 = 2",) * 2, ("length(s) = 1",) * 2, ("i < l",) * 2]))
    op, other = draw(st.sampled_from(OPERATORS))
    value = draw(literal | st.just(("NULL", "NULL")))
    return f"{column[0]} {op} {value[0]}", f"{column[1]} {other} {value[1]}"


def _joined(word):
    return lambda parts: tuple(f" {word} ".join(f"({part[side]})" for part in parts) for side in (0, 1))


predicates = st.recursive(
    _leaves(),
    lambda inner: (
        st.lists(inner, min_size=2, max_size=3).map(_joined("AND"))
        | st.lists(inner, min_size=2, max_size=3).map(_joined("OR"))
        | inner.map(lambda part: (f"NOT ({part[0]})", f"NOT ({part[1]})"))
    ),
    max_leaves=5,
)
