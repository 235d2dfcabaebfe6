"""Lite vacuums read the log, inventories save the listing, protected versions stay: never is a needed file deleted."""

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from airflow_delta.core.actions import removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    InvalidStatementError,
    StorageAccessError,
    UnsupportedReaderFeatureError,
    UnsupportedWriterFeatureError,
    VacuumIncompleteError,
    VacuumLiteImpossibleError,
    VersionNotFoundError,
)
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.operations.vacuum_candidates import LAST_VACUUM_INFO, inventoried_files
from tests.core.builders import add, protocol
from tests.core.operations.aged_table import AgedTable

HOUR, DAY = 3_600_000, 86_400_000
NOW = 1_000 * DAY


def aged_table():
    """Day 0: a, b, c and a stray file. Day 1: a goes. Day 9: b goes. Today is day 10."""
    table = AgedTable()
    for path in ("a", "b", "c", "stray"):
        table.file(path)
    table.commit(add("a"), add("b"), add("c"))
    table.now = 1 * DAY
    table.commit(table.remove("a"), {"cdc": {"path": "_change_data/x", "partitionValues": {}, "size": 4, "dataChange": False}})
    table.file("_change_data/x")
    table.now = 9 * DAY
    table.commit(table.remove("b"))
    table.now = 10 * DAY
    return table


# -- lite


def test_a_lite_vacuum_deletes_what_the_log_removed_and_no_longer_keeps():
    table = aged_table()
    result = table.log.vacuum(lite=True)
    assert sorted(result.paths.to_pylist()) == ["_change_data/x", "a"]
    assert result.bytes == 8
    assert table.files() == {"b", "c", "stray"}
    assert json.loads(table.store.read(LAST_VACUUM_INFO)) == {"latestCommitVersionOutsideOfRetentionWindow": 2}


def test_the_next_lite_vacuum_reads_only_the_commits_since():
    table = aged_table()
    table.log.vacuum(lite=True)
    table.store.delete([commit_path(1), commit_path(2)])
    table.store.write(commit_path(3), b"")  # what is left must not be read from the start
    end = json.loads(table.store.read(LAST_VACUUM_INFO))["latestCommitVersionOutsideOfRetentionWindow"]
    assert end == 2


def test_files_of_the_next_days_go_when_their_days_have_come():
    table = aged_table()
    table.log.vacuum(lite=True)
    table.now = 17 * DAY
    assert table.log.vacuum(lite=True).paths.to_pylist() == ["b"]
    assert table.files() == {"c", "stray"}
    assert table.log.vacuum(lite=True).files == 0


def test_a_full_vacuum_is_the_start_of_lite_ones():
    table = aged_table()
    assert sorted(table.log.vacuum().paths.to_pylist()) == ["_change_data/x", "a", "stray"]
    table.store.delete([commit_path(0)])  # as a log cleanup does; a checkpoint would stand for it
    table.now = 17 * DAY
    assert json.loads(table.store.read(LAST_VACUUM_INFO)) == {"latestCommitVersionOutsideOfRetentionWindow": 2}


def test_a_lite_vacuum_says_when_commits_it_needs_are_gone():
    table = aged_table()
    table.log.checkpoint(3)
    table.store.delete([commit_path(0), commit_path(1)])
    with pytest.raises(VacuumLiteImpossibleError) as caught:
        table.log.vacuum(lite=True)
    assert (caught.value.version, caught.value.earliest) == (0, 2)
    table.log.vacuum()
    table.now = 17 * DAY
    assert table.log.vacuum(lite=True).paths.to_pylist() == ["b"]


@pytest.mark.parametrize(
    "note", [b"", b"{", b"[]", b'{"latestCommitVersionOutsideOfRetentionWindow":"x"}', b'{"a":1}', b"\xff"]
)
def test_an_unreadable_note_of_the_last_vacuum_counts_as_none(note):
    table = aged_table()
    table.store.write(LAST_VACUUM_INFO, note)
    assert sorted(table.log.vacuum(lite=True).paths.to_pylist()) == ["_change_data/x", "a"]


def test_what_was_brought_back_after_its_removal_is_kept_by_a_lite_vacuum():
    table = aged_table()
    table.commit(add("a"))
    assert table.log.vacuum(lite=True).paths.to_pylist() == ["_change_data/x"]


@pytest.mark.parametrize(
    "hostile",
    [
        "../outside", "%2E%2E/outside", "sub/../../outside", "/etc/hostname", "file:///etc/hostname", "s3://bucket/x", "",
        "_delta_log/00000000000000000000.json", "_delta_log%2F00000000000000000000.json", ".hidden/x", "a%00b", "./c", "sub//c",
        "inner/part", "inner/deep/part",
    ],
)  # fmt: skip
def test_no_removed_path_leads_a_lite_vacuum_out_of_the_table_or_into_another(hostile):
    table = AgedTable()
    table.file("inner/_delta_log/00000000000000000000.json")
    table.commit(table.remove(hostile))
    table.now = 10 * DAY
    assert table.log.vacuum(lite=True).paths.to_pylist() == []


def test_a_lite_vacuum_does_not_follow_links(real_table, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "f.parquet").write_text("precious")
    table = real_table()
    adds = table.add("other.parquet", age_days=30, log_path="p=1/f.parquet")
    (table.root / "p=1").symlink_to(elsewhere)
    table.commit(adds=adds)
    table.commit(removes=removes_of(adds, deletion_timestamp=1, data_change=True))
    for version in range(3):
        os.utime(table.root / commit_path(version), (1, 1))
    table.log.vacuum(lite=True)
    assert (elsewhere / "f.parquet").read_text() == "precious"


def test_the_deletion_vectors_of_removed_files_go_with_them():
    table = AgedTable()
    text, name = "R!d7:<%0gFV.CDqHrD0:", "deletion_vector_a7662111-e622-43dc-b3a2-c65286cb99a9.bin"
    deletion_vector = {"storageType": "u", "pathOrInlineDv": text, "offset": 1, "sizeInBytes": 4, "cardinality": 1}
    for path in ("f", name):
        table.file(path)
    table.commit(add("f", deletionVector=deletion_vector))
    table.commit(table.remove("f", deletionVector=deletion_vector), add("f"))
    table.now = 10 * DAY
    assert table.log.vacuum(lite=True).paths.to_pylist() == [name]
    assert table.files() == {"f"}


def test_a_lite_vacuum_takes_no_inventory():
    with pytest.raises(InvalidStatementError):
        aged_table().log.vacuum(lite=True, inventory=inventory())


# -- inventory


def inventory(*paths, days=0, is_dir=False):
    rows = len(paths)
    return pa.table(
        {
            "path": pa.array(paths, pa.string()),
            "length": pa.array([4] * rows, pa.int64()),
            "isDir": pa.array([is_dir] * rows, pa.bool_()),
            "modificationTime": pa.array([days * DAY] * rows, pa.int64()),
        }
    )


def test_an_inventory_takes_the_place_of_the_listing():
    table = aged_table()
    root = table.store.table_uri
    listed = pa.concat_tables(
        [
            inventory(f"{root}/stray", f"{root}/c", f"{root}/b", f"{root}/_hidden", "memory://elsewhere/d", f"{root}x/e", root),
            inventory(f"{root}/a", is_dir=True),
            inventory(f"{root}/young", days=9),
        ]
    )
    assert table.log.vacuum(inventory=listed, dry_run=True).paths.to_pylist() == ["stray"]
    assert table.log.vacuum(inventory=listed).paths.to_pylist() == ["stray"]
    assert table.files() == {"a", "b", "c", "_change_data/x"}
    assert not table.store.exists(LAST_VACUUM_INFO)


@pytest.mark.parametrize(
    ("root", "path", "found"),
    [
        ("/t", "file:/t/x", "x"), ("/t", "file:///t/x", "x"), ("/t", "/t/x", "x"), ("file:///t", "/t/x", "x"),
        ("s3://b/t", "s3a://b/t/p=a%20b/x", "p=a b/x"), ("s3a://b/t", "s3://b/t/x", "x"), ("s3://b/t", "s3://b/t2/x", None),
        ("/t", "/t/../etc/x", None), ("/t", "/t/%2E%2E/etc/x", None), ("/t", "/t//x", None), ("/t", "x", None),
        ("/t", "/t/", None),
    ],
)  # fmt: skip
def test_an_inventory_path_is_below_the_root_or_ignored(root, path, found):
    assert inventoried_files(inventory(path), root)["path"].to_pylist() == ([] if found is None else [found])


def test_the_younger_of_two_entries_of_an_inventory_counts():
    listed = pa.concat_tables([inventory("/t/x", days=days) for days in (3, 5, 4)])
    assert inventoried_files(listed, "/t").to_pylist() == [{"path": "x", "size": 4, "modification_time": 5 * DAY}]


def test_an_inventory_may_be_a_parquet_file_and_must_have_its_columns(tmp_path):
    pq.write_table(inventory("/t/x").append_column("more", pa.array([1])), tmp_path / "i.parquet")
    assert inventoried_files(str(tmp_path / "i.parquet"), "/t")["path"].to_pylist() == ["x"]
    with pytest.raises(InvalidStatementError):
        inventoried_files(inventory().drop_columns(["isDir"]), "/t")
    with pytest.raises(InvalidStatementError):
        inventoried_files(str(tmp_path / "missing.parquet"), "/t")


# -- protected versions


@pytest.mark.parametrize("lite", [True, False])
def test_the_files_of_a_protected_version_stay_however_old(lite):
    table = aged_table()
    table.log.vacuum(0, enforce_retention=False, lite=lite, protect=[1])
    assert {"a", "b", "c"} <= table.files()
    table.log.vacuum(0, enforce_retention=False, lite=lite, protect=[2, 2])
    assert {"b", "c"} <= table.files()
    assert "a" not in table.files()
    table.log.vacuum(0, enforce_retention=False, lite=lite)
    assert table.files() - {"stray"} == {"c"}


def test_a_version_that_is_not_there_cannot_be_protected():
    table = aged_table()
    with pytest.raises(VersionNotFoundError):
        table.log.vacuum(protect=[99])
    assert "a" in table.files()


# -- the log


def test_on_s3_a_vacuum_leaves_no_commit_as_delta_does():
    table = aged_table()
    table.store._table_uri = "s3://bucket/aged"
    result = table.log.vacuum()
    assert (result.files, result.version) == (3, None)
    assert table.log.refresh().version == table.version


def test_the_latest_protocol_is_asked_right_before_the_deletion(monkeypatch):
    table = aged_table()
    table.store._table_uri = "s3://bucket/aged"  # no commit of its own meets the new protocol there
    list_all = table.store.list_all
    later = json.dumps(protocol(3, 7, readerFeatures=["futureFeature"], writerFeatures=["futureFeature"]))

    def list_and_upgrade(directory="", start=""):
        yield from list_all(directory, start)
        table.store.write(commit_path(table.version + 1), later.encode())

    monkeypatch.setattr(table.store, "list_all", list_and_upgrade)
    with pytest.raises((UnsupportedReaderFeatureError, UnsupportedWriterFeatureError)):
        table.log.vacuum()
    monkeypatch.undo()
    assert {"a", "b", "c", "stray"} <= table.files()


def test_what_a_restore_brings_back_between_decision_and_deletion_is_kept(monkeypatch):
    table = aged_table()
    write_if_absent = table.store.write_if_absent

    def restore_first(path, content):
        if b"VACUUM START" in content and path == commit_path(4):
            write_if_absent(commit_path(4), json.dumps(add("a")).encode())
        write_if_absent(path, content)

    monkeypatch.setattr(table.store, "write_if_absent", restore_first)
    result = table.log.vacuum()
    assert sorted(result.paths.to_pylist()) == ["_change_data/x", "stray"]
    assert "a" in table.files()


def test_a_deletion_that_fails_in_part_shows_what_is_left_and_a_repeated_one_ends_it(monkeypatch):
    table = aged_table()
    delete = table.store.delete

    def fail(paths):
        delete(list(paths)[:1])
        raise OSError("slow down")

    monkeypatch.setattr(table.store, "delete", fail)
    with pytest.raises(VacuumIncompleteError) as caught:
        table.log.vacuum()
    assert (caught.value.deleted, caught.value.left, caught.value.detail) == (0, 3, "slow down")
    assert not table.store.exists(LAST_VACUUM_INFO)
    monkeypatch.undo()
    assert table.log.vacuum().files == 2
    assert table.files() == {"b", "c"}


def test_a_file_that_may_not_be_deleted_keeps_none_of_another_request(monkeypatch):
    table = AgedTable()
    for number in range(2_500):
        table.file(f"f{number:04d}")
    table.now = 10 * DAY
    delete = table.store.delete

    def refuse_one(paths):  # as S3 answers for an object under a legal hold: the others of the request go
        paths = list(paths)
        delete([path for path in paths if path != "f0000"])
        if "f0000" in paths:
            raise StorageAccessError(uri="memory", detail="f0000: AccessDenied")

    monkeypatch.setattr(table.store, "delete", refuse_one)
    with pytest.raises(VacuumIncompleteError, match="f0000: AccessDenied") as caught:
        table.log.vacuum()
    assert (caught.value.deleted, caught.value.left) == (1_500, 1_000)
    assert table.files() == {"f0000"}


@pytest.mark.parametrize(("files", "requests"), [(500, 1), (2_500, 3), (7_500, 3)])
def test_whoever_may_not_delete_at_all_is_refused_for_good_after_few_requests(monkeypatch, files, requests):
    table = AgedTable()
    for number in range(files):
        table.file(f"f{number:04d}")
    table.now = 10 * DAY
    sent = []

    def refuse(paths):
        sent.append(len(list(paths)))
        raise StorageAccessError(uri="memory", detail="AccessDenied")

    monkeypatch.setattr(table.store, "delete", refuse)
    with pytest.raises(StorageAccessError, match="AccessDenied") as caught:
        table.log.vacuum()
    assert (caught.value.retryable, len(sent)) == (False, requests)


def test_many_files_are_deleted_in_pieces_of_a_thousand(monkeypatch):
    table = AgedTable()
    for number in range(2_500):
        table.file(f"f{number}")
    table.now = 10 * DAY
    sizes = []
    monkeypatch.setattr(table.store, "delete", lambda paths: sizes.append(len(list(paths))))
    assert table.log.vacuum().files == 2_500
    assert sorted(sizes) == [500, 1000, 1000]


@pytest.mark.parametrize(
    "name", ["vacuum_protocol_check", "dv_basic", "dv_optimized", "restored", "cdf", "partitioned_special"]
)
def test_a_vacuum_of_a_table_of_spark_keeps_every_row(golden_table, name):
    root = golden_table(name)
    before = rows(root)
    for path in Path(root).rglob("*"):
        if path.is_file():
            os.utime(path, (1, 1))
    log = DeltaLog.for_table(str(root), clock=lambda: time.time_ns() // 1_000_000 + 3_650 * DAY)
    log.vacuum(0, enforce_retention=False)
    assert rows(root) == before
    assert log.vacuum(0, enforce_retention=False).files == 0


def rows(root):
    table = DeltaLog.for_table(str(root)).snapshot().to_arrow().read_all()
    return sorted(map(str, table.to_pylist()))


def test_deltalake_reads_a_table_after_a_lite_vacuum(real_table):
    table = real_table()
    adds = [table.add(f"{number}.parquet", number, age_days=30) for number in range(2)]
    table.commit(adds=pa.concat_tables(adds))
    table.commit(removes=removes_of(adds[0], deletion_timestamp=1, data_change=True))
    for version in range(3):
        os.utime(table.root / commit_path(version), (1, 1))
    assert table.log.vacuum(lite=True).paths.to_pylist() == ["0.parquet"]
    assert DeltaTable(table.root).to_pyarrow_table()["n"].to_pylist() == [1]
