"""Manifests name exactly the live files, partition by partition, for readers that do not know Delta."""

import json

import duckdb
import pyarrow as pa
import pytest

from airflow_delta.core.errors import ManifestUnsupportedError
from airflow_delta.core.log.commit_reader import read_commit
from airflow_delta.core.operations.manifest import ManifestResult, update_manifests
from airflow_delta.core.table_changes import NewTable
from tests.core.builders import HandmadeLog, add, deletion_vector, metadata, protocol, remove

ENABLED = {"delta.compatibility.symlinkFormatManifest.enabled": "true"}


def manifests(root):
    """The lines of each manifest by its directory."""
    found = (root / "_symlink_format_manifest").rglob("manifest")
    return {
        path.parent.relative_to(root / "_symlink_format_manifest").as_posix(): path.read_text().splitlines() for path in found
    }


def in_store(log):
    prefix = "_symlink_format_manifest/"
    return {file.path.removeprefix(prefix): log.store.read(file.path).decode() for file in log.store.list_all(prefix)}


def test_a_manifest_for_each_partition_names_its_files(real_table):
    table = real_table()
    rows = [("p=a b/0.parquet", "a b"), ("p=a b/1.parquet", "a b"), ("p=x%3Dy/2.parquet", "x=y"), ("n/3.parquet", None)]
    adds = [
        table.add(path, number, value, log_path=path.replace("%", "%25").replace(" ", "%20"))
        for number, (path, value) in enumerate(rows)
    ]
    table.commit(adds=pa.concat_tables(adds))

    assert table.log.generate_manifests() == ManifestResult(version=1, written=3, deleted=0, files=4)

    found = manifests(table.root)
    assert {directory: sorted(lines) for directory, lines in found.items()} == {
        "p=a b": [f"file:{table.root}/p=a b/0.parquet", f"file:{table.root}/p=a b/1.parquet"],
        "p=x%3Dy": [f"file:{table.root}/p=x%3Dy/2.parquet"],
        "p=__HIVE_DEFAULT_PARTITION__": [f"file:{table.root}/n/3.parquet"],
    }
    files = [line.removeprefix("file:") for lines in found.values() for line in lines]
    assert sorted(duckdb.read_parquet(files, hive_partitioning=False).fetchall()) == [(0,), (1,), (2,), (3,)]


def test_manifests_of_partitions_that_are_no_more_go(real_table):
    table = real_table()
    adds = [table.add(f"p={value}/f.parquet", 1, value) for value in "ab"]
    table.commit(adds=pa.concat_tables(adds))
    table.log.generate_manifests()
    table.commit(removes=table.tombstones(adds[0]))
    assert set(manifests(table.root)) == {"p=a", "p=b"}
    assert table.log.generate_manifests() == ManifestResult(version=2, written=1, deleted=1, files=1)
    assert set(manifests(table.root)) == {"p=b"}


def test_a_table_without_partitions_has_one_manifest_also_when_it_is_empty():
    log = HandmadeLog(allowed_prefixes=["file:/elsewhere"]).create()
    log.log.generate_manifests()
    assert in_store(log) == {"manifest": ""}
    log.commit(add("f"), add("file:/elsewhere/a%20b"))
    log.log.generate_manifests()
    assert sorted(in_store(log)["manifest"].splitlines()) == ["file:/elsewhere/a b", "memory://handmade/f"]


def test_an_empty_table_with_partitions_has_none():
    log = HandmadeLog().create(partition_columns=["p"])
    assert log.log.generate_manifests() == ManifestResult(version=0, written=0, deleted=0, files=0)


@pytest.mark.parametrize("reason", ["columnMapping", "deletionVectors"])
def test_tables_that_such_readers_would_read_wrong_are_refused(reason):
    features = {"readerFeatures": [reason], "writerFeatures": [reason]}
    properties = {"delta.columnMapping.mode": "name"} if reason == "columnMapping" else {}
    actions = [add("f", deletionVector=deletion_vector("R!d7:<%0gFV.CDqHrD0:", 1))] if reason == "deletionVectors" else []
    log = HandmadeLog().commit(protocol(3, 7, **features), metadata(**properties), *actions)
    with pytest.raises(ManifestUnsupportedError):
        log.log.generate_manifests()
    assert in_store(log) == {}


# -- after each commit


def test_a_name_with_a_line_break_makes_no_line_of_its_own():
    log = HandmadeLog().create(add("f%0As3://other/secret.parquet"))
    with pytest.raises(ManifestUnsupportedError, match="line break"):
        log.log.generate_manifests()
    assert in_store(log) == {}


def test_the_table_may_ask_for_manifests_after_each_commit(real_table):
    table = real_table(**ENABLED)
    adds = [table.add(f"p={value}/f.parquet", 1, value) for value in "abc"]
    table.commit(adds=pa.concat_tables(adds[:2]))
    assert set(manifests(table.root)) == {"p=a", "p=b"}
    unchanged = table.root / "_symlink_format_manifest" / "p=b" / "manifest"
    unchanged.write_text("not touched")
    table.commit(removes=table.tombstones(adds[0]), adds=adds[2])
    assert manifests(table.root) == {"p=b": ["not touched"], "p=c": [f"file:{table.root}/p=c/f.parquet"]}


def test_a_table_that_did_not_ask_gets_none(real_table):
    table = real_table()
    table.commit(adds=table.add("p=a/f.parquet", 1, "a"))
    assert manifests(table.root) == {}


def test_a_removed_file_without_partition_values_makes_all_manifests_anew():
    values = {"partitionValues": {"p": "a"}}
    log = HandmadeLog().create(add("p=a/f", **values), add("p=a/g", **values), partition_columns=["p"])
    log.log.generate_manifests()
    log.commit(remove("p=a/f"))
    snapshot = log.log.snapshot()
    assert update_manifests(snapshot, read_commit(log.store, 1)).files == 1
    assert in_store(log) == {"p=a/manifest": "memory://handmade/p=a/g\n"}


def test_a_table_that_is_partitioned_by_other_columns_keeps_no_manifest_of_the_former_ones(real_table):
    table = real_table(**ENABLED)
    table.commit(adds=table.add("p=a/f.parquet", 1, "a"))
    assert set(manifests(table.root)) == {"p=a"}
    schema = table.log.snapshot().schema
    table.log.create(NewTable(schema=schema, partition_columns=["n"], properties=ENABLED), mode="replace")
    assert manifests(table.root) == {}


def test_a_commit_stands_though_its_manifests_cannot_be_written(real_table, monkeypatch):
    table = real_table(**ENABLED)
    write = table.log.store.write

    def fail(path, content):
        if "manifest" in path:
            raise OSError("read-only")
        write(path, content)

    monkeypatch.setattr(table.log.store, "write", fail)
    result = table.commit(adds=table.add("p=a/f.parquet", 1, "a"))
    assert (result.version, [failure.partition(":")[0] for failure in result.hook_failures]) == (1, ["OSError"])
    monkeypatch.undo()
    table.log.generate_manifests()
    assert json.dumps(manifests(table.root)).count("f.parquet") == 1
