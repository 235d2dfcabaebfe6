"""What a user of a transaction sees: what is written, what is refused, and how races end."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from airflow_delta import __version__
from airflow_delta.core.actions import (
    ADD_FILE,
    NO_REMOVES,
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


def test_a_commit_with_nothing_to_say_is_made_when_asked_for(table):
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
    names = [each.path for each in log.store.list_all() if each.path.endswith(".parquet")]
    assert sorted(names) == [f"_delta_log/{version:020d}.checkpoint.parquet" for version in checkpoints]


def test_a_failing_checkpoint_does_not_fail_the_commit_and_is_told(metadata, clock, added):
    log = DeltaLog(NoCheckpoints(clock=clock), clock=clock)
    log.create_transaction(replace(metadata, configuration={"delta.checkpointInterval": "1"})).commit(operation=WRITE)
    result = log.start_transaction().commit(adds=added(("a", "1", None)), operation=WRITE)
    assert (result.version, result.committed, result.hook_failures) == (1, True, ("OSError: disk full",))
    assert paths(log) == ["a"]


class NoCheckpoints(InMemoryLogStore):
    def open_output(self, path):
        raise OSError("disk full")


def test_adds_and_removes_may_be_left_out(table):
    result = table.start_transaction().commit(removes=NO_REMOVES, transactions=[SetTransaction(app_id="a", version=1)],
                                              operation=WRITE)  # fmt: skip
    assert result.version == 1
