"""Data files are like Spark's, have bounded row groups, and appear atomically."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_delta.core.data_files import DataFileWriter, StatisticsSelection
from airflow_delta.core.errors import ConstraintViolatedError, SchemaMismatchError
from airflow_delta.core.schema import (
    ArrayType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    arrow_schema,
    parse_schema,
    schema_json,
)

LONG = PrimitiveType("long")
IDS = StructType((StructField("id", LONG, nullable=False),))
EVERYTHING = StructType(
    (
        StructField("b", PrimitiveType("byte")),
        StructField("n", LONG, nullable=False),
        StructField("t", PrimitiveType("timestamp")),
        StructField("ntz", PrimitiveType("timestamp_ntz")),
        StructField("d9", DecimalType(9, 2)),
        StructField("d18", DecimalType(18, 2)),
        StructField("d20", DecimalType(20, 5)),
        StructField("l", ArrayType(PrimitiveType("integer"))),
        StructField("m", MapType(PrimitiveType("string"), LONG)),
    )
)


def ids(*values):
    return pa.record_batch({"id": pa.array(values, pa.int64())})


def test_the_footer_is_like_one_of_spark(data_files, tmp_path):
    path = tmp_path / "f.parquet"
    table = pa.Table.from_pylist([{"n": 1}], schema=arrow_schema(EVERYTHING))

    data_files.write_file(path, table, EVERYTHING)

    footer = pq.read_metadata(path)
    assert sorted(footer.metadata) == [b"org.apache.spark.sql.parquet.row.metadata", b"org.apache.spark.version"]
    assert parse_schema(footer.metadata[b"org.apache.spark.sql.parquet.row.metadata"].decode()) == EVERYTHING
    columns = [footer.schema.column(index) for index in range(footer.num_columns)]
    assert [(column.path, column.physical_type) for column in columns] == [
        ("b", "INT32"),
        ("n", "INT64"),
        ("t", "INT64"),
        ("ntz", "INT64"),
        ("d9", "INT32"),
        ("d18", "INT64"),
        ("d20", "FIXED_LEN_BYTE_ARRAY"),
        ("l.list.element", "INT32"),
        ("m.key_value.key", "BYTE_ARRAY"),
        ("m.key_value.value", "INT64"),
    ]
    times = [json.loads(columns[index].logical_type.to_json()) for index in (2, 3)]
    assert [(time["timeUnit"], time["isAdjustedToUTC"]) for time in times] == [("microseconds", True), ("microseconds", False)]
    assert columns[6].length == 9
    assert [column.max_definition_level for column in columns[:2]] == [1, 0]
    assert footer.row_group(0).column(1).compression == "SNAPPY"
    assert footer.row_group(0).column(1).has_offset_index


def test_row_groups_are_bounded_by_rows_whatever_the_batches_are(data_files, tmp_path):
    with DataFileWriter(data_files.LOCAL, str(tmp_path / "f"), IDS, row_group_rows=4) as writer:
        for batch in (ids(0), ids(1, 2), ids(*range(3, 14)), ids(14)):
            writer.write(batch)

    footer = pq.read_metadata(tmp_path / "f")
    assert [footer.row_group(group).num_rows for group in range(footer.num_row_groups)] == [4, 4, 4, 3]
    assert pq.read_table(tmp_path / "f")["id"].to_pylist() == list(range(15))
    assert writer.close().num_records == 15


def test_row_groups_are_bounded_by_bytes(data_files, tmp_path):
    with DataFileWriter(data_files.LOCAL, str(tmp_path / "f"), IDS, row_group_bytes=100) as writer:
        for start in range(0, 40, 10):
            writer.write(ids(*range(start, start + 10)))

    assert pq.read_metadata(tmp_path / "f").num_row_groups == 2


def test_no_rows_make_no_file(data_files, tmp_path):
    with DataFileWriter(data_files.LOCAL, str(tmp_path / "f"), IDS) as writer:
        writer.write(ids())

    assert writer.close() is None
    assert list(tmp_path.iterdir()) == []


def write_all(writer, batches):
    with writer:
        for batch in batches:
            writer.write(batch)


def test_an_error_between_the_batches_leaves_no_file(data_files, tmp_path):
    def batches():
        yield ids(1, 2)
        assert (tmp_path / "f").exists()
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_all(DataFileWriter(data_files.LOCAL, str(tmp_path / "f"), IDS, row_group_rows=1), batches())

    assert list(tmp_path.iterdir()) == []


def test_null_in_a_column_that_is_not_null_is_refused_and_leaves_no_file(data_files, tmp_path):
    writer = DataFileWriter(data_files.LOCAL, str(tmp_path / "f"), IDS, row_group_rows=1, table="flights")

    with pytest.raises(ConstraintViolatedError) as caught:
        write_all(writer, [ids(1), ids(2, None, None)])

    assert (caught.value.table, caught.value.constraint, caught.value.rows) == ("flights", "NOT NULL of id", 2)
    assert list(tmp_path.iterdir()) == []


def test_null_inside_a_list_that_takes_none_is_refused_and_leaves_no_file(data_files, tmp_path):
    schema = StructType((StructField("l", ArrayType(LONG, contains_null=False)),))

    with (
        pytest.raises(SchemaMismatchError),
        DataFileWriter(data_files.LOCAL, str(tmp_path / "f"), schema) as writer,
    ):
        writer.write(pa.record_batch({"l": [[1, None]]}))

    assert list(tmp_path.iterdir()) == []


def test_null_inside_a_struct_that_takes_none_is_refused_and_leaves_no_file(data_files, tmp_path):
    schema = StructType((StructField("s", StructType((StructField("x", LONG, nullable=False),))),))

    with (
        pytest.raises(SchemaMismatchError),
        DataFileWriter(data_files.LOCAL, str(tmp_path / "f"), schema) as writer,
    ):
        writer.write(pa.record_batch({"s": [{"x": 1}, None, {"x": None}]}))

    assert list(tmp_path.iterdir()) == []


def test_a_struct_that_is_null_hides_members_that_must_not_be(data_files, tmp_path):
    inner = StructType((StructField("y", PrimitiveType("string"), nullable=False),))
    members = (StructField("x", LONG, nullable=False), StructField("m", inner, nullable=False))
    schema = StructType((StructField("s", StructType(members)), StructField("l", ArrayType(StructType(members[:1])))))
    full = {"x": 1, "m": {"y": "a"}}
    nothing = [full, {"x": None, "m": None}, full]
    hidden = pa.array(nothing)
    masked = pa.StructArray.from_arrays(hidden.flatten(), fields=list(hidden.type), mask=pa.array([False, True, False]))
    rows = pa.record_batch({"s": masked, "l": [[{"x": 2}, None], None, []]}).slice(1)

    with DataFileWriter(data_files.LOCAL, str(tmp_path / "f"), schema) as writer:
        writer.write(rows)

    assert pq.read_table(tmp_path / "f").to_pylist() == [{"s": None, "l": None}, {"s": full, "l": []}]
    assert rows.to_pylist() == [{"s": None, "l": None}, {"s": full, "l": []}]


def test_rows_of_another_type_are_refused_with_the_column(data_files, tmp_path):
    with pytest.raises(SchemaMismatchError) as caught, DataFileWriter(data_files.LOCAL, str(tmp_path / "f"), IDS) as writer:
        writer.write(pa.record_batch({"id": ["1"]}))

    assert caught.value.differences == ("column id: string is not int64",)


def test_rows_are_conformed_before_they_are_written(data_files, tmp_path):
    schema = StructType((StructField("id", LONG), StructField("name", PrimitiveType("string"))))

    with DataFileWriter(data_files.LOCAL, str(tmp_path / "f"), schema) as writer:
        writer.write(pa.record_batch({"extra": [0], "ID": pa.array([7], pa.int32())}))

    assert pq.read_table(tmp_path / "f").to_pylist() == [{"id": 7, "name": None}]


def test_another_codec_and_selection_are_used(data_files, tmp_path):
    written = data_files.write_file(
        tmp_path / "f", pa.table({"id": [1]}), IDS, compression="zstd", selection=StatisticsSelection(indexed_columns=0)
    )

    assert pq.read_metadata(tmp_path / "f").row_group(0).column(0).compression == "ZSTD"
    assert json.loads(written.stats) == {"numRecords": 1, "minValues": {}, "maxValues": {}, "nullCount": {}}


def test_metadata_of_columns_is_kept_for_spark(data_files, tmp_path):
    schema = StructType((StructField("id", LONG, metadata={"comment": "kéy"}),))

    data_files.write_file(tmp_path / "f", pa.table({"id": [1]}), schema)

    stored = pq.read_metadata(tmp_path / "f").metadata[b"org.apache.spark.sql.parquet.row.metadata"].decode()
    assert stored == schema_json(schema)


def test_columns_that_hold_nothing_but_null_are_not_stored_and_read_as_null(data_files, tmp_path):
    void, long = PrimitiveType("void"), PrimitiveType("long")
    members = StructType((StructField("x", long), StructField("none", void)))
    schema = StructType((StructField("n", long), StructField("none", void), StructField("s", members)))
    rows = [{"n": 1, "none": None, "s": {"x": 2, "none": None}}, {"n": 2, "none": None, "s": None}]

    data_files.write_file(tmp_path / "f", pa.Table.from_pylist(rows, schema=arrow_schema(schema)), schema)

    assert [column.path for column in map(pq.read_metadata(tmp_path / "f").schema.column, range(2))] == ["n", "s.x"]
    assert data_files.read_file(tmp_path / "f", schema).to_pylist() == rows


def test_variants_are_stored_as_they_are_and_their_nulls_are_counted(data_files, tmp_path):
    variant = PrimitiveType("variant")
    schema = StructType((StructField("v", variant), StructField("s", StructType((StructField("v", variant),)))))
    value = {"value": b"\x00", "metadata": b"\x01\x00"}
    rows = [{"v": value, "s": {"v": value}}, {"v": None, "s": None}, {"v": value, "s": {"v": None}}]

    written = data_files.write_file(tmp_path / "f", pa.Table.from_pylist(rows, schema=arrow_schema(schema)), schema)

    assert data_files.read_file(tmp_path / "f", schema).to_pylist() == rows
    stats = json.loads(written.stats)
    assert stats == {"numRecords": 3, "minValues": {}, "maxValues": {}, "nullCount": {"v": 1, "s": {"v": 2}}}
