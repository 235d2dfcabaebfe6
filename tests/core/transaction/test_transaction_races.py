"""Two transactions on one table: both pass, one gets the reason why not, or one finds that the other has done its work."""

from dataclasses import replace

import pytest

from airflow_delta.core.actions import Origin, SetTransaction, removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    CommitAttemptsExhaustedError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    ConcurrentWriteError,
    MetadataChangedError,
    TableExistsError,
)
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.transaction.commit_result import retried_conflict
from airflow_delta.core.transaction.operation import Operation

CREATE = Operation(name="CREATE TABLE")
WRITE = Operation(name="WRITE", parameters={"mode": "Append"})
MERGE = Operation(name="MERGE", parameters={"predicate": ["key = 1"]})
OPTIMIZE = Operation(name="OPTIMIZE", parameters={"zOrderBy": []}, changes_data=False)


def tombstones(files, *, data_change=True):
    return removes_of(files, deletion_timestamp=5, data_change=data_change)


def paths(log):
    return sorted(log.refresh().files()["path"].to_pylist())


def test_a_passed_winner_is_listed_with_its_run(table, added):
    late = table.start_transaction()
    run = {"dag_id": "flights", "task_id": "hourly", "run_id": "r1"}
    origin = Origin(token="other", job={"jobName": "hourly"}, record={**run, "sources": []})
    table.start_transaction().commit(adds=added(("a", "1", None)), operation=WRITE, origin=origin)

    result = late.commit(adds=added(("b", "1", None)), operation=WRITE)

    assert (result.version, result.read_version, result.attempts) == (2, 0, 2)
    (conflict,) = result.conflicts
    assert conflict == {"version": 1, "operation": "WRITE", "rule": None, "job": {"jobName": "hourly"}, "run": run}


def test_a_conflict_names_the_rule_and_can_be_listed(table, added):
    late = table.start_transaction()
    late.files("day = '1'")
    table.start_transaction().commit(adds=added(("a", "1", None)), operation=WRITE)

    with pytest.raises(ConcurrentAppendError) as caught:
        late.commit(adds=added(("b", "1", None)), operation=MERGE)

    assert caught.value.path == "a"
    reported = {"version": 1, "operation": "WRITE", "rule": "DELTA_CONCURRENT_APPEND", "job": None, "run": None}
    assert retried_conflict(caught.value) == reported
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

    assert result.commit_info.isolation_level == "SnapshotIsolation"
    assert [conflict["rule"] for conflict in result.conflicts] == [None]
    assert paths(table) == ["big", "c"]


def test_two_compactions_of_one_file_do_not_both_commit(table, added):
    table.start_transaction().commit(adds=added(("a", "1", None)), operation=WRITE)
    compactions = [table.start_transaction() for _ in range(2)]
    files = [compaction.files() for compaction in compactions]
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


def test_write_serializable_is_honored_where_the_table_asks_for_it(table, metadata, added):
    transaction = table.start_transaction()
    transaction.set_metadata(replace(metadata, configuration={"delta.isolationLevel": "WriteSerializable"}))
    transaction.commit(adds=added(("a", "1", None)), operation=WRITE)
    merge = table.start_transaction()
    files = merge.files("day = '1'")
    table.start_transaction().commit(adds=added(("b", "1", None)), operation=WRITE)

    result = merge.commit(adds=added(("c", "1", None)), removes=tombstones(files), operation=MERGE)

    assert result.commit_info.isolation_level == "WriteSerializable"
    assert paths(table) == ["b", "c"]


def test_the_progress_of_an_application_moves_once(table, added):
    writers = [table.start_transaction() for _ in range(2)]
    assert [writer.transaction_version("stream") for writer in writers] == [None, None]
    batch = {"transactions": [SetTransaction(app_id="stream", version=1)], "operation": WRITE}
    writers[0].commit(adds=added(("a", "1", None)), **batch)
    with pytest.raises(ConcurrentTransactionError):
        writers[1].commit(adds=added(("b", "1", None)), **batch)
    assert table.start_transaction().transaction_version("stream") == 1


def test_two_creations_of_one_table_end_with_one(metadata, clock):
    log = DeltaLog(InMemoryLogStore(clock=clock), clock=clock)
    first, second = (log.create_transaction(replace(metadata, id=table_id)) for table_id in ("one", "two"))
    first.commit(operation=WRITE)
    with pytest.raises(TableExistsError) as caught:
        second.commit(operation=WRITE)
    assert caught.value.version == 0
    assert log.refresh().metadata.id == "one"


def test_a_table_whose_first_commits_were_cleaned_up_is_not_created_again(table, metadata, added):
    table.start_transaction().commit(adds=added(("a", "1", None)), operation=WRITE)
    table.checkpoint()
    table.store.delete([commit_path(0)])
    log = DeltaLog(table.store, clock=table.clock)
    with pytest.raises(TableExistsError) as caught:
        log.create_transaction(replace(metadata, id="another")).commit(operation=CREATE)
    assert caught.value.version == 1
    assert not table.store.exists(commit_path(0))


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
    table.store.delete([file.path for file in list(table.store.list_all())])
    anew = DeltaLog(table.store, clock=table.clock)
    for number in range(commits):
        if number:
            anew.start_transaction().commit(adds=added((f"n{number}", "1", None)), operation=WRITE)
        else:
            anew.create_transaction(replace(metadata, id="another table")).commit(operation=WRITE)
    before = [file.path for file in table.store.list_all()]

    with pytest.raises(MetadataChangedError):
        late.commit(adds=added(("b", "1", None)), operation=WRITE)

    assert [file.path for file in table.store.list_all()] == before


def test_who_loses_too_often_gives_up(table, added):
    late = table.start_transaction()
    table.start_transaction().commit(adds=added(("a", "1", None)), operation=WRITE)
    with pytest.raises(CommitAttemptsExhaustedError) as caught:
        late.commit(adds=added(("b", "1", None)), operation=WRITE, max_attempts=1)
    assert (caught.value.read_version, caught.value.attempts) == (0, 1)
    assert paths(table) == ["a"]


def test_an_operation_on_the_whole_state_is_not_rebased(table, added):
    late = table.start_transaction()
    table.start_transaction().commit(adds=added(("a", "1", None)), operation=WRITE)
    with pytest.raises(ConcurrentWriteError) as caught:
        late.commit(adds=added(("b", "2", None)), operation=Operation(name="RESTORE"), resolve_conflicts=False)
    assert (caught.value.read_version, caught.value.winning_version, caught.value.winner["operation"]) == (0, 1, "WRITE")
    assert paths(table) == ["a"]


# -- the same task twice


def test_the_duplicate_attempt_of_a_restore_is_not_taken_for_a_conflict(table, added):
    attempts = [table.start_transaction() for _ in range(2)]
    restores = {"operation": Operation(name="RESTORE"), "origin": Origin(token="t1"), "resolve_conflicts": False}
    results = [attempt.commit(adds=added(("a", "1", None)), **restores) for attempt in attempts]
    assert [(result.version, result.already_committed) for result in results] == [(1, False), (1, True)]


def test_the_duplicate_attempt_of_a_task_that_committed_returns_the_same_version(table, added):
    origin = Origin(token="t1")
    attempts = [table.start_transaction() for _ in range(2)]
    for attempt in attempts:
        attempt.files("day = '1'")
    table.start_transaction().commit(adds=added(("other", "1", None)), operation=WRITE)  # forbids both
    orphan = table.start_transaction()
    done = orphan.commit(adds=added(("a", "1", None)), operation=MERGE, metrics={"numTargetFilesAdded": 1}, origin=origin)

    result = attempts[0].commit(adds=added(("b", "1", None)), operation=MERGE, origin=origin)

    assert (result.version, result.committed, result.already_committed) == (done.version, True, True)
    assert result.commit_info.operation_metrics == {"numTargetFilesAdded": "1"}
    assert paths(table) == ["a", "other"]


def test_tasks_without_a_token_are_never_taken_for_each_other(table, added):
    late = table.start_transaction()
    table.start_transaction().commit(adds=added(("a", "1", None)), operation=WRITE)
    result = late.commit(adds=added(("b", "1", None)), operation=WRITE)
    assert (result.version, result.already_committed) == (2, False)
