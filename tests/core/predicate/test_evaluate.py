"""What the log shows about files: partition values exactly, statistics as far as writers keep them."""

import json
import time

import pyarrow as pa
import pytest

from airflow_delta.core.errors import InvalidPartitionValueError
from airflow_delta.core.predicate import (
    ALL,
    MAYBE,
    NO,
    TRUE,
    conjunction,
    evaluate_files,
    filter_files,
    parse_predicate,
    range_predicate,
)
from airflow_delta.core.schema import ArrayType, DecimalType, StructField, StructType
from airflow_delta.core.schema.data_types import BINARY, BOOLEAN, DATE, DOUBLE, FLOAT, LONG, STRING, TIMESTAMP, TIMESTAMP_NTZ

SCHEMA = StructType(
    (
        StructField("day", DATE),
        StructField("id", LONG),
        StructField("name", STRING),
        StructField("load", DOUBLE),
        StructField("single", FLOAT),
        StructField("fare", DecimalType(8, 2)),
        StructField("wide", DecimalType(30, 10)),
        StructField("ok", BOOLEAN),
        StructField("raw", BINARY),
        StructField("born", DATE),
        StructField("at", TIMESTAMP),
        StructField("local", TIMESTAMP_NTZ),
        StructField("s", StructType((StructField("x", LONG), StructField("t", StructType((StructField("y", LONG),)))))),
        StructField("legs", ArrayType(LONG)),
        StructField('q"uote', LONG),
    )
)


def files(*stats, days=()):
    days = days or [None] * len(stats)
    texts = [text if text is None or isinstance(text, str) else json.dumps(text) for text in stats]
    maps = pa.array([[("day", day)] for day in days], pa.map_(pa.string(), pa.string()))
    return pa.table(
        {"path": [str(n) for n in range(len(stats))], "partition_values": maps, "stats": pa.array(texts, pa.string())}
    )


def verdicts(sql, *stats, days=()):
    expression = parse_predicate(sql, SCHEMA, "t") if isinstance(sql, str) else sql
    return evaluate_files(expression, files(*stats, days=days), SCHEMA, ["day"]).to_pylist()


def bounds(column, low, high, nulls=0, records=10):
    return {"numRecords": records, "minValues": {column: low}, "maxValues": {column: high}, "nullCount": {column: nulls}}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("id = 5", MAYBE),
        ("id = 11", NO),
        ("id != 11", ALL),
        ("id < 10", MAYBE),
        ("id <= 10", ALL),
        ("id > 10", NO),
        ("id >= 1", ALL),
        ("id <=> 11", NO),
        ("NOT id <=> 11", ALL),
        ("id BETWEEN 11 AND 20", NO),
        ("id NOT BETWEEN 11 AND 20", ALL),
        ("id IN (0, 11)", NO),
        ("id NOT IN (0, 11)", ALL),
        ("id NOT IN (0, NULL)", NO),
        ("id IS NULL", NO),
        ("id IS NOT NULL", ALL),
        ("id < 0.5", NO),
        ("id > 0.5", ALL),
        ("NOT (id > 10 OR id < 1)", ALL),
        ("id > 10 OR length(name) = 3", MAYBE),
        ("id > 10 AND length(name) = 3", NO),
        ("NOT length(name) = 3", MAYBE),
        ("true", ALL),
        ("false", NO),
        ("NULL", NO),
        ("NOT NULL", NO),
    ],
)
def test_a_file_without_nulls_is_decided_by_its_bounds(sql, expected):
    assert verdicts(sql, bounds("id", 1, 10)) == [expected]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("id <= 10", MAYBE),
        ("id != 11", MAYBE),
        ("id > 10", NO),
        ("id IS NULL", MAYBE),
        ("id <=> 11", NO),
        ("NOT id <=> 11", ALL),
        ("id NOT IN (11)", MAYBE),
    ],
)
def test_with_nulls_among_the_rows_not_every_row_is_selected(sql, expected):
    assert verdicts(sql, bounds("id", 1, 10, nulls=3)) == [expected]


def test_a_file_of_nulls_alone_matches_no_comparison():
    nothing_but_nulls = {"numRecords": 4, "nullCount": {"id": 4}}
    assert verdicts("id > 0", nothing_but_nulls) == [NO]
    assert verdicts("id NOT IN (1)", nothing_but_nulls) == [NO]
    assert verdicts("id IS NULL", nothing_but_nulls) == [ALL]
    assert verdicts("NOT id <=> 1", nothing_but_nulls) == [ALL]


def test_one_value_only_decides_equality():
    assert verdicts("id = 5", bounds("id", 5, 5)) == [ALL]
    assert verdicts("id IN (4, 5)", bounds("id", 5, 5)) == [ALL]
    assert verdicts("id != 5", bounds("id", 5, 5)) == [NO]
    assert verdicts("id NOT IN (4, 5)", bounds("id", 5, 5)) == [NO]


@pytest.mark.parametrize(
    "stats",
    [
        None,
        "",
        "{",
        "null",
        "[]",
        "7",
        "{}",
        '{"numRecords":10}',
        '{"numRecords":"10"}',
        '{"minValues":5}',
        '{"minValues":{"id":"1"},"maxValues":{"id":"2"}}',
        '{"minValues":{"id":1e400}}',
        '{"minValues":{"id":{"x":1}}}',
        '{"minValues":null,"maxValues":null}',
        '{"numRecords":1}\n{"maxValues":{"id":1}}',
        '{"numRecords":1}{"maxValues":{"id":1}}',
        '{"maxValues":{"id":1},"maxValues":{"id":2}}',
        '{"numRecords":0',
    ],
)
def test_statistics_that_say_nothing_leave_a_file_open_and_do_no_harm_to_its_neighbors(stats):
    neighbor = bounds("id", 1, 2)
    assert verdicts("id > 5", neighbor, stats, neighbor) == [NO, MAYBE, NO]


def test_a_text_of_two_objects_beside_an_empty_one_does_not_shift_the_rest():
    two = json.dumps(bounds("id", 9, 9)) * 2
    assert verdicts("id > 5", "", two, bounds("id", 1, 2), bounds("id", 6, 7)) == [MAYBE, MAYBE, NO, ALL]


def test_many_broken_texts_cost_neither_an_error_nor_the_order_of_the_rest():
    broken = ['{"maxValues":{"id":"x"}}'] * 2_000
    found = verdicts("id > 5", *broken, bounds("id", 6, 7), *broken, bounds("id", 1, 2))
    assert set(found) <= {NO, MAYBE, ALL}
    assert found[:2_000] == found[2_001:4_001] == [MAYBE] * 2_000
    assert found[2_000] in (ALL, MAYBE)
    assert found[4_001] in (NO, MAYBE)


def test_a_file_without_rows_is_never_selected():
    assert verdicts("id > 5 OR id IS NULL", {"numRecords": 0}, {"numRecords": 1}) == [NO, MAYBE]


def test_a_maximum_of_a_timestamp_may_be_a_millisecond_more():
    one = bounds("at", "2013-01-01T10:00:00.000Z", "2013-01-01T11:00:00.123Z")
    assert verdicts("at > TIMESTAMP'2013-01-01 11:00:00.123'", one) == [MAYBE]
    assert verdicts("at > TIMESTAMP'2013-01-01 11:00:00.124'", one) == [NO]
    assert verdicts("at <= TIMESTAMP'2013-01-01 11:00:00.123'", one) == [MAYBE]
    assert verdicts("at >= TIMESTAMP'2013-01-01 10:00:00'", one) == [ALL]
    assert verdicts("at < TIMESTAMP'2013-01-01 10:00:00'", one) == [NO]


def test_a_minimum_before_the_epoch_may_be_a_millisecond_less():
    one = bounds("at", "1960-01-01T10:00:00.000Z", "1960-01-01T11:00:00.000Z")
    assert verdicts("at < TIMESTAMP'1960-01-01 10:00:00'", one) == [MAYBE]
    assert verdicts("at < TIMESTAMP'1960-01-01 09:59:59.999'", one) == [NO]


def test_times_of_other_zones_and_without_one_are_read():
    assert verdicts(
        "at < '2013-01-01 08:00:00'", bounds("at", "2013-01-01T10:00:00.000+02:00", "2013-01-01T11:00:00.000+02:00")
    ) == [NO]
    assert verdicts("local < '2013-01-01 10:00:00'", bounds("local", "2013-01-01T10:00:00.000", "2013-01-01 11:00:00")) == [NO]
    assert verdicts("at < '2013-01-01'", bounds("at", "soon", "later"), bounds("at", "2014-01-01T00:00:00Z", None)) == [
        MAYBE,
        NO,
    ]


def test_nan_may_hide_above_the_maximum_of_floats():
    one = bounds("load", 1.5, 2.5)
    assert verdicts("load > 5", one) == [MAYBE]
    assert verdicts("load <= 5", one) == [MAYBE]
    assert verdicts("load != 5", one) == [ALL]
    assert verdicts("load = 5", one) == [NO]
    assert verdicts("load < 1", one) == [NO]
    assert verdicts("load > 1", one) == [ALL]
    assert verdicts("load = double('NaN')", one) == [MAYBE]
    assert verdicts("load < double('NaN')", one) == [MAYBE]
    assert verdicts("load >= double('NaN')", one) == [MAYBE]
    assert verdicts("load IN (5, double('NaN'))", one) == [MAYBE]
    unsortable = ", ".join(f"{9 + number}, double('NaN'), {2 + number / 1000}" for number in range(32))
    assert verdicts(f"load IN ({unsortable})", one) == [MAYBE]
    assert verdicts("load = 5", bounds("load", "NaN", "NaN"), bounds("load", 6, "NaN"), bounds("load", 1, "Infinity")) == [
        MAYBE,
        NO,
        MAYBE,
    ]


def test_a_float_column_beside_a_double_is_compared_as_doubles():
    assert verdicts("single = 0.1", bounds("single", 0.1, 0.1)) == [NO]
    assert verdicts("single = CAST(0.1 AS FLOAT)", bounds("single", 0.1, 0.1)) == [MAYBE]


def test_decimals_are_read_exactly_and_those_of_many_digits_with_the_slack_of_a_double():
    exact = '{"numRecords":1,"minValues":{"fare":10.10},"maxValues":{"fare":10.10},"nullCount":{"fare":0}}'
    assert verdicts("fare = 10.1", exact) == [ALL]
    rounded = json.dumps(bounds("wide", "@", "@")).replace('"@"', "12345678901234567.0")
    assert verdicts("wide = 12345678901234567.8", rounded) == [MAYBE]
    assert verdicts("wide > 12345678901234999", rounded) == [NO]


def test_cut_strings_are_bounds_and_not_values():
    cut = bounds("name", "abc", "abd\U0010ffff")
    assert verdicts("name = 'abd'", cut) == [MAYBE]
    assert verdicts("name > 'abe'", cut) == [NO]
    assert verdicts("name LIKE 'ab%'", cut) == [ALL]
    assert verdicts("name LIKE 'abd%'", cut) == [MAYBE]
    assert verdicts("name LIKE 'b%'", cut) == [NO]
    assert verdicts("name LIKE 'aa%'", cut) == [NO]
    assert verdicts("name NOT LIKE 'ab%'", cut) == [NO]
    assert verdicts("name NOT LIKE 'b%'", cut) == [ALL]
    assert verdicts("name >= ''", bounds("name", "", "z")) == [ALL]


def test_the_order_of_strings_is_that_of_their_bytes():
    assert verdicts("name < 'ﬀ'", bounds("name", "\U0001f600", "\U0001f600")) == [NO]


def test_columns_without_an_order_are_decided_by_their_nulls():
    assert verdicts("ok", {"numRecords": 2, "nullCount": {"ok": 2}}, {"numRecords": 2, "nullCount": {"ok": 0}}) == [NO, MAYBE]
    assert verdicts("raw IS NULL", {"numRecords": 2, "nullCount": {"raw": 0}}) == [NO]
    assert verdicts("legs IS NULL", {"numRecords": 2, "nullCount": {"legs": 2}}, {"numRecords": 2}) == [MAYBE, MAYBE]
    assert verdicts("s IS NULL", {"numRecords": 2, "nullCount": {"s": {"x": 2}}}) == [MAYBE]


def test_nested_columns_and_odd_names_are_found():
    assert verdicts("s.t.y > 5 OR s.x = 9", {"maxValues": {"s": {"x": 3, "t": {"y": 4}}}}) == [NO]
    assert verdicts('`q"uote` > 5', {"maxValues": {'q"uote': 3}}) == [NO]


def test_dates_are_compared_as_dates():
    assert verdicts("born > DATE'2013-01-31'", bounds("born", "2013-01-01", "2013-01-31"), bounds("born", "x", "y")) == [
        NO,
        MAYBE,
    ]


def test_a_long_list_is_looked_at_as_ranges():
    evens = ", ".join(str(2 * number) for number in range(10_000))
    found = verdicts(
        f"id IN ({evens})", bounds("id", 20_001, 20_005), bounds("id", -5, -1), bounds("id", 4, 4), bounds("id", 3, 9)
    )
    assert found == [NO, NO, ALL, MAYBE]


def test_partition_values_are_compared_typed_and_exactly():
    days = ["2013-01-01", "2013-1-2", None, ""]
    assert verdicts("day = '2013-01-02'", *[None] * 4, days=days) == [NO, ALL, NO, NO]
    assert verdicts("NOT day = '2013-01-02'", *[None] * 4, days=days) == [ALL, NO, NO, NO]
    assert verdicts("day IS NULL", *[None] * 4, days=days) == [NO, NO, ALL, ALL]
    assert verdicts("day <=> NULL OR day > DATE'2013-01-01'", *[None] * 4, days=days) == [NO, ALL, ALL, ALL]


def test_a_partition_value_that_is_garbage_is_an_error_of_the_table():
    with pytest.raises(InvalidPartitionValueError) as caught:
        verdicts("day = '2013-01-02'", None, days=["someday"])
    assert (caught.value.column, caught.value.value) == ("day", "someday")


def test_partition_and_data_columns_are_decided_together():
    days, stats = ["2013-01-01", "2013-01-01", "2013-01-02", "2013-01-02"], [bounds("id", 1, 3), bounds("id", 5, 7)] * 2
    assert verdicts("day = '2013-01-01' AND id > 4", *stats, days=days) == [NO, ALL, NO, NO]
    assert verdicts("day = '2013-01-01' OR id > 4", *stats, days=days) == [ALL, ALL, NO, ALL]
    assert verdicts("day > '2013-01-02' AND id > 4", *stats, days=days) == [NO] * 4


def test_filtering_keeps_all_columns_of_the_files_that_stay():
    table = files(bounds("id", 1, 3), None, bounds("id", 5, 7))
    kept = filter_files(parse_predicate("id > 4", SCHEMA, "t"), table, SCHEMA, ["day"])
    assert kept == table.take([1, 2])
    assert len(filter_files(TRUE, table.slice(0, 0), SCHEMA, ["day"])) == 0


def test_a_table_in_many_chunks_is_evaluated_as_one():
    whole = files(*[bounds("id", number, number) for number in range(50)])
    chunked = pa.concat_tables([whole.slice(start, 7) for start in range(0, 50, 7)])
    found = evaluate_files(parse_predicate("id >= 25", SCHEMA, "t"), chunked, SCHEMA, [])
    assert found.to_pylist() == [NO] * 25 + [ALL] * 25


def test_statistics_too_long_to_be_joined_are_read_in_smaller_slices(monkeypatch):
    joined, join = [], pa.concat_arrays
    monkeypatch.setattr("airflow_delta.core.predicate.file_statistics._BYTES_OF_SLICE", 1_000)
    monkeypatch.setattr(pa, "concat_arrays", lambda arrays: joined.append(sum(map(len, arrays))) or join(arrays))
    long = [{**bounds("id", number, number), "nullCount": {"id": 0, "x" * 200: 0}} for number in range(20)]
    assert verdicts("id >= 12", *long) == [NO] * 12 + [ALL] * 8
    assert max(joined) < 5


def test_a_condition_on_many_columns_takes_time_in_proportion_to_their_number():
    names = [f"c{number}" for number in range(3_000)]
    schema = StructType(tuple(StructField(name, LONG) for name in names))
    values = dict.fromkeys(names, 1)
    table = files({"numRecords": 1, "minValues": values, "maxValues": values, "nullCount": dict.fromkeys(names, 0)})
    started = time.process_time()
    assert evaluate_files(
        conjunction(range_predicate(field, 0, 1) for field in schema.fields), table, schema, []
    ).to_pylist() == [ALL]
    assert time.process_time() - started < 15


def test_a_range_of_keys_prunes_and_no_key_at_all_matches_nothing():
    of_id = SCHEMA.find("id")
    stats = [bounds("id", 1, 3), bounds("id", 4, 6), {"numRecords": 1}]
    assert verdicts(range_predicate(of_id, 5, 9), *stats) == [NO, MAYBE, MAYBE]
    assert verdicts(range_predicate(of_id, None, 3), *stats) == [ALL, NO, MAYBE]
    assert verdicts(range_predicate(of_id, None, None), *stats) == [NO, NO, NO]
    both = conjunction([range_predicate(of_id, 5, 9), range_predicate(SCHEMA.find("born"), None, None)])
    assert verdicts(both, *stats) == [NO, NO, NO]
