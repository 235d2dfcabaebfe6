"""Vacuum deletes unneeded files, and nothing else: whatever the directory holds and whatever the log says."""

import os
import time
import uuid
from datetime import timedelta
from urllib.parse import quote

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.actions import NO_ADDS, Origin, removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    CorruptLogError,
    InvalidStatementError,
    InvalidTablePropertyError,
    RetentionTooShortError,
    StorageAccessError,
    StorageUnavailableError,
    UnsupportedWriterFeatureError,
    VacuumIncompleteError,
)
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.operations.unneeded_files import named_paths, unneeded_files
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.spark.io.staging import StagingArea

NAMED_TEXT = "R!d7:<%0gFV.CDqHrD0:"
NAMED_DELETION_VECTOR = "a7662111-e622-43dc-b3a2-c65286cb99a9"  # as that text says it
HOUR, DAY = 3_600_000, 86_400_000


def now():
    return time.time_ns() // 1_000_000


def removed(files, *, days_ago=0.0):
    return removes_of(files, deletion_timestamp=now() - int(days_ago * DAY), data_change=True)


def data_files(root):
    found = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    return {path for path in found if not path.startswith("_delta_log/")}


# -- what is deleted and what is kept


def test_only_old_files_that_no_version_within_the_retention_needs_go(real_table):
    table = real_table()
    adds = [
        table.add(name, number, age_days=30) for number, name in enumerate(["active", "removed long ago", "removed lately"])
    ]
    table.commit(adds=pa.concat_tables(adds))
    table.commit(removes=removed(adds[1], days_ago=8))
    table.commit(removes=removed(adds[2], days_ago=6))
    table.file("stray/old.parquet", age_days=8)
    table.file("stray/young.parquet", age_days=6)

    result = table.log.vacuum()

    assert sorted(result.paths.to_pylist()) == ["removed long ago", "stray/old.parquet"]
    assert (result.files, result.dry_run) == (2, False)
    assert data_files(table.root) == {"active", "removed lately", "stray/young.parquet"}


def test_a_dry_run_shows_paths_and_bytes_and_leaves_everything(real_table):
    table = real_table()
    sizes = [table.file(f"old{number}.parquet", age_days=8).stat().st_size for number in range(3)]
    before = data_files(table.root)

    result = table.log.vacuum(dry_run=True)

    assert sorted(result.paths.to_pylist()) == [f"old{number}.parquet" for number in range(3)]
    assert (result.files, result.bytes, result.dry_run, result.version) == (3, sum(sizes), True, None)
    assert data_files(table.root) == before
    assert table.log.refresh().version == 0


def test_nothing_to_delete_leaves_no_commit(real_table):
    table = real_table()
    result = table.log.vacuum()
    assert (result.files, result.bytes, result.version) == (0, 0, None)
    assert table.log.refresh().version == 0


@pytest.mark.parametrize(
    ("hours", "gone"), [(24 * 40, set()), (24 * 20, {"d30"}), (None, {"d10", "d30"}), (0, {"d1", "d10", "d30"})]
)
def test_the_given_retention_is_honored(real_table, hours, gone):
    table = real_table()
    for days in (1, 10, 30):
        table.file(f"d{days}", age_days=days)
    table.log.vacuum(hours, enforce_retention=False)
    assert {"d1", "d10", "d30"} - data_files(table.root) == gone


def test_the_retention_of_the_table_is_the_default_and_the_least(real_table):
    table = real_table(**{"delta.deletedFileRetentionDuration": "interval 2 days"})
    table.file("d3", age_days=3)
    for hours in (0, 47.9):
        with pytest.raises(RetentionTooShortError) as caught:
            table.log.vacuum(hours)
        assert (caught.value.retention_hours, caught.value.minimum_hours) == (pytest.approx(hours), 48.0)
    assert data_files(table.root) == {"d3"}
    table.log.vacuum()
    assert data_files(table.root) == set()


def test_the_retention_is_read_as_spark_reads_it(real_table):
    table = real_table(**{"delta.deletedFileRetentionDuration": "interval +30 days -12 hours"})
    for days in (29, 30):
        table.file(f"d{days}", age_days=days)
    table.log.vacuum()
    assert data_files(table.root) == {"d29"}


@pytest.mark.parametrize("text", ["a month", "interval 1 month", "30days", "1.5 days", "-3 days", ""])
@pytest.mark.parametrize("options", [{}, {"lite": True}, {"retention_hours": 0, "enforce_retention": False}, {"dry_run": True}])
def test_a_retention_that_is_not_understood_stops_the_vacuum(real_table, text, options):
    table = real_table(**{"delta.deletedFileRetentionDuration": text})
    table.file("d300", age_days=300)
    with pytest.raises(InvalidTablePropertyError) as caught:
        table.log.vacuum(**options)
    assert (caught.value.name, caught.value.value) == ("delta.deletedFileRetentionDuration", text)
    assert data_files(table.root) == {"d300"}
    table.log.alter().set_properties({"delta.deletedFileRetentionDuration": "interval 7 days"})
    assert table.log.vacuum().files == 1


@pytest.mark.parametrize("enforce", [True, False])
@pytest.mark.parametrize("hours", [-1, -1e-9, float("-inf"), float("nan")])
def test_a_negative_retention_is_never_taken(real_table, hours, enforce):
    with pytest.raises(RetentionTooShortError):
        real_table().log.vacuum(hours, enforce_retention=enforce)


@pytest.mark.parametrize("hours", ["5", [5], timedelta(hours=5)])
def test_a_retention_that_is_no_number_is_refused_before_anything_is_deleted(real_table, hours):
    table = real_table()
    table.file("old.parquet", age_days=10_000)
    with pytest.raises(InvalidStatementError, match="retention_hours must be a number or None, found"):
        table.log.vacuum(hours)
    assert "old.parquet" in data_files(table.root)


@pytest.mark.parametrize("hours", [float("inf"), 1e300, 10**30])
def test_however_long_a_retention_is_it_keeps_everything(real_table, hours):
    table = real_table()
    table.file("old.parquet", age_days=10_000)
    assert table.log.vacuum(hours).files == 0


def test_hidden_names_are_left_alone_and_partitions_and_change_data_are_not_hidden(real_table, tmp_path):
    table = real_table()
    kept = {
        "_airflow_delta/result.json", ".hidden/f", "_hidden", "p=1/.crc", "p=1/_SUCCESS", "_delta_logs/x", "a/_b/c", "_",
    }  # fmt: skip
    gone = {
        "staging-7f/part-0.parquet", "staging-7f/deep/er/part-1.parquet", "p=1/f", "_change_data/cdc-0.parquet",
        "_delta_index/i", "x.crc", "a/b/c",
    }  # fmt: skip
    for path in kept | gone:
        table.file(path, age_days=30)
    table.log.vacuum()
    assert data_files(table.root) == kept


def test_a_partition_column_with_a_leading_underscore_does_not_hide_its_files():
    paths = ["_day=1/f", "_day=1/_f", "_days=1/f", "x/_day=1/f"]
    assert unneeded(paths, partition_columns=["_day"]) == ["_day=1/f", "x/_day=1/f"]


def test_what_a_killed_statement_left_goes_with_the_hidden_names_of_spark(real_table):
    table = real_table()
    staged = StagingArea(str(table.root)).name
    for path in (f"{staged}/0/part-0.parquet", f"{staged}/0/_temporary/0/task_1/part-1.parquet", f"{staged}/0/.part-0.crc"):
        table.file(path, age_days=30)
    table.file(f"{staged}/young/_temporary/part-2.parquet", age_days=1)
    kept = {f"{staged}/young/_temporary/part-2.parquet", "write-me/_temporary/f"}
    table.file("write-me/_temporary/f", age_days=30)
    table.log.vacuum()
    assert data_files(table.root) == kept


def test_another_table_below_the_root_is_left_alone(real_table):
    table = real_table()
    inner = DeltaLog.for_table(str(table.root / "p=1" / "inner"), clock=table.log.clock)
    inner.create_transaction(table.log.snapshot().metadata).commit(operation=Operation(name="CREATE TABLE"))
    for path in ("p=1/inner/f", "p=1/inner/deep/g", "p=1/inner2/f", "p=1/f"):
        table.file(path, age_days=30)
    assert sorted(table.log.vacuum(dry_run=True).paths.to_pylist()) == ["p=1/f", "p=1/inner2/f"]
    table.log.vacuum()
    assert {path for path in data_files(table.root) if "_delta_log" not in path} == {"p=1/inner/f", "p=1/inner/deep/g"}


# -- names


SPECIAL = ["a b", "a%20b", "a%2520b", "é😀", "x=1", "a+b", "#?&", 'quo"te', "back\\slash", "a:b", "%"]


@pytest.mark.parametrize("value", SPECIAL)
def test_files_in_partitions_with_special_names_are_kept_while_active(real_table, value):
    table = real_table()
    path = f"p={value}/f.parquet"
    adds = table.add(path, 1, value, age_days=30, log_path=quote(path))
    table.commit(adds=adds)
    table.file(f"p={value}/stray", age_days=30)

    table.log.vacuum()
    assert data_files(table.root) == {path}
    assert DeltaTable(table.root).to_pyarrow_table()["p"].to_pylist() == [value]

    table.commit(removes=removed(adds, days_ago=8))
    table.log.vacuum()
    assert data_files(table.root) == set()


def test_a_line_feed_in_a_name_is_a_character_like_any():
    assert unneeded(["p=a\nb/f", "p=a\nb/g", "p=a\nb/h"], active=["p=a%0Ab/f", "./p=a%0Ab/g"]) == ["p=a\nb/h"]


def test_a_path_that_its_writer_did_not_encode_is_kept_too():
    assert unneeded(["p=a%3Ab/f", "p=a:b/f", "other"], active=["p=a%3Ab/f"]) == ["other"]


@pytest.mark.parametrize(
    "log_path",
    [
        "{root}/sub/f.parquet", "file:{root}/sub/f.parquet", "file://{root}/sub/f.parquet", "./sub/f.parquet",
        "sub/../sub/f.parquet", "../table/sub/f.parquet", "sub//f.parquet", "sub/./f.parquet", "sub/%2E%2E/sub/f.parquet",
        "{link}/sub/f.parquet",
    ],
)  # fmt: skip
def test_however_the_log_spells_an_active_file_it_is_kept(real_table, tmp_path, log_path):
    table = real_table()
    link = tmp_path / "another way in"
    link.symlink_to(table.root)
    spelled = log_path.format(root=table.root, link=quote(str(link)))
    table.commit(adds=table.add("sub/f.parquet", age_days=30, log_path=spelled))
    table.file("sub/stray.parquet", age_days=30)
    result = table.log.vacuum()
    assert result.paths.to_pylist() == ["sub/stray.parquet"]


@pytest.mark.parametrize(
    "hostile",
    [
        "../outside.txt", "%2E%2E/outside.txt", "sub/../../outside.txt", "{outside}", "file://{outside}", "file:{outside}",
        "s3://bucket/outside.txt", "/etc/hostname", "",
    ],
)  # fmt: skip
def test_no_path_in_the_log_leads_out_of_the_table(real_table, tmp_path, hostile):
    outside = tmp_path / "outside.txt"
    outside.write_text("precious")
    os.utime(outside, (0, 0))
    table = real_table()
    adds = table.add("f.parquet", age_days=30, log_path=hostile.format(outside=outside))
    table.commit(adds=adds)
    table.commit(removes=removed(adds, days_ago=30))

    result = table.log.vacuum(0, enforce_retention=False)

    assert outside.read_text() == "precious"
    assert result.paths.to_pylist() == ["f.parquet"]


def test_links_are_not_followed(real_table, tmp_path):
    table = real_table()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "f.parquet").write_text("precious")
    os.utime(elsewhere / "f.parquet", (0, 0))
    os.utime(elsewhere, (0, 0))
    (table.root / "p=1").symlink_to(elsewhere)
    assert table.log.vacuum(0, enforce_retention=False).files == 0
    assert (table.root / "p=1" / "f.parquet").read_text() == "precious"


def test_a_name_that_is_no_utf_8_is_left_alone(real_table):
    table = real_table()
    name = os.fsencode(table.root) + b"/bad\xff"
    with open(name, "wb"):  # noqa: PTH123  pathlib takes no bytes
        pass
    os.utime(name, (0, 0))
    table.file("old", age_days=30)
    assert table.log.vacuum().paths.to_pylist() == ["old"]
    assert os.path.exists(name)  # noqa: PTH110  the same


def test_a_deletion_vector_is_kept_exactly_as_long_as_a_file_names_it():
    named, stray = (f"deletion_vector_{name}.bin" for name in (NAMED_DELETION_VECTOR, uuid.uuid4()))
    deletion_vector = {
        "storage_type": "u",
        "path_or_inline_dv": f"ab{NAMED_TEXT}",
        "offset": 1,
        "size_in_bytes": 2,
        "cardinality": 3,
    }
    paths = [f"ab/{named}", named, f"ab/{stray}", "stray"]
    assert unneeded(paths, active=["f"], deletion_vector=deletion_vector) == [named, f"ab/{stray}", "stray"]
    assert unneeded(paths, active=["f"]) == paths
    absolute = {**deletion_vector, "storage_type": "p", "path_or_inline_dv": f"file:///somewhere/{named}"}
    assert unneeded(paths, active=["f"], deletion_vector=absolute) == [f"ab/{stray}", "stray"]


def test_nothing_is_deleted_while_the_place_of_a_deletion_vector_is_unknown():
    deletion_vector = {"storage_type": "u", "path_or_inline_dv": "?", "offset": 1, "size_in_bytes": 2, "cardinality": 3}
    with pytest.raises(CorruptLogError):
        unneeded(["stray"], active=["f"], deletion_vector=deletion_vector)


# -- the log


def test_begin_and_end_are_commits_that_other_engines_show(real_table):
    table = real_table()
    size = table.file("old.parquet", age_days=30).stat().st_size

    result = table.log.vacuum(24 * 8, origin=Origin(token="t", job={"jobName": "nightly"}))

    end, start, _ = table.log.history()
    assert (result.version, end.version, start.version) == (2, 2, 1)
    assert start.commit_info.operation == "VACUUM START"
    assert start.commit_info.operation_parameters == {
        "retentionCheckEnabled": True, "specifiedRetentionMillis": 8 * DAY, "defaultRetentionMillis": 7 * DAY,
    }  # fmt: skip
    assert start.commit_info.operation_metrics == {"numFilesToDelete": "1", "sizeOfDataToDelete": str(size)}
    assert end.commit_info.operation == "VACUUM END"
    assert end.commit_info.operation_parameters == {"status": "COMPLETED"}
    assert end.commit_info.operation_metrics == {"numDeletedFiles": "1", "numVacuumedDirectories": "0"}
    assert end.commit_info.isolation_level == "SnapshotIsolation"
    assert end.commit_info.origin == Origin(job={"jobName": "nightly"})
    assert [entry["operation"] for entry in DeltaTable(table.root).history(2)] == ["VACUUM END", "VACUUM START"]


@pytest.mark.parametrize(
    ("error", "raised"),
    [(OSError("slow down"), VacuumIncompleteError), (StorageAccessError(uri="t", detail="read-only"), StorageAccessError)],
    ids=["no answer", "refused"],
)
def test_a_deletion_that_fails_is_recorded_and_reported(real_table, monkeypatch, error, raised):
    table = real_table()
    table.file("old.parquet", age_days=30)

    def fail(_paths):
        raise error

    monkeypatch.setattr(table.log.store, "delete", fail)
    with pytest.raises(raised, match=r"slow down|read-only") as caught:
        table.log.vacuum()
    if raised is VacuumIncompleteError:
        assert (caught.value.deleted, caught.value.left, caught.value.example) == (0, 1, "old.parquet")
    assert table.log.history(1)[0].commit_info.operation_parameters == {"status": "FAILED"}


def test_why_a_vacuum_failed_is_raised_also_where_the_failure_cannot_be_recorded(real_table, monkeypatch):
    table = real_table()
    table.file("old.parquet", age_days=30)

    def down(*_arguments):
        raise StorageUnavailableError(uri=str(table.root), detail="down")

    def killed(_paths):
        monkeypatch.setattr(table.log.store, "write_if_absent", down)
        raise KeyboardInterrupt

    monkeypatch.setattr(table.log.store, "delete", killed)
    with pytest.raises(KeyboardInterrupt):
        table.log.vacuum()
    assert table.log.history(1)[0].commit_info.operation == "VACUUM START"


def test_what_was_committed_while_the_directory_was_listed_is_kept(real_table, monkeypatch):
    table = real_table()
    adds = table.add("late.parquet", age_days=30)
    list_all = table.log.store.list_all

    def list_and_commit(directory="", start=""):
        yield from list_all(directory, start)
        other = DeltaLog.for_table(str(table.root))
        other.start_transaction().commit(adds=adds, operation=Operation(name="WRITE"))

    monkeypatch.setattr(table.log.store, "list_all", list_and_commit)
    assert table.log.vacuum().files == 0
    assert data_files(table.root) == {"late.parquet"}


def test_a_table_that_needs_more_of_its_writers_is_not_vacuumed(real_table):
    table = real_table()
    table.file("old.parquet", age_days=30)
    protocol = b'{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["futureFeature"]}}'
    table.log.store.write_if_absent(commit_path(1), protocol)
    for dry_run in (True, False):
        with pytest.raises(UnsupportedWriterFeatureError):
            table.log.vacuum(dry_run=dry_run)
    assert data_files(table.root) == {"old.parquet"}


# -- any directory


def unneeded(paths, *, active=(), deletion_vector=None, partition_columns=()):
    listed = pa.table({"path": pa.array(paths, pa.string()), "size": [1] * len(paths), "modification_time": [0] * len(paths)})
    rows = [
        {
            "path": path,
            "partition_values": [],
            "size": 1,
            "modification_time": 0,
            "data_change": True,
            "deletion_vector": deletion_vector,
        }
        for path in active
    ]
    files = pa.Table.from_pylist(rows, schema=NO_ADDS.schema)
    return unneeded_files(listed, named_paths([files], table="t"), partition_columns, cutoff=1)["path"].to_pylist()


PART = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/"), min_size=1, max_size=6).filter(
    lambda part: part not in {".", ".."}
)
PATH = st.lists(PART, min_size=1, max_size=3).map("/".join)


@given(st.lists(PATH, unique=True, max_size=8), st.sets(st.integers(0, 7)))
def test_a_file_goes_exactly_when_it_is_neither_active_nor_hidden(paths, chosen):
    active = {path for number, path in enumerate(paths) if number in chosen}
    expected = [
        path for path in paths if path not in active and not any(part.startswith(("_", ".")) for part in path.split("/"))
    ]
    expected = [path for path in expected if not path.startswith(("_change_data", "_delta_index"))]
    assert unneeded(paths, active=[quote(path) for path in active]) == expected
