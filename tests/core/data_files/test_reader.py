"""Reading one data file of a table whose schema has changed since."""

import datetime as dt

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from airflow_delta.core.data_files import ROW_INDEX, open_data_file
from airflow_delta.core.errors import CorruptDataFileError, InvalidPartitionValueError, LegacyCalendarError
from airflow_delta.core.schema import ArrayType, MapType, PrimitiveType, StructField, StructType, arrow_schema

LONG, STRING, DATE, TIMESTAMP = (PrimitiveType(name) for name in ("long", "string", "date", "timestamp"))
OLD_DATE, OLD_TIME = dt.date(1582, 10, 4), dt.datetime(1899, 12, 31, tzinfo=dt.UTC)


def schema_of(**columns):
    return StructType(tuple(StructField(name, kind) for name, kind in columns.items()))


def test_partition_columns_come_from_the_log_at_their_place_and_never_from_the_file(data_files, tmp_path):
    pq.write_table(pa.table({"day": ["wrong", "wrong"], "id": [1, 2]}), tmp_path / "f")

    found = data_files.read_file(tmp_path / "f", schema_of(id=LONG, day=DATE, none=STRING), {"day": "2013-01-01", "none": None})

    day = dt.date(2013, 1, 1)
    assert found.to_pylist() == [{"id": 1, "day": day, "none": None}, {"id": 2, "day": day, "none": None}]


def test_columns_the_table_does_not_know_are_not_read(data_files, tmp_path):
    pq.write_table(pa.table({"id": [1], "_change_type": ["insert"], "dropped": [1]}), tmp_path / "f")

    assert data_files.read_file(tmp_path / "f", schema_of(id=LONG)).to_pylist() == [{"id": 1}]


def test_a_column_with_a_dot_in_its_name_is_not_taken_for_a_member(data_files, tmp_path):
    pq.write_table(pa.table({"a.b": [1], "a": [{"b": 2}]}), tmp_path / "f")

    found = data_files.read_file(tmp_path / "f", schema_of(**{"a": schema_of(b=LONG), "a.b": LONG}))

    assert found.to_pylist() == [{"a": {"b": 2}, "a.b": 1}]


def test_row_positions_run_through_all_row_groups_and_batches(data_files, tmp_path):
    pq.write_table(pa.table({"id": range(100, 110)}), tmp_path / "f", row_group_size=4)

    batches = list(
        open_data_file(data_files.LOCAL, str(tmp_path / "f"), schema_of(id=LONG), {}, batch_rows=3, with_row_index=True)
    )

    assert max(batch.num_rows for batch in batches) <= 3
    assert [(row["id"], row[ROW_INDEX]) for batch in batches for row in batch.to_pylist()] == [(100 + n, n) for n in range(10)]


def test_rows_are_counted_when_no_column_is_asked_for_or_present(data_files, tmp_path):
    pq.write_table(pa.table({"id": range(10)}), tmp_path / "f")
    path = str(tmp_path / "f")

    assert sum(batch.num_rows for batch in open_data_file(data_files.LOCAL, path, schema_of(), {})) == 10
    assert data_files.read_file(path, schema_of(), with_row_index=True).to_pydict() == {ROW_INDEX: list(range(10))}
    assert data_files.read_file(path, schema_of(p=LONG), {"p": "7"}).to_pydict() == {"p": [7] * 10}
    assert data_files.read_file(path, schema_of(added=LONG)).to_pydict() == {"added": [None] * 10}


def test_a_filesystem_that_is_not_local_gives_the_same_rows(data_files, tmp_path):
    pq.write_table(pa.table({"id": range(10), "name": ["x"] * 10}), tmp_path / "f", row_group_size=4)
    elsewhere = pafs.SubTreeFileSystem(str(tmp_path), data_files.LOCAL)

    batches = open_data_file(elsewhere, "f", schema_of(id=LONG), {})

    assert [row["id"] for batch in batches for row in batch.to_pylist()] == list(range(10))


def test_a_file_of_no_rows_gives_no_batch(data_files, tmp_path):
    pq.write_table(pa.table({"id": pa.array([], pa.int64())}), tmp_path / "f")

    assert list(open_data_file(data_files.LOCAL, str(tmp_path / "f"), schema_of(id=LONG), {})) == []


def test_types_that_only_arrow_knows_are_resolved(data_files, tmp_path):
    table = pa.table({"d": pa.array(["a", "b", "a"]).dictionary_encode(), "s": pa.array(["x"] * 3, pa.large_string())})
    pq.write_table(table, tmp_path / "f")  # with the ARROW:schema metadata, from which Arrow takes these types

    assert data_files.read_file(tmp_path / "f", schema_of(d=STRING, s=STRING)).to_pydict() == {
        "d": ["a", "b", "a"],
        "s": ["x"] * 3,
    }


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_int96_is_read_to_the_microsecond_far_outside_the_range_of_nanoseconds(kind, data_files, tmp_path):
    micros = [-62135596800000000, -1, 0, 1_600_000_000_123_456, 253402300799999999, None]
    table = pa.table({"t": pa.array(micros, pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "f", use_deprecated_int96_timestamps=True, store_schema=False)

    found = data_files.read_file(tmp_path / "f", schema_of(t=PrimitiveType(kind)))

    assert str(pq.read_schema(tmp_path / "f").field("t").type) == "timestamp[ns]"
    assert found["t"].cast(pa.int64()).to_pylist() == micros


def test_a_missing_file_is_named(data_files, tmp_path):
    with pytest.raises(CorruptDataFileError) as caught:
        data_files.read_file(tmp_path / "missing.parquet", schema_of(id=LONG), table="flights")

    assert (caught.value.table, caught.value.file) == ("flights", str(tmp_path / "missing.parquet"))
    assert caught.value.detail == "the file does not exist"


@pytest.mark.parametrize("damage", ["garbage", "empty", "truncated", "flipped"])
def test_a_damaged_file_is_named(damage, data_files, tmp_path):
    path = tmp_path / "f"
    pq.write_table(pa.table({"id": list(range(10_000))}), path, use_dictionary=False)
    content = path.read_bytes()
    path.write_bytes(
        {
            "garbage": b"no parquet at all",
            "empty": b"",
            "truncated": content[: len(content) // 2],
            "flipped": content[:4] + bytes(200) + content[204:],
        }[damage]
    )

    with pytest.raises(CorruptDataFileError) as caught:
        data_files.read_file(path, schema_of(id=LONG))

    assert caught.value.file == str(path)


def test_a_column_of_another_type_is_named(data_files, tmp_path):
    pq.write_table(pa.table({"id": ["1"]}), tmp_path / "f")

    with pytest.raises(CorruptDataFileError) as caught:
        data_files.read_file(tmp_path / "f", schema_of(id=LONG))

    assert caught.value.detail == "column id: string is not int64"


def test_a_partition_value_that_is_none_of_its_type_is_named(data_files, tmp_path):
    pq.write_table(pa.table({"id": [1]}), tmp_path / "f")

    with pytest.raises(InvalidPartitionValueError) as caught:
        data_files.read_file(tmp_path / "f", schema_of(p=LONG), {"p": "seven"})

    assert caught.value.column == "p"


LEGACY_MARKS = [
    pytest.param({"org.apache.spark.legacyDateTime": ""}, id="marked"),
    pytest.param({"org.apache.spark.version": "3.0.1"}, id="3.0"),
    pytest.param({"org.apache.spark.version": "2.4.8"}, id="2.4"),
    pytest.param({"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyINT96": ""}, id="int96-marked"),
]
ANCIENT = [
    pytest.param(DATE, OLD_DATE, id="date"),
    pytest.param(TIMESTAMP, OLD_TIME, id="timestamp"),
    pytest.param(PrimitiveType("timestamp_ntz"), OLD_TIME.replace(tzinfo=None), id="timestamp-ntz"),
    pytest.param(ArrayType(DATE), [OLD_DATE], id="list"),
    pytest.param(MapType(STRING, DATE), [("k", OLD_DATE)], id="map"),
    pytest.param(schema_of(d=DATE), {"d": OLD_DATE}, id="struct"),
]


@pytest.mark.parametrize("marks", LEGACY_MARKS)
@pytest.mark.parametrize(("kind", "value"), ANCIENT)
def test_ancient_values_of_a_legacy_file_are_refused(marks, kind, value, data_files, tmp_path):
    schema = schema_of(c=kind)
    data_files.write_file(tmp_path / "new", rows(schema, [None, value]), schema)
    pq.write_table(pq.read_table(tmp_path / "new").replace_schema_metadata(marks), tmp_path / "old")

    with pytest.raises(LegacyCalendarError) as caught:
        data_files.read_file(tmp_path / "old", schema)

    assert caught.value.file == str(tmp_path / "old")
    assert data_files.read_file(tmp_path / "new", schema)["c"].to_pylist() == [None, value]


@pytest.mark.parametrize("marks", LEGACY_MARKS)
def test_newer_values_of_a_legacy_file_are_read(marks, data_files, tmp_path):
    table = pa.table({"d": [dt.date(1582, 10, 15), None], "t": [dt.datetime(1900, 1, 1, tzinfo=dt.UTC), None]})
    pq.write_table(table.replace_schema_metadata(marks), tmp_path / "f")

    assert data_files.read_file(tmp_path / "f", schema_of(d=DATE, t=TIMESTAMP)).to_pylist() == table.to_pylist()


def rows(schema, values):
    return pa.table({"c": pa.array(values, arrow_schema(schema).field("c").type)})
