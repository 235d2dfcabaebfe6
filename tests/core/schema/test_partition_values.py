"""Partition values: text in the log, typed everywhere else."""

import datetime as dt
import json
import math
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidPartitionValueError, UnwritablePartitionValueError
from airflow_delta.core.schema import (
    ArrayType,
    DecimalType,
    StructField,
    arrow_schema,
    arrow_type,
    parse_schema,
    partition_arrays,
    serialize,
    serialized_values,
    typed_values,
)
from airflow_delta.core.schema.data_types import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
)
from airflow_delta.core.schema.partition_values import texts_of_key, with_exact_keys
from tests.golden_tables import TABLES

ALL_TYPES = TABLES / "partitioned_all_types"

NOON = dt.datetime(2021, 1, 1, 12, tzinfo=dt.UTC)


def typed(text, data_type):
    return typed_values(pa.array([text], pa.string()), data_type, column="p")[0].as_py()


@pytest.mark.parametrize(
    ("data_type", "text", "expected"),
    [
        (STRING, " as is ", " as is "),
        (STRING, "__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__"),
        (BYTE, "-128", -128),
        (INTEGER, " 007 ", 7),
        (INTEGER, "+5", 5),
        (LONG, "1.0", 1),
        (LONG, "1.9", 1),
        (LONG, "9223372036854775807", 9223372036854775807),
        (DOUBLE, "1.0E10", 1e10),
        (DOUBLE, "1e10", 1e10),
        (DOUBLE, "-Infinity", -math.inf),
        (DOUBLE, "inf", math.inf),
        (FLOAT, "0.1", pytest.approx(0.1)),
        (DecimalType(10, 2), "1.5", Decimal("1.50")),
        (DecimalType(10, 2), "1E2", Decimal("100.00")),
        (DecimalType(10, 2), "0.005", Decimal("0.01")),
        (BOOLEAN, "true", True),
        (BOOLEAN, "F", False),
        (BOOLEAN, "Yes", True),
        (BOOLEAN, "0", False),
        (DATE, "2021-03-01", dt.date(2021, 3, 1)),
        (DATE, "2021-3", dt.date(2021, 3, 1)),
        (DATE, "2021", dt.date(2021, 1, 1)),
        (DATE, "0001-01-01", dt.date(1, 1, 1)),
        (DATE, "2021-03-01T10:00:00", dt.date(2021, 3, 1)),
        (TIMESTAMP, "2021-01-01 12:00:00", NOON),
        (TIMESTAMP, "2021-01-01T12:00:00.000000Z", NOON),
        (TIMESTAMP, "2021-01-01 13:00:00+01:00", NOON),
        (TIMESTAMP, "2021-01-01 13:00:00 +01:00", NOON),
        (TIMESTAMP, "2021-01-01 12:00:00 UTC", NOON),
        (TIMESTAMP, "2021-01-01 12:00:00.0000009", NOON),
        (TIMESTAMP, "2021-01-01", NOON.replace(hour=0)),
        (TIMESTAMP, "1969-12-31 23:59:59.999999", dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.UTC)),
        (TIMESTAMP_NTZ, "2021-01-01 12:00:00.5", dt.datetime(2021, 1, 1, 12, 0, 0, 500_000)),  # noqa: DTZ001
        (TIMESTAMP_NTZ, "2021-01-01T12:00:00Z", dt.datetime(2021, 1, 1, 12)),  # noqa: DTZ001
        (BINARY, "\x01é", "\x01é".encode()),
    ],
)
def test_a_text_of_the_log_becomes_its_value(data_type, text, expected):
    assert typed(text, data_type) == expected


def test_a_date_beyond_the_year_9999_is_read():
    days = typed_values(pa.array(["12345-01-01"]), DATE).cast(pa.int32())[0].as_py()
    assert days - typed_values(pa.array(["9999-12-31"]), DATE).cast(pa.int32())[0].as_py() == 856_495


@pytest.mark.parametrize(
    "data_type", [STRING, LONG, DOUBLE, BOOLEAN, DATE, TIMESTAMP, TIMESTAMP_NTZ, BINARY, DecimalType(5, 2)], ids=str
)
def test_the_empty_text_a_null_and_a_missing_key_are_null(data_type):
    pairs = [[("p", "")], [("p", None)], [("other", "1")], []]
    files = pa.table({"partition_values": pa.array(pairs, pa.map_(pa.string(), pa.string()))})
    found = partition_arrays(files, [StructField("p", data_type)])["p"]
    assert found.to_pylist() == [None] * 4
    assert found.type == arrow_type(data_type)


@pytest.mark.parametrize(
    ("data_type", "text"),
    [
        (BYTE, "128"),
        (LONG, "one"),
        (LONG, "9223372036854775808"),
        (INTEGER, "0x1F"),
        (DOUBLE, "much"),
        (DecimalType(4, 2), "100"),
        (DecimalType(4, 2), "NaN"),
        (DecimalType(4, 2), "x"),
        (DecimalType(4, 2), "1_0"),
        (DecimalType(38, 38), "9223372036854775808"),  # 0.063… to Arrow
        (BOOLEAN, "maybe"),
        (DATE, "2021-02-30"),
        (DATE, "yesterday"),
        (TIMESTAMP, "2021-01-01 25:00:00"),
        (TIMESTAMP, "2021-01-01 12:00:00 Europe/Berlin"),
        (TIMESTAMP_NTZ, "noon"),
        (ArrayType(LONG), "[1]"),
    ],
    ids=str,
)
def test_garbage_is_an_error_that_names_column_value_and_type(data_type, text):
    with pytest.raises(InvalidPartitionValueError) as caught:
        typed_values(pa.chunked_array([[None], [text]], pa.string()), data_type, column="p")
    assert (caught.value.column, caught.value.value, caught.value.type) == ("p", text, str(data_type))


@pytest.mark.parametrize(
    ("data_type", "value", "expected"),
    [
        (STRING, "", None),
        (BINARY, b"", None),
        (LONG, None, None),
        (SHORT, -7, "-7"),
        (DOUBLE, 1e10, "1.0E10"),
        (DOUBLE, 1.5, "1.5"),
        (DOUBLE, 1e7, "1.0E7"),
        (DOUBLE, 9999999.0, "9999999.0"),
        (DOUBLE, 0.001, "0.001"),
        (DOUBLE, 0.00012, "1.2E-4"),
        (DOUBLE, -0.0, "-0.0"),
        (DOUBLE, math.nan, "NaN"),
        (DOUBLE, -math.inf, "-Infinity"),
        (FLOAT, 0.1, "0.1"),
        (FLOAT, 16777216.0, "1.6777216E7"),
        (DecimalType(10, 2), Decimal("1E+2"), "100.00"),
        (DecimalType(10, 7), Decimal("0.0000001"), "0.0000001"),
        (BOOLEAN, True, "true"),
        (DATE, dt.date(2021, 3, 1), "2021-03-01"),
        (DATE, dt.date(1, 1, 1), "0001-01-01"),
        (TIMESTAMP, NOON, "2021-01-01T12:00:00.000000Z"),
        (TIMESTAMP, dt.datetime(2021, 1, 1, 13, tzinfo=dt.timezone(dt.timedelta(hours=1))), "2021-01-01T12:00:00.000000Z"),
        (TIMESTAMP_NTZ, dt.datetime(2021, 1, 1, 12), "2021-01-01 12:00:00"),  # noqa: DTZ001
        (TIMESTAMP_NTZ, dt.datetime(2021, 1, 1, 12, 0, 0, 120_000), "2021-01-01 12:00:00.12"),  # noqa: DTZ001
        (TIMESTAMP_NTZ, NOON, "2021-01-01 12:00:00"),
        (BINARY, "\x01é".encode(), "\x01é"),
    ],
)
def test_a_value_is_written_as_spark_writes_it(data_type, value, expected):
    assert serialize(value, data_type) == expected


@pytest.mark.parametrize(
    ("data_type", "value"),
    [(LONG, "x"), (BINARY, b"\xff"), (DecimalType(4, 2), Decimal("NaN")), (ArrayType(LONG), [1])],
    ids=str,
)
def test_a_value_without_a_text_is_a_typed_error(data_type, value):
    with pytest.raises(UnwritablePartitionValueError, match=r"found .*hex\(p\)") as caught:
        serialize(value, data_type, column="p")
    assert (caught.value.column, caught.value.value) == ("p", str(value))


@pytest.mark.parametrize(
    ("data_type", "number", "shown"),
    [
        (DATE, 3_663_633, "12000-09-08"),
        (DATE, -719_163, "0000-12-31"),
        (TIMESTAMP, 316_537_891_200_000_000, "12000-09-08 00:00:00.000000Z"),
        (TIMESTAMP_NTZ, 316_537_891_200_000_000, "12000-09-08 00:00:00.000000"),
    ],
    ids=str,
)
def test_a_year_that_python_does_not_count_to_is_a_typed_error_that_shows_it(data_type, number, shown):
    integers = pa.int32() if data_type == DATE else pa.int64()
    values = pa.array([None, number], integers).cast(arrow_type(data_type))
    with pytest.raises(UnwritablePartitionValueError, match="years 1 to 9999") as caught:
        serialized_values(values, data_type, column="p")
    assert (caught.value.column, caught.value.value) == ("p", shown)


VALUES = {
    STRING: st.text(min_size=1).filter(lambda text: text.isprintable()),
    BYTE: st.integers(-128, 127),
    LONG: st.integers(-(2**63), 2**63 - 1),
    DOUBLE: st.floats(allow_nan=False),
    FLOAT: st.floats(allow_nan=False, width=32),
    BOOLEAN: st.booleans(),
    DATE: st.dates(),
    TIMESTAMP: st.datetimes(timezones=st.just(dt.UTC)),
    TIMESTAMP_NTZ: st.datetimes(),
    BINARY: st.text(min_size=1).map(str.encode),
    DecimalType(20, 6): st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**12), max_value=10**12),
}


@given(st.data())
def test_what_is_written_is_read_back(data):
    data_type = data.draw(st.sampled_from(list(VALUES)))
    values = pa.array(data.draw(st.lists(st.none() | VALUES[data_type])), arrow_type(data_type))
    texts = serialized_values(values, data_type)
    assert texts.type == pa.string()
    assert typed_values(texts, data_type) == values


def test_each_distinct_value_is_one_value_however_often_it_comes():
    values = pa.chunked_array([[1, None], [1, 2]], pa.int64())
    assert serialized_values(values, LONG).to_pylist() == ["1", None, "1", "2"]
    assert typed_values(pa.chunked_array([], pa.string()), LONG) == pa.array([], pa.int64())


def test_the_partition_values_that_delta_lake_wrote_are_written_again_with_the_same_text():
    """But for timestamps, whose spelling depends on a setting."""
    lines = [
        json.loads(line) for log in sorted(ALL_TYPES.glob("table/_delta_log/*.json")) for line in log.read_text().splitlines()
    ]
    schema = parse_schema(next(line["metaData"]["schemaString"] for line in lines if "metaData" in line))
    adds = [line["add"]["partitionValues"] for line in lines if "add" in line]
    assert adds
    files = pa.table({"partition_values": pa.array([list(add.items()) for add in adds], pa.map_(pa.string(), pa.string()))})
    fields = [field for field in schema.fields if field.name in adds[0]]
    for name, values in partition_arrays(files, fields).items():
        texts = serialized_values(values, schema.find(name).type).to_pylist()
        assert texts == [add[name] or None for add in adds], name


@given(
    st.lists(st.none() | st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["1", "2", None])), max_size=3), max_size=6),
    st.integers(0, 3),
)
def test_the_text_of_a_key_is_found_as_arrow_finds_it(maps, start):
    column = pa.chunked_array([pa.array(maps, pa.map_(pa.string(), pa.string()))[start:]])
    assert texts_of_key(column, "a").to_pylist() == pc.map_lookup(column, "a", "first").to_pylist()


def test_where_each_map_has_the_key_once_its_texts_are_taken_as_they_are():
    column = pa.chunked_array(
        [pa.array([[("a", "1"), ("b", "2")], [("b", "3"), ("a", None)]], pa.map_(pa.string(), pa.string()))]
    )
    assert texts_of_key(column, "a").to_pylist() == ["1", None]
    assert texts_of_key(column, "b").to_pylist() == ["2", "3"]
    assert texts_of_key(column, "c").to_pylist() == [None, None]


@given(
    st.lists(st.none() | st.dictionaries(st.sampled_from("abc"), st.none() | st.text(max_size=2), max_size=3), max_size=5),
    st.lists(st.sampled_from("abc"), unique=True),
    st.integers(0, 2),
    st.sampled_from([1, 10]),
)
def test_maps_get_exactly_the_keys_asked_for_and_keep_their_values(maps, keys, start, files_per_map):
    maps *= files_per_map
    kind = pa.map_(pa.string(), pa.string())
    given = pa.chunked_array(
        [
            pa.array([None if mapping is None else list(mapping.items()) for mapping in maps], kind).slice(start),
            pa.nulls(0, kind),
        ]
    )
    found = with_exact_keys(given, keys)
    expected = [None if mapping is None else {key: mapping.get(key) for key in keys} for mapping in maps[start:]]
    assert [None if mapping is None else dict(mapping) for mapping in found.to_pylist()] == expected


PARTITION_TYPES = {
    "byte": ("-3", -3),
    "short": ("300", 300),
    "integer": ("70000", 70000),
    "long": ("-9223372036854775808", -(2**63)),
    "float": ("1.5", 1.5),
    "double": ("-Infinity", float("-inf")),
    "boolean": ("true", True),
    "decimal(20,3)": ("-0.001", Decimal("-0.001")),
    "string": ("x", "x"),
    "binary": ("ab", b"ab"),
    "date": ("1500-01-01", dt.date(1500, 1, 1)),
    "timestamp": ("2024-03-10T07:30:00.100000Z", dt.datetime(2024, 3, 10, 7, 30, 0, 100_000, dt.UTC)),
    "timestamp_ntz": ("2024-03-10 02:30:00.000001", dt.datetime(2024, 3, 10, 2, 30, 0, 1)),  # noqa: DTZ001
}


@pytest.mark.parametrize("kind", PARTITION_TYPES)
@pytest.mark.parametrize("mapped", [False, True], ids=["plain", "mapped"])
def test_rows_come_back_with_exactly_the_types_of_their_partition_columns(tmp_path, kind, mapped):
    text, value = PARTITION_TYPES[kind]
    for name in ("one", "other"):
        pq.write_table(pa.table({"id": pa.array([1, 2], pa.int64())}), tmp_path / name)
    column = {"name": "p", "type": kind, "nullable": True, "metadata": {}}
    identity = {"name": "id", "type": "long", "nullable": True, "metadata": {}}
    configuration = {}
    if mapped:
        configuration = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
        for number, (field, name) in enumerate(((column, "physical"), (identity, "id")), start=1):
            field["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name}
    actions = [
        {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}},
        {
            "metaData": {
                "id": "t",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": [column, identity]}),
                "partitionColumns": ["p"],
                "configuration": configuration,
            }
        },
    ]
    size, key = (tmp_path / "one").stat().st_size, "physical" if mapped else "p"
    for path, said in (("one", text), ("other", None)):
        add = {"path": path, "partitionValues": {key: said}, "size": size, "modificationTime": 1, "dataChange": True}
        actions.append({"add": add})
    log = tmp_path / "_delta_log"
    log.mkdir()
    (log / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)))

    snapshot = DeltaLog.for_table(str(tmp_path)).snapshot()
    wanted = arrow_schema(snapshot.schema)
    batches = list(snapshot.to_arrow())
    assert [batch.schema for batch in batches] == [wanted] * 2
    rows = pa.Table.from_batches(batches)
    rows.validate(full=True)
    assert sorted(rows["p"].to_pylist(), key=str) == sorted([value, value, None, None], key=str)
    alone = snapshot.to_arrow(["p"], "p IS NULL").read_all()
    assert (alone.schema, alone["p"].to_pylist()) == (pa.schema([wanted.field("p")]), [None, None])
    nothing = snapshot.to_arrow(where="id > 2").read_all()
    assert (nothing.schema, len(nothing)) == (wanted, 0)
