"""Bloom filters in our files: their content, and how other engines use them."""

import json
import math
import uuid

import duckdb
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from airflow_delta.core.data_files import DataFileWriter, StatisticsSelection, writer
from airflow_delta.core.data_files.indexed_columns import IndexedColumns
from airflow_delta.core.data_files.kept_columns import KeptColumns, PartialFileWriter
from airflow_delta.core.parquet.bloom_filter import MOST_FILTER_BYTES
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.data_types import DOUBLE, INTEGER, STRING, TIMESTAMP

LOCAL = pafs.LocalFileSystem()
ROWS = 3_000
MAPPED = {"delta.columnMapping.id": 3, "delta.columnMapping.physicalName": "col-3"}
SCHEMA = StructType(
    (
        StructField("id", STRING),
        StructField("n", INTEGER),
        StructField("at", TIMESTAMP, metadata=MAPPED),
        StructField("x", DOUBLE),
        StructField("other", STRING),
    )
)
ALL = pa.table(
    {
        "id": [str(uuid.UUID(int=number * 7919)) for number in range(ROWS)],
        "n": pa.array([None if number % 9 == 0 else number % 40 for number in range(ROWS)], pa.int32()),
        "at": pa.array(range(0, ROWS * 10**6, 10**6), pa.timestamp("us", "UTC")),
        "x": pa.array(range(ROWS), pa.float64()),
        "other": [f"other {number}" for number in range(ROWS)],
    }
)


def selection(names="ID, n, at, x", **properties):
    return StatisticsSelection.from_properties({"airflow_delta.bloomFilter.columns": names, **properties})


def write(path, chosen, rows=ALL, **options):
    with DataFileWriter(LOCAL, str(path), SCHEMA, selection=chosen, **options) as target:
        for batch in rows.to_batches(max_chunksize=300):
            target.write(batch)
    return path


def filter_sizes(path):
    """Bytes of the filters of each row group, by column."""
    footer = pq.read_metadata(path)
    groups = (footer.row_group(number) for number in range(footer.num_row_groups))
    chunks = [[group.column(number) for number in range(footer.num_columns)] for group in groups]
    return [
        {chunk.path_in_schema: chunk.bloom_filter_length for chunk in group if chunk.bloom_filter_offset} for group in chunks
    ]


def excluded(path, column, value):
    """Whether duckdb excludes all row groups by their filters for the value."""
    found = duckdb.execute(f"FROM parquet_bloom_probe('{path}', '{column}', ?)", [value]).fetchall()
    return all(row[-1] for row in found)


def test_the_columns_that_the_property_names_have_filters_as_large_as_their_values_need(tmp_path):
    found = filter_sizes(write(tmp_path / "f.parquet", selection(), row_group_rows=1_000))
    assert [set(group) for group in found] == [{"id", "n", "col-3"}] * 3
    assert all(4_096 <= group["id"] <= 9_000 for group in found)  # 1,000 values of 30 bits, and a power of two
    assert all(group["n"] <= 300 for group in found)  # 40 values
    assert filter_sizes(write(tmp_path / "g.parquet", selection(names=""))) == [{}]


def test_rate_and_number_of_values_are_the_tables(tmp_path):
    sizes = [
        filter_sizes(write(tmp_path / f"{number}.parquet", selection(**properties)))[0]["id"]
        for number, properties in enumerate(
            (
                {},
                {"airflow_delta.bloomFilter.fpp": "0.01"},
                {"airflow_delta.bloomFilter.numItems": "100000"},
                {"airflow_delta.bloomFilter.numItems": "2000000000"},
            )
        )
    ]
    assert (
        sizes[1] < sizes[0] <= sizes[2] <= sizes[3] <= MOST_FILTER_BYTES + 64
    )  # pyarrow 26 shrinks filters that are too large


@pytest.mark.parametrize("rate", [1e-9, 1e-5, 0.1])
def test_the_greatest_filter_of_each_rate_is_one_that_readers_take(rate):
    bits = -8 * IndexedColumns(false_positives=rate).most_items / math.log(1 - rate ** (1 / 8))
    assert 2 ** math.ceil(math.log2(bits / 8)) == MOST_FILTER_BYTES


def test_duckdb_finds_every_value_through_the_filters_and_knows_those_that_are_not_there(tmp_path):
    path = write(tmp_path / "f.parquet", selection(), row_group_rows=1_000)
    for number in (0, 1, 1_000, ROWS - 1):
        value = ALL["id"][number].as_py()
        assert not excluded(path, "id", value)
        assert duckdb.execute(f"SELECT count(*) FROM '{path}' WHERE id = ?", [value]).fetchone() == (1,)
    assert duckdb.execute(f"SELECT count(*) FROM '{path}' WHERE n = 7").fetchone() == (
        sum(1 for n in ALL["n"] if n.as_py() == 7),
    )
    assert sum(excluded(path, "id", str(uuid.uuid4())) for _ in range(50)) >= 49
    assert excluded(path, "n", 41)
    assert pq.read_table(path)["id"].equals(ALL["id"])


def test_a_file_that_takes_columns_over_takes_their_filters_and_makes_those_of_the_rest(tmp_path):
    source = write(tmp_path / "source.parquet", selection(), row_group_rows=1_000)
    path = tmp_path / "new.parquet"
    kept = KeptColumns.of(LOCAL, str(source), SCHEMA, ["n"], compression="snappy", table="t")
    new = ALL.set_column(1, "n", pa.array([number % 50 + 1_000 for number in range(ROWS)], pa.int32()))
    with PartialFileWriter(LOCAL, str(path), kept, compression="snappy", selection=selection()) as target:
        for batch in new.select(kept.rest.names).to_batches(max_chunksize=400):
            target.write(batch)
    assert "id" not in kept.rest.names
    assert [set(group) for group in filter_sizes(path)] == [{"id", "n", "col-3"}] * 3
    assert not any(excluded(path, "id", ALL["id"][number].as_py()) for number in range(0, ROWS, 100))
    assert excluded(path, "id", str(uuid.uuid4()))
    assert not any(excluded(path, "n", number) for number in range(1_000, 1_050))
    assert excluded(path, "n", 7)
    assert pq.read_table(path)["n"].equals(new["n"])
    assert json.loads(target.close().stats)["numRecords"] == ROWS


def test_an_old_pyarrow_writes_files_without_filters_and_says_so(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(writer, "_WRITES_FILTERS", False)
    assert filter_sizes(write(tmp_path / "f.parquet", selection())) == [{}]
    assert "no Bloom filters are written" in caplog.text
