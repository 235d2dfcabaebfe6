"""An older version is restored completely, or an error explains why not; other engines check the rows."""

import json
import os
import re
import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    AppendOnlyTableError,
    ConcurrentWriteError,
    CorruptDataFileError,
    CorruptLogError,
    DataFilesMissingError,
    InvalidStatementError,
    PathOutsideTableError,
    StorageAccessError,
    TimestampOutOfRangeError,
    VersionNotFoundError,
)
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.operations.restore import RestoreResult, file_difference, restored_metadata, restored_protocol
from airflow_delta.core.storage.file_locator import FileLocator
from airflow_delta.core.table_changes import NewTable
from airflow_delta.core.table_changes.ddl import parse_struct
from airflow_delta.core.table_features.support import WRITABLE
from airflow_delta.core.transaction.operation import Operation
from tests.core.builders import HandmadeLog, add, deletion_vector, metadata, protocol, remove, schema_string

OPERATION = Operation(name="WRITE")
FEATURES = {"readerFeatures": ["vacuumProtocolCheck"], "writerFeatures": ["vacuumProtocolCheck"]}
DELETION_VECTORS = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}


writes_deletion_vectors = pytest.mark.skipif(
    "deletionVectors" not in WRITABLE, reason="deletion vectors are not written here yet"
)


def three_versions(table):
    """Version 1 has the rows 0 and 1; version 2 removes row 0; version 3 adds row 2."""
    adds = [table.add(f"p=x/{number}.parquet", number, "x") for number in range(3)]
    table.commit(adds=pa.concat_tables(adds[:2]))
    table.commit(removes=table.tombstones(adds[0]))
    table.commit(adds=adds[2])
    return adds


def numbers(root, version=None):
    return sorted(DeltaTable(root, version=version).to_pyarrow_table()["n"].to_pylist())


def test_the_rows_of_the_version_come_back_and_the_history_shows_what_delta_shows(real_table):
    table = real_table()
    adds = three_versions(table)
    size = adds[0]["size"][0].as_py()

    result = table.log.restore(1, origin=Origin(token="t", job={"jobName": "repair"}))

    assert result == RestoreResult(
        version=4,
        restored_version=1,
        table_size_after_restore=2 * size,
        num_of_files_after_restore=2,
        num_removed_files=1,
        num_restored_files=1,
        removed_files_size=size,
        restored_files_size=size,
    )
    assert (numbers(table.root), numbers(table.root, 3)) == ([0, 1], [1, 2])
    info = table.log.history(1)[0].commit_info
    assert (info.operation, info.operation_parameters) == ("RESTORE", {"version": 1})
    assert info.operation_metrics == {
        "tableSizeAfterRestore": str(2 * size), "numOfFilesAfterRestore": "2", "numRemovedFiles": "1",
        "numRestoredFiles": "1", "removedFilesSize": str(size), "restoredFilesSize": str(size),
    }  # fmt: skip
    assert (info.is_blind_append, info.read_version, info.origin.token) == (False, 3, "t")


def test_a_restore_can_be_taken_back(real_table):
    table = real_table()
    three_versions(table)
    table.log.restore(0)
    assert numbers(table.root) == []
    table.log.restore(3)
    assert numbers(table.root) == [1, 2]


def test_a_time_names_the_version_too(real_table):
    table = real_table()
    three_versions(table)
    times = {entry.version: entry.timestamp for entry in table.log.history()}
    assert table.log.restore(timestamp=times[2]).restored_version == 2
    assert table.log.history(1)[0].commit_info.operation_parameters["timestamp"].startswith("20")
    with pytest.raises(TimestampOutOfRangeError):
        table.log.restore(timestamp=1)


@pytest.mark.parametrize(("arguments", "error"), [({}, InvalidStatementError), ({"version": 3}, InvalidStatementError)])
def test_a_restore_of_nothing_or_of_the_latest_version_is_refused(real_table, arguments, error):
    table = real_table()
    three_versions(table)
    with pytest.raises(error):
        table.log.restore(**arguments)
    with pytest.raises(VersionNotFoundError):
        table.log.restore(9)
    assert table.log.refresh().version == 3


@pytest.mark.parametrize("many", [False, True])
def test_a_version_whose_files_are_gone_is_refused_unless_they_may_be_missing(real_table, many, monkeypatch):
    if many:  # then one listing answers for all
        monkeypatch.setattr("airflow_delta.core.operations.missing_files._CHECKED_SINGLY", 0)
    table = real_table()
    adds = [table.add(f"p=a b/{number}.parquet", number, "a b", log_path=f"p=a%20b/{number}.parquet") for number in range(3)]
    table.commit(adds=pa.concat_tables(adds))
    table.commit(removes=table.tombstones(pa.concat_tables(adds)))
    (table.root / "p=a b" / "1.parquet").unlink()
    with pytest.raises(DataFilesMissingError) as caught:
        table.log.restore(1)
    assert (caught.value.version, caught.value.missing, caught.value.examples) == (1, 1, ("p=a%20b/1.parquet",))
    assert table.log.refresh().version == 2
    result = table.log.restore(1, ignore_missing_files=True)
    assert (result.num_restored_files, result.num_of_files_after_restore) == (2, 2)
    assert numbers(table.root) == [0, 2]


def test_files_behind_a_link_to_a_directory_are_not_missing(real_table, monkeypatch, tmp_path):
    monkeypatch.setattr("airflow_delta.core.operations.missing_files._CHECKED_SINGLY", 1)
    table = real_table()
    adds = pa.concat_tables([table.add(f"p={part}/0.parquet", number, part) for number, part in enumerate("xyz")])
    table.commit(adds=adds)
    table.commit(removes=table.tombstones(adds))
    for part in "xy":
        shutil.move(table.root / f"p={part}", tmp_path / f"elsewhere {part}")
        (table.root / f"p={part}").symlink_to(tmp_path / f"elsewhere {part}")
    with pytest.raises(PathOutsideTableError):
        table.log.restore(1, ignore_missing_files=True)
    log = DeltaLog.for_table(str(table.root), allowed_prefixes=[f"{tmp_path}/elsewhere {part}" for part in "xy"])
    assert log.restore(1, ignore_missing_files=True).num_restored_files == 3


def test_a_version_that_vacuum_has_emptied_is_refused(real_table):
    table = real_table()
    three_versions(table)
    for path in (table.root / "p=x").iterdir():
        os.utime(path, (1, 1))
    table.log.vacuum(0, enforce_retention=False)
    with pytest.raises(DataFilesMissingError):
        table.log.restore(1)
    assert numbers(table.root) == [1, 2]


@pytest.mark.parametrize(
    "path", ["../outside.parquet", "%2E%2E/outside.parquet", "ftp://host/x.parquet", "file:///no/such/file"]
)
def test_a_file_outside_of_the_table_is_not_restored(path):
    log = HandmadeLog().create(add(path)).commit(remove(path))
    log.store.write("outside.parquet", b"x")
    for ignore in (False, True):
        with pytest.raises(PathOutsideTableError, match=re.escape(path)):
            log.log.restore(0, ignore_missing_files=ignore)


def test_a_file_at_an_absolute_path_is_found(real_table, tmp_path):
    table = real_table()
    elsewhere = tmp_path / "else where.parquet"
    adds = table.add("p=x/0.parquet", 0, "x", log_path=f"file://{str(elsewhere).replace(' ', '%20')}")
    table.commit(adds=adds)
    table.commit(removes=table.tombstones(adds))
    log = DeltaLog.for_table(str(table.root), allowed_prefixes=[str(elsewhere)])
    with pytest.raises(DataFilesMissingError):
        log.restore(1)
    shutil.copyfile(table.root / "p=x" / "0.parquet", elsewhere)
    with pytest.raises(PathOutsideTableError):
        table.log.restore(1)
    assert log.restore(1).num_restored_files == 1


def test_a_storage_that_refuses_to_show_a_file_at_an_absolute_path_is_a_typed_error(real_table, tmp_path, monkeypatch):
    table = real_table()
    adds = table.add("p=x/0.parquet", 0, "x", log_path=f"file://{tmp_path}/elsewhere.parquet")
    table.commit(adds=adds)
    table.commit(removes=table.tombstones(adds))

    class Refusing:
        def get_file_info(self, path):
            raise OSError(f"When getting information for key '{path}': AWS Error ACCESS_DENIED during HeadObject operation")

    monkeypatch.setattr(FileLocator, "__call__", lambda _locate, path: (Refusing(), path))
    log = DeltaLog.for_table(str(table.root), allowed_prefixes=[str(tmp_path)])
    with pytest.raises(StorageAccessError, match=r"elsewhere\.parquet.*ACCESS_DENIED"):
        log.restore(1)


def test_somebody_elses_commit_in_between_ends_the_restore(real_table, monkeypatch):
    table = real_table()
    three_versions(table)
    other = DeltaLog.for_table(str(table.root))

    def commit_in_between(*_):
        other.start_transaction().commit(operation=OPERATION, allow_empty=True)
        return []

    monkeypatch.setattr("airflow_delta.core.operations.restore.restored_domains", commit_in_between)
    with pytest.raises(ConcurrentWriteError):
        table.log.restore(1)
    assert numbers(table.root) == [1, 2]


def test_a_table_that_only_takes_appends_loses_no_row(real_table):
    table = real_table(**{"delta.appendOnly": "true"})
    table.commit(adds=table.add("p=x/0.parquet", 0, "x"))
    with pytest.raises(AppendOnlyTableError):
        table.log.restore(0)


def test_a_version_from_before_the_table_only_took_appends_does_not_come_back_either(real_table):
    table = real_table()
    table.commit(adds=table.add("p=x/0.parquet", 0, "x"))
    table.log.alter().set_properties({"delta.appendOnly": "true"})
    with pytest.raises(AppendOnlyTableError):
        table.log.restore(0)
    assert table.log.restore(1).num_removed_files == 0


def test_a_version_from_when_the_table_only_took_appends_comes_back_to_one_that_takes_all(real_table):
    table = real_table(**{"delta.appendOnly": "true"})
    table.commit(adds=table.add("p=x/0.parquet", 0, "x"))
    table.log.alter().set_properties({"delta.appendOnly": "false"})
    table.commit(adds=table.add("p=x/1.parquet", 1, "x"))
    assert table.log.restore(1).num_removed_files == 1
    assert numbers(table.root) == [0]
    assert table.log.snapshot().metadata.configuration["delta.appendOnly"] == "true"


# -- what else is restored


@pytest.mark.parametrize(("then", "now", "kept"), [(["a"], ["b"], ["a"]), ([], ["b"], []), (["a"], [], ["a"])])
def test_clustering_comes_back_and_other_domains_stay(then, now, kept):
    features = {"writerFeatures": ["clustering", "domainMetadata"]}
    log = HandmadeLog().commit(protocol(1, 7, **features), metadata(schema_string("a", "b")), *clustering(then))
    log.commit(*clustering(now), domain("user", "now"))
    log.log.restore(0)
    domains = log.log.snapshot().domains
    assert json.loads(domains["delta.clustering"].configuration)["clusteringColumns"] == [[column] for column in kept]
    assert domains["user"].configuration == "now"


def domain(name, text):
    return {"domainMetadata": {"domain": name, "configuration": text, "removed": False}}


def clustering(columns):
    document = {"clusteringColumns": [[column] for column in columns], "domainName": "delta.clustering"}
    return [domain("delta.clustering", json.dumps(document))] if columns else []


def test_schema_and_properties_come_back_and_the_protocol_stays():
    log = HandmadeLog().create(add("f"), **{"user.key": "then"})
    log.store.write("f", b"rows")
    log.commit(protocol(3, 7, **FEATURES), metadata(schema_string(id="long", more="string"), later="now"))
    log.log.restore(0)
    snapshot = log.log.snapshot()
    assert snapshot.schema.names == ("id",)
    assert snapshot.metadata.configuration == {"user.key": "then"}
    assert (snapshot.protocol.min_reader_version, "vacuumProtocolCheck" in snapshot.protocol.reader_features) == (3, True)


@writes_deletion_vectors
def test_a_file_that_got_a_deletion_vector_comes_back_without_it_and_again_with_it():
    text, name = "R!d7:<%0gFV.CDqHrD0:", "deletion_vector_a7662111-e622-43dc-b3a2-c65286cb99a9.bin"
    deleted = deletion_vector(text, 1)
    stats = '{"numRecords":2}'
    log = HandmadeLog().commit(protocol(3, 7, **DELETION_VECTORS), metadata(), add("f", stats=stats))
    log.commit(remove("f"), add("f", stats=stats, deletionVector=deleted))
    for path in ("f", name):
        log.store.write(path, b"x")
    assert log.log.restore(0).num_restored_files == 1
    assert log.log.snapshot().files()["deletion_vector"].to_pylist() == [None]
    log.store.delete([name])
    with pytest.raises(DataFilesMissingError) as caught:
        log.log.restore(1)
    assert (caught.value.missing, caught.value.examples) == (1, (name,))
    log.store.write(name, b"x")
    log.log.restore(1)
    assert log.log.snapshot().files()["deletion_vector"][0]["path_or_inline_dv"].as_py() == text


def test_files_come_back_with_the_ids_of_their_rows():
    current = HandmadeLog().create().log.snapshot().files()
    wanted = HandmadeLog().create(add("f", baseRowId=7, defaultRowCommitVersion=3, dataChange=False)).log.snapshot().files()
    row = file_difference(current, wanted).added.to_pylist()[0]
    assert (row["base_row_id"], row["default_row_commit_version"], row["data_change"]) == (7, 3, True)


def test_row_ids_that_were_removed_since_are_not_enabled_again():
    rows = add("f", stats='{"numRecords":2}')
    log = HandmadeLog().commit(protocol(1, 7, writerFeatures=["domainMetadata", "rowTracking"]), metadata(), rows)
    log.store.write("f", b"rows")
    log.log.alter().set_properties({"delta.enableRowTracking": "true"})
    tracked = log.log.snapshot()
    log.log.drop_feature("rowTracking")
    log.log.restore(tracked.version)
    assert tracked.files()["base_row_id"].to_pylist() == [0]
    restored = log.log.snapshot()
    assert restored.files()["base_row_id"].to_pylist() == [None]
    assert restored.metadata.configuration == {}


ROW_TRACKING = {"writerFeatures": ["domainMetadata", "rowTracking"]}
ENABLED = {"delta.enableRowTracking": "true"}


def numbered(path, first_id):
    ids = {} if first_id is None else {"baseRowId": first_id, "defaultRowCommitVersion": 0}
    return add(path, stats='{"numRecords":2}', **ids)


def with_dropped_row_ids(*actions, **configuration):
    """Version 0 has row ids and the files ``kept`` and ``gone``; in version 1 the feature is dropped, and one of the files."""
    files = (numbered("kept", 0), numbered("gone", 2))
    tracking = metadata(**(configuration or ENABLED))
    handmade = HandmadeLog().commit(protocol(1, 7, **ROW_TRACKING), tracking, *files, high_water_mark(3))
    ended = {"domainMetadata": {**high_water_mark(3)["domainMetadata"], "removed": True}}
    handmade.commit(protocol(1, 7, writerFeatures=[]), metadata(), numbered("kept", None), remove("gone"), ended)
    for path in ("kept", "gone"):
        handmade.store.write(path, b"rows")
    return (handmade.commit(*actions) if actions else handmade).log


def high_water_mark(mark):
    return domain("delta.rowTracking", json.dumps({"rowIdHighWaterMark": mark}))


@pytest.mark.parametrize(
    ("kept", "added", "mark"),
    [
        pytest.param(2, 0, 3, id="the-file-that-stays-has-others"),
        pytest.param(0, 2, 3, id="the-file-that-comes-back-has-those-of-another"),
        pytest.param(0, None, 1, id="the-last-one-is-less"),
    ],
)
def test_row_ids_that_were_given_anew_since_do_not_come_back(kept, added, mark):
    stays = numbered("kept", kept)
    others = [] if added is None else [numbered("new", added)]
    log = with_dropped_row_ids(protocol(1, 7, **ROW_TRACKING), metadata(**ENABLED), stays, *others, high_water_mark(mark))
    log.restore(0)
    restored = log.snapshot()
    files = dict(zip(*(restored.files()[name].to_pylist() for name in ("path", "base_row_id")), strict=True))
    assert files == {"kept": kept, "gone": mark + 1}
    assert restored.metadata.configuration == {}


@pytest.mark.parametrize("configuration", [ENABLED, {"delta.rowTrackingSuspended": "true"}])
def test_row_ids_come_back_to_no_table_that_has_forgotten_how_many_there_were(configuration):
    log = with_dropped_row_ids(**configuration)
    log.restore(0)
    is_numbered = configuration == ENABLED
    assert log.snapshot().files()["base_row_id"].to_pylist() == [None, 0 if is_numbered else None]
    assert ("delta.rowTracking" in log.snapshot().domains) == is_numbered


@pytest.mark.parametrize(("step", "then", "now", "kept"), [(1, 5, 9, 9), (1, 9, 5, 9), (-1, -5, -9, -9), (1, None, 4, 4)])
def test_identity_columns_go_on_after_the_last_number_ever_given(step, then, now, kept):
    def with_mark(mark):
        marks = {"delta.identity.start": 1, "delta.identity.step": step}
        field_metadata = marks if mark is None else {**marks, "delta.identity.highWaterMark": mark}
        field = {"name": "id", "type": "long", "nullable": True, "metadata": field_metadata}
        text = json.dumps({"type": "struct", "fields": [field]})
        return HandmadeLog().commit(protocol(), metadata(text)).log.snapshot().metadata

    restored = restored_metadata(with_mark(then), with_mark(now))
    assert json.loads(restored.schema_string)["fields"][0]["metadata"]["delta.identity.highWaterMark"] == kept


def test_ids_of_columns_are_not_given_again():
    def with_id(number):
        key = "delta.columnMapping.maxColumnId"
        return HandmadeLog().create(**({} if number is None else {key: str(number)})).log.snapshot().metadata

    for then, now, kept in ((3, 5, "5"), (5, 3, "5"), (3, None, "3"), (None, 5, "5"), (None, None, None)):
        assert restored_metadata(with_id(then), with_id(now)).configuration.get("delta.columnMapping.maxColumnId") == kept


def test_columns_that_are_mapped_again_after_a_restore_to_before_their_mapping_get_ids_that_none_had(tmp_path):
    log = DeltaLog.for_table(str(tmp_path / "t"))
    log.create(NewTable(schema=parse_struct("id INT, name STRING")))
    log.alter().set_properties({"delta.columnMapping.mode": "name"})
    log.restore(0)
    assert "delta.columnMapping.mode" not in log.snapshot().metadata.configuration
    log.alter().set_properties({"delta.columnMapping.mode": "name"})
    mapped = log.refresh()
    assert [field.metadata["delta.columnMapping.id"] for field in mapped.schema.fields] == [3, 4]
    assert mapped.metadata.configuration["delta.columnMapping.maxColumnId"] == "4"


def test_a_protocol_gains_what_the_version_needs_and_loses_nothing():
    snapshot = HandmadeLog().create().log.snapshot()
    newer = HandmadeLog().commit(protocol(3, 7, **FEATURES), metadata()).log.snapshot()
    assert restored_protocol(snapshot.protocol, newer.protocol) == restored_protocol(newer.protocol, snapshot.protocol)
    assert restored_protocol(snapshot.protocol, snapshot.protocol) == snapshot.protocol


# -- Spark's table


@writes_deletion_vectors
def test_a_table_that_spark_restored_is_restored_alike(golden_table):
    root = golden_table("restored")
    sparks = json.loads((root / commit_path(5)).read_text().splitlines()[0])["commitInfo"]
    shutil.copytree(root, root.parent / "ours")
    ours = root.parent / "ours"
    for version in (5, 6):
        for path in (ours / "_delta_log").glob(f"*{version:020d}*"):
            path.unlink()
    (ours / "_delta_log" / "_last_checkpoint").unlink()
    log = DeltaLog.for_table(str(ours))
    log.restore(1)
    info = log.history(1)[0].commit_info
    assert info.operation_metrics == sparks["operationMetrics"]
    assert info.operation_parameters["version"] == sparks["operationParameters"]["version"]

    def state(table, version):
        snapshot = DeltaLog.for_table(str(table)).snapshot(version)
        return sorted(snapshot.files().drop_columns(["data_change"]).to_pylist(), key=str), snapshot.schema, snapshot.protocol

    assert state(ours, 5) == state(root, 5)


@pytest.mark.parametrize("damage", ["missing", "cut off"])
def test_a_damaged_log_cannot_be_restored_and_its_error_names_what_can_be_done(damage):
    made = HandmadeLog().create(add("a")).commit(add("b")).commit(add("c")).commit(add("d"))
    if damage == "missing":
        made.remove_commits(2)
    else:
        made.store.write(commit_path(2), b'{"add":{"path":"c"')
    with pytest.raises(CorruptLogError) as caught:
        made.log.restore(version=1)
    assert caught.value.file == commit_path(2)
    assert "restore the table" not in caught.value.remedy
    assert "restore the file from a backup; earlier versions" in str(caught.value)
    assert "(version=...)" in str(caught.value)
    assert made.paths(1) == ["a", "b"]


def test_a_damaged_data_file_is_no_hindrance_to_a_restore_and_its_remedy_says_so():
    assert "or restore the table to a version that does not need it" in CorruptDataFileError.remedy
