"""Our reader returns the same rows as other engines from their files, and they from ours."""

import datetime as dt
from decimal import Decimal

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_delta.core.data_files import describe_file
from airflow_delta.core.schema import parse_schema, schema_json, struct_from_arrow

MEMBERS = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])
TABLE = pa.table(
    {
        "b": pa.array([1, None, -128], pa.int8()),
        "i": pa.array([1, None, 2**31 - 1], pa.int32()),
        "n": pa.array([2**62, None, -1]),
        "f": pa.array([1.5, None, float("nan")]),
        "ok": pa.array([True, None, False]),
        "s": pa.array(["é😀", None, ""]),
        "bin": pa.array([b"\x00\xff", None, b""]),
        "d": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
        "t": pa.array([-1, None, 1_600_000_000_123_456], pa.timestamp("us", "UTC")),
        "ntz": pa.array([-1, None, 1_600_000_000_123_456], pa.timestamp("us")),
        "d9": pa.array([Decimal("-1.25"), None, Decimal("9999999.99")], pa.decimal128(9, 2)),
        "d18": pa.array([Decimal("-1.25"), None, Decimal("9999999.99")], pa.decimal128(18, 2)),
        "d38": pa.array([Decimal("-1.25"), None, Decimal("9999999.99")], pa.decimal128(38, 2)),
        "l": pa.array([[1, None], None, []], pa.list_(pa.int64())),
        "m": pa.array([[("k", 1.5)], None, []], pa.map_(pa.string(), pa.float64())),
        "st": pa.array([{"x": 1, "y": ["a"]}, None, {"x": None, "y": None}], MEMBERS),
        "ls": pa.array([[{"x": 1, "y": None}, None], None, []], pa.list_(MEMBERS)),
    }
)
SCHEMA = struct_from_arrow(TABLE.schema)


def rows(table):
    return [repr(row) for row in table.select(TABLE.column_names).to_pylist()]


def test_a_file_of_duckdb_is_read_equal(data_files, tmp_path):
    with duckdb.connect() as database:
        database.register("rows", TABLE)
        database.execute(f"COPY rows TO '{tmp_path / 'f.parquet'}' (FORMAT parquet, COMPRESSION zstd)")

    assert rows(data_files.read_file(tmp_path / "f.parquet", SCHEMA)) == rows(TABLE)


def test_our_file_is_read_equal_by_duckdb(data_files, tmp_path):
    data_files.write_file(tmp_path / "f.parquet", TABLE, SCHEMA)

    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        found = database.execute(f"FROM read_parquet('{tmp_path / 'f.parquet'}')").to_arrow_table()

    assert rows(found.cast(TABLE.schema)) == rows(TABLE)


def test_a_file_of_deltalake_is_read_equal_and_its_statistics_agree(data_files, tmp_path):
    deltalake.write_deltalake(tmp_path / "t", TABLE)
    (path,) = deltalake.DeltaTable(tmp_path / "t").file_uris()

    assert rows(data_files.read_file(path, SCHEMA)) == rows(TABLE)
    theirs = pa.table(deltalake.DeltaTable(tmp_path / "t").get_add_actions(flatten=True)).to_pylist()[0]
    ours = describe_file(data_files.LOCAL, path, SCHEMA)
    assert (ours.size, ours.num_records) == (theirs["size_bytes"], theirs["num_records"])
    for text in (
        '"n":-1',
        '"n":4611686018427387904',
        '"s":""',
        '"d":"0001-01-01"',
        '"d38":9999999.99',
        '"t":"1969-12-31T23:59:59.999Z"',
    ):
        assert text in ours.stats


def test_our_file_and_its_statistics_are_read_by_deltalake(data_files, tmp_path):
    written = data_files.write_file(tmp_path / "f.parquet", TABLE, SCHEMA)
    action = deltalake.transaction.AddAction("f.parquet", written.size, {}, 0, data_change=True, stats=written.stats)
    schema = deltalake.Schema.from_json(schema_json(SCHEMA))

    deltalake.transaction.create_table_with_add_actions(str(tmp_path), schema, [action], partition_by=[])

    table = deltalake.DeltaTable(tmp_path)
    assert rows(pa.table(table.to_pyarrow_table()).cast(TABLE.schema)) == rows(TABLE)
    found = pa.table(table.get_add_actions(flatten=True)).to_pylist()[0]
    assert (found["num_records"], found["min.n"], found["max.n"], found["null_count.st.x"]) == (3, -1, 2**62, 2)
    assert found["max.t"] == dt.datetime(2020, 9, 13, 12, 26, 40, 124000, dt.UTC)


@pytest.mark.parametrize("kind", ["INT96", "TIMESTAMP_MICROS"])
def test_files_of_spark_are_read_equal_and_ours_by_spark(kind, data_files, tmp_path, spark):
    data_files.write_file(tmp_path / "ours.parquet", TABLE, SCHEMA)
    frame = spark.read.parquet(str(tmp_path / "ours.parquet"))

    assert parse_schema(frame.schema.json()) == SCHEMA
    assert rows(frame.toArrow().cast(TABLE.schema)) == rows(TABLE)

    frame.coalesce(1).write.option("spark.sql.parquet.outputTimestampType", kind).parquet(str(tmp_path / "theirs"))
    (path,) = (tmp_path / "theirs").glob("*.parquet")
    footer = pq.read_metadata(path)
    assert {
        footer.schema.column(index).physical_type
        for index in range(footer.num_columns)
        if footer.schema.column(index).path == "t"
    } == {"INT96" if kind == "INT96" else "INT64"}
    assert rows(data_files.read_file(path, SCHEMA)) == rows(TABLE)
    stats = describe_file(data_files.LOCAL, str(path), SCHEMA).stats
    assert ('"t":"1969-12-31T23:59:59.999Z"' in stats) == (kind == "TIMESTAMP_MICROS")
    assert '"ntz":"2020-09-13T12:26:40.124"' in stats
