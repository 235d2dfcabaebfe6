"""A checkpoint has the full state of the commits before it, for us and for other engines."""

import json
import shutil
import threading
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from airflow_delta.core.actions import ADD_FILE, REMOVE_FILE, DomainMetadata, Metadata, Protocol, SetTransaction, removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import UnsupportedWriterFeatureError
from airflow_delta.core.log.checkpoint_reader import read_header
from airflow_delta.core.log.file_names import LAST_CHECKPOINT, checkpoint_path, commit_path
from airflow_delta.core.log.json_checksum import json_checksum
from airflow_delta.core.operations.checkpoints.checkpoint_writer import write_checkpoint
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.transaction.operation import Operation
from tests.golden_tables import TABLES

WRITE = Operation(name="WRITE")
DAY = 86_400_000
NOW = 1_700_000_000_000


def only_the_checkpoint(source, target, version):
    """A copy of the table in which only the checkpoint holds the state of earlier versions."""
    shutil.copytree(source, target)
    for path in (target / "_delta_log").iterdir():
        if path.name.startswith("0") and path.name[:20] < f"{version:020d}":
            path.unlink()
    return target


def in_memory(schema_string='{"type":"struct","fields":[]}', *, protocol=None, **configuration):
    log = DeltaLog(InMemoryLogStore(clock=lambda: NOW), clock=lambda: NOW)
    metadata = Metadata(id="m", schema_string=schema_string, configuration=configuration, name="flights", created_time=7)
    log.create_transaction(metadata, protocol).commit(operation=WRITE)
    return log


def reopened(log, version):
    """The table as read from the checkpoint alone."""
    log.store.delete([commit_path(commit_version) for commit_version in range(version)])
    return DeltaLog(log.store, clock=log.clock).snapshot(version)


def by_path(files):
    return sorted(files.to_pylist(), key=lambda row: row["path"])


# -- what it holds


def test_everything_the_commits_said_is_in_the_checkpoint():
    protocol = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=frozenset({"deletionVectors"}),
        writer_features=frozenset({"deletionVectors", "domainMetadata"}),
    )
    log = in_memory(protocol=protocol, **{"delta.appendOnly": "false", "user key": 'a "quoted" é'})
    deletion_vector = {"storage_type": "u", "path_or_inline_dv": "ab", "offset": 1, "size_in_bytes": 2, "cardinality": 3}
    rows = [
        {
            "path": "a%20b",
            "partition_values": [("p", None), ("q", "")],
            "stats": '{"numRecords":1}',
            "deletion_vector": deletion_vector,
        },
        {"path": "c", "partition_values": [], "tags": [("k", "v")], "base_row_id": 0, "default_row_commit_version": 4},
        {"path": "d", "partition_values": [("p", "x")], "clustering_provider": "liquid"},
        {"path": "gone", "partition_values": [("p", "y")], "stats": '{"numRecords":9}'},
    ]
    rows = [{"size": 2**40, "modification_time": 5, "data_change": True, **row} for row in rows]
    adds = pa.Table.from_pylist(rows, schema=ADD_FILE)
    log.start_transaction().commit(
        adds=adds,
        transactions=[SetTransaction(app_id="app", version=2**40, last_updated=NOW), SetTransaction(app_id="b", version=0)],
        domains=[DomainMetadata(domain="d", configuration="{}"), DomainMetadata(domain="e", configuration="1")],
        operation=WRITE,
    )
    log.start_transaction().commit(
        removes=removes_of(adds.slice(3), deletion_timestamp=NOW - DAY, data_change=True),
        domains=[DomainMetadata(domain="e", configuration="1", removed=True)],
        operation=WRITE,
    )
    before = log.refresh()

    result = log.checkpoint()

    after = reopened(log, 2)
    assert after.segment.checkpoint.version == 2
    assert (after.protocol, after.metadata) == (before.protocol, before.metadata)
    assert after.transactions == before.transactions
    assert after.domains == {"d": DomainMetadata(domain="d", configuration="{}")}
    assert by_path(after.files()) == by_path(before.files().set_column(4, ADD_FILE.field(4), pa.array([False] * 3)))
    assert after.tombstones().to_pylist() == [
        {**before.tombstones().to_pylist()[0], "data_change": False, "stats": None, "tags": None}
    ]
    assert (result.version, result.files, result.actions) == (2, 3, 9)
    assert result.bytes == len(log.store.read(checkpoint_path(2)))


def test_table_features_are_kept_as_lists_and_legacy_protocols_without():
    features = frozenset({"timestampNtz"})
    listed = Protocol(min_reader_version=3, min_writer_version=7, reader_features=features, writer_features=features)
    for protocol in (listed, Protocol(min_reader_version=1, min_writer_version=2)):
        log = in_memory(protocol=protocol)
        log.checkpoint()
        assert DeltaLog(log.store).snapshot(0).segment.checkpoint
        assert read_header(log.store, DeltaLog(log.store).snapshot(0).segment.checkpoint).protocol == protocol


def test_columns_have_the_names_and_types_of_the_protocol():
    log = in_memory()
    log.checkpoint()
    schema = pq.read_schema(log.store.open_input(checkpoint_path(0)))
    fields = {
        field.name: {child.name: child.type if pa.types.is_map(child.type) else str(child.type) for child in field.type}
        for field in schema
    }
    text_map = pa.map_(pa.string(), pa.string())
    deletion_vector = (
        "struct<storageType: string, pathOrInlineDv: string, offset: int32, sizeInBytes: int32, cardinality: int64>"
    )
    assert fields["add"] == {
        "path": "string", "partitionValues": text_map, "size": "int64", "modificationTime": "int64", "dataChange": "bool",
        "stats": "string", "tags": text_map, "deletionVector": deletion_vector, "baseRowId": "int64",
        "defaultRowCommitVersion": "int64", "clusteringProvider": "string",
    }  # fmt: skip
    assert fields["remove"] == {
        "path": "string", "deletionTimestamp": "int64", "dataChange": "bool", "extendedFileMetadata": "bool",
        "partitionValues": text_map, "size": "int64", "deletionVector": deletion_vector, "baseRowId": "int64",
        "defaultRowCommitVersion": "int64",
    }  # fmt: skip
    assert fields["txn"] == {"appId": "string", "version": "int64", "lastUpdated": "int64"}
    assert fields["domainMetadata"] == {"domain": "string", "configuration": "string", "removed": "bool"}
    assert fields["protocol"]["minReaderVersion"] == "int32"
    assert set(fields["metaData"]) == {
        "id", "name", "description", "format", "schemaString", "partitionColumns", "configuration", "createdTime",
    }  # fmt: skip


def test_columns_are_those_of_a_checkpoint_that_delta_spark_wrote():
    log = in_memory()
    log.checkpoint()
    ours = leaves(log.store.open_input(checkpoint_path(0)))
    theirs = leaves(max((TABLES / "many_commits" / "table" / "_delta_log").glob("*.checkpoint.parquet")))
    left_out = {path for path in theirs if "stats_parsed" in path or "maxRowIndex" in path}
    assert ours == {path: kind for path, kind in theirs.items() if path not in left_out}


def leaves(file):
    """Type and nesting of each leaf column of a Parquet file."""
    schema = pq.ParquetFile(file).schema
    columns = [schema.column(number) for number in range(len(schema))]
    return {
        column.path: (column.physical_type, str(column.logical_type), column.max_definition_level, column.max_repetition_level)
        for column in columns
    }


@pytest.mark.parametrize(
    ("property_", "kept"), [(None, ["young", "week"]), ("interval 30 days", ["young", "week", "old"]), ("interval 0 days", [])]
)
def test_tombstones_are_kept_as_long_as_the_table_asks(property_, kept):
    log = in_memory(**({"delta.deletedFileRetentionDuration": property_} if property_ else {}))
    ages = {"young": 0, "week": 7 * DAY - 1, "old": 8 * DAY, "unknown": None}
    rows = [
        {"path": path, "data_change": True, "deletion_timestamp": None if age is None else NOW - age}
        for path, age in ages.items()
    ]
    transaction = log.start_transaction()
    transaction.commit(removes=pa.Table.from_pylist(rows, schema=REMOVE_FILE), operation=WRITE)
    log.checkpoint()
    assert reopened(log, 1).tombstones()["path"].to_pylist() == kept


def test_progress_of_applications_is_forgotten_when_the_table_says_so():
    log = in_memory(**{"delta.setTransactionRetentionDuration": "interval 1 day"})
    ages = {"now": 0, "old": 2 * DAY, "unknown": None}
    progress = [
        SetTransaction(app_id=name, version=1, last_updated=None if age is None else NOW - age) for name, age in ages.items()
    ]
    log.start_transaction().commit(transactions=progress, operation=WRITE)
    log.checkpoint()
    assert set(reopened(log, 1).transactions) == {"now"}


def test_many_files_are_written_in_row_groups_that_hold_all(monkeypatch):
    monkeypatch.setattr("airflow_delta.core.operations.checkpoints.content.ROWS_OF_GROUP", 7)
    log = in_memory()
    rows = [
        {"path": f"f{n}", "partition_values": [("p", str(n))], "size": n, "modification_time": n, "data_change": True}
        for n in range(40)
    ]
    adds = pa.Table.from_pylist(rows, schema=ADD_FILE)
    log.start_transaction().commit(adds=adds, operation=WRITE)
    log.start_transaction().commit(
        removes=removes_of(adds.slice(30), deletion_timestamp=NOW, data_change=True), operation=WRITE
    )
    before = log.refresh()
    log.checkpoint()
    after = reopened(log, 2)
    assert [row["path"] for row in by_path(after.files())] == [row["path"] for row in by_path(before.files())]
    assert [row["partition_values"] for row in by_path(after.files())] == [
        row["partition_values"] for row in by_path(before.files())
    ]
    assert len(after.tombstones()) == 10


def test_a_broken_checkpoint_is_no_reason_to_write_none_while_the_commits_are_there(real_table):
    table = real_table(**{"delta.checkpointInterval": "1000"})
    for number in range(3):
        table.commit(adds=table.add(f"f{number}.parquet", number))
    table.log.checkpoint(2)
    broken = table.root / checkpoint_path(2)
    content = bytearray(broken.read_bytes())
    start = content.index(b"f0.parquet")
    content[start : start + 4] = b"\xff\xff\xff\xff"  # no UTF-8; the footer stays
    broken.write_bytes(content)
    log = DeltaLog.for_table(str(table.root))
    assert log.checkpoint().files == 3
    assert sorted(DeltaTable(table.root).to_pyarrow_table()["n"].to_pylist()) == [0, 1, 2]


# -- the hint


def test_the_hint_shows_version_and_sizes_the_first_three_fields_first():
    log = in_memory()
    result = log.checkpoint()
    hint = json.loads(log.store.read(LAST_CHECKPOINT))
    assert list(hint.items())[:4] == [("version", 0), ("size", 2), ("sizeInBytes", result.bytes), ("numOfAddFiles", 0)]
    assert [field["name"] for field in hint["checkpointSchema"]["fields"]] == [
        "txn", "add", "remove", "metaData", "protocol", "domainMetadata",
    ]  # fmt: skip
    assert hint["checksum"] == json_checksum(hint)


def test_the_hint_never_moves_back():
    log = in_memory()
    log.start_transaction().commit(transactions=[SetTransaction(app_id="a", version=1)], operation=WRITE)
    log.checkpoint()
    log.checkpoint(version=0)
    assert json.loads(log.store.read(LAST_CHECKPOINT))["version"] == 1
    assert log.store.exists(checkpoint_path(0))


@pytest.mark.parametrize("hint", [b"{", b'{"version":9999,"size":1}', b'{"version":1,"size":1}'])
def test_a_hint_that_is_unreadable_or_names_a_newer_checkpoint_that_does_not_exist_is_replaced(hint):
    log = in_memory()
    log.store.write(LAST_CHECKPOINT, hint)
    log.checkpoint()
    assert json.loads(log.store.read(LAST_CHECKPOINT))["version"] == 0


@pytest.mark.parametrize("hint", [b"{", b'{"version":9999,"size":1}'])
def test_a_wrong_hint_goes_where_two_checkpoints_of_a_version_forbid_a_right_one(hint):
    log = in_memory()
    log.checkpoint(kind="multi-part")
    log.store.write(LAST_CHECKPOINT, hint)
    log.checkpoint(kind="classic")
    assert not log.store.exists(LAST_CHECKPOINT)


def test_a_hint_that_is_not_newer_costs_no_listing(monkeypatch):
    log = in_memory()
    log.checkpoint()
    log.start_transaction().commit(transactions=[SetTransaction(app_id="a", version=1)], operation=WRITE)
    snapshot, listings = log.snapshot(), []
    listing = log.store.list_from
    monkeypatch.setattr(log.store, "list_from", lambda *arguments: listings.append(arguments) or listing(*arguments))
    write_checkpoint(snapshot, now=NOW)
    assert json.loads(log.store.read(LAST_CHECKPOINT))["version"] == 1
    assert listings == []


# -- others


def test_a_table_that_needs_more_of_its_writers_gets_no_checkpoint():
    log = in_memory()
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["futureFeature"]}}
    log.store.write_if_absent(commit_path(1), json.dumps(protocol).encode())
    with pytest.raises(UnsupportedWriterFeatureError):
        log.checkpoint()
    assert not log.store.exists(checkpoint_path(1))


def test_a_checkpoint_that_fails_halfway_leaves_no_file_and_no_hint(real_table, monkeypatch):
    table = real_table()
    table.commit(adds=table.add("f.parquet"))
    monkeypatch.setattr(pq.ParquetWriter, "write_table", fail)
    with pytest.raises(OSError, match="disk full"):
        table.log.checkpoint()
    assert {path.name for path in (table.root / "_delta_log").iterdir()} == {
        f"{n:020d}.{suffix}" for n in range(2) for suffix in ("json", "crc")
    }


def fail(*_, **__):
    raise OSError("disk full")


def test_checkpoints_of_one_version_at_the_same_time_do_no_harm(real_table, duckdb_connection):
    table = real_table()
    for number in range(5):
        table.commit(adds=table.add(f"f{number}.parquet", number))
    errors = []

    def checkpoint():
        try:
            for _ in range(5):
                DeltaLog.for_table(str(table.root)).checkpoint(version=5)
        except Exception as error:  # noqa: BLE001  for the assertion
            errors.append(error)

    threads = [threading.Thread(target=checkpoint) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert DeltaTable(table.root).to_pyarrow_table().num_rows == 5
    assert duckdb_connection.sql(f"SELECT count(*) FROM delta_scan('{table.root}')").fetchone() == (5,)


def test_other_engines_read_the_table_from_our_checkpoint_alone(real_table, tmp_path, duckdb_connection):
    table = real_table()
    for number, partition in enumerate(["a b%", None, "é", "x=1/y"]):
        table.commit(adds=table.add(f"part/f{number}.parquet", number, partition))
    table.commit(transactions=[SetTransaction(app_id="app", version=3, last_updated=table.log.clock())])
    gone = table.log.refresh().files("n = 0")
    table.commit(removes=removes_of(gone, deletion_timestamp=table.log.clock(), data_change=True))
    table.log.checkpoint()
    copy = only_the_checkpoint(table.root, tmp_path / "copy", 6)
    rows = [(1, None), (2, "é"), (3, "x=1/y")]

    other = DeltaTable(copy)
    assert sorted(zip(*other.to_pyarrow_table().select(["n", "p"]).to_pydict().values(), strict=True)) == rows
    assert other.transaction_version("app") == 3
    assert duckdb_connection.sql(f"SELECT n, p FROM delta_scan('{copy}') ORDER BY n").fetchall() == rows
    duckdb_filtered = duckdb_connection.sql(f"SELECT n FROM delta_scan('{copy}') WHERE p = 'é' AND n > 1").fetchall()
    assert duckdb_filtered == [(2,)]


def test_other_engines_write_on_top_of_our_checkpoint(real_table, tmp_path):
    table = real_table()
    table.commit(adds=table.add("f0.parquet", 0))
    table.log.checkpoint()
    copy = only_the_checkpoint(table.root, tmp_path / "copy", 1)
    other = DeltaTable(copy)
    other.delete("n = 0")
    other.create_checkpoint()
    assert DeltaLog.for_table(str(copy)).refresh().files()["path"].to_pylist() == []
    assert len(DeltaLog.for_table(str(copy)).refresh().tombstones()) == 1


@pytest.mark.parametrize("name", sorted(path.name for path in TABLES.glob("*/") if (path / "table").is_dir()))
def test_a_table_that_spark_wrote_is_read_the_same_from_our_checkpoint(name, tmp_path, duckdb_connection):
    source = TABLES / name / "table"
    shutil.copytree(source, tmp_path / "with", ignore=shutil.ignore_patterns("*.crc"))
    log = DeltaLog.for_table(str(tmp_path / "with"))
    before = log.refresh()
    log.checkpoint()
    after = DeltaLog.for_table(str(only_the_checkpoint(tmp_path / "with", tmp_path / "copy", before.version))).refresh()
    assert after.segment.commits == {}
    assert (after.protocol, after.metadata) == (before.protocol, replace(before.metadata))
    assert by_path(after.files().drop_columns("data_change")) == by_path(before.files().drop_columns("data_change"))
    expected, found = (
        duckdb_connection.sql(f"SELECT CAST(rows AS VARCHAR) FROM delta_scan('{path}') AS rows ORDER BY 1").fetchall()
        for path in (source, tmp_path / "copy")
    )
    assert found == expected
