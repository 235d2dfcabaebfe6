"""The benchmark itself: its targets are those of the data and the size, and its limit copies what a statement rewrites."""

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from benchmarks.spark_ops.arrow_limit import rewritten_files, seconds_to_copy, seconds_to_read
from benchmarks.spark_ops.cases import CASES
from benchmarks.spark_ops.inputs import Size
from benchmarks.spark_ops.targets import targets


def size(rows, data):
    return Size(rows=rows, files=1, rounds=1, data=data, keys="clustered", timestamps="int96")


def test_every_case_has_a_target_at_every_size():
    for rows, data in ((200_000, "unique-strings"), (10_000_000, "unique-strings"), (10_000_000, "flights")):
        assert targets(size(rows, data)).keys() == {case.name for case in CASES}
    assert targets(size(10_000_000, "unique-strings"))["merge-spread"].limit(8.1) == 0.80 * 8.1
    assert targets(size(200_000, "unique-strings"))["merge-spread"].limit(8.1) == 0.9
    assert str(targets(size(200_000, "flights"))["merge-range"]) == "0.60 s; Delta-Spark 2.16 s"


def test_the_limit_copies_the_rewritten_files_and_no_others(tmp_path):
    table, copies = tmp_path / "table", tmp_path / "copies"
    rows = pa.table({"p": [0] * 100 + [1] * 100, "id": range(200), "text": ["x", "y"] * 100})
    write_deltalake(table, rows, partition_by=["p"])  # one commit of two files
    DeltaTable(table).delete("id = 7")

    files = rewritten_files(table)

    assert [pq.ParquetFile(file).read(["id"]).to_pylist()[0] for file in files] == [{"id": 0}]
    assert seconds_to_copy(files, copies, cores=1) > 0
    assert seconds_to_read(files, ["id"], cores=1) > 0
    assert [pq.ParquetFile(copy).read() for copy in copies.iterdir()] == [pq.ParquetFile(file).read() for file in files]
