"""A clone reads its source's files, owns none of them, and starts a history of its own."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    CloneTargetNotEmptyError,
    InvalidStatementError,
    InvalidTableDefinitionError,
    InvalidTablePropertyError,
    TableExistsError,
    UnsupportedStorageError,
    VersionNotFoundError,
)
from airflow_delta.core.operations.absolute_paths import absolute_deletion_vectors, absolute_paths, encoded_root
from airflow_delta.core.operations.clone import CloneResult, cloned_metadata
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.data_types import LONG
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.table_changes import NewTable
from airflow_delta.core.transaction.operation import Operation
from tests.core.builders import HandmadeLog, add, deletion_vector

OPERATION = Operation(name="DELETE")
DELETION_VECTOR_TEXT, DELETION_VECTOR_NAME = "R!d7:<%0gFV.CDqHrD0:", "deletion_vector_a7662111-e622-43dc-b3a2-c65286cb99a9.bin"


@pytest.fixture
def source(real_table):
    """Versions 1 and 2: the rows 0, 1 and then 2, in partitions whose names need encoding."""
    table = real_table(**{"user.key": "kept"})
    adds = [
        table.add(f"p=a b/{number} é.parquet", number, "a b", log_path=f"p=a%20b/{number}%20%C3%A9.parquet", age_days=30)
        for number in range(3)
    ]
    table.commit(adds=pa.concat_tables(adds[:2]))
    table.commit(adds=adds[2])
    return table


def queried(root):
    """The rows as deltalake's query engine reads them: it supports absolute paths (its datasets, and duckdb, do not)."""
    return pa.table(QueryBuilder().register("clone", DeltaTable(root)).execute("SELECT * FROM clone").read_all())


def numbers(table):
    return sorted(table["n"].to_pylist())


def test_a_clone_holds_the_rows_of_its_source(source, tmp_path):
    target = tmp_path / "the clone"
    result = source.log.shallow_clone(str(target), origin=Origin(job={"jobName": "copy"}))
    size = sum(source.log.snapshot().files()["size"].to_pylist())
    assert result == CloneResult(version=0, source_version=2, files=3, bytes=size)
    clone = DeltaLog.for_table(str(target))
    assert numbers(clone.snapshot().to_arrow().read_all()) == [0, 1, 2]
    assert numbers(clone.snapshot().to_arrow(where="n > 1 AND p = 'a b'").read_all()) == [2]
    assert numbers(queried(target)) == [0, 1, 2]
    assert not list(target.rglob("*.parquet"))


def test_a_clone_has_an_identity_and_a_history_of_its_own(source, tmp_path):
    source.log.shallow_clone(str(tmp_path / "clone"), version=1, properties={"user.other": "new", "DELTA.appendonly": "true"})
    clone, original = DeltaLog.for_table(str(tmp_path / "clone")), source.log.snapshot(1)
    snapshot = clone.snapshot()
    assert snapshot.version == 0
    assert numbers(snapshot.to_arrow().read_all()) == [0, 1]
    assert snapshot.metadata.id != original.metadata.id
    assert snapshot.metadata.configuration == {"user.key": "kept", "user.other": "new", "delta.appendOnly": "true"}
    assert (snapshot.schema, snapshot.partition_columns, snapshot.protocol) == (
        original.schema,
        original.partition_columns,
        original.protocol,
    )
    info = clone.history()[0].commit_info
    size = str(sum(original.files()["size"].to_pylist()))
    assert (info.operation, info.operation_parameters) == (
        "CLONE",
        {"source": f"delta.`file:{source.root}`", "sourceVersion": 1, "isShallow": True},
    )
    assert info.operation_metrics == {
        "sourceTableSize": size, "sourceNumOfFiles": "2", "numRemovedFiles": "0",
        "numCopiedFiles": "0", "removedFilesSize": "0", "copiedFilesSize": "0",
    }  # fmt: skip


def test_a_clone_lives_on_and_its_vacuum_deletes_no_file_of_its_source(source, tmp_path):
    source.log.shallow_clone(str(tmp_path / "clone"))
    clone = DeltaLog.for_table(str(tmp_path / "clone"))
    files = clone.snapshot().files()
    transaction = clone.start_transaction()
    transaction.read_whole_table()
    from_clone = source.tombstones(files)
    transaction.commit(removes=from_clone, operation=OPERATION)
    stray = tmp_path / "clone" / "stray.parquet"
    stray.write_text("x")
    os.utime(stray, (1, 1))
    for lite in (False, True):
        clone.vacuum(0, enforce_retention=False, lite=lite)
    assert not stray.exists()
    assert numbers(source.log.snapshot().to_arrow().read_all()) == [0, 1, 2]
    clone.restore(0)
    assert numbers(clone.snapshot().to_arrow().read_all()) == [0, 1, 2]


def test_a_source_below_its_clone_is_another_table(source, tmp_path):
    source.log.shallow_clone(str(tmp_path))
    clone = DeltaLog.for_table(str(tmp_path))
    transaction = clone.start_transaction()
    transaction.read_whole_table()
    transaction.commit(removes=source.tombstones(clone.snapshot().files()), operation=OPERATION)
    clone.vacuum(0, enforce_retention=False)
    assert numbers(source.log.snapshot().to_arrow().read_all()) == [0, 1, 2]


def test_a_clone_can_be_cloned(source, tmp_path):
    source.log.shallow_clone(str(tmp_path / "first"))
    first = DeltaLog.for_table(str(tmp_path / "first"))
    first.shallow_clone(str(tmp_path / "second"))
    second = DeltaLog.for_table(str(tmp_path / "second")).snapshot()
    assert numbers(second.to_arrow().read_all()) == [0, 1, 2]
    assert second.files()["path"].to_pylist() == first.snapshot().files()["path"].to_pylist()


# -- onto an existing table


def test_a_table_in_the_way_is_refused_left_or_taken_over(source, tmp_path):
    target = str(tmp_path / "clone")
    source.log.shallow_clone(target, version=0)
    with pytest.raises(TableExistsError):
        source.log.shallow_clone(target)
    left = source.log.shallow_clone(target, mode="ignore")
    assert (left.version, left.created) == (0, False)
    before = DeltaLog.for_table(target).snapshot().metadata
    taken = source.log.shallow_clone(target, mode="replace")
    after = DeltaLog.for_table(target).snapshot()
    assert (taken.version, after.version, after.metadata.id) == (1, 1, before.id)
    assert numbers(after.to_arrow().read_all()) == [0, 1, 2]
    with pytest.raises(CloneTargetNotEmptyError) as caught:
        source.log.shallow_clone(target, mode="replace")
    assert caught.value.files == 3


def test_older_versions_of_a_clone_are_read_after_another_table_was_cloned_in_its_place(source, tmp_path):
    target = str(tmp_path / "clone")
    source.log.shallow_clone(target)
    clone = DeltaLog.for_table(target)
    emptying = clone.start_transaction()
    emptying.commit(removes=source.tombstones(emptying.files()), operation=OPERATION)
    other = tmp_path / "other"
    write_deltalake(other, pa.table({"n": pa.array([7], pa.int64())}))
    for _ in range(2):
        DeltaLog.for_table(str(other)).shallow_clone(target, mode="replace")
        clone = DeltaLog.for_table(target)
        assert numbers(clone.snapshot().to_arrow().read_all()) == [7]
        assert numbers(clone.snapshot(0).to_arrow().read_all()) == [0, 1, 2]
        clone.restore(1)
    clone.restore(0)
    assert numbers(DeltaLog.for_table(target).snapshot().to_arrow().read_all()) == [0, 1, 2]


def test_the_clustering_columns_of_a_table_that_is_taken_over_end(source, tmp_path):
    target = DeltaLog.for_table(str(tmp_path / "clustered"))
    schema = StructType((StructField("other", LONG),))
    target.create(NewTable(schema=schema, clustering_columns=["other"]))
    source.log.shallow_clone(target, mode="replace")
    assert target.snapshot().domains == {}


def test_a_table_cannot_be_cloned_onto_itself(source):
    with pytest.raises(TableExistsError):
        source.log.shallow_clone(str(source.root))


def test_an_unknown_version_or_another_kind_of_storage_is_refused(source, tmp_path):
    with pytest.raises(VersionNotFoundError):
        source.log.shallow_clone(str(tmp_path / "clone"), version=9)
    elsewhere = DeltaLog(InMemoryLogStore("s3://bucket/clone"))
    with pytest.raises(UnsupportedStorageError):
        source.log.shallow_clone(elsewhere)
    with pytest.raises(UnsupportedStorageError):
        HandmadeLog().create().log.shallow_clone(DeltaLog(InMemoryLogStore("memory://other")))
    assert not elsewhere.exists()


# -- what is copied, and how


@pytest.mark.parametrize(
    ("uri", "path", "absolute"),
    [
        ("/t", "p=a%20b/f", "file:/t/p=a%20b/f"), ("/a b", "f", "file:/a%20b/f"), ("file:///t/", "f", "file:/t/f"),
        ("/t", "/u/f", "file:/u/f"), ("/t", "file:///u/f", "file:///u/f"), ("s3a://b/é", "f", "s3a://b/%C3%A9/f"),
        ("s3://b/t", "s3://c/f", "s3://c/f"), ("/a%20b", "f", "file:/a%2520b/f"), ("/t", "a:b/f", "file:/t/a:b/f"),
        ("abfss://c@a.dfs.core.windows.net/t", "f", "abfss://c@a.dfs.core.windows.net/t/f"),
    ],
)  # fmt: skip
def test_a_path_becomes_a_uri(uri, path, absolute):
    assert absolute_paths(pa.chunked_array([[path]]), uri).to_pylist() == [absolute]


def test_deletion_vectors_get_absolute_paths_and_inline_ones_stay():
    inline = {**deletion_vector("^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"), "storageType": "i"}
    files = [
        add("a", deletionVector=deletion_vector(f"ab{DELETION_VECTOR_TEXT}", 7)),
        add("b", deletionVector=inline),
        add("c"),
    ]
    deletion_vectors = HandmadeLog().create(*files).log.snapshot().files().sort_by("path")["deletion_vector"]
    made = absolute_deletion_vectors(deletion_vectors, "/x y").to_pylist()
    assert made[0] == {
        "storage_type": "p", "path_or_inline_dv": f"file:/x%20y/ab/{DELETION_VECTOR_NAME}",
        "offset": 7, "size_in_bytes": 1, "cardinality": 1,
    }  # fmt: skip
    assert made[1:] == [deletion_vectors[1].as_py(), None]
    assert absolute_deletion_vectors(absolute_deletion_vectors(deletion_vectors, "/x y"), "/z").to_pylist() == made


def test_properties_may_ask_for_more_of_readers_and_writers(source, tmp_path):
    source.log.shallow_clone(str(tmp_path / "clone"), properties={"delta.feature.vacuumProtocolCheck": "supported"})
    protocol = DeltaLog.for_table(str(tmp_path / "clone")).snapshot().protocol
    assert "vacuumProtocolCheck" in protocol.reader_features
    with pytest.raises(InvalidTablePropertyError):
        source.log.shallow_clone(str(tmp_path / "other"), properties={"delta.appendOnly": "maybe"})


def test_a_clone_that_tracks_rows_unlike_its_source_has_columns_to_keep_their_ids_in(source, tmp_path):
    source.log.shallow_clone(str(tmp_path / "clone"), properties={"delta.enableRowTracking": "true"})
    snapshot = DeltaLog.for_table(str(tmp_path / "clone")).snapshot()
    prefix = "delta.rowTracking.materializedRow"
    names = [snapshot.metadata.configuration[f"{prefix}{name}ColumnName"] for name in ("Id", "CommitVersion")]
    assert [name.rsplit("-col-", 1)[0] for name in names] == ["_row-id", "_row-commit-version"]
    rows = snapshot.to_arrow(with_row_ids=True).read_all()
    assert sorted(rows["__row_id"].to_pylist()) == [0, 1, 2]


def test_properties_with_which_no_table_can_be_are_refused(source, tmp_path):
    source.log.alter().set_properties({"delta.enableRowTracking": "true"})
    with pytest.raises(InvalidTableDefinitionError, match="both true"):
        source.log.shallow_clone(str(tmp_path / "clone"), properties={"delta.rowTrackingSuspended": "true"})
    assert not (tmp_path / "clone").exists()


def test_row_ids_begin_anew_and_are_not_read_from_the_files_of_the_source():
    key = "delta.rowTracking.materializedRowIdColumnName"
    properties = {key: "_row-id-col-1", "delta.inCommitTimestampEnablementVersion": "3", "user.key": "x"}
    original = HandmadeLog().create(**properties).log.snapshot().metadata
    made = cloned_metadata(original, None, {}, now=7)
    assert set(made.configuration) == {key, "user.key"}
    assert made.configuration[key] != original.configuration[key]
    assert (made.created_time, made.name) == (7, None)


def test_a_clone_maps_its_columns_as_its_source_does():
    original = HandmadeLog().create().log.snapshot().metadata
    with pytest.raises(InvalidStatementError):
        cloned_metadata(original, None, {"delta.columnMapping.mode": "name"}, now=0)


@pytest.mark.parametrize("name", ["dv_basic", "dv_optimized", "restored"])
def test_a_clone_of_a_table_of_spark_hides_the_same_rows(golden_table, tmp_path, name):
    root = golden_table(name)
    source = DeltaLog.for_table(str(root))
    source.shallow_clone(str(tmp_path / "clone"))
    clone = DeltaLog.for_table(str(tmp_path / "clone"))
    rows, ours = (sorted(map(str, log.snapshot().to_arrow().read_all().to_pylist())) for log in (source, clone))
    assert ours == rows
    assert len(queried(tmp_path / "clone")) == len(rows)


def test_the_files_of_a_clone_are_marked_as_new_data(source, tmp_path):
    source.log.shallow_clone(str(tmp_path / "clone"))
    lines = (tmp_path / "clone" / "_delta_log" / "00000000000000000000.json").read_text().splitlines()
    adds = [json.loads(line)["add"] for line in lines if '"add"' in line]
    assert {add["dataChange"] for add in adds} == {True}
    assert all(add["path"].startswith(encoded_root(str(source.root))) for add in adds)
    assert {Path(add["path"]).suffix for add in adds} == {".parquet"}
