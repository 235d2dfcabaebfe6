"""Which columns have statistics, how bounds are written, and when a footer is not trusted."""

import json
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.data_files import StatisticsSelection, footer_statistics
from airflow_delta.core.data_files.statistics_bounds import bounds_text, high_prefix, low_prefix
from airflow_delta.core.schema import ArrayType, DecimalType, MapType, PrimitiveType, StructField, StructType, struct_from_arrow

LONG, STRING = PrimitiveType("long"), PrimitiveType("string")
LAST = "\U0010ffff"


def schema_of(**columns):
    return StructType(tuple(StructField(name, kind) for name, kind in columns.items()))


WIDE = schema_of(a=LONG, s=schema_of(x=LONG, t=schema_of(y=LONG)), l=ArrayType(LONG), m=MapType(STRING, LONG), **{"d.e": LONG})


def leaf_names(configuration, schema=WIDE):
    return [path for path, _ in StatisticsSelection.from_properties(configuration).leaves(schema)]


def test_the_first_leaves_in_schema_order_have_statistics():
    every = [("a",), ("s", "x"), ("s", "t", "y"), ("l",), ("m",), ("d.e",)]
    many = schema_of(**{f"c{number}": LONG for number in range(40)})

    assert leaf_names({}) == every
    assert leaf_names({"delta.dataSkippingNumIndexedCols": "3"}) == every[:3]
    assert leaf_names({"delta.dataSkippingNumIndexedCols": "0"}) == []
    assert len(leaf_names({}, many)) == 32
    assert len(leaf_names({"delta.dataSkippingNumIndexedCols": "-1"}, many)) == 40


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("s", [("s", "x"), ("s", "t", "y")]),
        ("S.T.y , a", [("a",), ("s", "t", "y")]),
        ("`d.e`,`s`.`x`", [("s", "x"), ("d.e",)]),
        ("d.e", []),
        ("unknown", []),
        ("", []),
    ],
)
def test_named_columns_have_statistics_instead(names, expected):
    assert leaf_names({"delta.dataSkippingStatsColumns": names, "delta.dataSkippingNumIndexedCols": "1"}) == expected


def test_a_backtick_in_a_name_is_doubled():
    assert leaf_names({"delta.dataSkippingStatsColumns": "`a``b, c`"}, schema_of(**{"a`b, c": LONG})) == [("a`b, c",)]


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        pytest.param("abc", "abc", "abc", id="exact"),
        pytest.param("abcd", "abcd", "abcd", id="just-fits"),
        pytest.param("abcde", "abcd", "abcd\x7f", id="ascii-tie-breaker"),
        pytest.param("abcd\x7f", "abcd", "abcd" + LAST, id="greatest-tie-breaker"),
        pytest.param("abcd" + LAST + "e", "abcd", "abcd" + LAST + "\x7f", id="extended"),
        pytest.param("abcd" + LAST * 3, "abcd", None, id="none-is-greater"),
        pytest.param("abc😀", "abc", "abc" + LAST, id="pair-not-split"),
        pytest.param("ab😀", "ab😀", "ab😀", id="pair-just-fits"),
        pytest.param("abcdé", "abcd", "abcd" + LAST, id="not-ascii"),
    ],
)
def test_strings_are_cut_at_four_units(text, low, high):
    assert (low_prefix(text, 4), high_prefix(text, 4)) == (low, high)


@given(st.text(st.sampled_from("a\x7e\x7f\ud7ff\uffff\U00010000\U0010fffe\U0010ffff"), max_size=12), st.integers(1, 6))
def test_cut_strings_stay_bounds(text, units):
    low, high = low_prefix(text, units), high_prefix(text, units)

    assert low <= text
    assert text.startswith(low)
    assert high is None or text <= high
    assert len(low.encode("utf-16-le")) <= 2 * units


@pytest.mark.parametrize(
    ("kind", "low", "high", "expected"),
    [
        pytest.param(LONG, -(2**63), 2**63 - 1, ("-9223372036854775808", "9223372036854775807"), id="long"),
        pytest.param(DecimalType(38, 18), -1, 10**38 - 1, ("-0.000000000000000001", "9" * 20 + "." + "9" * 18), id="digits"),
        pytest.param(DecimalType(5, 0), b"\xff\xfe", b"\x00\x01", ("-2", "1"), id="decimal-as-bytes"),
        pytest.param(PrimitiveType("double"), float("-inf"), 1e300, (None, "1e+300"), id="infinity"),
        pytest.param(PrimitiveType("date"), -719162, 2932896, ('"0001-01-01"', '"9999-12-31"'), id="years-of-four-digits"),
        pytest.param(PrimitiveType("date"), -719163, 2932897, (None, None), id="years-beyond"),
        pytest.param(
            PrimitiveType("timestamp"),
            -1,
            1,
            ('"1969-12-31T23:59:59.999Z"', '"1970-01-01T00:00:00.001Z"'),
            id="rounded-outward",
        ),
        pytest.param(
            PrimitiveType("timestamp_ntz"), 0, 1000, ('"1970-01-01T00:00:00.000"', '"1970-01-01T00:00:00.001"'), id="no-zone"
        ),
        pytest.param(PrimitiveType("timestamp"), -(2**63), 2**63 - 1, (None, None), id="times-beyond"),
        pytest.param(STRING, b'"\\\n', "é".encode(), ('"\\"\\\\\\n"', '"é"'), id="escaped"),
        pytest.param(STRING, b"abc\xc3", b"abd", (None, '"abd"'), id="cut-inside-a-character"),
        pytest.param(PrimitiveType("boolean"), False, True, (None, None), id="boolean"),
        pytest.param(PrimitiveType("binary"), b"a", b"b", (None, None), id="binary"),
    ],
)
def test_bounds_are_spelled_as_json(kind, low, high, expected):
    assert bounds_text(low, high, kind, 32) == expected


def footer_of(path, table, schema=None, **options):
    pq.write_table(table, path, store_schema=False, **options)
    return json.loads(
        footer_statistics(pq.read_metadata(path), schema or struct_from_arrow(table.schema), StatisticsSelection())
    )


def test_bounds_cover_all_row_groups(tmp_path):
    table = pa.table(
        {"n": pa.array([5, 9, None, None, -3, 4]), "d": pa.array([1, -2, 3, -4, -5, -6]).cast(pa.decimal128(38, 2))}
    )

    found = footer_of(tmp_path / "f", table, row_group_size=2)

    assert found == {
        "numRecords": 6,
        "minValues": {"n": -3, "d": -6.0},
        "maxValues": {"n": 9, "d": 3.0},
        "nullCount": {"n": 2, "d": 0},
    }


def test_statistics_of_all_columns_take_time_in_proportion_to_their_number(tmp_path):
    table = pa.table({f"c{number}": [number] for number in range(3_000)})
    pq.write_table(table, tmp_path / "wide.parquet")
    footer, schema = pq.read_metadata(tmp_path / "wide.parquet"), struct_from_arrow(table.schema)
    started = time.process_time()
    stats = json.loads(footer_statistics(footer, schema, StatisticsSelection(indexed_columns=-1)))
    assert time.process_time() - started < 5
    assert stats["maxValues"]["c2999"] == 2999


def test_a_row_group_without_statistics_leaves_the_column_without_bounds(tmp_path):
    table = pa.table({"s": ["a", "b", "x" * 5000, "c"], "n": [1, 2, 3, 4]})  # Arrow keeps no bounds that long

    found = footer_of(tmp_path / "f", table, row_group_size=2)

    assert (found["minValues"], found["maxValues"]) == ({"n": 1}, {"n": 4})
    assert footer_of(tmp_path / "g", table, write_statistics=False) == {
        "numRecords": 4,
        "minValues": {},
        "maxValues": {},
        "nullCount": {},
    }


def test_floats_of_a_footer_that_passes_over_nan_are_not_believed(tmp_path):
    table = pa.table({"f": [1.0, float("nan")]})

    found = footer_of(tmp_path / "f", table)

    assert pq.read_metadata(tmp_path / "f").row_group(0).column(0).statistics.max == 1.0
    assert found == {"numRecords": 2, "minValues": {}, "maxValues": {}, "nullCount": {"f": 0}}


def test_floats_of_a_footer_of_spark_are_believed_unless_nan_is_in_play(shared_tables):
    schema = schema_of(f=PrimitiveType("float"), d=PrimitiveType("double"))
    footers = [pq.read_metadata(path) for path in (shared_tables / "scalar_types" / "table").glob("*.parquet")]

    found = {
        (json.dumps(stats["minValues"]), json.dumps(stats["maxValues"]))
        for stats in (json.loads(footer_statistics(footer, schema, StatisticsSelection())) for footer in footers)
    }

    assert found == {
        ("{}", "{}"),  # NaN
        ('{"f": -0.0}', '{"d": -0.0}'),  # and infinities
        ('{"f": 0.0, "d": 0.0}', '{"f": 4.0, "d": 4.0}'),
        ('{"f": 5.0, "d": 5.0}', '{"f": 9.0, "d": 9.0}'),
    }


def test_a_column_of_another_type_than_the_tables_has_no_bounds(tmp_path):
    table = pa.table({"n": pa.array([1], pa.int32()), "t": pa.array([1], pa.timestamp("ms")), "gone": [1]})

    found = footer_of(tmp_path / "f", table, schema_of(n=LONG, t=PrimitiveType("timestamp_ntz"), new=LONG))

    assert found == {"numRecords": 1, "minValues": {}, "maxValues": {}, "nullCount": {"n": 0, "t": 0}}


def test_columns_whose_dotted_names_are_equal_have_no_statistics(tmp_path):
    found = footer_of(tmp_path / "f", pa.table({"a.b": [1], "a": [{"b": 2}], "c": [3]}))

    assert found == {"numRecords": 1, "minValues": {"c": 3}, "maxValues": {"c": 3}, "nullCount": {"c": 0}}
