"""A table that names files of others gives no statement their rows, and no statement writes them into it."""

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import PathOutsideTableError
from airflow_delta.spark.delta_table.delta_table import DeltaTable
from airflow_delta.spark.io.scan import read_table
from tests.core.builders import add

PATHS = ["{outside}/f.parquet", "%2e%2e/outside/f.parquet", "link/f.parquet"]
STATEMENTS = {
    "optimize": lambda table, _: table.optimize().executeCompaction(),
    "delete": lambda table, _: table.delete("n > 1"),
    "update": lambda table, _: table.update("n > 1", {"n": "n + 1"}),
    "merge": lambda table, spark: (
        table.alias("t").merge(spark.range(50).toDF("n").alias("s"), "t.n = s.n").whenMatchedUpdateAll().execute()
    ),
    "read": lambda table, _: table.toDF().collect(),
}


@pytest.fixture
def hostile(tmp_path):
    """A table of three rows whose log, written by an attacker, names a file outside of it."""

    def make(path):
        root, outside = tmp_path / "table", tmp_path / "outside"
        outside.mkdir()
        pq.write_table(pa.table({"n": pa.array([41, 42], pa.int64())}), outside / "f.parquet")
        write_deltalake(str(root), pa.table({"n": pa.array([1, 2, 3], pa.int64())}))
        (root / "link").symlink_to(outside)
        size = (outside / "f.parquet").stat().st_size
        line = json.dumps(add(path.format(outside=outside), size=size))
        (root / "_delta_log" / f"{1:020}.json").write_text(f"{line}\n")
        return root

    return make


@pytest.mark.parametrize("path", PATHS)
def test_no_statement_reads_a_file_outside_of_the_table(spark, hostile, path):
    root = hostile(path)
    before = set(root.rglob("*"))
    for work in STATEMENTS.values() if path == PATHS[0] else [STATEMENTS["optimize"], STATEMENTS["read"]]:
        with pytest.raises(PathOutsideTableError, match=re.escape("f.parquet")):
            work(DeltaTable.forPath(spark, str(root)), spark)
    assert set(root.rglob("*")) == before


def test_an_allowed_prefix_is_read_by_both_readers(spark, hostile, monkeypatch):
    root = hostile("{outside}/f.parquet")
    table = DeltaTable.forPath(spark, str(root), allowed_prefixes=[str(root.parent / "outside")])
    assert sorted(row.n for row in table.toDF().collect()) == [1, 2, 3, 41, 42]
    monkeypatch.setattr("airflow_delta.spark.io.scan.suits_jvm", lambda _, **__: False)
    snapshot = DeltaLog.for_table(str(root), allowed_prefixes=[str(root.parent / "outside")]).snapshot()
    assert sorted(row.n for row in read_table(spark, snapshot).collect()) == [1, 2, 3, 41, 42]


def test_change_files_are_not_written_through_a_link(spark, tmp_path):
    root, outside = tmp_path / "table", tmp_path / "outside"
    outside.mkdir()
    write_deltalake(str(root), pa.table({"n": [1, 2, 3]}), configuration={"delta.enableChangeDataFeed": "true"})
    (root / "_change_data").symlink_to(outside)
    with pytest.raises(PathOutsideTableError, match="_change_data"):
        DeltaTable.forPath(spark, str(root)).update("n = 1", {"n": "n + 1"})
    assert list(outside.iterdir()) == []
    assert DeltaLog.for_table(str(root)).snapshot().version == 0
