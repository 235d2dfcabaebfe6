"""Iceberg metadata after each commit: what Iceberg readers see, and how lost, late and failing conversions are handled."""

import datetime as dt
import shutil
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo

from airflow_delta.core import DeltaLog
from airflow_delta.core.actions import removes_of
from airflow_delta.core.errors import IcebergConversionError, PathOutsideTableError
from airflow_delta.core.operations import after_commit
from airflow_delta.core.operations.iceberg import write_iceberg_metadata
from airflow_delta.core.operations.iceberg.table_files import TableFileIO
from airflow_delta.core.schema.data_types import LONG
from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.core.table_changes import NewColumn, NewTable
from airflow_delta.core.table_changes.ddl import parse_struct
from tests.core.iceberg_tables import UNIFORM, V2, V3

DAY, HOUR = dt.date(2024, 5, 1), dt.datetime.fromisoformat("2024-05-01T10:30:00.123456")
PARTITIONS = {
    "string": ["a b/é", None],
    "int": [-7, None],
    "tinyint": [-7, None],
    "long": [1 << 40, None],
    "date": [DAY, dt.date(1969, 12, 31), None],
    "timestamp": [HOUR.replace(tzinfo=dt.UTC), None],
    "timestamp_ntz": [HOUR, None],
    "decimal(20, 2)": [Decimal("-12.50"), None],
    "boolean": [True, False, None],
    "binary": ["é".encode(), None],
    "double": [1.5, None],
}
NESTED = "id long, l array<array<int>>, m map<string, struct<x: array<timestamp>>>, s struct<a: struct<b: decimal(5,2)>>"
NESTED_ROW = {
    "l": [[1, None], None, []],
    "m": [("k", {"x": [HOUR.replace(tzinfo=dt.UTC), None]})],
    "s": {"a": {"b": Decimal("1.25")}},
}


def metadata_files(table):
    return sorted(path.name for path in Path(table.root, "metadata").iterdir())


# -- what readers see


def test_rows_come_and_go_and_nested_columns_are_read_equal(make):
    table = make(NESTED)
    assert table.check() == []
    result = table.append({"id": 1, **NESTED_ROW}, {"id": 2, "l": None, "m": [], "s": None})  # pyiceberg shows no NULL map
    conversion = {"version": 1, "number": 2, "added_files": 1, "removed_files": 0, "is_from_scratch": False, "is_new": True}
    assert (result.after_commit, result.hook_failures) == ({"iceberg": conversion}, ())
    assert table.check() == [1, 2]
    table.append({"id": 3, **NESTED_ROW})
    assert table.check() == [1, 2, 3]
    result = table.replace("id < 3", {"id": 2, **NESTED_ROW})
    assert result.after_commit["iceberg"] | {"added_files": 1, "removed_files": 1} == result.after_commit["iceberg"]
    assert table.check() == [2, 3]
    table.replace(None)
    assert table.check() == []
    assert [snapshot.summary.operation.value for snapshot in table.iceberg.snapshots()] == [
        "append",
        "append",
        "overwrite",
        "delete",
    ]


@pytest.mark.parametrize("kind", PARTITIONS)
def test_partitions_of_every_type_are_read_and_pruned(make, kind):
    table = make(f"id long, p {kind}", partition_by=["p"])
    rows = [{"id": number, "p": value} for number, value in enumerate(PARTITIONS[kind])]
    table.append(*rows)
    table.check()
    assert table.by_pyiceberg(row_filter="p is null") == [row for row in rows if row["p"] is None]
    if kind not in ("binary", "timestamp"):
        value = rows[0]["p"]
        plan = table.iceberg.scan(row_filter=EqualTo("p", value.isoformat() if isinstance(value, dt.date) else value))
        assert [task.file.record_count for task in plan.plan_files()] == [1]
        assert plan.to_arrow()["id"].to_pylist() == [0]
    table.replace("id = 0")
    assert table.check() == list(range(1, len(rows)))


def test_columns_come_are_renamed_widened_and_go(make):
    table = make("id long, v int", **{"delta.enableTypeWidening": "true"})
    table.append({"id": 1, "v": 10})
    table.log.alter().add_columns(NewColumn(path="w", type=parse_struct("w array<int>").fields[0].type))
    table.append({"id": 2, "v": 20, "w": [1]})
    table.check()
    table.log.alter().rename_column("v", "renamed")
    table.log.alter().widen_column("renamed", LONG)
    table.append({"id": 3, "renamed": 1 << 40, "w": None})
    assert table.by_pyiceberg()[2] == {"id": 3, "renamed": 1 << 40, "w": None}
    table.check()
    table.log.alter().drop_columns("renamed")
    table.log.alter().add_columns(NewColumn(path="renamed", type=LONG))
    table.check()
    assert table.by_pyiceberg()[0] == {"id": 1, "w": None, "renamed": None}
    assert len(table.iceberg.schemas()) == 6


def test_every_version_stays_readable_as_a_snapshot(make):
    table = make()
    for number in range(3):
        table.append({"id": number, "v": str(number)})
    found = {
        snapshot.summary["delta-version"]: [row["id"] for row in table.by_pyiceberg(snapshot_id=snapshot.snapshot_id)]
        for snapshot in table.iceberg.snapshots()
    }
    assert found == {"1": [0], "2": [0, 1], "3": [0, 1, 2]}


def test_a_file_that_is_written_into_the_log_again_is_read_once(make):
    table = make(**{"delta.columnMapping.mode": "name"})
    table.append({"id": 1, "v": "a"}, {"id": 2, "v": "b"})
    files = table.snapshot.files()
    index = files.column_names.index("data_change")
    again = files.set_column(index, files.schema.field(index), pa.array([False] * len(files)))
    table.commit(adds=again)
    assert table.check() == [1, 2]
    assert table.iceberg.current_snapshot().summary.operation.value == "replace"


def test_restored_and_replaced_tables_are_read_as_they_are(make):
    table = make("id long, v string, p int")
    table.append({"id": 1, "v": "a", "p": 1})
    table.append({"id": 2, "v": "b", "p": 2})
    table.log.restore(version=1)
    assert table.check() == [1]
    new = NewTable(schema=parse_struct("id int, p long"), partition_columns=["p"], properties={V2: "true", **UNIFORM})
    table.log.create(new, mode="replace")
    table.append({"id": 7, "p": 3})
    assert table.check() == [7]


@pytest.mark.parametrize("deep", [False, True], ids=["shallow", "deep"])
def test_a_clone_names_its_sources_files_or_its_copies(make, tmp_path, deep):
    table = make(NESTED)
    table.append({"id": 1, **NESTED_ROW})
    if deep:
        table.log.deep_clone(str(tmp_path / "copy"))
        shutil.rmtree(table.root)
    else:
        table.log.shallow_clone(str(tmp_path / "copy"))
    copy = type(table).__new__(type(table))
    copy.root, copy.log, copy.duckdb = str(tmp_path / "copy"), DeltaLog.for_table(str(tmp_path / "copy")), table.duckdb
    assert copy.check() == [1]
    copy.append({"id": 2, **NESTED_ROW})
    assert copy.check() == [1, 2]


# -- lost, late and failing conversions


def test_a_version_that_is_converted_already_is_left_as_it_is(make):
    table = make()
    table.append({"id": 1, "v": "a"})
    before, snapshot = metadata_files(table), table.snapshot
    for version in (snapshot.version, 0):
        again = write_iceberg_metadata(table.log, version=version, timestamp=0, metadata=snapshot.metadata)
        assert (again.is_new, again.number) == (False, 2)
    assert metadata_files(table) == before


@pytest.mark.parametrize("lost", [1, 2])
def test_a_lost_conversion_is_made_up_for_by_the_next_commit(make, monkeypatch, lost):
    table = make()
    table.append({"id": 0, "v": "x"})
    with monkeypatch.context() as patch:
        patch.setattr(after_commit, "write_iceberg_metadata", lambda *_, **__: (_ for _ in ()).throw(OSError("gone")))
        for number in range(lost):
            result = table.replace("id = 0", {"id": 0, "v": str(number)})
            assert result.hook_failures == ("OSError: gone",)
            table.append({"id": 10 + number, "v": "y"})
    assert table.by_pyiceberg() == [{"id": 0, "v": "x"}]
    result = table.append({"id": 99, "v": "z"})
    assert result.after_commit["iceberg"]["is_from_scratch"] is False
    assert table.check() == [0, *range(10, 10 + lost), 99]


def test_what_the_log_no_longer_holds_is_named_anew(make, monkeypatch):
    table = make()
    table.append({"id": 1, "v": "a"})
    with monkeypatch.context() as patch:
        patch.setattr(after_commit, "write_iceberg_metadata", lambda *_, **__: (_ for _ in ()).throw(OSError("gone")))
        table.replace(None, {"id": 2, "v": "b"})
        table.append({"id": 3, "v": "b"})
    table.log.checkpoint()
    for version in range(3):
        Path(table.root, "_delta_log", f"{version:020d}.json").unlink()
    table.log = DeltaLog.for_table(table.root)
    result = table.append({"id": 4, "v": "c"})
    assert result.after_commit["iceberg"]["is_from_scratch"] is True
    assert table.check() == [2, 3, 4]


def test_a_writer_that_loses_the_number_to_another_converts_what_is_left(make, monkeypatch):
    table = make()
    table.append({"id": 1, "v": "a"})
    write, taken = LocalLogStore.write_if_absent, []

    def lose_once(store, path, content):
        if path == "metadata/v3.metadata.json" and not taken:
            taken.append(path)
            table.append({"id": 3, "v": "c"})  # whose conversion includes the version of this one
        return write(store, path, content)

    monkeypatch.setattr(LocalLogStore, "write_if_absent", lose_once)
    other = type(table).__new__(type(table))
    other.root, other.log = table.root, DeltaLog.for_table(table.root)
    result = other.append({"id": 2, "v": "b"})
    assert result.hook_failures == ()
    assert (result.version, result.after_commit["iceberg"]["is_new"]) == (2, False)
    assert table.check() == [1, 2, 3]
    lists = [name for name in metadata_files(table) if name.startswith("snap-")]
    assert len(lists) == len(table.iceberg.snapshots()) == 2  # the loser left nothing


def test_rows_that_deletion_vectors_hide_are_not_said_wrong(make):
    table = make(**{V2: "false", V3: "true", "delta.feature.deletionVectors": "supported"})
    table.append({"id": 1, "v": "a"}, {"id": 2, "v": "b"})
    assert table.check() == [1, 2]
    files = table.snapshot.files()
    vector = {"storage_type": "u", "path_or_inline_dv": "x", "size_in_bytes": 1, "cardinality": 1}
    index = files.column_names.index("deletion_vector")
    marked = files.set_column(index, files.schema.field(index), pa.array([vector], files.schema.field(index).type))
    removes = removes_of(files, deletion_timestamp=1, data_change=True)
    result = table.commit(adds=marked, removes=removes)
    assert "1 file with deletion vectors" in result.hook_failures[0]
    assert [row["id"] for row in table.by_pyiceberg()] == [1, 2]  # as of the version before
    table.commit(removes=removes_of(table.snapshot.files(), deletion_timestamp=1, data_change=True))
    assert table.by_pyiceberg() == []


def test_a_type_that_iceberg_does_not_have_leaves_the_table_unconverted_and_says_why(make):
    table = make("id long")
    columns = NewColumn(path="v", type=parse_struct("v variant").fields[0].type)
    properties = {V2: "false", V3: "true", "delta.enableRowTracking": "true"}
    table.log.alter().set_properties(properties)
    result = table.log.alter().add_columns(columns)
    assert "the column v holds values of type variant" in result.hook_failures[0]
    assert table.snapshot.schema.find("v")


def test_without_pyiceberg_the_commit_stands_and_says_what_is_missing(make, monkeypatch):
    table = make()
    monkeypatch.setitem(sys.modules, "airflow_delta.core.operations.iceberg.conversion", None)
    result = table.append({"id": 1, "v": "a"})
    assert "install airflow-delta[iceberg]" in result.hook_failures[0]
    assert [row["id"] for row in table.rows()] == [1]
    with pytest.raises(IcebergConversionError) as caught:
        write_iceberg_metadata(table.log, version=1, timestamp=0, metadata=table.snapshot.metadata)
    assert not caught.value.retryable


def test_nothing_is_written_for_a_table_that_does_not_ask_for_it(make):
    table = make(**{"delta.universalFormat.enabledFormats": ""})
    assert table.append({"id": 1, "v": "a"}).after_commit == {}
    assert not Path(table.root, "metadata").exists()
    table.log.alter().set_properties(UNIFORM)
    assert table.check() == [1]
    table.log.alter().unset_properties("delta.universalFormat.enabledFormats")
    before = metadata_files(table)
    table.append({"id": 2, "v": "b"})
    assert metadata_files(table) == before


# -- foreign files and age


def test_a_table_that_was_moved_is_named_anew(make, tmp_path):
    table = make()
    table.append({"id": 1, "v": "a"})
    shutil.move(table.root, tmp_path / "moved")
    table.root, table.log = str(tmp_path / "moved"), DeltaLog.for_table(str(tmp_path / "moved"))
    result = table.append({"id": 2, "v": "b"})
    assert result.after_commit["iceberg"]["is_from_scratch"] is True
    assert table.check() == [1, 2]


@pytest.mark.parametrize("content", [b"", b"[]", b'{"format-version": 2}', b"\xff" * 9, b"[" * 9999])
def test_metadata_that_is_none_is_replaced(make, content):
    table = make()
    table.append({"id": 1, "v": "a"})
    Path(table.root, "metadata", "v2.metadata.json").write_bytes(content)
    result = table.append({"id": 2, "v": "b"})
    assert (result.hook_failures, result.after_commit["iceberg"]["is_from_scratch"]) == ((), True)
    assert table.check() == [1, 2]


@pytest.mark.parametrize("hint", [b"", b"99", b"1", b"-1", b"../2", "²".encode()])
def test_a_hint_that_is_wrong_leads_nowhere_else(make, hint):
    table = make()
    table.append({"id": 1, "v": "a"})
    Path(table.root, "metadata", "version-hint.text").write_bytes(hint)
    assert table.append({"id": 2, "v": "b"}).after_commit["iceberg"]["number"] == 3
    assert table.check() == [1, 2]


@pytest.mark.parametrize("name", ["/etc/passwd", "{root}/../x", "{root}/metadata/../x", "{root}/_delta_log/0.json", "s3://b/x"])
def test_no_file_outside_of_the_tables_metadata_is_touched(make, name):
    table = make()
    io = TableFileIO(table.log.store, f"file://{table.root}")
    for touch in (io.new_input, io.new_output, io.delete):
        with pytest.raises(PathOutsideTableError):
            touch(name.format(root=f"file://{table.root}"))


def test_old_snapshots_and_metadata_go_and_what_stays_is_readable(make, monkeypatch):
    monkeypatch.setattr("airflow_delta.core.operations.iceberg.conversion.MOST_KEPT", 3)
    table = make()
    for number in range(8):
        table.replace(f"id < {number - 3}", {"id": number, "v": str(number)})
    assert table.check()[-1] == 7
    snapshots = table.iceberg.snapshots()
    assert len(snapshots) == 3
    for snapshot in snapshots:
        assert table.by_pyiceberg(snapshot_id=snapshot.snapshot_id)
    names = metadata_files(table)
    assert [name for name in names if name.endswith(".json")] == [f"v{number}.metadata.json" for number in (7, 8, 9)]
    assert len([name for name in names if name.startswith("snap-")]) == 3
    needed = {Path(each.manifest_path).name for one in snapshots for each in one.manifests(table.iceberg.io)}
    assert {name for name in names if name.startswith("manifest-")} == needed


def test_many_small_manifests_become_one(make, monkeypatch):
    monkeypatch.setattr("airflow_delta.core.operations.iceberg.manifests.MOST_SMALL", 4)
    table = make("id long, p int", partition_by=["p"])
    for number in range(12):
        table.append({"id": number, "p": number % 3})
    assert len(table.iceberg.current_snapshot().manifests(table.iceberg.io)) <= 5
    assert table.check() == list(range(12))
    table.replace("p = 1")
    assert table.check() == [number for number in range(12) if number % 3 != 1]


def test_files_go_from_several_manifests_and_only_these_are_written_anew(make, monkeypatch):
    monkeypatch.setattr("airflow_delta.core.operations.iceberg.manifests.CHUNK", 2)
    table = make("id long, p int", partition_by=["p"])
    table.append(*({"id": number, "p": number} for number in range(7)))
    before = {each.manifest_path for each in table.iceberg.current_snapshot().manifests(table.iceberg.io)}
    assert len(before) == 4
    table.replace("p = 2 OR p = 3")
    after = {each.manifest_path for each in table.iceberg.current_snapshot().manifests(table.iceberg.io)}
    assert (len(after), 2 <= len(before & after) <= 3) == (4, True)
    assert table.check() == [0, 1, 4, 5, 6]


def test_a_vacuum_leaves_the_metadata_alone_as_long_as_the_table_has_it(make):
    table = make(**{"delta.deletedFileRetentionDuration": "interval 0 hours"})
    table.append({"id": 1, "v": "a"})
    table.append({"id": 2, "v": "b"})
    later = table.log.clock() + 400 * 86_400_000
    log = DeltaLog.for_table(table.root, clock=lambda: later)
    before = metadata_files(table)
    log.vacuum()
    assert set(before) <= set(metadata_files(table))
    assert [row["id"] for row in table.by_pyiceberg()] == [1, 2]
    log.alter().unset_properties("delta.universalFormat.enabledFormats")
    log.vacuum()
    assert not any(Path(table.root, "metadata").iterdir())
