"""Iceberg metadata after races, kills, lost responses and forgeries: the latest version wins, no path leads outside."""

import io
import json
import os
import shutil
import threading
import time
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.avro.encoder import BinaryEncoder

from airflow_delta.core import DeltaLog
from airflow_delta.core.actions import removes_of
from airflow_delta.core.errors import IcebergConversionError, StorageAccessError
from airflow_delta.core.operations import after_commit
from airflow_delta.core.operations.iceberg import bounded_avro
from airflow_delta.core.operations.iceberg.schema import iceberg_schema
from airflow_delta.core.schema import parse_schema
from airflow_delta.core.storage.local_log_store import LocalLogStore
from tests.core.iceberg_tables import UNIFORM, V2, V3

HINT = "metadata/version-hint.text"


def another_process(table):
    other = type(table).__new__(type(table))
    other.root, other.log, other.duckdb = table.root, DeltaLog.for_table(table.root), table.duckdb
    return other


def names(table, pattern="*"):
    return sorted(path.name for path in Path(table.root, "metadata").glob(pattern))


def needed(table):
    """The manifests and lists that the kept snapshots name."""
    snapshots = table.iceberg.snapshots()
    manifests = {Path(each.manifest_path).name for one in snapshots for each in one.manifests(table.iceberg.io)}
    return sorted(manifests | {Path(snapshot.manifest_list).name for snapshot in snapshots})


def edit(table, **changes):
    """Forge the newest metadata."""
    newest = max(Path(table.root, "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name.split(".")[0][1:]))
    document = json.loads(newest.read_text())
    for name, change in changes.items():
        key = name.replace("_", "-")
        document[key] = change(document[key]) if callable(change) else change
    newest.write_text(json.dumps(document))


def with_lost_conversion(monkeypatch, work):
    with monkeypatch.context() as patch:
        patch.setattr(after_commit, "write_iceberg_metadata", lambda *_, **__: (_ for _ in ()).throw(OSError("gone")))
        return work()


def mark_rows_as_deleted(table):
    files = table.snapshot.files()
    vector = {"storage_type": "u", "path_or_inline_dv": "x", "size_in_bytes": 1, "cardinality": 1}
    index = files.column_names.index("deletion_vector")
    marked = files.set_column(index, files.schema.field(index), pa.array([vector], files.schema.field(index).type))
    return table.commit(adds=marked, removes=removes_of(files, deletion_timestamp=1, data_change=True))


# -- lost manifests


def test_manifests_that_a_vacuum_took_while_the_property_was_off_are_written_anew(make):
    table = make()
    for number in range(3):
        table.append({"id": number, "v": "a"})
    week_ago = time.time() - 8 * 86_400
    for file in Path(table.root, "metadata").iterdir():
        os.utime(file, (week_ago, week_ago))
    table.append({"id": 3, "v": "a"})  # so that the last metadata file outlives the vacuum
    table.log.alter().unset_properties("delta.universalFormat.enabledFormats")
    assert table.log.vacuum().files
    result = table.log.alter().set_properties(UNIFORM)
    assert (result.hook_failures, result.after_commit["iceberg"]["is_from_scratch"]) == ((), True)
    assert table.check() == [0, 1, 2, 3]
    assert table.append({"id": 4, "v": "a"}).after_commit["iceberg"]["is_from_scratch"] is False
    assert table.check() == [0, 1, 2, 3, 4]


def test_a_manifest_that_was_lost_is_made_up_for_when_small_ones_are_united(make, monkeypatch):
    monkeypatch.setattr("airflow_delta.core.operations.iceberg.manifests.MOST_SMALL", 4)
    table = make()
    for number in range(3):
        table.append({"id": number, "v": "a"})
    lost = table.iceberg.current_snapshot().manifests(table.iceberg.io)[-1]
    Path(lost.manifest_path.removeprefix("file://")).unlink()  # as a vacuum of another engine may do
    failures = [table.append({"id": number, "v": "b"}).hook_failures for number in range(3, 6)]
    assert failures == [()] * 3
    assert table.check() == list(range(6))


# -- races, kills, lost answers


def test_the_hint_of_an_earlier_conversion_that_comes_late_does_not_hide_a_later_one(make, monkeypatch):
    table = make()
    write, other = LocalLogStore.write, another_process(table)

    def late(store, path, content):
        if path == HINT and content == b"2":
            other.append({"id": 2, "v": "b"})  # whose hint, 3, is there before
        return write(store, path, content)

    monkeypatch.setattr(LocalLogStore, "write", late)
    table.append({"id": 1, "v": "a"})
    assert Path(table.root, HINT).read_text() == "3"
    assert table.check() == [1, 2]


def test_of_many_writers_at_once_the_last_version_is_the_one_that_readers_see(make):
    table = make()
    results, tables = [], [another_process(table) for _ in range(4)]

    def write(number):
        results.extend(tables[number].append({"id": number * 10 + turn, "v": "x"}) for turn in range(6))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 24
    if any(result.hook_failures for result in results):  # lost the number five times; the next commit catches up
        assert {failure.split(":")[0] for result in results for failure in result.hook_failures} == {"IcebergConversionError"}
    table.append({"id": 99, "v": "y"})
    assert table.check() == [*(number * 10 + turn for number in range(4) for turn in range(6)), 99]
    assert [name for name in names(table) if name.endswith(".avro")] == needed(table)


@pytest.mark.parametrize("killed_before", ["metadata/snap-", "metadata/v2", HINT])
def test_a_kill_between_the_commit_and_its_metadata_is_mended_by_the_next_commit(make, monkeypatch, killed_before):
    table = make()
    with monkeypatch.context() as patch:
        for name in ("write", "write_if_absent"):
            method = getattr(LocalLogStore, name)

            def killed(store, path, content, method=method):
                if path.startswith(killed_before):
                    raise KeyboardInterrupt
                return method(store, path, content)

            patch.setattr(LocalLogStore, name, killed)
        with pytest.raises(KeyboardInterrupt):
            table.append({"id": 1, "v": "a"})
    assert table.by_pyiceberg() == []
    table = another_process(table)
    assert table.append({"id": 2, "v": "b"}).hook_failures == ()
    assert table.check() == [1, 2]


def test_metadata_whose_answer_was_lost_counts_as_written_and_keeps_its_manifests(make, monkeypatch):
    table = make()
    write = LocalLogStore.write_if_absent

    def answer_is_lost(store, path, content):
        write(store, path, content)
        if path.startswith("metadata/"):
            raise FileExistsError(path)

    monkeypatch.setattr(LocalLogStore, "write_if_absent", answer_is_lost)
    result = table.append({"id": 1, "v": "a"})
    assert (result.hook_failures, result.after_commit["iceberg"]["is_new"]) == ((), True)
    assert table.check() == [1]


def test_a_conversion_that_fails_leaves_no_manifests(make, monkeypatch):
    table = make()
    table.append({"id": 1, "v": "a"})
    write = LocalLogStore.write

    def full(store, path, content):
        if path.startswith("metadata/snap-"):
            raise OSError(28, "No space left on device")
        return write(store, path, content)

    with monkeypatch.context() as patch:
        patch.setattr(LocalLogStore, "write", full)
        result = table.append({"id": 2, "v": "b"})
    assert "No space left on device" in result.hook_failures[0]
    assert names(table, "*.avro") == needed(table)
    table.append({"id": 3, "v": "c"})
    assert table.check() == [1, 2, 3]


def test_metadata_is_written_where_the_storage_lets_us_delete_nothing(make, monkeypatch):
    monkeypatch.setattr("airflow_delta.core.operations.iceberg.conversion.MOST_KEPT", 2)
    table = make()
    create, other = LocalLogStore.write_if_absent, another_process(table)

    def refuse(store, _paths):
        raise StorageAccessError(uri=store.table_uri, detail="not allowed to delete")

    def is_too_late(store, path, content):
        if path == "metadata/v2.metadata.json" and store is table.log.store:
            other.append({"id": 9, "v": "z"})
        return create(store, path, content)

    monkeypatch.setattr(LocalLogStore, "delete", refuse)
    monkeypatch.setattr(LocalLogStore, "write_if_absent", is_too_late)
    results = [table.append({"id": number, "v": "a"}) for number in range(4)]
    assert [result.hook_failures for result in results] == [()] * 4
    assert table.check() == [0, 1, 2, 3, 9]


def test_rows_that_a_lost_commit_hid_by_deletion_vectors_stay_unconverted(make):
    table = make(**{V2: "false", V3: "true", "delta.feature.deletionVectors": "supported"})
    table.append({"id": 1, "v": "a"}, {"id": 2, "v": "b"})
    assert mark_rows_as_deleted(table).hook_failures
    result = table.append({"id": 3, "v": "c"})
    assert "1 file with deletion vectors" in result.hook_failures[0]
    assert [row["id"] for row in table.by_pyiceberg()] == [1, 2]  # as of the version before


def test_what_the_log_has_lost_is_named_anew_in_the_same_table_with_its_history(make, monkeypatch):
    table = make()
    table.append({"id": 1, "v": "a"})
    before = table.iceberg.metadata
    with_lost_conversion(monkeypatch, lambda: (table.replace(None, {"id": 2, "v": "b"}), table.append({"id": 3, "v": "b"})))
    table.log.checkpoint()
    for version in range(3):
        Path(table.root, "_delta_log", f"{version:020d}.json").unlink()
    table = another_process(table)
    assert table.append({"id": 4, "v": "c"}).after_commit["iceberg"]["is_from_scratch"] is True
    after = table.iceberg.metadata
    assert (after.table_uuid, after.last_sequence_number) == (before.table_uuid, before.last_sequence_number + 1)
    assert table.iceberg.current_snapshot().summary.operation.value == "overwrite"  # not new rows for incremental readers
    assert table.by_pyiceberg(snapshot_id=before.current_snapshot_id) == [{"id": 1, "v": "a"}]
    assert table.check() == [2, 3, 4]


# -- foreign files


@pytest.mark.parametrize(
    "forged",
    [
        {"properties": lambda old: {**old, "delta-version": "9" * 5_000}},
        {"properties": lambda old: {**old, "delta-version": "999999"}},
        {"last_sequence_number": (1 << 63) - 1},
        {"last_column_id": (1 << 31) - 1},
        {"schemas": lambda old: [{**each, "schema-id": (1 << 31) - 1} for each in old], "current_schema_id": (1 << 31) - 1},
        {"snapshots": lambda old: [{**each, "manifest-list": "s3://elsewhere/secret.avro"} for each in old]},
        {"snapshots": lambda old: [{**each, "manifest-list": each["manifest-list"] + "/../../x"} for each in old]},
        {
            "partition_specs": [
                {"spec-id": 0, "fields": [{"source-id": 77, "field-id": 1000, "transform": "identity", "name": "x"}]}
            ]
        },
    ],
)
def test_forged_metadata_is_not_gone_on_from(make, forged):
    table = make()
    table.append({"id": 1, "v": "a"})
    edit(table, **forged)
    result = table.append({"id": 2, "v": "b"})
    assert (result.hook_failures, result.after_commit["iceberg"]["is_from_scratch"]) == ((), True)
    assert table.check() == [1, 2]
    assert table.append({"id": 3, "v": "c"}).after_commit["iceberg"]["is_from_scratch"] is False
    assert table.check() == [1, 2, 3]


def avro(schema, *blocks, codec="deflate", magic=b"Obj\1"):
    """An Avro file with these blocks: (number of entries, content)."""
    stream, sync = io.BytesIO(), os.urandom(16)
    encoder = BinaryEncoder(stream)
    encoder.write(magic)
    meta = {"avro.schema": schema if isinstance(schema, str) else json.dumps(schema), "avro.codec": codec}
    encoder.write_int(len(meta))
    for key, value in meta.items():
        encoder.write_utf8(key)
        encoder.write_utf8(value)
    encoder.write_int(0)
    encoder.write(sync)
    for entries, content in blocks:
        packed = zlib.compress(content)[2:-4] if codec == "deflate" else content
        encoder.write_int(entries)
        encoder.write_bytes(packed)
        encoder.write(sync)
    return stream.getvalue()


RECORD = {"type": "record", "name": "manifest_entry", "fields": [{"name": "status", "type": "int", "field-id": 0}]}
EMPTY = {"type": "record", "name": "r1", "fields": [{"name": "x", "type": {"type": "record", "name": "r2", "fields": []}}]}
BOMB = bytes(1 << 20)


@pytest.mark.parametrize(
    "content",
    [
        avro(RECORD, (1, BOMB), (1, BOMB)),
        avro(RECORD, (1 << 60, b"\2")),
        avro(RECORD, (-1, b"\2")),
        avro({**RECORD, "fields": [{"name": "x", "type": {"type": "array", "items": EMPTY}}]}, (1, b"\2\2\2")),
        avro(RECORD, (1, b"\2"), codec="bzip2"),
        avro("[" * 5_000, (1, b"\2")),
        avro(RECORD, (1, b"\2"))[:60],
        avro(RECORD, (1, b"\2"), codec="null"),
        b"",
        b"Obj\1" + b"\xff" * 64,
    ],
)
def test_manifests_that_are_none_take_neither_memory_nor_time_and_are_written_anew(make, monkeypatch, content):
    monkeypatch.setattr(bounded_avro, "MOST_INFLATED", 1 << 20)
    table = make()
    table.append({"id": 1, "v": "a"})
    Path(table.root, "metadata", Path(table.iceberg.current_snapshot().manifest_list).name).write_bytes(content)
    result = table.append({"id": 2, "v": "b"})
    assert (result.hook_failures, result.after_commit["iceberg"]["is_from_scratch"]) == ((), True)
    assert table.check() == [1, 2]


def test_a_file_outside_of_the_table_that_the_log_names_is_not_named_to_icebergs_readers(make, tmp_path):
    table = make()
    table.append({"id": 1, "v": "a"})
    secret = tmp_path / "secret.parquet"
    shutil.copy(next(Path(table.root).glob("*.parquet")), secret)
    adds = table.written([{"id": 2, "v": "b"}])
    forged = adds.set_column(0, adds.schema.field(0), pa.array([f"file://{secret}"]))
    result = table.commit(adds=forged)
    assert result.hook_failures[0].startswith("PathOutsideTableError")
    assert table.by_pyiceberg() == [{"id": 1, "v": "a"}]
    allowed = DeltaLog.for_table(table.root, allowed_prefixes=[str(tmp_path)])
    table.log = allowed
    assert table.append({"id": 3, "v": "c"}).hook_failures == ()
    assert [row["id"] for row in table.by_pyiceberg()] == [1, 1, 3]


def test_the_newest_metadata_is_found_by_a_listing_where_the_hint_is_far_behind(make, monkeypatch):
    monkeypatch.setattr("airflow_delta.core.operations.iceberg.table_files._MOST_STEPS", 2)
    table = make()
    for number in range(5):
        table.append({"id": number, "v": "x"})
    Path(table.root, HINT).write_text("1")
    assert table.append({"id": 9, "v": "y"}).after_commit["iceberg"]["number"] == 7
    assert table.check() == [0, 1, 2, 3, 4, 9]


@pytest.mark.parametrize("fields", [[("a", 1), ("b", 1)], [("s.x", 1), ("s", 2)]])
def test_columns_that_no_iceberg_table_can_have_are_an_error_that_says_so(fields):
    struct = {"type": "struct", "fields": []}
    for name, number in fields:
        nested = {"name": "x", "type": "long", "nullable": True, "metadata": {"delta.columnMapping.id": 9}}
        kind = {"type": "struct", "fields": [nested]} if name == "s" else "long"
        struct["fields"].append({"name": name, "type": kind, "nullable": True, "metadata": {"delta.columnMapping.id": number}})
    with pytest.raises(IcebergConversionError, match=r"one id|cannot be those"):
        iceberg_schema(parse_schema(json.dumps(struct)), table="t")


def test_a_log_that_was_put_back_to_an_earlier_state_is_converted_as_it_is(make):
    table = make()
    for number in range(3):
        table.append({"id": number, "v": "x"})
    for version in (2, 3):
        for path in Path(table.root, "_delta_log").glob(f"{version:020d}.*"):
            path.unlink()
    table = another_process(table)
    result = table.append({"id": 7, "v": "y"})
    assert (result.version, result.after_commit["iceberg"]["is_from_scratch"]) == (2, True)
    assert table.check() == [0, 7]


# -- names


NAMES = ["a b", "é", "1x", "x-y", "select", "日", "a`b", 'q"q', "#?%"]


@pytest.mark.parametrize("name", NAMES)
def test_columns_and_partitions_of_every_name_are_read_and_pruned(make, name):
    quoted = name.replace("`", "``")
    table = make(f"id long, `{quoted}` string, s struct<`{quoted}`: int>", partition_by=[name])
    table.append({"id": 1, name: "x", "s": {name: 1}}, {"id": 2, name: None, "s": None})
    assert table.check() == [1, 2]
    table.replace("id = 1")
    table.append({"id": 3, name: "y", "s": {name: 2}})
    table.check()


def test_a_table_in_a_folder_of_many_characters_is_read(make):
    table = make(name="a b é +&=(1)")
    table.append({"id": 1, "v": "a"})
    assert table.check() == [1]
