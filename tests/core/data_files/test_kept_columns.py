"""Unchanged columns are copied into the new file byte for byte; readers and statistics see the same as before."""

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from airflow_delta.core.data_files import DataFileWriter, StatisticsSelection, kept_columns
from airflow_delta.core.data_files.column_chunks import Footer
from airflow_delta.core.data_files.kept_columns import KeptColumns, PartialFileWriter
from airflow_delta.core.errors import MissingDataFileError
from airflow_delta.core.parquet.compact_protocol import BINARY, I32, I64, Field, struct_bytes
from airflow_delta.core.schema import DecimalType, PrimitiveType, StructField, StructType

LOCAL = pafs.LocalFileSystem()
ROWS = 2_500
COLUMNS = {
    "i": (PrimitiveType("long"), pa.int64(), lambda n: None if n % 11 == 3 else n),
    "t": (PrimitiveType("string"), pa.string(), lambda n: f"value {n % 7}"),
    "u": (PrimitiveType("string"), pa.string(), lambda n: None if n % 2 else f"{n * 7919:032x}"),
    "d": (PrimitiveType("date"), pa.date32(), lambda n: dt.date(2020, 1, 1) + dt.timedelta(n)),
    "at": (
        PrimitiveType("timestamp"),
        pa.timestamp("us", "UTC"),
        lambda n: dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=n),
    ),
    "b": (PrimitiveType("boolean"), pa.bool_(), lambda n: n % 3 == 0),
    "m": (DecimalType(9, 2), pa.decimal128(9, 2), lambda n: Decimal(n) / 4),
    "x": (PrimitiveType("double"), pa.float64(), float),
}
SCHEMA = StructType(tuple(StructField(name, kind) for name, (kind, _, _) in COLUMNS.items()))
ALL = pa.table({name: pa.array(map(value, range(ROWS)), kind) for name, (_, kind, value) in COLUMNS.items()})
KEPT = ["t", "u", "d", "at", "b", "m"]


@pytest.fixture
def source(tmp_path):
    """A file of three row groups, as our own writer writes it."""
    path = str(tmp_path / "source.parquet")
    with DataFileWriter(LOCAL, path, SCHEMA, row_group_rows=1_000) as writer:
        for batch in ALL.to_batches(max_chunksize=300):
            writer.write(batch)
    return path


def kept_of(path, *changed, schema=SCHEMA, compression="snappy"):
    return KeptColumns.of(LOCAL, path, schema, changed, compression=compression, table="t")


def write_changed(kept, path, batches, **options):
    options = {"compression": "snappy", "selection": StatisticsSelection(), **options}
    with PartialFileWriter(LOCAL, path, kept, **options) as writer:
        for batch in batches:
            writer.write(batch)
    return writer.close()


def test_the_new_file_has_the_new_values_and_the_kept_columns_and_their_statistics(source, tmp_path):
    new = ALL.set_column(0, "i", pa.array([None if n % 5 == 0 else -n for n in range(ROWS)], pa.int64()))
    path, whole = (str(tmp_path / name) for name in ("new.parquet", "whole.parquet"))
    kept = kept_of(source, "i")

    written = write_changed(kept, path, new.select(kept.rest.names).to_batches(max_chunksize=333))

    with DataFileWriter(LOCAL, whole, SCHEMA, row_group_rows=1_000) as writer:
        writer.write(new.combine_chunks().to_batches()[0])
    assert kept.rest.names == ("i", "x")
    assert pq.read_table(path).equals(pq.read_table(whole))
    assert duckdb.sql(f"SELECT * FROM '{path}' EXCEPT ALL SELECT * FROM '{whole}'").fetchall() == []
    assert (written.num_records, written.size) == (ROWS, (tmp_path / "new.parquet").stat().st_size)
    assert json.loads(written.stats) == json.loads(writer.close().stats)


def test_the_footer_tells_of_every_chunk_where_it_is_and_of_its_pages(source, tmp_path):
    path = str(tmp_path / "new.parquet")
    kept = kept_of(source, "i")
    write_changed(kept, path, ALL.select(kept.rest.names).to_batches())

    new, old = pq.read_metadata(path), pq.read_metadata(source)
    assert [new.row_group(group).num_rows for group in range(3)] == [1_000, 1_000, 500]
    assert (new.schema.equals(old.schema), new.metadata) == (True, old.metadata)
    for group in range(3):
        chunks = [[footer.row_group(group).column(at).to_dict() for at in range(8)] for footer in (new, old)]
        for ours, theirs in zip(*chunks, strict=True):
            assert (ours["statistics"], ours["encodings"], ours["num_values"]) == (
                theirs["statistics"],
                theirs["encodings"],
                theirs["num_values"],
            )
        assert all(new.row_group(group).column(at).has_offset_index for at in range(8))
        assert all(new.row_group(group).column(at).has_column_index for at in range(8))
    # A reader that uses the page index skips pages of kept columns, and finds the right rows.
    assert duckdb.sql(f"SELECT count(*) FROM '{path}' WHERE d = DATE '2020-01-05'").fetchone() == (1,)


@pytest.mark.parametrize("engine", ["deltalake", "pyarrow"])
def test_files_of_other_writers_are_taken_over_in_the_columns_that_are_alike(tmp_path, engine):
    table = ALL.select(["i", "t", "d", "b"])
    schema = StructType(tuple(field for field in SCHEMA.fields if field.name in table.column_names))
    if engine == "deltalake":
        write_deltalake(tmp_path / "t", table)
        source = str(next((tmp_path / "t").glob("*.parquet")))
    else:
        source = str(tmp_path / "source.parquet")
        pq.write_table(table, source, compression="snappy")
    kept = kept_of(source, "i", schema=schema)

    write_changed(kept, str(tmp_path / "new.parquet"), table.select(kept.rest.names).to_batches())

    assert {"t", "d", "b"} >= {*schema.names} - {*kept.rest.names} >= {"t", "b"}
    assert pq.read_table(tmp_path / "new.parquet").equals(table)


def test_mapped_columns_are_kept_under_their_physical_names_with_their_ids(tmp_path):
    fields = [
        StructField(
            field.name, field.type, metadata={"delta.columnMapping.id": at, "delta.columnMapping.physicalName": f"col-{at}"}
        )
        for at, field in enumerate(SCHEMA.fields[:3], 1)
    ]
    source, path = (str(tmp_path / name) for name in ("source.parquet", "new.parquet"))
    with DataFileWriter(LOCAL, source, StructType(tuple(fields))) as writer:
        writer.write(ALL.select(["i", "t", "u"]).combine_chunks().to_batches()[0])
    kept = kept_of(source, "i", schema=StructType(tuple(fields)))

    written = write_changed(kept, path, ALL.select(["i"]).to_batches())

    assert kept.rest.names == ("i",)
    assert pq.read_schema(path).equals(pq.read_schema(source), check_metadata=True)
    assert pq.read_table(path).equals(pq.read_table(source))
    assert json.loads(written.stats) == json.loads(writer.close().stats)
    renumbered = StructField("u", fields[2].type, metadata={**fields[2].metadata, "delta.columnMapping.id": 9})
    assert kept_of(source, "i", schema=StructType((*fields[:2], renumbered))) is None  # the length of its values is unknown


def test_a_column_of_which_its_file_says_that_it_has_no_null_is_kept_so(tmp_path):
    table = ALL.select(["i", "t"]).cast(pa.schema([("i", pa.int64()), pa.field("t", pa.string(), nullable=False)]))
    pq.write_table(table, tmp_path / "source.parquet", store_schema=False)
    schema = StructType(tuple(field for field in SCHEMA.fields if field.name in ("i", "t")))
    kept = kept_of(str(tmp_path / "source.parquet"), "i", schema=schema)

    write_changed(kept, str(tmp_path / "new.parquet"), table.select(["i"]).to_batches())

    assert kept.rest.names == ("i",)
    assert pq.read_table(tmp_path / "new.parquet").equals(table)
    required = StructType((schema.fields[0], StructField("t", PrimitiveType("string"), nullable=False)))
    pq.write_table(ALL.select(["i", "t"]), tmp_path / "source.parquet", store_schema=False)
    assert kept_of(str(tmp_path / "source.parquet"), "i", schema=required) is None


@pytest.mark.parametrize(
    ("changed", "options"),
    [
        (("t",), {}),  # the memory that new texts take is unknown
        (tuple(COLUMNS), {}),
        (("i",), {"compression": "zstd"}),
        (("i",), {"schema": StructType((*SCHEMA.fields, StructField("new", PrimitiveType("string"))))}),
        (("i",), {"schema": StructType(tuple(StructField(f"{name}_", kind) for name, (kind, _, _) in COLUMNS.items()))}),
    ],
    ids=["texts", "everything", "another codec", "a missing text", "other names"],
)
def test_nothing_is_kept(source, changed, options):
    assert kept_of(source, *changed, **options) is None


def test_nothing_is_kept_where_the_rest_takes_too_much_memory(source, monkeypatch):
    monkeypatch.setattr("airflow_delta.core.data_files.kept_columns.ROW_GROUP_BYTES", 16 * 1_000 - 1)
    assert kept_of(source, "i") is None
    monkeypatch.setattr("airflow_delta.core.data_files.kept_columns.ROW_GROUP_BYTES", 16 * 1_000)
    assert kept_of(source, "i").rest.names == ("i", "x")


@pytest.mark.parametrize(
    "key_values",
    [{b"org.apache.spark.legacyDateTime": b""}, {b"org.apache.spark.version": b"2.4.8"}],
    ids=["marked", "old"],
)
def test_nothing_of_the_old_calendar_is_kept(tmp_path, key_values):
    path = str(tmp_path / "old.parquet")
    with pq.ParquetWriter(path, ALL.schema, store_schema=False) as writer:
        writer.write_table(ALL)
        writer.add_key_value_metadata(key_values)
    assert kept_of(path, "i") is None


def test_a_name_that_two_columns_of_the_file_have_is_not_kept(tmp_path):
    path = str(tmp_path / "twice.parquet")
    columns = [ALL[name].combine_chunks() for name in ("i", "d", "d", "b")]
    pq.write_table(pa.Table.from_arrays(columns, names=["i", "d", "d", "b"]), path, store_schema=False)
    schema = StructType(tuple(field for field in SCHEMA.fields if field.name in ("i", "d", "b")))

    assert kept_of(path, "i", schema=schema).rest.names == ("i", "d")


def test_another_number_of_rows_makes_no_file(source, tmp_path):
    kept = kept_of(source, "i")
    for rows in (ROWS - 1, 1_000):
        with pytest.raises(ValueError, match="is to have the rows of"):
            write_changed(kept, str(tmp_path / "new.parquet"), ALL.slice(0, rows).select(["i", "x"]).to_batches())
        assert not (tmp_path / "new.parquet").exists()


def test_a_missing_file_is_a_typed_error(tmp_path):
    with pytest.raises(MissingDataFileError):
        kept_of(str(tmp_path / "none.parquet"), "i")


def change_footer(path, change):
    """Write a changed footer after the same chunks: ``change`` gets the chunks of the first row group by name."""
    content = Path(path).read_bytes()
    footer = Footer.of(pa.BufferReader(content))
    change({name: footer.chunks(footer.row_groups[0])[name] for name in COLUMNS})
    ending = struct_bytes(footer.file)
    length = int.from_bytes(content[-8:-4], "little")
    Path(path).write_bytes(content[: -8 - length] + ending + len(ending).to_bytes(4, "little") + content[-4:])


def described(number, kind, value):
    """A change of the footer's entry for the chunk of ``d``."""

    def change(chunks):
        chunks["d"][3].value[number] = Field(kind, value)

    return change


def of_another_name(chunks):
    chunks["d"][3].value[3].value.values[0] = b"t"


def shortened_bound(chunks):
    chunks["d"][3].value[12].value[6] = Field(BINARY, b"abc")


def levels_of_another(chunks):
    chunks["d"][3].value[16].value[3].value.values.append(0)


@pytest.mark.parametrize(
    "change",
    [described(1, I32, 2), described(5, I64, 999), described(7, I64, 1 << 40), shortened_bound, levels_of_another],
    ids=["type", "number of values", "size", "short bound", "levels"],
)
def test_a_column_of_which_the_footer_contradicts_itself_is_not_kept(source, change):
    change_footer(source, change)
    assert kept_of(source, "i").rest.names == ("i", "d", "x")


def test_a_chunk_with_the_name_of_another_column_is_neither(source):
    change_footer(source, of_another_name)
    assert "d" in kept_of(source, "i").rest.names
    assert kept_of(source, "i").footer.chunks(kept_of(source, "i").footer.row_groups[0]).keys() == COLUMNS.keys() - {"d"}


def test_nothing_is_kept_where_chunks_lie_in_each_other(source):
    size = Path(source).stat().st_size

    def change(chunks):
        for chunk in chunks.values():
            chunk[3].value[7] = Field(I64, size // 3)
            chunk[3].value[9] = Field(I64, 4)
            chunk[3].value.pop(11, None)

    change_footer(source, change)
    assert kept_of(source, "i") is None


@pytest.mark.parametrize(("number", "value"), [(4, 1 << 40), (6, -1), (5, 2**31 - 1), (7, 0)])
def test_an_index_of_pages_that_lies_nowhere_is_left_out(source, tmp_path, number, value):
    change_footer(source, lambda chunks: chunks["d"].__setitem__(number, Field(I64 if number % 2 == 0 else I32, value)))
    kept = kept_of(source, "i")
    write_changed(kept, str(tmp_path / "new.parquet"), ALL.select(kept.rest.names).to_batches())

    group = pq.read_metadata(tmp_path / "new.parquet").row_group(0)
    assert [group.column(at).has_offset_index for at, name in enumerate(COLUMNS)] == [name != "d" for name in COLUMNS]
    assert pq.read_table(tmp_path / "new.parquet").equals(pq.read_table(source))


def test_a_new_footer_may_be_longer_than_one_that_columns_are_kept_of(tmp_path, monkeypatch):
    table = ALL.select(["i", "t", "x"])
    pq.write_table(table, tmp_path / "source.parquet", store_schema=False, write_statistics=False)
    length = int.from_bytes((tmp_path / "source.parquet").read_bytes()[-8:-4], "little")
    schema = StructType(tuple(field for field in SCHEMA.fields if field.name in table.column_names))
    monkeypatch.setattr(kept_columns, "_MOST_FOOTER_BYTES", length - 1)
    assert kept_of(str(tmp_path / "source.parquet"), "i", schema=schema) is None
    monkeypatch.setattr(kept_columns, "_MOST_FOOTER_BYTES", length)
    kept = kept_of(str(tmp_path / "source.parquet"), "i", schema=schema)

    write_changed(kept, str(tmp_path / "new.parquet"), table.select(["i", "x"]).to_batches())

    content = (tmp_path / "new.parquet").read_bytes()
    assert int.from_bytes(content[-8:-4], "little") > length
    assert pq.read_table(tmp_path / "new.parquet").equals(table)


def test_a_column_that_the_file_lacks_gets_values_beside_all_others(tmp_path):
    table = ALL.select(["t", "d"])
    pq.write_table(table, tmp_path / "source.parquet", store_schema=False)
    schema = StructType(tuple(field for field in SCHEMA.fields if field.name in ("i", "t", "d")))
    kept = kept_of(str(tmp_path / "source.parquet"), "i", schema=schema)

    write_changed(kept, str(tmp_path / "new.parquet"), ALL.select(["i"]).to_batches())

    assert kept.rest.names == ("i",)
    assert pq.read_table(tmp_path / "new.parquet").equals(ALL.select(["i", "t", "d"]))
