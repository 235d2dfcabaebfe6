"""Files skipped by Bloom filters: never one with a row that the predicate selects, and nearly always one without the values."""

import datetime as dt
import json
import uuid
from decimal import Decimal

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_delta.core import DeltaLog
from airflow_delta.core.data_files.indexed_columns import IndexedColumns
from airflow_delta.core.predicate import parse_predicate
from airflow_delta.core.schema import StructType, arrow_schema
from airflow_delta.core.snapshot import bloom_filter_pruning
from airflow_delta.core.snapshot.bloom_filter_pruning import without_skippable
from airflow_delta.core.snapshot.lookups import Lookup, lookups_of
from tests.core.predicate.strategies import PARTITION_COLUMNS, SCHEMA, predicates, samples
from tests.core.predicate.test_soundness import by_file, truth

LOCAL = pafs.LocalFileSystem()
STORED = StructType(tuple(field for field in SCHEMA.fields if field.name not in PARTITION_COLUMNS))
EVERY = IndexedColumns(names=frozenset(SCHEMA.names), false_positives=1e-4)


def filters(names, ndv=10):
    return {name: {"ndv": ndv, "fpp": 1e-5} for name in names}


# -- never a row lost


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    sample=samples(),
    predicate=predicates,
    indexed=st.sets(st.sampled_from([name for name in STORED.names if name != "n"])),
    as_integers=st.booleans(),
    group_rows=st.integers(1, 4),
)
def test_a_skipped_file_holds_no_row_that_duckdb_selects(tmp_path_factory, sample, predicate, indexed, as_integers, group_rows):
    root = str(tmp_path_factory.mktemp("files"))
    paths = [f"{number}.parquet" for number in range(len(sample.rows))]
    options = {"store_decimal_as_integer": as_integers, "bloom_filter_options": filters(indexed - {"b"})}
    for path, rows in zip(paths, sample.rows, strict=True):
        pq.write_table(rows.select(STORED.names), f"{root}/{path}", row_group_size=group_rows, **options)
    lookups = lookups_of(parse_predicate(predicate[0], SCHEMA, "t"), None, EVERY, SCHEMA, PARTITION_COLUMNS)
    if lookups is None:
        return
    kept = without_skippable(pa.table({"path": paths}), lookups, lambda path: (LOCAL, f"{root}/{path}"))["path"].to_pylist()
    for path, selected in zip(paths, by_file(sample, truth(pa.concat_tables(sample.rows), predicate[1])), strict=True):
        assert path in kept or True not in selected


# -- files without the values are skipped

VALUES = {
    "byte": (pa.int8(), range(0, 100, 2), 51, "{}"),
    "integer": (pa.int32(), range(-500, 500, 2), 51, "{}"),
    "long": (pa.int64(), range(-(2**40), 2**40, 2**32), 1, "{}"),
    "string": (pa.string(), [f"value {n}" for n in range(0, 200, 2)], "value 51", "'{}'"),
    "date": (pa.date32(), [dt.date(2020, 1, 1) + dt.timedelta(n) for n in range(0, 200, 2)], dt.date(2020, 1, 2), "DATE'{}'"),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(n) for n in range(0, 200, 2)],
        dt.datetime(2020, 1, 2, tzinfo=dt.UTC),
        "TIMESTAMP'{:%Y-%m-%d %H:%M:%S}'",
    ),
    "timestamp_ntz": (
        pa.timestamp("us"),
        [dt.datetime.fromisoformat("1020-01-01") + dt.timedelta(n) for n in range(0, 200, 2)],
        dt.datetime.fromisoformat("1020-01-02"),
        "TIMESTAMP_NTZ'{:%Y-%m-%d %H:%M:%S}'",
    ),
    "decimal(9,2)": (pa.decimal128(9, 2), [Decimal(n) / 4 for n in range(0, 200, 2)], Decimal("12.75"), "{}"),
    "decimal(30,2)": (pa.decimal128(30, 2), [Decimal(n) / -4 for n in range(0, 200, 2)], Decimal("-12.75"), "{}"),
}


class Table:
    """A table of one column ``k`` of a type, its files written as a test likes."""

    def __init__(self, root, kind="string", *, metadata=None, configuration=None):
        self.root, self.actions = root, []
        schema = {"type": "struct", "fields": [{"name": "k", "type": kind, "nullable": True, "metadata": metadata or {}}]}
        properties = {"airflow_delta.bloomFilter.columns": "K", **(configuration or {})}
        mapped = "delta.columnMapping.mode" in properties
        described = {"id": "t", "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(schema)}
        self.actions = [
            {"protocol": {"minReaderVersion": 2 if mapped else 1, "minWriterVersion": 5 if mapped else 2}},
            {"metaData": {**described, "partitionColumns": [], "configuration": properties, "createdTime": 0}},
        ]
        if kind == "timestamp_ntz":
            self.actions[0] = {
                "protocol": {
                    "minReaderVersion": 3,
                    "minWriterVersion": 7,
                    "readerFeatures": ["timestampNtz"],
                    "writerFeatures": ["timestampNtz"],
                }
            }

    def add(self, values, *, name="k", metadata=None, with_filter=True, **options):
        path = f"{len(self.actions)}.parquet"
        field = pa.field(name, values.type, metadata=metadata)
        rows = pa.table([values], pa.schema([field]))
        found = filters([name], len(values)) if with_filter else None
        pq.write_table(rows, self.root / path, store_decimal_as_integer=True, bloom_filter_options=found, **options)
        self.name(path)
        return self.root / path

    def name(self, path):
        self.actions.append(
            {"add": {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}}
        )

    @property
    def snapshot(self):
        log = self.root / "_delta_log"
        log.mkdir(exist_ok=True)
        (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, self.actions)))
        return DeltaLog.for_table(str(self.root)).snapshot()

    def count(self, where=None, **options):
        return len(self.snapshot.files(where, ["size"], **options))


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_of_every_type_is_found_where_it_is_and_only_there(tmp_path, kind):
    arrow, present, absent, literal = VALUES[kind]
    table, values = Table(tmp_path, kind), list(present)
    table.add(pa.array(values[::2], arrow), row_group_size=7)
    table.add(pa.array(values[1::2], arrow), row_group_size=7)
    one = literal.format(values[6])
    assert table.count() == 2
    assert table.count(f"k = {one}") == 1
    assert table.count(f"k <=> {one}") == 1
    assert table.count(f"k IN ({one}, {literal.format(absent)})") == 1
    assert table.count(f"k = {literal.format(absent)}") == 0
    assert table.count(f"k = {one} OR k = {literal.format(values[7])}") == 2
    assert table.count(f"k = {one} AND k = {literal.format(values[7])}") == 0
    assert table.count(f"NOT (k = {one})") == 2
    assert table.count(f"k = {one} OR k IS NULL") == 2
    assert table.count("k <=> NULL") == 2


def test_bytes_are_found_by_keys(tmp_path):
    table = Table(tmp_path, "binary")
    table.add(pa.array([b"a", b"\xff"]))
    assert table.count(keys=pa.table({"k": [b"\xff", b"b"]})) == 1
    assert table.count(keys=pa.table({"k": [b"c", b"b"]})) == 0


def test_of_a_hundred_values_that_are_not_there_nine_of_ten_files_know(tmp_path):
    table = Table(tmp_path)
    for _ in range(30):
        table.add(pa.array([str(uuid.uuid4()) for _ in range(500)]))
    wanted = ", ".join(f"'{uuid.uuid4()}'" for _ in range(100))
    assert table.count(f"k IN ({wanted})") <= 3


def test_rows_are_read_only_from_files_that_may_have_them(tmp_path):
    table = Table(tmp_path)
    table.add(pa.array(["a", "b"]))
    table.add(pa.array(["c", "d"])).unlink()  # nothing is read of it where its name alone is not asked for
    table.add(pa.array(["b", "e"]))
    (tmp_path / "3.parquet").write_bytes((tmp_path / "2.parquet").read_bytes())
    assert table.snapshot.to_arrow(where="k = 'e'").read_all()["k"].to_pylist() == ["e"]
    assert table.snapshot.to_arrow(where="k = 'b'").read_all()["k"].to_pylist() == ["b", "b", "b"]


# -- keys


def test_keys_of_several_columns_are_looked_up_together(tmp_path):
    table = Table(tmp_path)
    schema = {
        "type": "struct",
        "fields": [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in (("k", "string"), ("n", "integer"))],
    }
    table.actions[1]["metaData"]["schemaString"] = json.dumps(schema)
    table.actions[1]["metaData"]["configuration"]["airflow_delta.bloomFilter.columns"] = "k, n"
    rows = pa.table({"k": ["a", "b"], "n": pa.array([1, 2], pa.int32())})
    pq.write_table(rows, tmp_path / "f", bloom_filter_options=filters(["k", "n"]))
    table.name("f")
    assert table.count(keys=pa.table({"k": ["a", "c"], "n": [1, 9]})) == 1
    assert table.count(keys=pa.table({"k": ["c", "b"], "n": [1, 9]})) == 0
    assert table.count(keys=pa.table({"k": ["a"], "other": [9]})) == 1
    assert table.count(keys=pa.table({"n": [2**40]})) == 0  # no value of such a file
    assert table.count("n = 1", keys=pa.table({"k": ["c"]})) == 0


def test_keys_that_no_filter_of_the_rate_could_tell_apart_are_not_asked_for():
    keys = pa.table({"k": [str(number) for number in range(100)]})
    schema = StructType((SCHEMA.find("s"),))
    keys = keys.rename_columns(["s"])
    few = IndexedColumns(names=frozenset("s"), false_positives=0.1)
    many = IndexedColumns(names=frozenset("s"), false_positives=1e-3)
    true = parse_predicate("TRUE", schema, "t")
    assert lookups_of(true, keys, few, schema, ()) is None
    assert isinstance(lookups_of(true, keys, many, schema, ()), Lookup)
    assert lookups_of(true, pa.table({"s": ["x" * 513]}), many, schema, ()) is None


# -- files of other days and other writers


def test_a_file_written_before_its_column_was_widened_is_asked_in_its_own_type(tmp_path):
    table = Table(tmp_path, "long")
    table.add(pa.array([1, 2, 2**31 - 1], pa.int32()))
    table.add(pa.array([1, 2, 2**40], pa.int64()))
    table.add(pa.array([1, 2], pa.int8()))
    assert [table.count(f"k = {value}") for value in (1, 2**31 - 1, 2**40, 7, 2**32 + 1, -1)] == [3, 1, 1, 0, 0, 0]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("decimal(12,4)", pa.array([Decimal("1.50")], pa.decimal128(9, 2))),
        ("timestamp", pa.array([0], pa.timestamp("ns", "UTC"))),
        ("timestamp", pa.array([0], pa.timestamp("ms", "UTC"))),
        ("timestamp_ntz", pa.array([0], pa.timestamp("us", "UTC"))),
        ("long", pa.array([1], pa.uint32())),
        ("double", pa.array([1.0])),
        ("double", pa.array([1], pa.int32())),
        ("string", pa.array([b"abc"], pa.binary(3))),
    ],
)
def test_a_file_of_a_type_that_stores_equal_values_otherwise_stays(tmp_path, kind, values):
    literal = {"string": "'zzz'", "timestamp": "TIMESTAMP'1999-01-01'", "timestamp_ntz": "TIMESTAMP_NTZ'1999-01-01'"}
    table = Table(tmp_path, kind)
    table.add(values)
    assert table.count(f"k = {literal.get(kind, 77)}") == 1


def test_dates_of_the_julian_calendar_are_not_looked_up(tmp_path):
    table = Table(tmp_path, "date")
    path = table.add(pa.array([dt.date(1000, 1, 1)]))
    rows = pq.read_table(path).replace_schema_metadata({"org.apache.spark.legacyDateTime": ""})
    pq.write_table(rows, path, bloom_filter_options=filters(["k"]))
    assert table.count("k = DATE'1000-01-06'") == 1


def test_texts_that_are_padded_or_have_a_collation_are_not_looked_up(tmp_path):
    for number, metadata in enumerate(({"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}, {"__COLLATIONS": {"k": "spark.UTF8_LCASE"}})):
        root = tmp_path / str(number)
        root.mkdir()
        table = Table(root, metadata=metadata)
        table.add(pa.array(["a", "A  "]))
        assert table.count("k = 'b  '") == 1


@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_renamed_column_is_found_as_readers_find_it(tmp_path, mode):
    mapping = {"delta.columnMapping.id": 7, "delta.columnMapping.physicalName": "col-1"}
    table = Table(tmp_path, metadata=mapping, configuration={"delta.columnMapping.mode": mode})
    table.add(pa.array(["a"]), name="col-1", metadata={"PARQUET:field_id": "7"})
    table.add(pa.array(["a"]), name="col-2" if mode == "id" else "col-1", metadata={"PARQUET:field_id": "7"})
    assert (table.count("k = 'a'"), table.count("k = 'b'")) == (2, 0)
    table.add(pa.array(["b"]), name="k", metadata={"PARQUET:field_id": "8"})  # a column that the table does not know
    assert table.count("k = 'b'") == 1  # all its rows are NULL there, but filters cannot say so


def test_files_without_filter_or_column_or_of_an_old_time_type_stay(tmp_path):
    table = Table(tmp_path)
    table.add(pa.array(["a"]), with_filter=False)
    table.add(pa.array(["a"]), name="other")
    table.add(pa.array([None, None], pa.string()))
    assert table.count("k = 'b'") == 3
    times = Table(tmp_path, "timestamp")
    times.add(pa.array([0], pa.timestamp("us")), use_deprecated_int96_timestamps=True, with_filter=False)
    assert times.count("k = TIMESTAMP'1999-01-01'") == 1


# -- hostile and broken files


def test_a_missing_file_and_one_that_is_no_parquet_stay(tmp_path):
    table = Table(tmp_path)
    table.add(pa.array(["a"])).unlink()
    table.add(pa.array(["a"])).write_bytes(b"PAR1 nothing PAR1")
    table.name("../elsewhere.parquet")
    table.name("s3://other/bucket")
    assert table.count("k = 'b'") == 4


@settings(max_examples=60, deadline=None)
@given(position=st.integers(0, 400), byte=st.integers(0, 255))
def test_a_wrong_byte_in_the_end_of_a_file_is_never_an_error(tmp_path_factory, position, byte):
    table = Table(tmp_path_factory.mktemp("files"))
    path = table.add(pa.array(["a", "b"]))
    content = bytearray(path.read_bytes())
    content[-1 - position % len(content)] = byte
    path.write_bytes(content)
    assert table.count("k = 'z'") in (0, 1)


def test_a_filter_that_reaches_into_the_footer_or_says_another_length_is_none(tmp_path):
    table = Table(tmp_path)
    path = table.add(pa.array(["a", "b"]))
    content = path.read_bytes()
    chunk = pq.read_metadata(path).row_group(0).column(0)
    start, length = chunk.bloom_filter_offset, chunk.bloom_filter_length
    assert table.count("k = 'z'") == 0
    # The size that the header says, and the length in the footer, no longer agree.
    path.write_bytes(
        content[:start] + content[start : start + length].replace(b"\x15\x40", b"\x15\x20", 1) + content[start + length :]
    )
    assert table.count("k = 'z'") == 1


def test_more_files_than_one_process_should_open_are_not_asked(tmp_path, monkeypatch):
    table = Table(tmp_path)
    for _ in range(3):
        table.add(pa.array(["a"]))
    assert table.count("k = 'b'") == 0
    monkeypatch.setattr(bloom_filter_pruning, "MOST_FILES", 2)
    assert table.count("k = 'b'") == 3


def test_without_the_property_no_file_is_opened(tmp_path):
    table = Table(tmp_path)
    table.add(pa.array(["a"]))
    table.actions[1]["metaData"]["configuration"] = {}
    assert table.count("k = 'b'") == 1


# -- properties


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({}, IndexedColumns()),
        ({"airflow_delta.bloomFilter.columns": "A, `b.c`, d.e"}, IndexedColumns(names=frozenset({"a", "b.c"}))),
        ({"airflow_delta.bloomFilter.fpp": "1e-3"}, IndexedColumns(false_positives=0.001)),
        ({"airflow_delta.bloomFilter.fpp": "0.01"}, IndexedColumns(false_positives=0.01)),
        ({"airflow_delta.bloomFilter.fpp": "nan"}, IndexedColumns()),
        ({"airflow_delta.bloomFilter.fpp": "7"}, IndexedColumns()),
        ({"airflow_delta.bloomFilter.numItems": "1000"}, IndexedColumns(items=1000)),
        ({"airflow_delta.bloomFilter.numItems": "-1"}, IndexedColumns()),
    ],
)
def test_a_property_that_cannot_be_read_counts_as_absent(configuration, expected):
    assert IndexedColumns.from_properties(configuration) == expected


def test_only_types_whose_equal_values_have_equal_bits_are_indexed():
    assert [field.name for field in EVERY.fields(SCHEMA)] == ["part_day", "part_n", "i", "l", "d", "wide", "s", "day", "ts"]
    assert arrow_schema(SCHEMA).names == list(SCHEMA.names)
