"""Files are decoded in batches of bounded bytes, whatever their footers claim."""

import subprocess
import sys

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from airflow_delta.core.data_files.batch_sizes import BATCH_BYTES
from airflow_delta.core.data_files.reader import open_data_file
from airflow_delta.core.schema import struct_from_arrow

MEASURED = """
import re, sys
from pathlib import Path
import pyarrow.fs as pafs, pyarrow.parquet as pq
from airflow_delta.core.data_files.reader import open_data_file
from airflow_delta.core.schema import struct_from_arrow
schema = struct_from_arrow(pq.read_schema(sys.argv[1]))
rows = size = 0
for batch in open_data_file(pafs.LocalFileSystem(), sys.argv[1], schema, {}):
    rows, size = rows + batch.num_rows, size + batch.nbytes
status = Path("/proc/self/status").read_text()  # getrusage() would count what the process was forked from
print(rows, size, int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) << 10)
"""


def batches(path, table, **options):
    pq.write_table(table, path, **options)
    return list(open_data_file(pafs.LocalFileSystem(), str(path), struct_from_arrow(table.schema), {}))


def test_a_small_file_that_decodes_to_a_gibibyte_is_read_in_little_memory(tmp_path):
    path = tmp_path / "dense.parquet"
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 32_768, pa.int32()), ["x" * 30_000])
    pq.write_table(pa.table({"id": range(32_768), "text": texts}), path, store_schema=False)
    assert path.stat().st_size < 512 << 10

    ran = subprocess.run([sys.executable, "-c", MEASURED, str(path)], check=True, capture_output=True, text=True)
    rows, size, peak = map(int, ran.stdout.split())

    assert rows == 32_768
    assert size > 930 << 20
    assert peak < 400 << 20


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"text": [chr(97 + number % 3) * 100_000 for number in range(2_000)]}),
        pa.table({"a.b": [chr(97 + number % 3) * 100_000 for number in range(2_000)]}),
        pa.table({"texts": [["x" * 1_000] * 1_000 for _ in range(200)]}),
        pa.table({"inside": [{"a.b": "x" * 100_000} for _ in range(2_000)]}),
    ],
    ids=["long texts", "a name with a dot", "long lists", "in a struct"],
)
def test_no_batch_is_much_larger_than_its_bound(tmp_path, table):
    found = batches(tmp_path / "f", table)
    assert pa.Table.from_batches(found).equals(table.cast(found[0].schema))
    assert max(batch.nbytes for batch in found) <= 4 * BATCH_BYTES


@pytest.mark.parametrize("is_repeated", [False, True])
def test_a_row_group_of_large_rows_behind_one_of_small_rows_makes_no_large_batch(tmp_path, is_repeated):
    small, large = (
        ["x"] * 100_000,
        ["y" * 100_000 if is_repeated else chr(97 + number % 3) * 100_000 for number in range(2_000)],
    )
    with pq.ParquetWriter(tmp_path / "f", pa.schema([("text", pa.string())])) as writer:
        for texts in (small, small[:5], large, small):
            writer.write_table(pa.table({"text": texts}))
    schema = struct_from_arrow(pq.read_schema(tmp_path / "f"))
    found = list(open_data_file(pafs.LocalFileSystem(), str(tmp_path / "f"), schema, {}))

    assert [text for batch in found for text in batch["text"].to_pylist()] == [*small, *small[:5], *large, *small]
    assert max(batch.nbytes for batch in found) <= 2 * BATCH_BYTES


def test_small_row_groups_are_read_together(tmp_path):
    table = pa.table({"id": pa.array(range(100_000), pa.int64())})
    assert [batch.num_rows for batch in batches(tmp_path / "f", table, row_group_size=1_000)][:3] == [32_768] * 3


def test_narrow_rows_are_read_in_full_batches_from_the_start(tmp_path):
    table = pa.table({"id": pa.array(range(100_000), pa.int64()), "x": pa.array(range(100_000), pa.float64())})
    assert [batch.num_rows for batch in batches(tmp_path / "f", table)] == [32_768, 32_768, 32_768, 1_696]


def test_rows_of_unknown_width_soon_come_in_full_batches(tmp_path):
    table = pa.table({"text": [f"text {number}" for number in range(200_000)]})
    counts = [batch.num_rows for batch in batches(tmp_path / "f", table)]
    assert sum(counts) == 200_000
    assert len(counts) < 12
    assert max(counts) == 32_768


DAMAGED = """
import io, sys
from pathlib import Path
import pyarrow as pa, pyarrow.fs as pafs, pyarrow.parquet as pq
from airflow_delta.core.data_files.reader import open_data_file
from airflow_delta.core.errors import CorruptDataFileError
from airflow_delta.core.schema import struct_from_arrow
table, path = pa.table({"a": [1]}), Path(sys.argv[1])
pq.write_table(table, path, store_schema=False)
content = path.read_bytes()
footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
refused = 0
for position in range(footer, len(content) - 8):
    for value in (0, 0x15, 0x2C):
        path.write_bytes(content[:position] + bytes([value]) + content[position + 1 :])
        try:
            list(open_data_file(pafs.LocalFileSystem(), str(path), struct_from_arrow(table.schema), {}))
        except CorruptDataFileError:
            refused += 1
print(refused)
"""


def test_no_damaged_footer_ends_the_process(tmp_path):
    ran = subprocess.run([sys.executable, "-c", DAMAGED, str(tmp_path / "f")], check=True, capture_output=True, text=True)
    assert int(ran.stdout) > 100
