"""A table whose partition columns were replaced: whatever we write then, deltalake and duckdb read the same rows."""

import json

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.operations.checkpoints import CheckpointKind
from airflow_delta.core.transaction.operation import Operation
from tests.core.builders import HandmadeLog, add, metadata, protocol, remove, schema_string

ROWS = pa.table({"a": ["1", None, "1"], "b": ["x", "y", None], "n": [1, 2, 3]})
EXPECTED = ROWS.sort_by("n").to_pylist()


@pytest.fixture(params=[(["a"], ["b"]), (["a", "b"], ["a"]), (["a"], ["a", "b"]), (["a"], []), ([], ["b"])], ids=str)
def root(request, tmp_path):
    """Version 0 is partitioned in one way, version 1 replaces its rows and partitions them in another way."""
    before, after = request.param
    path = str(tmp_path / "table")
    write_deltalake(path, ROWS, partition_by=before or None)
    write_deltalake(path, ROWS, partition_by=after or None, mode="overwrite", schema_mode="overwrite")
    return path


STEPS = {
    "checkpoint": lambda log: log.checkpoint(),
    "checkpoint in parts": lambda log: log.checkpoint(kind=CheckpointKind.MULTI_PART),
    "compacted log": lambda log: log.compact_log(0, 1),
    "restore": lambda log: log.restore(0),
    "restore there and back": lambda log: (log.restore(0), log.restore(1)),
    "restore and checkpoint": lambda log: (log.restore(0), log.checkpoint()),
}


def assert_read_alike(root, duckdb_connection):
    assert DeltaTable(root).to_pyarrow_table().sort_by("n").to_pylist() == EXPECTED
    assert duckdb_connection.sql(f"SELECT * FROM delta_scan('{root}') ORDER BY n").to_arrow_table().to_pylist() == EXPECTED
    assert DeltaLog.for_table(root).snapshot().to_arrow().read_all().sort_by("n").to_pylist() == EXPECTED


@pytest.mark.parametrize("step", STEPS)
def test_other_engines_read_a_repartitioned_table_after(step, root, duckdb_connection):
    STEPS[step](DeltaLog.for_table(root))
    assert_read_alike(root, duckdb_connection)


def test_a_commit_and_a_checkpoint_write_values_of_the_partition_columns_only():
    """Earlier versions of ours gave a file null values of columns that no longer partitioned the table."""
    extended = metadata(schema_string("a", "b", n="long"), ("b",))
    handmade = HandmadeLog().commit(protocol(), extended, add("x", partitionValues={"a": None, "b": "1"}))
    transaction = handmade.log.start_transaction()
    files = transaction.snapshot.files()
    renamed = files.set_column(0, files.schema.field("path"), pa.array(["y"]))
    transaction.commit(operation=Operation(name="WRITE"), adds=renamed)
    line = json.loads(handmade.store.read(commit_path(1)).splitlines()[-1])
    assert (line["add"]["path"], line["add"]["partitionValues"]) == ("y", {"b": "1"})

    result = handmade.log.checkpoint()
    with handmade.store.open_input(result.path) as stream:
        adds = pq.read_table(stream)["add"].drop_null()
    assert pc.struct_field(adds, "partitionValues").to_pylist() == [[("b", "1")]] * 2


def test_a_null_that_another_writer_left_out_is_named_in_what_we_write():
    """As deltalake compacts its log."""
    log = HandmadeLog().create(add("f", partitionValues={}), partition_columns=["b"]).commit(remove("f"))
    log.store.write("f", b"x")

    log.log.restore(0)

    lines = map(json.loads, log.store.read(commit_path(2)).splitlines())
    assert [line["add"]["partitionValues"] for line in lines if "add" in line] == [{"b": None}]
    with log.store.open_input(log.log.checkpoint(0).path) as stream:
        adds = pq.read_table(stream)["add"].to_pylist()
    assert [dict(add["partitionValues"]) for add in adds if add] == [{"b": None}]
