"""Column bounds: Iceberg readers open only the files that a filter leaves, and never return wrong rows."""

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import EqualTo, GreaterThan, GreaterThanOrEqual, IsNull, LessThan, LessThanOrEqual, NotNull
from pyiceberg.types import DecimalType as IcebergDecimal

from airflow_delta.core.operations.iceberg.bounds import MOST_COLUMNS, bounded_columns, bounds_of_files
from airflow_delta.core.schema import parse_schema
from airflow_delta.core.schema.data_types import LONG
from airflow_delta.core.table_changes.ddl import parse_struct

UTC = dt.UTC
time = dt.datetime.fromisoformat
VALUES = {
    "tinyint": [-128, 0, 127],
    "smallint": [-7, 0, 300],
    "int": [-(1 << 31), 0, (1 << 31) - 1],
    "long": [-(1 << 63), 0, (1 << 63) - 1],
    "date": [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 5, 1)],
    "string": ["", "Ångström", "日本" * 40],
    "decimal(15, 2)": [Decimal("-9999999999999.99"), Decimal("0.00"), Decimal("12.50")],
    "timestamp": [dt.datetime(1901, 1, 1, 0, 0, 0, 1, UTC), dt.datetime(2024, 5, 1, 10, 30, 0, 123_456, UTC)],
    "timestamp_ntz": [time("1969-12-31T23:59:59.999999"), time("2024-05-01T10:30:00.123456")],
    "double": [-0.0, 1.5, float("inf")],
    "boolean": [False, True],
    "decimal(38, 4)": [Decimal("-1.0000"), Decimal(f"{10**30}.0000")],
    "binary": [b"", b"\xff"],
}
WITHOUT_BOUNDS = {"double", "boolean", "decimal(38, 4)", "binary"}
OPERATORS = {"=": EqualTo, "<": LessThan, "<=": LessThanOrEqual, ">": GreaterThan, ">=": GreaterThanOrEqual}


def literal(value):
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return value.isoformat() if isinstance(value, dt.date) else value


def planned(table, row_filter):
    return len(list(table.iceberg.scan(row_filter=row_filter).plan_files()))


@pytest.mark.parametrize("kind", VALUES)
def test_files_are_skipped_by_values_of_every_type_and_every_row_is_found(make, kind):
    table = make(f"id long, v {kind}")
    values = [*VALUES[kind], None]
    for number, value in enumerate(values):
        table.append({"id": number, "v": value})
    assert table.check() == list(range(len(values)))
    if kind == "binary":
        return
    for number, value in enumerate(VALUES[kind]):
        wanted = EqualTo("v", literal(value))
        assert table.iceberg.scan(row_filter=wanted).to_arrow()["id"].to_pylist() == [number]
        if kind not in WITHOUT_BOUNDS:
            assert planned(table, wanted) == 1
    if kind not in WITHOUT_BOUNDS:
        assert planned(table, IsNull("v")) == 1
        assert planned(table, NotNull("v")) == len(values) - 1
    least, most = (
        table.duckdb.sql(f"SELECT {name}(v) FROM iceberg_scan('{table.root}')").fetchone()[0] for name in ("min", "max")
    )
    assert (least, most) == (min(VALUES[kind]), max(VALUES[kind]))  # the values, not their bounds


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_filter_skips_a_file_that_has_a_row_for_it(make, tmp_path_factory, data):
    texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
    times = st.datetimes(time("1900-01-01T00:00:00"), time("2100-01-01T00:00:00"))
    row = st.tuples(st.none() | texts, st.none() | st.integers(-5, 5), st.none() | times)
    files = data.draw(st.lists(st.lists(row, min_size=1, max_size=3), min_size=1, max_size=4))
    table = make("id long, s string, n int, t timestamp_ntz", name=tmp_path_factory.mktemp("any"))
    rows = []
    for file in files:
        new = [{"id": len(rows) + at, "s": s, "n": n, "t": t} for at, (s, n, t) in enumerate(file)]
        adds = table.written(new)
        table.commit(adds=adds)
        (path,) = adds["path"].to_pylist()
        rows += [{**each, "file": f"file://{table.root}/{path.replace('%20', ' ')}"} for each in new]
    compare = {"=": lambda a, b: a == b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b}
    for column in ("s", "n", "t"):
        for value in [row[column] for row in rows if row[column] is not None]:
            key = lambda each: each.encode() if isinstance(each, str) else each  # noqa: E731 - texts are ordered by their bytes
            for name, holds in compare.items():
                wanted = {r["file"] for r in rows if r[column] is not None and holds(key(r[column]), key(value))}
                plan = table.iceberg.scan(row_filter=OPERATORS[name](column, literal(value))).plan_files()
                assert wanted <= {task.file.file_path for task in plan}


def test_columns_inside_of_structs_have_bounds_and_what_is_in_lists_has_none(make):
    table = make("id long, s struct<a: struct<b: int>>, l array<int>, m map<string, int>")
    for number in range(3):
        table.append({"id": number, "s": {"a": {"b": number}}, "l": [number], "m": [("k", number)]})
    assert table.check() == [0, 1, 2]
    assert planned(table, EqualTo("s.a.b", 1)) == 1


def test_bounds_of_a_column_from_before_it_was_widened_are_read(make):
    table = make("id long, v int", **{"delta.enableTypeWidening": "true"})
    table.append({"id": 1, "v": 10})
    table.log.alter().widen_column("v", LONG)
    table.append({"id": 2, "v": 1 << 40})
    assert table.check() == [1, 2]
    assert (planned(table, EqualTo("v", 10)), planned(table, EqualTo("v", 1 << 40))) == (1, 1)
    assert [row["id"] for row in table.by_duckdb("v = 10")] == [1]
    table.replace("id = 2")
    assert table.check() == [1]


def test_bounds_come_back_when_files_are_named_anew_and_when_a_conversion_was_lost(make):
    table = make()
    table.append({"id": 1, "v": "a"})
    table.log.alter().unset_properties("delta.universalFormat.enabledFormats")
    table.append({"id": 2, "v": "b"})
    table.log.alter().set_properties({"delta.universalFormat.enabledFormats": "iceberg"})
    assert planned(table, EqualTo("id", 2)) == 1
    assert table.check() == [1, 2]


def test_very_many_files_are_named_anew_without_bounds(make, monkeypatch):
    monkeypatch.setattr("airflow_delta.core.operations.iceberg.changed_files.MOST_WITH_BOUNDS", 1)
    table = make(**{"delta.universalFormat.enabledFormats": ""})
    table.append({"id": 1, "v": "a"})
    table.append({"id": 2, "v": "b"})
    table.log.alter().set_properties({"delta.universalFormat.enabledFormats": "iceberg"})
    assert planned(table, EqualTo("id", 2)) == 2
    assert table.check() == [1, 2]


def schema_of(*columns):
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {"delta.columnMapping.id": number}}
        for number, (name, kind) in enumerate(columns, start=1)
    ]
    return parse_schema(json.dumps({"type": "struct", "fields": fields}))


@pytest.mark.parametrize(
    "stats",
    [
        None,
        "",
        "[]",
        "{" * 9_999,
        '{"numRecords": 3, "minValues": 7, "maxValues": {"n": {"deep": 1}}}',
        '{"numRecords": 3, "minValues": {"n": 9}, "maxValues": {"n": 1}}',
        '{"numRecords": 3, "minValues": {"n": 1e400}, "maxValues": {"n": 99999999999999999999}}',
        '{"numRecords": 3, "minValues": {"n": 1}}',
        '{"numRecords": 3, "nullCount": {"n": -1}}',
        json.dumps({"numRecords": 3, "minValues": {"s": "x" * 10_000}, "maxValues": {"s": "y" * 10_000}}),
    ],
)
def test_statistics_that_say_nothing_sound_give_no_bounds(stats):
    schema = schema_of(("n", "integer"), ("s", "string"))
    columns = bounded_columns(schema, ())
    (found,) = bounds_of_files(pa.chunked_array([pa.array([stats], pa.string())]), [3], schema, columns)
    assert (found.lower, found.upper, found.nulls, found.values) == ({}, {}, {}, {})


@pytest.mark.parametrize("value", ["-9999999999999.99", "-1.28", "-1.29", "-0.01", "0.00", "1.27", "1.28", "9999999999999.99"])
def test_decimals_are_serialized_as_iceberg_reads_them(value):
    schema = schema_of(("d", "decimal(15,2)"))
    stats = f'{{"numRecords": 1, "minValues": {{"d": {value}}}, "maxValues": {{"d": {value}}}, "nullCount": {{"d": 0}}}}'
    (found,) = bounds_of_files(pa.chunked_array([[stats]]), [1], schema, bounded_columns(schema, ()))
    assert [from_bytes(IcebergDecimal(15, 2), each[1]) for each in (found.lower, found.upper)] == [Decimal(value)] * 2


def test_of_very_many_columns_the_first_have_bounds_and_partition_columns_have_none():
    schema = parse_struct(", ".join(f"c{number} long" for number in range(2)))
    assert bounded_columns(schema, ()) == {}  # without ids
    schema = schema_of(*((f"c{number}", "long") for number in range(100)))
    found = [column.name for column in bounded_columns(schema, ["c3"])]
    assert found == [f"c{number}" for number in range(MOST_COLUMNS + 1) if number != 3]
