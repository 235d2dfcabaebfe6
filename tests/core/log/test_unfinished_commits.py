"""A commit that is cut off: unfinished while it is the newest, damaged once the log goes on behind it."""

from collections import Counter

import pytest

from airflow_delta.core.actions import SetTransaction
from airflow_delta.core.errors import CorruptLogError, UnfinishedCommitError
from airflow_delta.core.log.commit_reader import read_commit, read_commit_info, read_commits, read_metadata
from airflow_delta.core.log.file_names import checkpoint_path, commit_path, compacted_path, v2_checkpoint_path
from airflow_delta.core.transaction.operation import Operation
from tests.core.builders import HandmadeLog, add, metadata, protocol

FEED = {"delta.enableChangeDataFeed": "true"}
WRITE = Operation(name="WRITE")
CUT_OFF = b'{"commitInfo":{"timestamp":5},"metaData":{"id'
TRUNCATED = [CUT_OFF, b'{"commitInfo":{"operation":"WRITE"}}\n{"add":{"path":"b","partitionVal', b'\0"commitInfo":{}}\n']


def log_with(content, *, later=()):
    """Versions 0, 1 with this content, and later ones."""
    handmade = HandmadeLog().create(add("a"), **FEED)
    handmade.store.write(commit_path(1), content)
    for version in later:
        handmade.commit(add(f"f{version}"), version=version)
    return handmade


def commit_after_version_0(handmade):
    """A commit that finds version 1 in its way."""
    content = handmade.store.read(commit_path(1))
    later = [version for version in (2, 3) if handmade.store.exists(commit_path(version))]
    handmade.remove_commits(1, *later)
    transaction = handmade.log.start_transaction()
    handmade.store.write(commit_path(1), content)
    for version in later:
        handmade.commit(add(f"f{version}"), version=version)
    transaction.commit(transactions=[SetTransaction(app_id="a", version=1)], operation=WRITE)


READERS = {
    "the version": lambda handmade: handmade.log.snapshot(1).files(),
    "its commit": lambda handmade: read_commit(handmade.store, 1),
    "who made it": lambda handmade: read_commit_info(handmade.store, 1),
    "its metadata": lambda handmade: read_metadata(handmade.store, 1),
    "the history": lambda handmade: handmade.log.history(),
    "a conflict check": commit_after_version_0,
}


@pytest.mark.parametrize("reader", READERS)
def test_cut_off_with_later_commits_it_is_corrupt_for_every_reader(reader):
    handmade = log_with(CUT_OFF, later=(2, 3))
    with pytest.raises(CorruptLogError) as caught:
        READERS[reader](handmade)
    assert type(caught.value) is CorruptLogError
    assert (caught.value.file, caught.value.retryable) == (commit_path(1), False)
    assert caught.value.detail == "it is cut off in line 1, although later commits exist"


@pytest.mark.parametrize("reader", READERS)
def test_cut_off_as_the_newest_it_is_unfinished_for_every_reader(reader):
    with pytest.raises(UnfinishedCommitError) as caught:
        READERS[reader](log_with(CUT_OFF))
    assert (caught.value.file, caught.value.retryable) == (commit_path(1), True)


def test_the_change_feed_names_a_cut_off_commit_as_corrupt():
    handmade = log_with(CUT_OFF, later=(2,)).checkpoint(2, protocol(), metadata(None, (), **FEED), add("a"))
    with pytest.raises(CorruptLogError) as caught:
        list(handmade.log.changes(1))
    assert (caught.value.code, caught.value.file) == ("DELTA_CORRUPT_LOG", commit_path(1))


@pytest.mark.parametrize("content", TRUNCATED)
def test_the_newest_version_behind_a_cut_off_commit_says_that_it_is_corrupt(content):
    with pytest.raises(CorruptLogError, match="although later commits exist") as caught:
        log_with(content, later=(2,)).log.snapshot()
    assert (caught.value.code, caught.value.file) == ("DELTA_CORRUPT_LOG", commit_path(1))
    assert caught.value.detail.startswith("it is cut off in line ")


@pytest.mark.parametrize("content", [b"", b"\n", b"{}"])
def test_an_empty_commit_in_the_way_of_another_one_is_corrupt_if_later_ones_exist(content):
    with pytest.raises(CorruptLogError) as caught:
        commit_after_version_0(log_with(content, later=(2,)))
    assert (caught.value.code, caught.value.detail) == ("DELTA_CORRUPT_LOG", "it is empty, although later commits exist")


def test_behind_a_gap_there_are_later_commits_too():
    with pytest.raises(CorruptLogError) as caught:
        read_commit(log_with(CUT_OFF, later=(3,)).store, 1)
    assert caught.value.detail == "it is cut off in line 1, although later commits exist"


def test_a_newest_commit_with_a_checkpoint_was_complete_once():
    handmade = log_with(CUT_OFF).checkpoint(1, protocol(), metadata(), add("a"))
    with pytest.raises(CorruptLogError) as caught:
        read_commit(handmade.store, 1)
    assert (caught.value.code, caught.value.retryable) == ("DELTA_CORRUPT_LOG", False)
    assert caught.value.detail == "it is cut off in line 1, although its version has a checkpoint"


def test_a_compacted_file_does_not_hide_which_commit_is_cut_off():
    handmade = log_with(CUT_OFF, later=(2, 3))
    handmade.store.write(compacted_path(2, 3), b'{"add":')
    with pytest.raises(CorruptLogError) as caught:
        handmade.log.snapshot()
    assert (caught.value.code, caught.value.file) == ("DELTA_CORRUPT_LOG", commit_path(1))


@pytest.mark.parametrize("path", [checkpoint_path(1), v2_checkpoint_path(1, "0a-b", "json")])
def test_a_checkpoint_that_is_cut_off_is_no_unfinished_commit(path):
    handmade = HandmadeLog()
    handmade.store.write(path, b'{"checkpointMetadata":{"vers')
    with pytest.raises(CorruptLogError) as caught:
        handmade.log.snapshot()
    assert (caught.value.code, caught.value.file, caught.value.retryable) == ("DELTA_CORRUPT_LOG", path, False)


def test_a_commit_that_is_finished_while_it_is_read_is_read_again(monkeypatch):
    handmade = log_with(CUT_OFF)
    listing = handmade.store.list_from

    def finished_before_the_listing(directory, start=""):
        handmade.commit(add("b"), version=1).commit(add("c"))
        return listing(directory, start)

    monkeypatch.setattr(handmade.store, "list_from", finished_before_the_listing)
    assert read_commits(handmade.store, [0, 1]).adds["path"].to_pylist() == ["a", "b"]


def test_of_two_commits_the_one_still_being_written_is_the_unfinished_one(monkeypatch):
    handmade = log_with(CUT_OFF)
    handmade.store.write(commit_path(2), CUT_OFF)
    listing = handmade.store.list_from

    def finished_before_the_listing(directory, start=""):
        handmade.commit(add("b"), version=1)
        return listing(directory, start)

    monkeypatch.setattr(handmade.store, "list_from", finished_before_the_listing)
    with pytest.raises(UnfinishedCommitError) as caught:
        read_commits(handmade.store, [0, 1, 2])
    assert (caught.value.file, caught.value.retryable) == (commit_path(2), True)


def test_whether_a_commit_is_the_newest_costs_one_listing_and_only_for_one_that_is_cut_off(monkeypatch):
    handmade, calls = log_with(CUT_OFF), Counter()
    for method in ("read", "exists", "list_from"):
        wrapped = getattr(handmade.store, method)

        def counted(*arguments, method=method, wrapped=wrapped):
            calls[method] += 1
            return wrapped(*arguments)

        monkeypatch.setattr(handmade.store, method, counted)
    with pytest.raises(UnfinishedCommitError):
        read_commit(handmade.store, 1)
    assert calls == {"read": 1, "list_from": 1}
    calls.clear()
    read_commit(handmade.store, 0)
    assert calls == {"read": 1}
