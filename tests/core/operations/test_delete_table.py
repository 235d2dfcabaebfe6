"""Dropping a table with its files: all of them, none of other owners', and nothing in case of doubt."""

import contextlib
import itertools
import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import DeltaError, InvalidStatementError, TableNotDeletedError
from airflow_delta.core.operations.delete_table import NOTE, DeletedTable, delete_table
from airflow_delta.core.operations.pins import Pin, register
from airflow_delta.core.statements import DropStatement
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.jobs.drop_statement import execute_drop
from tests.core.faults.faulty_log_store import MOMENTS, Fault, FaultyLogStore, NoAnswerError


def make(root):
    write_deltalake(str(root), pa.table({"id": [1, 2], "day": ["a", "b"]}), partition_by=["day"])
    write_deltalake(str(root), pa.table({"id": [3], "day": ["a"]}), mode="append")
    (root / "_airflow_delta").mkdir()
    (root / "_airflow_delta" / "left.txt").write_text("ours")
    (root / "left by a failed writer.parquet").write_text("x")
    return DeltaLog.for_table(str(root))


def id_of(log):
    return log.refresh().metadata.id


def files(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() or path.is_symlink())


@pytest.fixture
def log(tmp_path):
    return make(tmp_path / "orders")


def test_a_table_goes_with_its_log_its_history_and_what_failed_writers_left(log, tmp_path):
    there = files(tmp_path / "orders")
    done = delete_table(log, id_of(log))
    assert (done.version, done.files, done.bytes > 0) == (1, len(there), True)
    assert files(tmp_path / "orders") == []
    assert not DeltaTable.is_deltatable(str(tmp_path / "orders"))


def test_a_dry_run_counts_the_same_and_deletes_nothing(log, tmp_path):
    there = files(tmp_path / "orders")
    planned = delete_table(log, id_of(log), dry_run=True)
    assert files(tmp_path / "orders") == there
    assert delete_table(log, id_of(log)) == planned


def test_what_lies_beside_the_table_or_behind_a_link_stays(log, tmp_path):
    (tmp_path / "orders_old").mkdir()
    (tmp_path / "orders_old" / "kept.parquet").write_text("x")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept.parquet").write_text("x")
    (tmp_path / "orders" / "folder").symlink_to(elsewhere)
    (tmp_path / "orders" / "file").symlink_to(elsewhere / "kept.parquet")
    delete_table(log, id_of(log))
    assert (elsewhere / "kept.parquet").exists()
    assert (tmp_path / "orders_old" / "kept.parquet").exists()
    assert files(tmp_path / "orders") == ["folder"]


def test_another_table_at_the_place_is_refused(log, tmp_path):
    there = files(tmp_path / "orders")
    with pytest.raises(TableNotDeletedError, match="expected the table of the id another there, found"):
        delete_table(log, "another")
    assert files(tmp_path / "orders") == there


def test_a_table_below_the_root_is_refused_by_its_place(log, tmp_path):
    write_deltalake(str(tmp_path / "orders" / "archive" / "old"), pa.table({"id": [1]}))
    there = files(tmp_path / "orders")
    with pytest.raises(TableNotDeletedError, match="another table lies below its root, at archive/old"):
        delete_table(log, id_of(log))
    assert files(tmp_path / "orders") == there


def test_a_pinned_version_is_refused_with_its_holder(log):
    pin = Pin(id="a", alias="t", version=1, dag_id="report", run_id="r", task_id="read", created=0, expires=1 << 60)
    register(log.store, pin)
    with pytest.raises(TableNotDeletedError, match=r"version 1 is pinned by report\.read r"):
        delete_table(log, id_of(log))


@pytest.mark.parametrize("root", ["s3://lake", "memory://lake/", "/"])
def test_a_root_that_is_a_whole_store_is_refused(root):
    with pytest.raises(TableNotDeletedError, match="whole store"):
        delete_table(DeltaLog(InMemoryLogStore(root)), "id")


def test_where_there_is_no_table_nothing_is_deleted(tmp_path):
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "notes.txt").write_text("mine")
    assert delete_table(DeltaLog.for_table(str(tmp_path / "orders")), "id") == DeletedTable(version=-1, files=0, bytes=0)
    assert files(tmp_path / "orders") == ["notes.txt"]


def test_a_log_that_cannot_be_opened_is_no_table_of_this_id(log, tmp_path):
    table_id = id_of(log)
    (tmp_path / "orders" / "_delta_log" / f"{0:020d}.json").unlink()
    there = files(tmp_path / "orders")
    with pytest.raises(DeltaError):
        delete_table(DeltaLog.for_table(str(tmp_path / "orders")), table_id)
    assert files(tmp_path / "orders") == there


def test_a_deletion_that_was_begun_does_not_take_a_table_that_was_made_there_since(log, tmp_path):
    table_id = id_of(log)
    delete_table(log, table_id)
    write_deltalake(str(tmp_path / "orders"), pa.table({"id": [9]}))
    log.store.write(NOTE, json.dumps({"tableId": table_id}).encode())
    with pytest.raises(TableNotDeletedError, match=table_id):
        delete_table(DeltaLog.for_table(str(tmp_path / "orders")), table_id)
    assert DeltaTable(str(tmp_path / "orders")).to_pyarrow_table().num_rows == 1


def test_whatever_fails_another_try_deletes_the_rest(tmp_path):
    make(tmp_path / "counted")
    counting = FaultyLogStore(LocalLogStore(str(tmp_path / "counted")))
    delete_table(DeltaLog(counting), id_of(DeltaLog.for_table(str(tmp_path / "counted"))))
    assert len(counting.operations) > 8
    for number, moment in itertools.product(range(len(counting.operations)), MOMENTS):
        root = tmp_path / f"{number}-{moment}"
        table_id = id_of(make(root))
        store = FaultyLogStore(LocalLogStore(str(root)), Fault(number, moment, lasts=1 if number % 2 else 1 << 30))
        with contextlib.suppress(DeltaError, NoAnswerError):
            delete_table(DeltaLog(store), table_id)
        delete_table(DeltaLog.for_table(str(root)), table_id)
        assert files(root) == [], (number, moment)


def test_the_statement_deletes_files_of_a_known_id_only(log, tmp_path):
    table = str(tmp_path / "orders")
    there = files(tmp_path / "orders")
    assert execute_drop(log, DropStatement(table=table)).metrics == {}
    with pytest.raises(InvalidStatementError, match="table_id"):
        execute_drop(log, DropStatement(table=table, delete_files=True))
    assert files(tmp_path / "orders") == there
    done = execute_drop(log, DropStatement(table=table, delete_files=True, table_id=id_of(log)))
    assert (done.operation, done.committed, done.metrics["numDeletedFiles"]) == ("DROP TABLE", False, len(there))
