"""The workers of a clustering, one after the other in this process: every row arrives in the file it belongs in."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from airflow_delta.core.data_files import StatisticsSelection
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.spark.io.map_files import TASK, FileShares
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.io.worker_values import to_ipc
from airflow_delta.spark.optimize import shuffle
from airflow_delta.spark.optimize.ordered_values import OrderedColumn
from airflow_delta.spark.optimize.partition_tree import build_partition_tree
from airflow_delta.spark.optimize.sampling import GROUP, SEED, STEP, SampleWorker, packed, unpacked
from airflow_delta.spark.optimize.shuffle import CopiedColumns, OutputWriter, Placement, ShuffleWriter
from airflow_delta.spark.rewrite.rewrite_worker import INPUT_COLUMNS


def test_a_sample_is_packed_without_keywords_which_numpy_before_2_2_takes_for_names_of_arrays(monkeypatch):
    savez = np.savez

    def former(file, *arrays, **named):
        assert named == {}
        savez(file, *arrays)

    monkeypatch.setattr(np, "savez", former)
    column = OrderedColumn(values=np.array([3, 1, 2]), is_null=np.array([False, True, False]))
    (found,) = unpacked([packed([column]), packed([column])])
    assert (found.values.tolist(), found.is_null.tolist()) == ([3, 1, 2] * 2, [False, True, False] * 2)


@pytest.mark.parametrize("batch_bytes", [256 << 20, 1])
def test_rows_are_sampled_and_shuffled_into_their_files(tmp_path, monkeypatch, batch_bytes):
    monkeypatch.setattr(shuffle, "_BATCH_BYTES", batch_bytes)
    for part in range(3):
        ids = range(part, 3_000, 3)
        write_deltalake(tmp_path, pa.table({"id": ids, "s": [f"s{id_ * 7919 % 3_001:04}" for id_ in ids]}), mode="append")
    snapshot = DeltaLog.for_table(str(tmp_path)).snapshot()
    table, schema = TableFiles.of(snapshot), snapshot.schema
    files = snapshot.files().select(INPUT_COLUMNS).append_column(GROUP, pa.array([0, 0, 1], pa.int32()))
    tasks = [pa.RecordBatch.from_pydict({"id": [0]}), pa.RecordBatch.from_pydict({"id": [1]})]

    shared = files.append_column(TASK, pa.array([0, 1, 1], pa.int32()))
    sampled = shared.append_column(STEP, pa.array([2, 2, 2])).append_column(SEED, pa.array([0, 1, 2]))
    shares = FileShares(files=to_ipc(sampled), stride=1)
    sampler = SampleWorker(table=table, columns=schema, paths=(("s",),), shares=shares)
    samples = pa.Table.from_batches(sampler(iter(tasks)))
    (column,) = unpacked([sample["content"] for sample in samples.to_pylist() if sample["group"] == 0])
    assert 800 < len(column.values) < 1_200
    distinct, codes = column.distinct()
    built = build_partition_tree([codes], 5, 2)
    cut = built.begins(0)
    tree = built.with_codes([cut])
    placements = {
        0: Placement(tree=tree, begins=(distinct[cut - 1],), buckets_per_file=2, first_output=0),
        1: Placement(tree=build_partition_tree([codes], 1), begins=(), buckets_per_file=1, first_output=5),
    }
    columns = CopiedColumns(schema=schema, row_ids=None)
    shares = FileShares(files=to_ipc(shared), stride=1)
    writer = ShuffleWriter(table=table, columns=columns, paths=(("s",),), placements=placements, shares=shares)
    batches = list(writer(iter(tasks)))
    assert len(batches) == 3 if batch_bytes > 1 else [len(batch) for batch in batches] == [1] * 21
    messages = pa.Table.from_batches(batches).sort_by([("output", "ascending"), ("bucket", "ascending")])
    output_writer = OutputWriter(table=table, directory="new", columns=columns, selection=StatisticsSelection(), codec="snappy")
    written = pa.Table.from_batches(output_writer(iter(messages.to_batches()))).to_pylist()

    assert [file["output"] for file in written] == list(range(6))
    assert [file["rows_read"] for file in written] == [file["rows_written"] for file in written]
    assert sum(file["rows_written"] for file in written) == 3_000
    rows = [pq.read_table(tmp_path / file["path"]) for file in written]
    assert sorted(pa.concat_tables(rows)["id"].to_pylist()) == list(range(3_000))
    texts = [row["s"].to_pylist() for row in rows[:5]]
    assert all(max(one) < min(other) for one, other in pairwise(texts))
    assert all(len(text) > 200 for text in texts)
