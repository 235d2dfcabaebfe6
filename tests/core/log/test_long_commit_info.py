"""``commitInfo`` that is too long to parse: the table is still readable, and decisions that depend on it still work."""

import json

import pytest

from airflow_delta.core.actions import removes_of
from airflow_delta.core.errors import ConcurrentAppendError, CorruptLogError
from airflow_delta.core.json_text import MAX_VALUES
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.transaction.operation import Operation
from tests.core.builders import HandmadeLog, add

LONG = ",".join(map(str, range(MAX_VALUES + 1)))
RUN = {"dag_id": "daily", "task_id": "t", "run_id": "r", "map_index": -1, "logical_date": "2024-01-01T00:00:00+00:00"}
TIME = 1_700_000_000_000
INFO = {
    "inCommitTimestamp": TIME,
    "timestamp": TIME - 1,
    "operation": "DELETE",
    "operationParameters": {"predicate": [f"id IN ({LONG})"]},
    "readVersion": 0,
    "isolationLevel": "Serializable",
    "isBlindAppend": False,
    "engineInfo": "an engine",
    "txnId": "an id",
    "airflowDelta": {**RUN, "token": "the-token", "more": [1]},
}


def log_with(info=INFO, **configuration):
    handmade = HandmadeLog().create(**configuration)
    return handmade.commit({"commitInfo": info}, add("a", stats='{"numRecords":1}'))


def test_the_table_is_read_and_written():
    handmade = log_with()
    assert handmade.paths() == ["a"]
    transaction = handmade.log.start_transaction()
    assert transaction.commit(operation=Operation(name="WRITE"), allow_empty=True).version == 2


def test_the_history_shows_who_made_the_commit_without_its_parameters():
    newest, _ = log_with().log.history()
    info = newest.commit_info
    assert (newest.version, info.operation, info.txn_id, info.engine_info) == (1, "DELETE", "an id", "an engine")
    assert (info.timestamp, info.in_commit_timestamp, info.read_version, info.is_blind_append) == (TIME - 1, TIME, 0, False)
    assert info.operation_parameters == {}


def test_a_task_finds_its_commit_by_its_token_and_others_by_the_run():
    log = log_with().log
    assert log.find_commit("the-token", 0).version == 1
    assert log.find_commit("another", 0) is None
    assert log.history(1)[0].commit_info.origin.record == RUN


def test_the_time_of_the_commit_is_the_one_that_it_carries():
    assert log_with(**{"delta.enableInCommitTimestamps": "true"}).log.snapshot().timestamp == TIME


@pytest.mark.parametrize("is_blind_append", [True, False])
def test_a_conflict_is_decided_as_with_a_short_one(is_blind_append):
    handmade = HandmadeLog().create(add("a"), **{"delta.isolationLevel": "WriteSerializable"})
    transaction = handmade.log.start_transaction()
    transaction.read_whole_table()
    removes = removes_of(transaction.snapshot.files(), deletion_timestamp=1, data_change=True)
    handmade.commit({"commitInfo": {**INFO, "isBlindAppend": is_blind_append}}, add("b"))
    if is_blind_append:
        assert transaction.commit(removes=removes, operation=Operation(name="DELETE")).version == 2
    else:
        with pytest.raises(ConcurrentAppendError):
            transaction.commit(removes=removes, operation=Operation(name="DELETE"))


@pytest.mark.parametrize("info", [{"timestamp": "now"}, {"airflowDelta": 5}, {"airflowDelta": {"token": [1]}}], ids=str)
def test_what_is_not_of_the_usual_kind_counts_as_missing(info):
    handmade = log_with({**INFO, **info})
    assert handmade.paths() == ["a"]
    assert handmade.log.snapshot().commit_info.operation == "UNKNOWN"


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({"commitInfo": {"operation": LONG}, "metaData": {"id": "x"}}, separators=(",", ":")),
        json.dumps({"commitInfo": {"operation": LONG}}, separators=(",", ":"))[:-1] + ',"x"}',
        json.dumps({"txn": {"appId": LONG, "version": 1}}, separators=(",", ":")),
    ],
    ids=["another action in the line", "no JSON", "an action that counts"],
)
def test_nothing_else_that_is_too_long_is_overlooked(line):
    handmade = HandmadeLog().create().commit(line)
    with pytest.raises(CorruptLogError) as caught:
        handmade.log.snapshot()
    assert caught.value.file == commit_path(1)
