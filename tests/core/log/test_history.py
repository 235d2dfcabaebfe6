from dataclasses import replace

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    InvalidStatementError,
    LogGapError,
    TableNotFoundError,
    TimestampOutOfRangeError,
    TokenHistoryLostError,
)
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.log.history import CommitTimes, InCommitTimestamps, history, monotonic_times
from airflow_delta.core.log.timestamp import milliseconds
from airflow_delta.core.storage.log_store import FileStatus
from airflow_delta.core.table_features.protocol import protocol_for
from airflow_delta.core.transaction.operation import Operation
from tests.core.builders import HandmadeLog, add, metadata, protocol

WITH_TIMES = {"delta.enableInCommitTimestamps": "true"}


def info(operation="WRITE", **fields):
    return {"commitInfo": {"timestamp": 1, "operation": operation, **fields}}


def five_commits():
    """Versions 0 to 4 at 1 s to 5 s."""
    handmade = HandmadeLog().create(info("CREATE TABLE"))
    for version in range(1, 5):
        handmade.commit(info(version=version), add(f"f{version}"))
    return handmade


def test_history_is_newest_first_with_time_and_commit_info():
    entries = five_commits().log.history()
    assert [(entry.version, entry.timestamp) for entry in entries] == [(4, 5000), (3, 4000), (2, 3000), (1, 2000), (0, 1000)]
    assert [entry.commit_info.operation for entry in entries] == ["WRITE"] * 4 + ["CREATE TABLE"]


def test_history_reads_no_more_commits_than_asked_for(monkeypatch):
    handmade = five_commits()
    log = handmade.log
    log.refresh()
    read, paths = handmade.store.read, []
    monkeypatch.setattr(handmade.store, "read", lambda path: paths.append(path) or read(path))
    assert [entry.version for entry in log.history(2)] == [4, 3]
    assert len(paths) == 2


@pytest.mark.parametrize("limit", ["2", 2.0, -1])
def test_a_limit_that_is_no_number_of_commits_is_refused(limit):
    with pytest.raises(InvalidStatementError, match="limit"):
        five_commits().log.history(limit)


def test_a_limit_beyond_every_history_is_all_of_it():
    assert len(five_commits().log.history(10**30)) == 5


@pytest.mark.parametrize("version", ["1", 1.0, [1]])
def test_a_version_that_is_no_whole_number_is_refused(version):
    with pytest.raises(InvalidStatementError, match="the version must be a whole number, found"):
        five_commits().log.snapshot(version)


def test_a_time_that_is_neither_a_number_nor_a_text_is_refused():
    with pytest.raises(InvalidStatementError, match="expected an ISO date or time"):
        five_commits().log.snapshot(timestamp=[1])


def test_history_shows_what_is_left_after_a_cleanup_and_commits_of_unknown_writers():
    handmade = HandmadeLog().create().commit(add("a")).checkpoint(1, protocol(), metadata()).remove_commits(0)
    assert [(entry.version, entry.commit_info) for entry in handmade.log.history()] == [(1, None)]


def test_commits_that_are_cleaned_up_while_history_is_read_are_left_out():
    handmade = five_commits().checkpoint(3, protocol(), metadata())
    entries = history(handmade.store, InCommitTimestamps(enabled_at=None))
    assert next(entries).version == 4
    handmade.remove_commits(0, 1, 2)
    assert [(entry.version, entry.timestamp) for entry in entries] == [(3, 4000)]


def test_the_history_of_a_table_that_is_dropped_after_it_was_listed_is_an_error():
    handmade = five_commits()
    list_from = handmade.store.list_from

    def dropped_then(directory, start=""):
        listed = list(list_from(directory, start))
        handmade.remove_commits(*range(5))
        return iter(listed)

    handmade.store.list_from = dropped_then
    with pytest.raises(LogGapError):
        next(history(handmade.store, InCommitTimestamps(enabled_at=None)))


def test_of_a_table_with_nothing_but_a_checkpoint_no_history_is_left():
    handmade = HandmadeLog().create().checkpoint(0, protocol(), metadata()).remove_commits(0)
    assert handmade.log.snapshot().version == 0
    assert handmade.log.history() == []


def test_the_last_version_is_known_from_a_checkpoint_whose_commit_is_gone():
    handmade = HandmadeLog().create().checkpoint(0, protocol(), metadata()).remove_commits(0)
    times = CommitTimes(handmade.store, InCommitTimestamps(enabled_at=None))
    assert times.head == 0
    for search in (times.first_from, times.last_until):
        with pytest.raises(TimestampOutOfRangeError):
            search(1000)
    with pytest.raises(TimestampOutOfRangeError):
        handmade.log.snapshot(timestamp=1000)


def test_history_of_a_table_that_cannot_be_read_is_there():
    handmade = HandmadeLog().commit(protocol(3, 7, readerFeatures=["novelty"], writerFeatures=["novelty"]), metadata(), info())
    assert [entry.commit_info.operation for entry in handmade.log.history()] == ["WRITE"]


def test_there_is_no_history_of_no_table():
    with pytest.raises(TableNotFoundError):
        HandmadeLog().log.history()


@pytest.mark.parametrize(("timestamp", "version"), [(1000, 0), (1999, 0), (2000, 1), (4500, 3), (5000, 4)])
def test_a_time_means_the_version_that_was_the_latest_then(timestamp, version):
    assert five_commits().log.snapshot(timestamp=timestamp).version == version


@pytest.mark.parametrize("timestamp", [999, 5001, -1])
def test_a_time_out_of_range_is_refused_with_the_range(timestamp):
    with pytest.raises(TimestampOutOfRangeError) as caught:
        five_commits().log.snapshot(timestamp=timestamp)
    assert (caught.value.timestamp, caught.value.earliest, caught.value.latest) == (timestamp, 1000, 5000)
    assert "reach from 1970-01-01 00:00:01.000 UTC to 1970-01-01 00:00:05.000 UTC" in str(caught.value)


def test_a_time_before_the_first_version_that_can_be_rebuilt_is_refused():
    handmade = five_commits().checkpoint(3, protocol(), metadata()).remove_commits(0, 1)
    assert handmade.log.snapshot(timestamp=4000).version == 3
    with pytest.raises(TimestampOutOfRangeError) as caught:
        handmade.log.snapshot(timestamp=3000)
    assert caught.value.earliest == 4000


def test_times_of_commits_ascend_also_where_a_clock_ran_backwards():
    times = monotonic_times({version: FileStatus("", 0, time) for version, time in enumerate([5, 3, 3, 9, 8, 20])})
    assert list(times.values()) == [5, 6, 7, 9, 10, 20]


def test_commits_that_carry_their_time_are_found_by_it_whatever_the_files_say():
    handmade = HandmadeLog().commit(info(inCommitTimestamp=500), protocol(1, 7), metadata(None, (), **WITH_TIMES))
    for version in range(1, 4):
        handmade.commit(info(inCommitTimestamp=500 + version * 10))
    log = handmade.log
    assert [entry.timestamp for entry in log.history()] == [530, 520, 510, 500]
    assert [log.snapshot(timestamp=time).version for time in (500, 519, 520, 530)] == [0, 1, 2, 3]
    assert log.snapshot(2).timestamp == 520
    with pytest.raises(TimestampOutOfRangeError):
        log.snapshot(timestamp=531)


def with_a_clock_that_ran_backwards():
    """Versions 0 to 2, with file times of 1 s, 9 s and 5 s."""
    handmade = HandmadeLog().create(info())
    for time in (9_000, 5_000):
        handmade.now = time - 1_000
        handmade.commit(info(), add(str(time)))
    return handmade


def test_the_time_in_history_names_the_version_where_a_clock_ran_backwards():
    log = with_a_clock_that_ran_backwards().log
    snapshots = [log.snapshot(version) for version in range(3)]
    assert [snapshot.timestamp for snapshot in snapshots] == [1_000, 9_000, 5_000]
    times = [snapshot.history_timestamp for snapshot in snapshots]
    assert times == [entry.timestamp for entry in reversed(log.history())] == [1_000, 9_000, 9_001]
    assert [log.snapshot(timestamp=time).version for time in times] == [0, 1, 2]


@pytest.mark.parametrize("commits_meanwhile", [0, 2])
def test_times_that_commits_carry_begin_after_those_of_a_clock_that_ran_backwards(commits_meanwhile):
    handmade = with_a_clock_that_ran_backwards()
    log = DeltaLog(handmade.store, clock=lambda: 4_000)
    transaction = log.start_transaction()
    transaction.set_metadata(replace(transaction.metadata, configuration=WITH_TIMES))
    transaction.set_protocol(protocol_for(transaction.metadata))
    for _ in range(commits_meanwhile):
        handmade.now = 5_000
        handmade.commit(info(), add(f"later{len(handmade.paths())}"))
    enabled = transaction.commit(operation=Operation(name="SET TBLPROPERTIES"))
    times = [entry.timestamp for entry in reversed(log.history())]
    assert times == [1_000, 9_000, 9_001, 9_002, 9_003, 9_004][: enabled.version + 1]
    assert [log.snapshot(timestamp=time).version for time in times] == list(range(enabled.version + 1))


def test_the_time_in_history_of_a_version_of_which_only_the_checkpoint_is_left_is_that_of_the_checkpoint():
    handmade = HandmadeLog().create().commit().checkpoint(1, protocol(), metadata()).remove_commits(0, 1)
    assert handmade.log.snapshot().history_timestamp == handmade.log.snapshot().timestamp == 3_000


def test_the_time_in_history_of_a_commit_that_carries_its_time_costs_no_listing(monkeypatch):
    handmade = HandmadeLog().commit(info(inCommitTimestamp=500), protocol(1, 7), metadata(None, (), **WITH_TIMES))
    snapshot = handmade.log.snapshot()
    monkeypatch.setattr(handmade.store, "list_from", None)
    assert snapshot.history_timestamp == 500


def test_before_the_enablement_version_the_files_times_count():
    properties = {
        **WITH_TIMES,
        "delta.inCommitTimestampEnablementVersion": "2",
        "delta.inCommitTimestampEnablementTimestamp": "9000",
    }
    handmade = HandmadeLog().create(info()).commit(info())
    handmade.commit(info(inCommitTimestamp=9000), protocol(1, 7), metadata(None, (), **properties))
    handmade.commit(info(inCommitTimestamp=9500))
    log = handmade.log
    assert [entry.timestamp for entry in log.history()] == [9500, 9000, 2000, 1000]
    assert [log.snapshot(timestamp=time).version for time in (1000, 2000, 8999, 9000, 9499, 9500)] == [0, 1, 1, 2, 2, 3]


@pytest.mark.parametrize("version", ["x", "-1", "9" * 5_000])
def test_an_enablement_version_that_is_none_counts_as_the_first_one(version):
    properties = {**WITH_TIMES, "delta.inCommitTimestampEnablementVersion": version}
    handmade = HandmadeLog().commit(info(inCommitTimestamp=500), protocol(1, 7), metadata(None, (), **properties))
    assert handmade.log.snapshot().timestamp == 500


def test_times_that_commits_carry_count_also_where_a_copy_made_all_files_newer():
    properties = {**WITH_TIMES, "delta.inCommitTimestampEnablementVersion": "5"}
    handmade = five_commits()  # the files say 1000, 2000, ...
    handmade.commit(info(inCommitTimestamp=10), protocol(1, 7), metadata(None, (), **properties))
    handmade.commit(info(inCommitTimestamp=20)).commit(info(inCommitTimestamp=30))
    log = handmade.log
    assert [log.snapshot(timestamp=time).version for time in (10, 19, 20, 30)] == [5, 5, 6, 7]
    for outside in (9, 31):
        with pytest.raises(TimestampOutOfRangeError):
            log.snapshot(timestamp=outside)


def test_the_time_of_a_snapshot_is_its_commits():
    log = five_commits().log
    assert [log.snapshot(version).timestamp for version in range(5)] == [1000, 2000, 3000, 4000, 5000]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (1234, 1234),
        ("1970-01-01T00:00:01.234", 1234),
        ("1970-01-01 00:00:01.2349", 1234),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-02", 86_400_000),
        ("1969-12-31T23:59:59.999Z", -1),
    ],
)
def test_times_are_milliseconds_or_iso_text(text, expected):
    assert milliseconds(text) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "2020-13-01", "{{ ds }}"])
def test_a_text_that_is_no_time_is_refused_by_name(text):
    with pytest.raises(InvalidStatementError) as caught:
        five_commits().log.snapshot(timestamp=text)
    assert repr(text) in caught.value.statement


def test_version_and_time_together_are_a_mistake():
    with pytest.raises(ValueError, match="not both"):
        five_commits().log.snapshot(version=1, timestamp=2000)


def test_a_commit_is_found_by_its_token_after_a_version():
    handmade = five_commits()
    handmade.commit(info("MERGE", airflowDelta={"token": "mine", "task": "t"}), add("x"))
    handmade.commit(info("WRITE", userMetadata="about mine"), add("y"))
    log = handmade.log
    found = log.find_commit("mine", after=2)
    assert (found.version, found.timestamp, found.commit_info.operation) == (5, 6000, "MERGE")
    assert log.find_commit("mine", after=5) is None
    assert log.find_commit("other", after=2) is None
    assert log.find_commit("mine", after=99) is None


def test_a_token_is_looked_for_in_a_table_that_does_not_exist_yet():
    assert HandmadeLog().log.find_commit("mine", after=-1) is None


@pytest.mark.parametrize("reads_before", [0, 1])
def test_commits_that_are_cleaned_up_while_a_token_is_looked_for_leave_the_answer_unknown(monkeypatch, reads_before):
    handmade = five_commits()
    handmade.commit(info("MERGE", airflowDelta={"token": "mine", "task": "t"}), add("x"))
    log, read, reads = handmade.log, handmade.store.read, []

    def read_beside_a_cleanup(path):
        if len(reads) == reads_before:
            handmade.remove_commits(0, 1, 2, 3)
        reads.append(path)
        return read(path)

    monkeypatch.setattr(handmade.store, "read", read_beside_a_cleanup)
    with pytest.raises(TokenHistoryLostError) as caught:
        log.find_commit("mine", after=1)
    assert (caught.value.after, caught.value.earliest, len(reads)) == (1, 4, reads_before + 1)


def test_whether_a_cleaned_up_commit_was_ours_is_not_known():
    handmade = five_commits().checkpoint(4, protocol(), metadata()).remove_commits(0, 1, 2)
    with pytest.raises(TokenHistoryLostError) as caught:
        handmade.log.find_commit("mine", after=1)
    assert (caught.value.after, caught.value.earliest) == (1, 3)
    assert handmade.log.find_commit("mine", after=2) is None
    with pytest.raises(TokenHistoryLostError):
        handmade.remove_commits(3, 4).log.find_commit("mine", after=2)


@pytest.mark.parametrize("hidden", [5, 6])
def test_our_commit_is_found_though_the_listing_was_past_its_place_when_it_came(monkeypatch, hidden):
    handmade = five_commits()
    for version in (5, 6):
        token = "mine" if version == hidden else "other"
        handmade.commit(info("MERGE", airflowDelta={"token": token}), add(f"x{version}"))
    handmade.commit(add("y"))
    listing, calls = handmade.store.list_from, []

    def overtaken(path, start=""):
        calls.append(start)
        gone = commit_path(hidden) if len(calls) == 1 else None
        return (file for file in listing(path, start) if file.path != gone)

    monkeypatch.setattr(handmade.store, "list_from", overtaken)
    assert handmade.log.find_commit("mine", after=4).version == hidden
