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
    CommitAttemptsExhaustedError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    DuplicateActionError,
    MetadataChangedError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedWriterFeatureError,
)
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.transaction.commit_result import redone
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
    features = frozenset({"rowTracking"})
    protocol = Protocol(min_reader_version=1, min_writer_version=7, writer_features=features)
    with pytest.raises(UnsupportedWriterFeatureError) as caught:
        log.create_transaction(metadata, protocol).commit(operation=WRITE)
    assert caught.value.features == ("rowTracking",)
    assert not log.exists()


def test_a_transaction_commits_once(table, added):
    transaction = table.start_transaction()
    transaction.commit(adds=added(("a", "1", None)), operation=WRITE)
    with pytest.raises(RuntimeError):
        transaction.commit(adds=added(("b", "1", None)), operation=WRITE)


# -- races


def test_a_passed_winner_is_listed_with_its_run(table, added):
    late = table.start_transaction()
    origin = Origin(token="other", job={"jobName": "hourly"})
    table.start_transaction().commit(adds=added(("a", "1", None)), operation=WRITE, origin=origin)

    result = late.commit(adds=added(("b", "1", None)), operation=WRITE)

    assert (result.version, result.read_version, result.attempts) == (2, 0, 2)
    assert result.conflicts == ({"version": 1, "operation": "WRITE", "rule": None, "job": {"jobName": "hourly"}},)


def test_a_conflict_names_the_rule_and_can_be_listed(table, added):
    late = table.start_transaction()
    late.files("day = '1'")
    table.start_transaction().commit(adds=added(("a", "1", None)), operation=WRITE)

    with pytest.raises(ConcurrentAppendError) as caught:
        late.commit(adds=added(("b", "1", None)), operation=MERGE)

    assert caught.value.path == "a"
    assert redone(caught.value) == {"version": 1, "operation": "WRITE", "rule": "DELTA_CONCURRENT_APPEND", "job": None}
    assert paths(table) == ["a"]


def test_two_merges_inserting_one_new_key_into_an_empty_table_do_not_both_commit(clock, flat_metadata, added):
    log = DeltaLog(InMemoryLogStore(clock=clock), clock=clock)
    log.create_transaction(flat_metadata).commit(operation=Operation(name="CREATE TABLE"))
    first, second = log.start_transaction(), log.start_transaction()
    for transaction in (first, second):
        assert len(transaction.files("key = 7")) == 0
    first.commit(adds=added(("a", None, (7, 7))), operation=MERGE)
    with pytest.raises(ConcurrentAppendError):
        second.commit(adds=added(("b", None, (7, 7))), operation=MERGE)


def test_merges_of_different_days_both_commit(table, added):
    table.start_transaction().commit(adds=added(("a1", "1", (0, 9)), ("a2", "2", (0, 9))), operation=WRITE)
    merges = {day: table.start_transaction() for day in "12"}
    for day, transaction in merges.items():
        files = transaction.files(f"day = '{day}'")
        transaction.commit(adds=added((f"b{day}", day, (0, 9))), removes=tombstones(files), operation=MERGE)
    assert paths(table) == ["b1", "b2"]


def test_merges_of_one_file_do_not_both_commit(table, added):
    table.start_transaction().commit(adds=added(("a", "1", (0, 9))), operation=WRITE)
    merges = [table.start_transaction() for _ in range(2)]
    files = [transaction.files("day = '1' AND key = 3") for transaction in merges]
    merges[0].commit(adds=added(("b", "1", (0, 2))), removes=tombstones(files[0]), operation=MERGE)
    with pytest.raises(ConcurrentDeleteReadError):
        merges[1].commit(adds=added(("c", "1", (0, 9))), removes=tombstones(files[1]), operation=MERGE)
    assert paths(table) == ["b"]


def test_an_append_passes_a_running_optimize_and_the_optimize_passes_the_append(table, added):
    table.start_transaction().commit(adds=added(("a", "1", (0, 4)), ("b", "1", (5, 9))), operation=WRITE)
    optimize, append = table.start_transaction(), table.start_transaction()
    small = optimize.files("day = '1'")
    append.commit(adds=added(("c", "1", (3, 3))), operation=WRITE)

    result = optimize.commit(
        adds=added(("big", "1", (0, 9)), data_change=False),
        removes=tombstones(small, data_change=False),
        operation=OPTIMIZE,
        origin=Origin(token="t1"),
    )

    assert commit_info(table, result.version)["isolationLevel"] == "SnapshotIsolation"
    assert [each["rule"] for each in result.conflicts] == [None]
    assert paths(table) == ["big", "c"]


def test_two_compactions_of_one_file_do_not_both_commit(table, added):
    table.start_transaction().commit(adds=added(("a", "1", None)), operation=WRITE)
    compactions = [table.start_transaction() for _ in range(2)]
    files = [each.files() for each in compactions]
    moved = [added((name, "1", None), data_change=False) for name in "bc"]
    compactions[0].commit(adds=moved[0], removes=tombstones(files[0], data_change=False), operation=OPTIMIZE)
    with pytest.raises(ConcurrentDeleteDeleteError):
        compactions[1].commit(adds=moved[1], removes=tombstones(files[1], data_change=False), operation=OPTIMIZE)


def test_read_then_compacted_then_deleted_conflicts(table, added):
    table.start_transaction().commit(adds=added(("f1", "1", (0, 9))), operation=WRITE)
    insert = table.start_transaction()
    insert.files("day = '1' AND key <= 4")
    compaction = table.start_transaction()
    compaction.commit(
        adds=added(("f2", "1", (0, 9)), data_change=False),
        removes=tombstones(compaction.files(), data_change=False),
        operation=OPTIMIZE,
    )
    delete = table.start_transaction()
    delete.commit(adds=added(("f3", "1", (5, 9))), removes=tombstones(delete.files()), operation=Operation(name="DELETE"))
    with pytest.raises(ConcurrentDeleteReadError) as caught:
        insert.commit(adds=added(("copy", "2", (0, 4))), operation=WRITE)
    assert (caught.value.path, caught.value.winning_version) == ("f2", 3)


def test_removing_rows_without_saying_what_was_read_counts_as_having_read_everything(table, added):
    table.start_transaction().commit(adds=added(("a", "1", None)), operation=WRITE)
    overwrite = table.start_transaction()
    files = overwrite.snapshot.files()
    table.start_transaction().commit(adds=added(("b", "2", None)), operation=WRITE)
    with pytest.raises(ConcurrentAppendError):
        overwrite.commit(adds=added(("c", "1", None)), removes=tombstones(files), operation=WRITE)


def test_write_serializable_is_honoured_where_the_table_asks_for_it(table, metadata, added):
    transaction = table.start_transaction()
    transaction.set_metadata(replace(metadata, configuration={"delta.isolationLevel": "WriteSerializable"}))
    transaction.commit(adds=added(("a", "1", None)), operation=WRITE)
    merge = table.start_transaction()
    files = merge.files("day = '1'")
    table.start_transaction().commit(adds=added(("b", "1", None)), operation=WRITE)

    result = merge.commit(adds=added(("c", "1", None)), removes=tombstones(files), operation=MERGE)

    assert commit_info(table, result.version)["isolationLevel"] == "WriteSerializable"
    assert paths(table) == ["b", "c"]


def test_the_progress_of_an_application_moves_once(table, added):
    writers = [table.start_transaction() for _ in range(2)]
    assert [each.transaction_version("stream") for each in writers] == [None, None]
    batch = {"transactions": [SetTransaction(app_id="stream", version=1)], "operation": WRITE}
    writers[0].commit(adds=added(("a", "1", None)), **batch)
    with pytest.raises(ConcurrentTransactionError):
        writers[1].commit(adds=added(("b", "1", None)), **batch)
    assert table.start_transaction().transaction_version("stream") == 1


def test_two_creations_of_one_table_end_with_one(metadata, clock):
    log = DeltaLog(InMemoryLogStore(clock=clock), clock=clock)
    first, second = (log.create_transaction(replace(metadata, id=each)) for each in ("one", "two"))
    first.commit(operation=WRITE)
    with pytest.raises(TableExistsError) as caught:
        second.commit(operation=WRITE)
    assert caught.value.version == 0
    assert log.refresh().metadata.id == "one"


def test_a_replaced_table_conflicts(table, metadata, added):
    late = table.start_transaction()
    replacing = table.start_transaction()
    replacing.set_metadata(replace(metadata, id="another table"))
    replacing.commit(operation=Operation(name="REPLACE TABLE"))
    with pytest.raises(MetadataChangedError):
        late.commit(adds=added(("a", "1", None)), operation=WRITE)


@pytest.mark.parametrize("commits", [0, 1, 5])
def test_a_table_made_anew_at_the_same_place_conflicts_and_its_log_gets_no_gap(table, metadata, added, commits):
    table.start_transaction().commit(adds=added(("a", "1", None)), operation=WRITE)
    late = table.start_transaction()
    table.store.delete([each.path for each in list(table.store.list_all())])
    anew = DeltaLog(table.store, clock=table.clock)
    for number in range(commits):
        if number:
            anew.start_transaction().commit(adds=added((f"n{number}", "1", None)), operation=WRITE)
        else:
            anew.create_transaction(replace(metadata, id="another table")).commit(operation=WRITE)
    before = [each.path for each in table.store.list_all()]

    with pytest.raises(MetadataChangedError):
        late.commit(adds=added(("b", "1", None)), operation=WRITE)

    assert [each.path for each in table.store.list_all()] == before


def test_who_loses_too_often_gives_up(table, added):
    late = table.start_transaction()
    table.start_transaction().commit(adds=added(("a", "1", None)), operation=WRITE)
    with pytest.raises(CommitAttemptsExhaustedError) as caught:
        late.commit(adds=added(("b", "1", None)), operation=WRITE, max_attempts=1)
    assert (caught.value.read_version, caught.value.attempts) == (0, 1)
    assert paths(table) == ["a"]


# -- the same task twice


def test_the_twin_of_a_task_that_committed_returns_the_same_version(table, added):
    origin = Origin(token="t1")
    twins = [table.start_transaction() for _ in range(2)]
    for each in twins:
        each.files("day = '1'")
    table.start_transaction().commit(adds=added(("other", "1", None)), operation=WRITE)  # forbids both
    orphan = table.start_transaction()
    done = orphan.commit(adds=added(("a", "1", None)), operation=MERGE, metrics={"numTargetFilesAdded": 1}, origin=origin)

    result = twins[0].commit(adds=added(("b", "1", None)), operation=MERGE, origin=origin)

    assert (result.version, result.committed, result.already_committed) == (done.version, True, True)
    assert result.commit_info.operation_metrics == {"numTargetFilesAdded": "1"}
    assert paths(table) == ["a", "other"]


def test_tasks_without_a_token_are_never_taken_for_each_other(table, added):
    late = table.start_transaction()
    table.start_transaction().commit(adds=added(("a", "1", None)), operation=WRITE)
    result = late.commit(adds=added(("b", "1", None)), operation=WRITE)
    assert (result.version, result.already_committed) == (2, False)


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
