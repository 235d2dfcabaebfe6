"""Checkpoints that name sidecars, or hold all actions in a JSON file, or are wrong."""

import json

import pyarrow as pa
import pytest

from airflow_delta.core.errors import CorruptLogError
from airflow_delta.core.log.file_names import checkpoint_path, sidecar_path, v2_checkpoint_path
from tests.core.builders import CHECKPOINT, HandmadeLog, add, metadata, protocol, remove

V2 = protocol(3, 7, readerFeatures=["v2Checkpoint"], writerFeatures=["v2Checkpoint"])
SCHEMA = CHECKPOINT.append(pa.field("checkpointMetadata", pa.struct({"version": pa.int64()}))).append(
    pa.field("sidecar", pa.struct({"path": pa.string(), "sizeInBytes": pa.int64(), "modificationTime": pa.int64()}))
)
SUFFIXES = pytest.mark.parametrize("suffix", ["json", "parquet"])


def manifest(handmade, suffix, *actions, version=1, path=None):
    path = path or v2_checkpoint_path(version, "3a0d65cd", suffix)
    if suffix == "parquet":
        handmade.checkpoint(version, *actions, path=path, schema=SCHEMA)
    else:
        handmade.store.write(path, "\n".join(map(json.dumps, actions)).encode())
    return path


def sidecar(path):
    return {"sidecar": {"path": path, "sizeInBytes": 1, "modificationTime": 1}}


def checkpoint_metadata(version=1):
    return {"checkpointMetadata": {"version": version}}


def whole_log():
    """Versions 0 to 2; at version 1 the files a and b are live and c is a tombstone."""
    return HandmadeLog().commit(V2, metadata(), add("a"), add("c")).commit(add("b"), remove("c")).commit(add("d"))


def log_with_sidecars(suffix, names=("x.parquet", "y.parquet"), **lies):
    handmade = whole_log()
    handmade.checkpoint(1, add("a"), remove("c"), path=sidecar_path("x.parquet"))
    handmade.checkpoint(1, add("b"), path=sidecar_path("y.parquet"))
    manifest(handmade, suffix, checkpoint_metadata(), V2, metadata(), *map(sidecar, names), **lies)
    return handmade.remove_commits(0, 1)


@SUFFIXES
def test_file_actions_are_read_from_the_sidecars(suffix):
    handmade = log_with_sidecars(suffix)
    assert handmade.paths() == ["a", "b", "d"]
    assert handmade.log.snapshot().tombstones()["path"].to_pylist() == ["c"]
    assert handmade.log.snapshot().segment.checkpoint.version == 1


@SUFFIXES
def test_sidecars_may_be_referenced_by_a_whole_uri_and_percent_encoded(suffix):
    handmade = log_with_sidecars(suffix, ["s3://elsewhere/t/_delta_log/_sidecars/x%2Eparquet", "y.parquet"])
    assert handmade.paths() == ["a", "b", "d"]


@SUFFIXES
def test_file_actions_may_stand_in_the_manifest_itself(suffix):
    handmade = whole_log()
    transaction = {"txn": {"appId": "app", "version": 7}}
    domain = {"domainMetadata": {"domain": "mine", "configuration": "{}", "removed": False}}
    actions = [add("a", partitionValues={"p": None}, stats='{"numRecords":3}'), add("b"), remove("c"), transaction, domain]
    manifest(handmade, suffix, checkpoint_metadata(), V2, metadata(), *actions)
    handmade.remove_commits(0, 1)
    snapshot = handmade.log.snapshot(1)
    assert sorted(snapshot.files()["path"].to_pylist()) == ["a", "b"]
    assert snapshot.files(columns=["num_records"])["num_records"].to_pylist() == [3, None]
    assert snapshot.tombstones()["path"].to_pylist() == ["c"]
    assert snapshot.transactions["app"].version == 7
    assert snapshot.domains["mine"].configuration == "{}"


def test_a_classic_checkpoint_may_tell_sidecars_too():
    handmade = log_with_sidecars("parquet", path=checkpoint_path(1))
    assert handmade.paths() == ["a", "b", "d"]


@SUFFIXES
@pytest.mark.parametrize(
    "actions",
    [
        [],
        [checkpoint_metadata(), checkpoint_metadata()],
        [checkpoint_metadata(2)],
        [checkpoint_metadata(), V2],
        [checkpoint_metadata(), metadata()],
        [checkpoint_metadata(), sidecar("..")],
    ],
    ids=["no metadata", "two", "of another version", "two protocols", "two table metadata", "a sidecar elsewhere"],
)
def test_a_manifest_that_is_none_is_passed_over_or_reported(suffix, actions):
    handmade = whole_log()
    path = manifest(handmade, suffix, V2, metadata(), add("lie"), *actions)
    assert handmade.paths() == ["a", "b", "d"]
    handmade.remove_commits(0, 1)
    with pytest.raises(CorruptLogError) as caught:
        handmade.paths()
    assert caught.value.file == path


@SUFFIXES
def test_without_a_sidecar_the_commits_serve_and_without_them_the_sidecar_is_named(suffix):
    handmade = log_with_sidecars(suffix)
    handmade.store.delete([sidecar_path("y.parquet")])
    with pytest.raises(CorruptLogError) as caught:
        handmade.paths()
    assert caught.value.file == sidecar_path("y.parquet")
    handmade.commit(V2, metadata(), add("a"), add("c"), version=0).commit(add("b"), remove("c"), version=1)
    assert handmade.paths() == ["a", "b", "d"]
    assert handmade.log.snapshot().tombstones()["path"].to_pylist() == ["c"]


def test_a_broken_line_of_a_manifest_is_reported():
    handmade = whole_log()
    handmade.store.write(v2_checkpoint_path(1, "u", "json"), b'{"checkpointMetadata":{"version":1}}\n{"add":{"path":')
    handmade.remove_commits(0, 1)
    with pytest.raises(CorruptLogError):
        handmade.paths()
