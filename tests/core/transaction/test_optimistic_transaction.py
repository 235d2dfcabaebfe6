"""What a user of a transaction sees: what is written, what is refused, and how races end."""

import json
import re
from dataclasses import replace

import pyarrow as pa
import pytest

from airflow_delta import __version__
from airflow_delta.core.actions import (
    ADD_FILE,
    CHANGE_FILE,
    NO_REMOVES,
    REMOVE_FILE,
    DomainMetadata,
    Origin,
    Protocol,
    SetTransaction,
    removes_of,
)
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    AppendOnlyTableError,
    DuplicateActionError,
    InvalidCommitError,
    InvalidSchemaError,
    MissingRecordCountError,
    TableNotFoundError,
    UnsupportedWriterFeatureError,
)
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.transaction.operation import Operation

WRITE = Operation(name="WRITE", parameters={"mode": "Append", "partitionBy": ["day"], "predicate": None})
MERGE = Operation(name="MERGE", parameters={"predicate": ["key = 1"]})
OPTIMIZE = Operation(name="OPTIMIZE", parameters={"zOrderBy": []}, changes_data=False)


def tombstones(files, *, data_change=True):
    return removes_of(files, deletion_timestamp=5, data_change=data_change)


def commit_info(log, version):
    return json.loads(log.store.read(commit_path(version)).split(b"\n")[0])["commitInfo"]


def paths(log):
    return sorted(log.refresh().files()["path"].to_pylist())


# -- what a commit says


def test_a_new_table_is_there_after_its_first_commit_and_not_before(metadata, clock):
    log = DeltaLog(InMemoryLogStore(clock=clock), clock=clock)
    transaction = log.create_transaction(metadata)
    assert not log.exists()
    assert transaction.read_version == -1
    assert len(transaction.files()) == 0
    with pytest.raises(TableNotFoundError):
        _ = transaction.snapshot

    result = transaction.commit(operation=Operation(name="CREATE TABLE"))

    assert (result.version, result.read_version, result.attempts, result.committed) == (0, -1, 1, True)
    assert log.refresh().metadata == metadata
    assert log.refresh().protocol == Protocol(min_reader_version=1, min_writer_version=2)


def test_a_schema_with_timestamps_without_zone_gets_the_protocol_that_allows_them(metadata, clock):
    log = DeltaLog(InMemoryLogStore(clock=clock), clock=clock)
    field = {"name": "t", "type": {"type": "array", "elementType": "timestamp_ntz", "containsNull": True}}
    schema = {"type": "struct", "fields": [{**field, "nullable": True, "metadata": {}}]}
    metadata = replace(metadata, schema_string=json.dumps(schema), partition_columns=())

    log.create_transaction(metadata).commit(operation=Operation(name="CREATE TABLE"))

    protocol = log.refresh().protocol
    assert protocol.reader_features == {"timestampNtz"}
    assert protocol.writer_features == {"timestampNtz", "appendOnly", "invariants"}


def test_the_commit_info_says_who_how_and_why(table, added):
    origin = Origin(token="t1", job={"jobName": "flights"}, record={"try": 2}, user_metadata="nightly")

    result = table.start_transaction().commit(
        adds=added(("a", "1", (0, 9))), operation=WRITE, metrics={"numFiles": 1, "numOutputRows": "2"}, origin=origin
    )

    info = commit_info(table, result.version)
    assert info.pop("txnId")
    assert info == {
        "timestamp": result.timestamp,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": '["day"]'},
        "readVersion": 0,
        "isolationLevel": "Serializable",
        "isBlindAppend": True,
        "operationMetrics": {"numFiles": "1", "numOutputRows": "2"},
        "userMetadata": "nightly",
        "job": {"jobName": "flights"},
        "engineInfo": f"airflow-delta/{__version__}",
        "airflowDelta": {"try": 2, "token": "t1"},
    }
    assert result.conflicts == ()
    assert result.commit_info.origin == origin


@pytest.mark.parametrize(
    ("read", "is_blind"),
    [
        pytest.param(lambda transaction: None, True, id="nothing-read"),
        pytest.param(lambda transaction: transaction.files("day = '1'"), False, id="files"),
        pytest.param(lambda transaction: transaction.record_read("key = 1"), False, id="predicate"),
        pytest.param(lambda transaction: transaction.record_read(None), False, id="every-row"),
        pytest.param(lambda transaction: transaction.record_read_files(pa.array(["x"])), False, id="a-file"),
        pytest.param(lambda transaction: transaction.read_whole_table(), False, id="whole-table"),
        pytest.param(lambda transaction: transaction.transaction_version("app"), True, id="progress-of-an-application"),
    ],
)
def test_only_a_commit_that_read_nothing_calls_itself_a_blind_append(table, added, read, is_blind):
    transaction = table.start_transaction()
    read(transaction)
    result = transaction.commit(adds=added(("a", "1", None)), operation=WRITE)
    assert commit_info(table, result.version)["isBlindAppend"] is is_blind


def test_a_commit_with_removes_is_never_a_blind_append(table, added):
    table.start_transaction().commit(adds=added(("a", "1", None)), operation=WRITE)
    result = table.start_transaction().commit(removes=tombstones(table.refresh().files()), operation=MERGE)
    assert commit_info(table, result.version)["isBlindAppend"] is False


def test_columns_in_another_order_are_put_right(table, added):
    adds = added(("a", "1", None))
    table.start_transaction().commit(adds=adds.select(list(reversed(ADD_FILE.names))), operation=WRITE)
    assert table.refresh().files().to_pylist() == adds.to_pylist()


# -- nothing to write


def test_a_commit_with_nothing_to_say_is_not_made(table):
    result = table.start_transaction().commit(operation=MERGE)
    assert (result.version, result.committed, result.attempts, result.commit_info) == (0, False, 0, None)
    assert table.refresh().version == 0


def test_an_empty_commit_is_made_when_allowed(table):
    operation = Operation(name="VACUUM START", changes_data=False)
    result = table.start_transaction().commit(operation=operation, allow_empty=True)
    assert (result.version, result.committed) == (1, True)
    assert commit_info(table, 1)["isolationLevel"] == "SnapshotIsolation"


# -- what is refused before anything is written


@pytest.mark.parametrize(
    ("actions", "action", "path"),
    [
        (lambda added, removed: {"adds": added(("a", "1", None), ("a", "2", None))}, "add", "a"),
        (lambda added, removed: {"removes": removed("a", "b", "b")}, "remove", "b"),
        (lambda added, removed: {"adds": added(("a", "1", None)), "removes": removed("a")}, "add and remove", "a"),
        (
            lambda added, removed: {
                "transactions": [SetTransaction(app_id="x", version=1), SetTransaction(app_id="x", version=2)]
            },
            "txn",
            "x",
        ),
        (
            lambda added, removed: {
                "domains": [DomainMetadata(domain="d", configuration="1"), DomainMetadata(domain="d", configuration="1")]
            },
            "domainMetadata",
            "d",
        ),
    ],
)
def test_what_is_named_twice_is_refused(table, added, removed, *, actions, action, path):
    with pytest.raises(DuplicateActionError) as caught:
        table.start_transaction().commit(**actions(added, removed), operation=WRITE)
    assert (caught.value.action, caught.value.path) == (action, path)
    assert table.refresh().version == 0


def test_equal_progress_of_one_application_counts_once(table):
    progress = SetTransaction(app_id="x", version=1)
    table.start_transaction().commit(transactions=[progress, progress], operation=WRITE)
    assert table.refresh().transactions == {"x": progress}


def test_a_table_that_only_takes_appends_refuses_to_lose_rows_but_may_be_rearranged(table, metadata, added):
    transaction = table.start_transaction()
    transaction.set_metadata(replace(metadata, configuration={"delta.appendOnly": "true"}))
    transaction.commit(adds=added(("a", "1", None)), operation=WRITE)
    transaction = table.start_transaction()
    files = transaction.files()

    with pytest.raises(AppendOnlyTableError):
        transaction.commit(removes=tombstones(files), operation=Operation(name="DELETE"))

    moved = added(("b", "1", None), data_change=False)
    transaction.commit(adds=moved, removes=tombstones(files, data_change=False), operation=OPTIMIZE)
    assert paths(table) == ["b"]


def test_a_table_that_needs_more_of_its_writers_is_not_written(metadata, clock, added):
    log = DeltaLog(InMemoryLogStore(clock=clock), clock=clock)
    features = frozenset({"futureFeature"})
    protocol = Protocol(min_reader_version=1, min_writer_version=7, writer_features=features)
    with pytest.raises(UnsupportedWriterFeatureError) as caught:
        log.create_transaction(metadata, protocol).commit(operation=WRITE)
    assert caught.value.features == ("futureFeature",)
    assert not log.exists()


def test_a_transaction_commits_once(table, added):
    transaction = table.start_transaction()
    transaction.commit(adds=added(("a", "1", None)), operation=WRITE)
    with pytest.raises(RuntimeError):
        transaction.commit(adds=added(("b", "1", None)), operation=WRITE)


# -- what follows a commit


@pytest.mark.parametrize(("interval", "checkpoints"), [(None, [10]), ("3", [3, 6, 9, 12])])
def test_every_so_many_commits_a_checkpoint_follows(metadata, clock, added, interval, checkpoints):
    log = DeltaLog(InMemoryLogStore(clock=clock), clock=clock)
    configuration = {"delta.checkpointInterval": interval} if interval else {}
    log.create_transaction(replace(metadata, configuration=configuration)).commit(operation=WRITE)
    for number in range(12):
        log.start_transaction().commit(adds=added((f"f{number}", "1", None)), operation=WRITE)
    names = [file.path for file in log.store.list_all() if file.path.endswith(".parquet")]
    assert sorted(names) == [f"_delta_log/{version:020d}.checkpoint.parquet" for version in checkpoints]


def test_a_failing_checkpoint_does_not_fail_the_commit_and_is_reported(metadata, clock, added):
    log = DeltaLog(NoCheckpoints(clock=clock), clock=clock)
    log.create_transaction(replace(metadata, configuration={"delta.checkpointInterval": "1"})).commit(operation=WRITE)
    result = log.start_transaction().commit(adds=added(("a", "1", None)), operation=WRITE)
    assert (result.version, result.committed, result.hook_failures) == (1, True, ("OSError: disk full",))
    assert paths(log) == ["a"]


def test_the_log_of_what_failed_behind_a_commit_has_no_control_characters(metadata, clock, added, caplog, monkeypatch):
    def fail(self, path):
        raise OSError("disk\x1b[2J full\u202e")

    monkeypatch.setattr(InMemoryLogStore, "open_output", fail)
    log = DeltaLog(InMemoryLogStore(clock=clock), clock=clock)
    log.create_transaction(replace(metadata, configuration={"delta.checkpointInterval": "1"})).commit(operation=WRITE)
    assert log.start_transaction().commit(adds=added(("a", "1", None)), operation=WRITE).hook_failures
    assert "\x1b" not in caplog.text
    assert "\u202e" not in caplog.text
    assert r"OSError: disk\x1b[2J full\u202e" in caplog.text


class NoCheckpoints(InMemoryLogStore):
    def open_output(self, path):
        raise OSError("disk full")


def test_adds_and_removes_may_be_left_out(table):
    result = table.start_transaction().commit(removes=NO_REMOVES, transactions=[SetTransaction(app_id="a", version=1)],
                                              operation=WRITE)  # fmt: skip
    assert result.version == 1


# -- what the protocol requires of a commit


DELETION_VECTOR = {"storage_type": "u", "path_or_inline_dv": "x", "offset": 1, "size_in_bytes": 1, "cardinality": 1}


def with_deletion_vector(files):
    return pa.Table.from_pylist([{**row, "deletion_vector": DELETION_VECTOR} for row in files.to_pylist()], schema=files.schema)


@pytest.mark.parametrize(
    ("actions", "detail"),
    [
        pytest.param(
            lambda added, removed: {"adds": added(("a", "1", None)), "removes": removed("b", data_change=False)},
            "some of its files change data",
            id="mixed-data-change",
        ),
        pytest.param(
            lambda added, removed: {
                "adds": added(("a", "1", None), data_change=False),
                "removes": removed("b", data_change=False),
                "transactions": [SetTransaction(app_id="x", version=1)],
            },
            "moves the progress of an application",
            id="progress-without-data-change",
        ),
        pytest.param(
            lambda added, removed: {"domains": [DomainMetadata(domain="d", configuration="")]},
            "does not have the feature domainMetadata",
            id="domain-without-feature",
        ),
        pytest.param(
            lambda added, removed: {"adds": with_deletion_vector(added(("a", "1", (0, 1))))},
            "does not have the feature deletionVectors",
            id="deletion-vector-without-feature",
        ),
    ],
)
def test_a_commit_that_breaks_the_protocol_is_refused(table, added, removed, actions, detail):
    with pytest.raises(InvalidCommitError) as caught:
        table.start_transaction().commit(**actions(added, removed), operation=WRITE)
    assert detail in caught.value.detail
    assert table.refresh().version == 0


@pytest.mark.parametrize(
    ("actions", "detail"),
    [
        ({"transactions": [SetTransaction(app_id="a", version="5")]}, "a SetTransaction holds .* (version is '5')"),
        ({"transactions": [SetTransaction(app_id="a", version=True)]}, "a SetTransaction holds .* (version is True)"),
        ({"transactions": [SetTransaction(app_id="a", version=1 << 63)]}, "a SetTransaction holds .* (version is 92233"),
        ({"transactions": [SetTransaction(app_id=None, version=5)]}, "a SetTransaction holds .* (appId is missing)"),
        ({"domains": [DomainMetadata(domain="d", configuration={"a": 1})]}, "a DomainMetadata holds .* (configuration is"),
        ({"adds": pa.Table.from_pylist([{"path": None}], ADD_FILE)}, "a file action (add) has no path"),
        ({"removes": pa.Table.from_pylist([{"path": None}], REMOVE_FILE)}, "a file action (remove) has no path"),
        ({"removes": pa.Table.from_pylist([{"path": "a"}], REMOVE_FILE)}, "a file action (remove) has no dataChange"),
        ({"adds": pa.Table.from_pylist([{"path": "a", "size": 1}], ADD_FILE)}, "a file action (add) has no partitionValues"),
    ],
)
def test_a_commit_after_which_no_reader_could_open_the_table_is_refused(metadata, clock, actions, detail):
    log = modern_table(metadata, clock, "domainMetadata")
    with pytest.raises(InvalidCommitError) as caught:
        log.start_transaction().commit(**actions, operation=WRITE)
    assert re.match(re.escape(detail).replace(re.escape(".*"), ".*"), caught.value.detail)
    assert log.refresh().version == 0


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"name": 5}, InvalidCommitError),
        ({"configuration": {"a": 1}}, InvalidCommitError),
        ({"created_time": 1.5}, InvalidCommitError),
        ({"schema_string": None}, InvalidCommitError),
        ({"partition_columns": ("day", "hour")}, InvalidCommitError),
        ({"schema_string": "no schema"}, InvalidSchemaError),
    ],
)
def test_metadata_that_no_reader_could_read_is_refused(table, change, error):
    transaction = table.start_transaction()
    transaction.set_metadata(replace(transaction.metadata, **change))
    with pytest.raises(error):
        transaction.commit(operation=WRITE)
    assert table.refresh().version == 0


def modern_table(metadata, clock, *features, **configuration):
    readers = frozenset(features) & {"deletionVectors", "columnMapping"}
    protocol = Protocol(
        min_reader_version=3 if readers else 1,
        min_writer_version=7,
        reader_features=readers or None,
        writer_features=frozenset(features),
    )
    log = DeltaLog(InMemoryLogStore(clock=clock), clock=clock)
    log.create_transaction(replace(metadata, configuration=configuration), protocol).commit(operation=WRITE)
    return log


def test_a_file_with_a_deletion_vector_must_tell_its_rows(metadata, clock, added):
    log = modern_table(metadata, clock, "deletionVectors")
    with pytest.raises(MissingRecordCountError) as caught:
        log.start_transaction().commit(adds=with_deletion_vector(added(("a", "1", None))), operation=WRITE)
    assert (caught.value.path, caught.value.needed_for) == ("a", "deletion vectors")
    log.start_transaction().commit(adds=with_deletion_vector(added(("a", "1", (0, 1)))), operation=WRITE)


def test_rows_are_refused_where_a_constraint_is_not_enforced_and_all_else_is_committed(metadata, clock, added):
    log = modern_table(metadata, clock, "checkConstraints", **{"delta.constraints.c": "key > 0"})
    rows = added(("a", "1", (0, 1)))
    with pytest.raises(UnsupportedWriterFeatureError) as caught:
        log.start_transaction().commit(adds=rows, operation=WRITE)
    assert caught.value.features == ("checkConstraints",)
    log.start_transaction(enforces={"checkConstraints"}).commit(adds=rows, operation=WRITE)
    moves = {"adds": added(("b", "1", (0, 1)), data_change=False)}
    transaction = log.start_transaction()
    transaction.commit(**moves, removes=tombstones(transaction.files(), data_change=False), operation=OPTIMIZE)
    transaction = log.start_transaction()
    transaction.commit(removes=tombstones(transaction.files()), operation=Operation(name="DELETE"))
    transaction = log.start_transaction()
    transaction.set_metadata(metadata)
    transaction.commit(operation=Operation(name="DROP CONSTRAINT"))
    log.start_transaction().commit(adds=rows, operation=WRITE)
    assert paths(log) == ["a"]


def test_only_rewritten_rows_need_files_of_changes(metadata, clock, added, removed):
    log = modern_table(metadata, clock, "changeDataFeed", **{"delta.enableChangeDataFeed": "true"})
    log.start_transaction().commit(adds=added(("a", "1", (0, 1))), operation=WRITE)
    rewrite = {"adds": added(("b", "1", (0, 1))), "removes": tombstones(log.refresh().files()), "operation": MERGE}
    with pytest.raises(UnsupportedWriterFeatureError) as caught:
        log.start_transaction().commit(**rewrite)
    assert caught.value.features == ("changeDataFeed",)
    change = {"path": "_change_data/c", "partition_values": [], "size": 1, "data_change": False}
    changes = pa.Table.from_pylist([change], schema=CHANGE_FILE)
    log.start_transaction().commit(**rewrite, changes=changes)
    assert b'"cdc":{"path":"_change_data/c"' in log.store.read(commit_path(2))
    overwrite = {**rewrite, "adds": added(("c", "1", (0, 1))), "removes": tombstones(log.refresh().files())}
    log.start_transaction(enforces={"changeDataFeed"}).commit(**overwrite)


# -- what a commit gets from the version before it


def test_new_rows_are_numbered_from_the_high_water_mark_on(metadata, clock, added):
    log = modern_table(metadata, clock, "rowTracking", "domainMetadata")
    log.start_transaction().commit(adds=added(("a", "1", (0, 1)), ("b", "1", (0, 1))), operation=WRITE)
    log.start_transaction().commit(adds=added(("c", "1", (0, 1))), operation=WRITE)
    found = {row["path"]: (row["base_row_id"], row["default_row_commit_version"]) for row in log.refresh().files().to_pylist()}
    assert found == {"a": (0, 1), "b": (2, 1), "c": (4, 2)}
    mark = DomainMetadata(domain="delta.rowTracking", configuration='{"rowIdHighWaterMark":5,"domainName":"delta.rowTracking"}')
    assert log.refresh().domains == {"delta.rowTracking": mark}
    with pytest.raises(MissingRecordCountError) as caught:
        log.start_transaction().commit(adds=added(("d", "1", None)), operation=WRITE)
    assert caught.value.needed_for == "row ids"
    transaction = log.start_transaction()
    transaction.commit(removes=tombstones(transaction.files("day = '1' AND key = 0")), operation=MERGE)
    assert log.refresh().domains == {"delta.rowTracking": mark}


def test_rows_for_which_there_are_no_ids_left_are_not_numbered_from_below_zero_on(metadata, clock, added):
    mark = DomainMetadata(domain="delta.rowTracking", configuration=json.dumps({"rowIdHighWaterMark": 2**63 - 2}))
    log = modern_table(metadata, clock, "rowTracking", "domainMetadata")
    log.start_transaction().commit(domains=[mark], operation=WRITE)
    with pytest.raises(InvalidCommitError, match="64 bits"):
        log.start_transaction().commit(adds=added(("a", "1", (0, 1))), operation=WRITE)
    assert log.refresh().version == 1


@pytest.mark.parametrize(("enforces", "preserved"), [((), "false"), (("rowTracking",), "true")])
def test_a_rewrite_says_whether_it_has_kept_the_ids_of_rows(metadata, clock, added, enforces, preserved):
    log = modern_table(metadata, clock, "rowTracking", "domainMetadata", **{"delta.enableRowTracking": "true"})
    log.start_transaction().commit(adds=added(("a", "1", (0, 1))), operation=WRITE)
    assert commit_info(log, 1)["tags"] == {"delta.rowTracking.preserved": "true"}
    transaction = log.start_transaction(enforces=enforces)
    files = transaction.files()
    transaction.commit(adds=added(("b", "1", (0, 1))), removes=tombstones(files), operation=MERGE)
    assert commit_info(log, 2)["tags"] == {"delta.rowTracking.preserved": preserved}


def test_a_clone_says_itself_which_ids_its_files_have(metadata, clock, added):
    mark = DomainMetadata(domain="delta.rowTracking", configuration='{"rowIdHighWaterMark":9}')
    adds = added(("a", "1", (0, 1)), ("b", "1", (0, 1)))
    adds = adds.set_column(8, adds.schema.field(8), [[7, None]]).set_column(9, adds.schema.field(9), [[3, None]])
    log = DeltaLog(InMemoryLogStore(clock=clock), clock=clock)
    features = frozenset({"rowTracking", "domainMetadata"})
    protocol = Protocol(min_reader_version=1, min_writer_version=7, writer_features=features)
    log.create_transaction(metadata, protocol).commit(adds=adds, domains=[mark], operation=Operation(name="CLONE"))
    assert [row["base_row_id"] for row in log.refresh().files().to_pylist()] == [7, 10]
    assert '"rowIdHighWaterMark":11' in log.refresh().domains["delta.rowTracking"].configuration


def test_times_that_commits_carry_ascend_whatever_the_clock_says(metadata, added):
    times = iter([5_000, 4_000, 4_000, 9_000, 1_000, 1_000])
    log = modern_table(metadata, lambda: next(times), "inCommitTimestamp", **{"delta.enableInCommitTimestamps": "true"})
    log = DeltaLog(log.store, clock=lambda: 4_000)
    results = [log.start_transaction().commit(adds=added((name, "1", None)), operation=WRITE) for name in "ab"]
    assert [commit_info(log, version)["inCommitTimestamp"] for version in range(3)] == [5_000, 5_001, 5_002]
    assert [result.timestamp for result in results] == [5_001, 5_002]
    assert log.store.read(commit_path(2)).startswith(b'{"commitInfo":{"inCommitTimestamp":5002,')
    assert log.refresh().timestamp == 5_002


def test_the_commit_that_enables_times_says_so_in_the_metadata(metadata, clock, added):
    log = modern_table(metadata, clock, "inCommitTimestamp")
    transaction = log.start_transaction()
    transaction.set_metadata(replace(metadata, configuration={"delta.enableInCommitTimestamps": "true"}))
    result = transaction.commit(operation=Operation(name="SET TBLPROPERTIES"))
    configuration = log.refresh().metadata.configuration
    assert configuration["delta.inCommitTimestampEnablementVersion"] == "1"
    assert configuration["delta.inCommitTimestampEnablementTimestamp"] == str(result.timestamp)


@pytest.mark.parametrize("reported", [{}, {"delta.inCommitTimestampEnablementVersion": "0"}])
def test_metadata_in_the_place_of_other_metadata_still_says_since_when_commits_carry_times(metadata, clock, reported):
    log = modern_table(metadata, clock, "inCommitTimestamp")
    enabled = {"delta.enableInCommitTimestamps": "true"}
    for configuration in (enabled, enabled | reported):  # the second as of a replaced table, or of an older version
        transaction = log.start_transaction()
        transaction.set_metadata(replace(metadata, configuration=configuration))
        transaction.commit(operation=Operation(name="SET TBLPROPERTIES"))
    first, second = (log.snapshot(version).metadata.configuration for version in (1, 2))
    assert second == first
    assert first["delta.inCommitTimestampEnablementVersion"] == "1"


@pytest.mark.parametrize(("given", "kept"), [(None, "9"), ("3", "9"), ("12", "12")])
def test_metadata_in_the_place_of_other_metadata_still_protects_checkpoints(metadata, clock, given, kept):
    key = "delta.requireCheckpointProtectionBeforeVersion"
    log = modern_table(metadata, clock, "checkpointProtection", **{key: "9"})
    transaction = log.start_transaction()
    transaction.set_metadata(replace(metadata, configuration={} if given is None else {key: given}))
    transaction.commit(operation=Operation(name="RESTORE"))
    assert log.refresh().metadata.configuration == {key: kept}


def test_enabling_times_behind_a_winner_names_the_version_it_got(metadata, clock, added):
    log = modern_table(metadata, clock, "inCommitTimestamp")
    transaction = log.start_transaction()
    transaction.set_metadata(replace(metadata, configuration={"delta.enableInCommitTimestamps": "true"}))
    log.start_transaction().commit(adds=added(("a", "1", None)), operation=WRITE)
    result = transaction.commit(operation=Operation(name="SET TBLPROPERTIES"))
    configuration = log.refresh().metadata.configuration
    assert (result.version, configuration["delta.inCommitTimestampEnablementVersion"]) == (2, "2")
    assert int(configuration["delta.inCommitTimestampEnablementTimestamp"]) == result.timestamp == log.refresh().timestamp
    assert result.timestamp > log.store.status(commit_path(1)).modification_time
