"""Checkpoints of version 2: a manifest that names sidecars, as other engines read it."""

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from airflow_delta.core.actions import Metadata, Protocol, SetTransaction, removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError, VersionNotFoundError
from airflow_delta.core.log.file_names import LAST_CHECKPOINT, checkpoint_path
from airflow_delta.core.log.json_checksum import json_checksum
from airflow_delta.core.operations.checkpoints import CheckpointKind
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.transaction.operation import Operation

WRITE = Operation(name="WRITE")
FEATURES = frozenset({"v2Checkpoint"})
PROTOCOL = Protocol(min_reader_version=3, min_writer_version=7, reader_features=FEATURES, writer_features=FEATURES)
V2 = [CheckpointKind.V2_JSON, CheckpointKind.V2_PARQUET]


@pytest.fixture
def table(real_table, monkeypatch):
    """A table of six files, three partitions, an application and a tombstone, with sidecars of two files."""
    monkeypatch.setattr("airflow_delta.core.operations.checkpoints.content.ROWS_OF_GROUP", 1)
    table = real_table()
    transaction = table.log.start_transaction()
    transaction.set_protocol(PROTOCOL)
    transaction.commit(operation=WRITE)
    for number, partition in enumerate(["a b%", None, "é", "x", "x", "x=1/y"]):
        table.commit(adds=table.add(f"part/f{number}.parquet", number, partition))
    table.commit(transactions=[SetTransaction(app_id="app", version=3, last_updated=table.log.clock())])
    gone = table.log.refresh().files("n = 0")
    table.commit(removes=removes_of(gone, deletion_timestamp=table.log.clock(), data_change=True))
    return table


ROWS = [(1, None), (2, "é"), (3, "x"), (4, "x"), (5, "x=1/y")]


def only_the_checkpoint(source, target, version):
    shutil.copytree(source, target)
    for path in (target / "_delta_log").glob("0*"):
        if path.name[:20] < f"{version:020d}" or path.name == f"{version:020d}.json":
            path.unlink()
    return target


@pytest.mark.parametrize("kind", V2)
def test_other_engines_read_the_table_from_manifest_and_sidecars_alone(table, tmp_path, duckdb_connection, kind):
    result = table.log.checkpoint(kind=kind)
    assert (result.version, result.files) == (9, 5)
    sidecars = sorted((table.root / "_delta_log" / "_sidecars").iterdir())
    assert len(sidecars) == 3
    copy = only_the_checkpoint(table.root, tmp_path / "copy", 9)
    other = DeltaTable(copy)
    files = pa.table(other.get_add_actions(flatten=True)).select(["path", "partition.p"]).to_pydict()  # its rows it refuses
    expected = [(f"part/f{number}.parquet", partition) for number, partition in ROWS]
    assert sorted(zip(*files.values(), strict=True)) == expected
    assert other.transaction_version("app") == 3
    assert duckdb_connection.sql(f"SELECT n, p FROM delta_scan('{copy}') ORDER BY n").fetchall() == ROWS
    assert duckdb_connection.sql(f"SELECT n FROM delta_scan('{copy}') WHERE p = 'x' ORDER BY n").fetchall() == [(3,), (4,)]


@pytest.mark.parametrize("kind", V2)
def test_a_kind_may_be_given_as_text(table, kind):
    assert table.log.checkpoint(kind=str(kind)).kind is kind
    with pytest.raises(InvalidStatementError, match=rf"kind must be one of .*; did you mean '{kind}'?"):
        table.log.checkpoint(kind=str(kind).replace("-", ""))


@pytest.mark.parametrize("kind", V2)
def test_we_read_what_we_wrote(table, tmp_path, kind):
    before = table.log.refresh()
    table.log.checkpoint(kind=kind)
    after = DeltaLog.for_table(str(only_the_checkpoint(table.root, tmp_path / "copy", 9))).refresh()
    assert after.segment.commits == {}
    assert (after.protocol, after.metadata, after.transactions) == (before.protocol, before.metadata, before.transactions)
    assert sorted(after.files()["path"].to_pylist()) == sorted(before.files()["path"].to_pylist())
    assert after.tombstones()["path"].to_pylist() == ["part/f0.parquet"]


def test_the_policy_of_the_table_decides(table):
    assert table.log.checkpoint().kind is CheckpointKind.CLASSIC
    transaction = table.log.start_transaction()
    configuration = {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "11"}
    snapshot = transaction.snapshot
    metadata = Metadata(id="m", schema_string=snapshot.schema_string, partition_columns=("p",), configuration=configuration)
    transaction.set_metadata(metadata)
    transaction.commit(operation=WRITE)
    assert table.log.checkpoint().kind is CheckpointKind.V2_JSON
    table.commit(adds=table.add("later.parquet", 7))  # version 11: due by itself
    manifests = [path.name for path in (table.root / "_delta_log").glob(f"{11:020d}.checkpoint.*.json")]
    assert len(manifests) == 1


def test_the_hint_holds_what_the_manifest_says_as_long_as_that_is_little(table):
    result = table.log.checkpoint(kind=CheckpointKind.V2_JSON)
    hint = json.loads(table.log.store.read(LAST_CHECKPOINT))
    assert list(hint) == ["version", "size", "sizeInBytes", "numOfAddFiles", "v2Checkpoint", "checksum"]
    assert (hint["version"], hint["size"], hint["numOfAddFiles"]) == (9, result.actions, 5)
    assert hint["checksum"] == json_checksum(hint)
    manifest = [json.loads(line) for line in table.log.store.read(result.path).splitlines()]
    described = hint["v2Checkpoint"]
    assert result.path.endswith(described["path"])
    assert described["nonFileActions"] == [action for action in manifest if "sidecar" not in action]
    assert described["sidecarFiles"] == [action["sidecar"] for action in manifest if "sidecar" in action]
    assert hint["sizeInBytes"] == result.bytes == described["sizeInBytes"] + sum(
        sidecarFile["sizeInBytes"] for sidecarFile in described["sidecarFiles"]
    )  # fmt: skip


def test_a_manifest_names_its_version_and_sidecars_that_are_there(table):
    result = table.log.checkpoint(kind=CheckpointKind.V2_PARQUET)
    rows = pq.read_table(table.root / result.path).to_pylist()
    assert [row["checkpointMetadata"]["version"] for row in rows if row["checkpointMetadata"]] == [9]
    sidecars = [row["sidecar"] for row in rows if row["sidecar"]]
    actions = 0
    for sidecar in sidecars:
        path = table.root / "_delta_log" / "_sidecars" / sidecar["path"]
        assert path.stat().st_size == sidecar["sizeInBytes"]
        columns = pq.read_schema(path).names
        assert columns == ["add", "remove"]
        actions += pq.read_metadata(path).num_rows
    assert actions == 6


@pytest.mark.parametrize("kind", V2)
def test_a_table_without_files_has_a_manifest_alone(kind):
    log = DeltaLog(InMemoryLogStore())
    metadata = Metadata(id="m", schema_string='{"type":"struct","fields":[]}')
    log.create_transaction(metadata, PROTOCOL).commit(operation=WRITE)
    result = log.checkpoint(kind=kind)
    assert (result.actions, result.files) == (3, 0)
    assert list(log.store.list_from("_delta_log/_sidecars")) == []
    log.store.delete(["_delta_log/00000000000000000000.json"])
    assert DeltaLog(log.store).refresh().metadata == metadata


@pytest.mark.parametrize("kind", V2)
def test_a_table_that_does_not_know_them_gets_none(real_table, kind):
    table = real_table()
    with pytest.raises(InvalidStatementError, match="v2Checkpoint"):
        table.log.checkpoint(kind=kind)
    assert not table.log.store.exists(LAST_CHECKPOINT)


@pytest.mark.parametrize("kind", V2)
def test_a_failure_before_the_manifest_leaves_no_checkpoint(table, monkeypatch, kind):
    def fail(*_args, **_kwargs):
        raise OSError("disk full")

    monkeypatch.setattr("airflow_delta.core.operations.checkpoints.layout._write_manifest", fail)
    with pytest.raises(OSError, match="disk full"):
        table.log.checkpoint(kind=kind)
    assert not [path for path in (table.root / "_delta_log").iterdir() if "checkpoint" in path.name]
    assert DeltaLog.for_table(str(table.root)).refresh().version == 9


def test_a_protected_version_gets_no_checkpoint_afterwards():
    log = DeltaLog(InMemoryLogStore())
    configuration = {"delta.requireCheckpointProtectionBeforeVersion": "2"}
    metadata = Metadata(id="m", schema_string='{"type":"struct","fields":[]}', configuration=configuration)
    log.create_transaction(metadata).commit(operation=WRITE)
    for _ in range(3):
        log.start_transaction().commit(operation=WRITE, allow_empty=True)
    with pytest.raises(InvalidStatementError, match="no checkpoint may be added before version 2"):
        log.checkpoint(1)
    with pytest.raises(VersionNotFoundError):
        log.checkpoint(-3)
    assert log.checkpoint(2).version == 2
    assert not log.store.exists(checkpoint_path(1))


@pytest.mark.parametrize(("codec", "stored"), [("zstd", "ZSTD"), ("uncompressed", "UNCOMPRESSED"), (None, "SNAPPY")])
@pytest.mark.parametrize("kind", CheckpointKind)
def test_every_parquet_file_of_a_checkpoint_has_the_codec_of_the_table(
    real_table, tmp_path, duckdb_connection, kind, codec, stored
):
    table = real_table(**({} if codec is None else {"delta.parquet.compression.codec": codec}))
    if kind.is_v2:
        transaction = table.log.start_transaction()
        transaction.set_protocol(PROTOCOL)
        transaction.commit(operation=WRITE)
    table.commit(adds=table.add("f.parquet", 7, "x"))
    version = table.log.checkpoint(kind=kind).version

    files = [pq.read_metadata(file) for file in (table.root / "_delta_log").rglob("*.parquet")]
    assert {file.row_group(0).column(0).compression for file in files if file.num_row_groups} == {stored}
    copy = only_the_checkpoint(table.root, tmp_path / "copy", version)
    assert duckdb_connection.sql(f"SELECT n FROM delta_scan('{copy}')").fetchall() == [(7,)]
