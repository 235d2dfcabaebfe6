"""Columns with few repeated values are written without a dictionary, all others with one; files do not grow."""

import random

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from airflow_delta.core.data_files import DataFileWriter
from airflow_delta.core.data_files.dictionaries import without_repetition
from airflow_delta.core.schema import ArrayType, MapType, PrimitiveType, StructField, StructType

ROWS = 60_000
LONG, STRING = PrimitiveType("long"), PrimitiveType("string")
draws = random.Random(7)
RANDOM = [draws.getrandbits(60) for _ in range(ROWS)]
COLUMNS = {
    "key": list(range(ROWS)),
    "hash": RANDOM,
    "round": [number % (ROWS // 3) for number in range(ROWS)],
    "few": [number % 100 for number in RANDOM],
    "half": [number if number % 2 else 0 for number in RANDOM],
    "rare": [number if at % 300 == 0 else None for at, number in enumerate(RANDOM)],
    "null": [None] * ROWS,
}


def table(columns=COLUMNS):
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


@pytest.mark.parametrize("chunk", [ROWS, 8_192, 1])
def test_values_that_hardly_repeat_are_known_by_a_sample(chunk):
    rows = table() if chunk > 1 else table().slice(0, 2_000)

    found = without_repetition(pa.Table.from_batches(rows.to_batches(max_chunksize=chunk)))

    assert found == {"key", "hash"} if chunk > 1 else {"key", "hash"} <= found <= {"key", "hash", "round"}


def test_few_values_are_no_sample():
    assert without_repetition(table().slice(0, 255)) == frozenset()
    assert without_repetition(table().slice(0, 0)) == frozenset()


@pytest.fixture
def encodings(tmp_path):
    """The columns of a file that have a dictionary, and its size."""

    def write(rows, schema):
        path = str(tmp_path / "f.parquet")
        with DataFileWriter(pafs.LocalFileSystem(), path, schema) as writer:
            for batch in rows.to_batches(max_chunksize=8_192):
                writer.write(batch)
        assert pq.read_table(path).equals(rows)
        group = pq.read_metadata(path).row_group(0)
        chunks = [group.column(at) for at in range(group.num_columns)]
        return {chunk.path_in_schema for chunk in chunks if "DICTIONARY" in " ".join(chunk.encodings)}, writer.close().size

    return write


def test_a_file_has_dictionaries_where_values_repeat_and_is_no_larger(encodings, tmp_path):
    texts = pa.table({"uuid": [f"{number:x}" * 2 for number in RANDOM], "name": [f"name {number % 9}" for number in RANDOM]})
    rows = pa.table({**{name: table()[name] for name in COLUMNS}, **{name: texts[name] for name in texts.column_names}})
    schema = StructType(tuple(StructField(name, STRING if name in texts.column_names else LONG) for name in rows.column_names))

    with_dictionary, size = encodings(rows, schema)

    assert with_dictionary == {"round", "few", "half", "rare", "null", "name"}
    pq.write_table(rows, tmp_path / "always.parquet", compression="snappy", store_schema=False, write_page_index=True)
    assert size <= (tmp_path / "always.parquet").stat().st_size


def test_members_of_nested_columns_keep_their_dictionaries(encodings):
    schema = StructType(
        (
            StructField("key", LONG),
            StructField("a.b", LONG),
            StructField("inner", StructType((StructField("x", LONG), StructField("y", STRING)))),
            StructField("list", ArrayType(LONG)),
            StructField("map", MapType(STRING, LONG)),
        )
    )
    rows = pa.table(
        {
            "key": list(range(1_000)),
            "a.b": [1] * 1_000,
            "inner": [{"x": 1, "y": "y"}] * 1_000,
            "list": [[1, 2]] * 1_000,
            "map": pa.array([[("k", 1)]] * 1_000, pa.map_(pa.string(), pa.int64())),
        }
    )

    with_dictionary, _ = encodings(rows, schema)

    assert with_dictionary == {"a.b", "inner.x", "inner.y", "list.list.element", "map.key_value.key", "map.key_value.value"}
