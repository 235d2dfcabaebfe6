"""Multi-part checkpoints: distributed over parts as Spark does, and complete or absent."""

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.actions import SetTransaction, removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.log.file_names import LAST_CHECKPOINT, checkpoint_part_path
from airflow_delta.core.operations.checkpoints import CheckpointKind, write_checkpoint
from airflow_delta.core.operations.checkpoints.spark_hash import SEED, part_numbers, spark_hash
from tests.golden_tables import TABLES

MASK = 0xFFFFFFFF


def plain_hash(data, seed):
    """Spark's variant of Murmur3, byte by byte."""

    def mixed(h1, k1):
        k1 = k1 * 0xCC9E2D51 & MASK
        k1 = (k1 << 15 | k1 >> 17) & MASK
        h1 ^= k1 * 0x1B873593 & MASK
        h1 = (h1 << 13 | h1 >> 19) & MASK
        return (h1 * 5 + 0xE6546B64) & MASK

    whole = len(data) - len(data) % 4
    for at in range(0, whole, 4):
        seed = mixed(seed, int.from_bytes(data[at : at + 4], "little"))
    for byte in data[whole:]:
        seed = mixed(seed, (byte - 256 if byte > 127 else byte) & MASK)
    seed ^= len(data)
    seed = (seed ^ seed >> 16) * 0x85EBCA6B & MASK
    seed = (seed ^ seed >> 13) * 0xC2B2AE35 & MASK
    return seed ^ seed >> 16


@given(st.lists(st.none() | st.text(max_size=20)), st.integers(0, MASK))
def test_texts_are_hashed_as_plain_python_would(texts, seed):
    found = spark_hash(pa.array(texts, pa.string()), pa.repeat(pa.scalar(seed, pa.uint32()), len(texts)))
    assert found.to_pylist() == [seed if text is None else plain_hash(text.encode(), seed) for text in texts]


def test_a_hash_that_spark_is_known_to_give():
    found = spark_hash(pa.array(["Spark"]), pa.array([SEED], pa.uint32()))
    assert found.view(pa.int32()).to_pylist() == [228093765]


def test_each_file_is_in_the_part_in_which_delta_spark_put_it():
    parts = sorted((TABLES / "multipart_checkpoint" / "table" / "_delta_log").glob("*.checkpoint.*.*.parquet"))
    for number, path in enumerate(parts):
        rows = pq.read_table(path, columns=["add", "remove"]).to_pylist()
        paths = [(row["add"] or row["remove"] or {"path": None})["path"] for row in rows]
        found = part_numbers(pa.array(paths, pa.string()), pa.nulls(len(paths), pa.string()), len(parts))
        assert set(found.to_pylist()) == {number}


def test_other_engines_read_the_parts(real_table, tmp_path, duckdb_connection):
    table = real_table(**{"delta.checkpointInterval": "100"})
    for number in range(8):
        table.commit(adds=table.add(f"part/f{number}.parquet", number, "x"))
    table.commit(transactions=[SetTransaction(app_id="app", version=3)])
    gone = table.log.refresh().files("n = 0")
    table.commit(removes=removes_of(gone, deletion_timestamp=table.log.clock(), data_change=True))
    before = table.log.refresh()
    result = write_checkpoint(before, now=table.log.clock(), kind=CheckpointKind.MULTI_PART, rows_of_part=3)
    assert (result.files, result.actions, result.path) == (7, 11, checkpoint_part_path(10, 1, 3))
    assert '"parts":3' in table.log.store.read(LAST_CHECKPOINT).decode()
    copy = tmp_path / "copy"
    shutil.copytree(table.root, copy)
    for path in (copy / "_delta_log").glob("0*"):
        if "checkpoint.0" not in path.name:
            path.unlink()
    assert sorted(DeltaTable(copy).to_pyarrow_table()["n"].to_pylist()) == list(range(1, 8))
    assert duckdb_connection.sql(f"SELECT n FROM delta_scan('{copy}') ORDER BY n").fetchall() == [(n,) for n in range(1, 8)]
    after = DeltaLog.for_table(str(copy)).refresh()
    assert sorted(after.files()["path"].to_pylist()) == sorted(before.files()["path"].to_pylist())
    assert after.transactions == before.transactions
    assert after.tombstones()["path"].to_pylist() == ["part/f0.parquet"]


def test_a_failure_leaves_no_part(real_table, monkeypatch):
    table = real_table()
    table.commit(adds=table.add("f.parquet"))

    def fail(*_args, **_kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fail)
    with pytest.raises(OSError, match="disk full"):
        table.log.checkpoint(kind=CheckpointKind.MULTI_PART)
    assert not [path for path in (table.root / "_delta_log").iterdir() if "checkpoint" in path.name]


def test_a_table_with_v2_checkpoints_gets_no_parts(real_table):
    table = real_table()
    snapshot = table.log.refresh()
    snapshot.protocol = type(snapshot.protocol)(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=frozenset({"v2Checkpoint"}),
        writer_features=frozenset({"v2Checkpoint"}),
    )
    with pytest.raises(InvalidStatementError, match="v2Checkpoint"):
        write_checkpoint(snapshot, now=0, kind=CheckpointKind.MULTI_PART)


@pytest.mark.parametrize("kinds", [["classic", "multi-part"], ["multi-part", "classic"], ["classic", "multi-part", "classic"]])
def test_a_version_with_checkpoints_of_both_kinds_is_opened_by_every_engine(real_table, duckdb_connection, kinds):
    table = real_table()
    for number in range(3):
        table.commit(adds=table.add(f"f{number}.parquet", number, "x"))
    for kind in kinds:
        table.log.checkpoint(kind=CheckpointKind(kind))
    for _ in range(20):  # Delta Kernel picks either at random
        assert duckdb_connection.sql(f"SELECT n FROM delta_scan('{table.root}') ORDER BY n").fetchall() == [(0,), (1,), (2,)]
    assert DeltaTable(table.root).version() == DeltaLog.for_table(str(table.root)).refresh().version == 3
    table.commit(adds=table.add("f3.parquet", 3, "x"))
    table.log.checkpoint()
    assert '"version":4' in table.log.store.read(LAST_CHECKPOINT).decode()
