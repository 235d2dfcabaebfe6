"""A commit on storage that loses answers: whatever fails, the log holds the commit whole, or not at all."""

from collections import Counter

import pytest

from airflow_delta.core.actions import Origin
from airflow_delta.core.backoff import Backoff
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    AccessDeniedError,
    CommitStateUnknownError,
    ConcurrentAppendError,
    CorruptLogError,
    StorageAccessError,
    UnfinishedCommitError,
)
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.transaction.operation import Operation

WRITE = Operation(name="WRITE")
FOR_EVER = 1000


class FaultyStore(InMemoryLogStore):
    """Raises at chosen calls: ``faults[(method, call number)]`` is ``before`` or ``after`` the real work."""

    def __init__(self, clock):
        super().__init__(clock=clock)
        self.faults = {}
        self.calls = Counter()

    def _call(self, method, *arguments):
        number = self.calls[method]
        self.calls[method] += 1
        fault = self.faults.get((method, number))
        if fault == "before":
            raise TimeoutError("no answer")
        answer = getattr(super(), method)(*arguments)
        if fault == "after":
            raise TimeoutError("no answer")
        return answer

    def write_if_absent(self, path, content):
        self._call("write_if_absent", path, content)

    def exists(self, path):
        return self._call("exists", path)

    def read(self, path):
        return self._call("read", path)

    def list_from(self, directory, start=""):
        return iter(self._call("list_from", directory, start))


@pytest.fixture
def faulty(metadata, clock):
    """A table at version 0 and its store, which works until faults are set."""
    log = DeltaLog(FaultyStore(clock), clock=clock, backoff=Backoff(tries=3, sleep=lambda _: None))
    log.create_transaction(metadata).commit(operation=WRITE)
    return log


def break_store(log, faults):
    log.store.faults = faults
    log.store.calls.clear()


def versions(log):
    """Each version's added paths, as a new reader sees them."""
    log.store.faults = {}
    fresh = DeltaLog(log.store)
    return [fresh.snapshot(version).files()["path"].to_pylist() for version in range(1, fresh.refresh().version + 1)]


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_lost_answer_to_our_own_write_is_found_to_be_our_commit(faulty, added, lost):
    transaction = faulty.start_transaction()
    break_store(faulty, {("write_if_absent", number): "after" for number in range(lost)})

    result = transaction.commit(adds=added(("a", "1", None)), operation=WRITE)

    assert (result.version, result.committed, result.already_committed) == (1, True, False)
    assert versions(faulty) == [["a"]]


def test_a_write_that_did_not_arrive_is_sent_again(faulty, added):
    transaction = faulty.start_transaction()
    break_store(faulty, {("write_if_absent", number): "before" for number in range(2)})
    assert transaction.commit(adds=added(("a", "1", None)), operation=WRITE).version == 1
    assert versions(faulty) == [["a"]]


def test_a_store_that_takes_no_writes_ends_in_an_unknown_state_with_our_id(faulty, added):
    transaction = faulty.start_transaction()
    break_store(faulty, {("write_if_absent", number): "before" for number in range(FOR_EVER)})

    with pytest.raises(CommitStateUnknownError) as caught:
        transaction.commit(adds=added(("a", "1", None)), operation=WRITE)

    assert (caught.value.version, caught.value.retryable) == (1, True)
    assert caught.value.txn_id
    assert "no answer" in caught.value.detail
    assert faulty.store.calls["write_if_absent"] == 3
    assert versions(faulty) == []


def test_to_commit_again_after_an_unknown_state_commits_once(faulty, added):
    transaction = faulty.start_transaction()
    adds = added(("a", "1", None))
    break_store(faulty, {(method, number): "after" for method in ("write_if_absent", "exists", "read") for number in range(9)})
    with pytest.raises(CommitStateUnknownError):
        transaction.commit(adds=adds, operation=WRITE)
    faulty.store.faults = {}
    assert transaction.commit(adds=adds, operation=WRITE).version == 1
    assert versions(faulty) == [["a"]]


def test_a_lost_answer_whose_version_another_writer_took_first_is_a_race_like_any(faulty, added):
    reader, append = faulty.start_transaction(), faulty.start_transaction()
    reader.files("day = '1'")
    faulty.start_transaction().commit(adds=added(("other", "1", None)), operation=WRITE)
    for transaction, error in ((reader, ConcurrentAppendError), (append, None)):
        break_store(faulty, {("write_if_absent", number): "before" for number in range(2)})
        if error:
            with pytest.raises(error):
                transaction.commit(adds=added(("a", "1", None)), operation=WRITE)
        else:
            break_store(faulty, {("write_if_absent", 1): "after"})
            assert transaction.commit(adds=added(("b", "1", None)), operation=WRITE).version == 2
    assert versions(faulty) == [["other"], ["other", "b"]]


def test_our_own_commit_is_recognized_behind_a_winner_that_would_forbid_it(faulty, added):
    """A duplicate attempt that went on after its task was given up: its commit counts, whatever else has happened since."""
    late, duplicate = faulty.start_transaction(), faulty.start_transaction()
    late.files("day = '1'")
    faulty.start_transaction().commit(adds=added(("other", "1", None)), operation=WRITE)
    duplicate.commit(adds=added(("a", "2", None)), operation=WRITE, origin=Origin(token="t"))
    result = late.commit(adds=added(("a2", "2", None)), operation=WRITE, origin=Origin(token="t"))
    assert (result.version, result.already_committed, result.conflicts) == (2, True, ())
    assert faulty.refresh().version == 2


@pytest.mark.parametrize("raced", [False, True])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("failures", [1, 2, 3, FOR_EVER])
@pytest.mark.parametrize("method", ["write_if_absent", "exists", "read", "list_from"])
@pytest.mark.parametrize("first", [0, 1, 2])
def test_whatever_fails_nothing_is_half_committed_and_a_commit_is_there_once(
    faulty, added, *, raced, moment, failures, method, first
):
    transaction = faulty.start_transaction()
    if raced:
        faulty.start_transaction().commit(adds=added(("other", "1", None)), operation=WRITE)
    others = [["other"]] if raced else []
    break_store(faulty, {(method, number): moment for number in range(first, first + failures)})

    try:
        result = transaction.commit(adds=added(("a", "1", None), ("b", "2", None)), operation=WRITE)
    except (CommitStateUnknownError, TimeoutError):
        result = None

    found = [[path for path in paths if path != "other"] for paths in versions(faulty)]
    whole = [*([[]] if raced else []), ["a", "b"]]
    assert found in (whole, [[] for _ in others])
    if result:
        assert found == whole
        assert (result.version, result.already_committed) == (len(whole), False)


def test_a_crash_between_write_and_answer_leaves_a_commit_that_a_second_try_finds_by_its_token(faulty, added):
    transaction = faulty.start_transaction()
    break_store(faulty, {(method, number): "after" for method in ("write_if_absent", "exists", "read") for number in range(9)})
    with pytest.raises(CommitStateUnknownError):
        transaction.commit(adds=added(("a", "1", None)), operation=WRITE, origin=Origin(token="t"))
    faulty.store.faults = {}
    found = faulty.find_commit("t", after=0)
    assert found is not None
    assert found.version == 1
    assert faulty.store.exists(commit_path(1))


def test_a_winner_whose_content_is_still_on_its_way_is_not_built_upon(faulty, added, removed):
    faulty.start_transaction().commit(adds=added(("a", "1", None)), operation=WRITE)
    transaction = faulty.start_transaction()
    transaction.files()
    faulty.store.write(commit_path(2), b"")
    with pytest.raises(UnfinishedCommitError, match="delete the file") as caught:
        transaction.commit(removes=removed("a"), operation=WRITE)
    assert caught.value.file == commit_path(2)
    assert versions(faulty) == [["a"], ["a"]]


def test_our_own_commit_whose_answer_was_lost_is_found_before_a_half_written_one_behind_it(faulty, added):
    transaction = faulty.start_transaction()
    faulty.store.write(commit_path(2), b'{"commitInfo":{"timest')
    break_store(faulty, {("write_if_absent", 0): "after"})
    assert transaction.commit(adds=added(("a", "1", None)), operation=WRITE).version == 1


def test_a_commit_without_an_id_is_not_ours_for_having_none_either(faulty, added):
    transaction = faulty.start_transaction()
    transaction._txn_id = None
    faulty.store.write(commit_path(1), b'{"commitInfo":{"operation":"WRITE"}}')
    assert transaction.commit(adds=added(("a", "1", None)), operation=WRITE).version == 2


UNREADABLE = b'{"add":{"path":"b","partitionValues":{"day":5},"size":1,"modificationTime":1,"dataChange":true}}'


def test_our_own_commit_whose_answer_was_lost_is_found_before_one_behind_it_that_cannot_be_read(faulty, added):
    transaction = faulty.start_transaction()
    faulty.store.write(commit_path(2), UNREADABLE)
    break_store(faulty, {("write_if_absent", 0): "after"})
    assert transaction.commit(adds=added(("a", "1", None)), operation=WRITE).version == 1


def test_a_commit_that_cannot_be_read_forbids_the_one_that_is_to_follow_it(faulty, added):
    transaction = faulty.start_transaction()
    faulty.start_transaction().commit(adds=added(("a", "1", None)), operation=WRITE)
    faulty.store.write(commit_path(2), UNREADABLE)
    with pytest.raises(CorruptLogError) as caught:
        transaction.commit(adds=added(("b", "2", None)), operation=WRITE)
    assert (caught.value.file, caught.value.retryable) == (commit_path(2), False)
    assert not faulty.store.exists(commit_path(3))


@pytest.mark.parametrize("left", [b"", b"\0", b'{"commitInfo":{"timest', b'\0"commitInfo":{"operation":"WRITE"}}\n'])
def test_a_half_written_commit_says_so_and_once_it_is_deleted_the_next_commit_takes_its_version(faulty, added, left):
    faulty.start_transaction().commit(adds=added(("a", "1", None)), operation=WRITE)
    transaction = faulty.start_transaction()
    faulty.store.write(commit_path(2), left)
    with pytest.raises(UnfinishedCommitError, match="delete the file") as caught:
        transaction.commit(adds=added(("b", "1", None)), operation=WRITE)
    assert (caught.value.file, caught.value.retryable) == (commit_path(2), True)
    if left:
        with pytest.raises(UnfinishedCommitError, match="delete the file"):
            DeltaLog(faulty.store).snapshot()
    faulty.store.delete([commit_path(2)])
    assert DeltaLog(faulty.store).start_transaction().commit(adds=added(("b", "1", None)), operation=WRITE).version == 2


class RefusingStore(FaultyStore):
    """Its faults are refusals, as of credentials that ended."""

    refusal = StorageAccessError(uri="memory://table", detail="the token has expired")

    def _call(self, method, *arguments):
        try:
            return super()._call(method, *arguments)
        except TimeoutError as error:
            if (method, self.calls[method] - 1) in self.refusals:
                raise self.refusal from error
            raise


@pytest.fixture
def refusing(metadata, clock):
    log = DeltaLog(RefusingStore(clock), clock=clock, backoff=Backoff(tries=3, sleep=lambda _: None))
    log.create_transaction(metadata).commit(operation=WRITE)
    return log


def test_a_store_that_refuses_to_write_and_shows_that_nothing_was_written_is_an_error_of_access(refusing, added):
    transaction = refusing.start_transaction()
    break_store(refusing, {("write_if_absent", 0): "before"})
    refusing.store.refusals = {("write_if_absent", 0)}
    with pytest.raises(StorageAccessError):
        transaction.commit(adds=added(("a", "1", None)), operation=WRITE)
    assert refusing.store.calls["write_if_absent"] == 1
    assert versions(refusing) == []


NO_NEW_KEYS = AccessDeniedError(table="sales.orders", detail="the token has expired")  # of a catalog that vends keys


@pytest.mark.parametrize("refusal", [RefusingStore.refusal, NO_NEW_KEYS], ids=["storage", "catalog"])
def test_credentials_that_end_after_a_lost_answer_leave_the_state_unknown(refusing, added, refusal):
    """The first sending arrived; the second is refused, and so is the question whether it arrived."""
    refusing.store.refusal = refusal
    transaction = refusing.start_transaction()
    faults = {("write_if_absent", 0): "after", ("write_if_absent", 1): "before"} | {("exists", n): "before" for n in range(9)}
    break_store(refusing, faults)
    refusing.store.refusals = set(faults) - {("write_if_absent", 0)}
    with pytest.raises(CommitStateUnknownError) as caught:
        transaction.commit(adds=added(("a", "1", None)), operation=WRITE)
    assert "the token has expired" in caught.value.detail
    assert versions(refusing) == [["a"]]


def test_a_refused_second_sending_of_a_commit_that_arrived_is_a_success(refusing, added):
    transaction = refusing.start_transaction()
    break_store(refusing, {("write_if_absent", 0): "after", ("write_if_absent", 1): "before"})
    refusing.store.refusals = {("write_if_absent", 1)}
    assert transaction.commit(adds=added(("a", "1", None)), operation=WRITE).version == 1
    assert versions(refusing) == [["a"]]


def test_pauses_grow_between_requests_without_answer_and_between_lost_races(metadata, clock, added):
    pauses = []
    log = DeltaLog(FaultyStore(clock), clock=clock, backoff=Backoff(tries=4, first=1, sleep=pauses.append, jitter=lambda: 0.0))
    log.create_transaction(metadata).commit(operation=WRITE)
    transaction = log.start_transaction()
    break_store(log, {("write_if_absent", number): "before" for number in range(3)})
    transaction.commit(adds=added(("a", "1", None)), operation=WRITE)
    assert pauses == [0.5, 1.0, 2.0]

    class Overtaken(FaultyStore):
        concurrent_writers = 4

        def write_if_absent(self, path, content):
            if self.concurrent_writers:
                self.concurrent_writers -= 1
                concurrent_writer = DeltaLog(log.store, clock=clock)
                concurrent_writer.start_transaction().commit(
                    adds=added((f"r{self.concurrent_writers}", "1", None)), operation=WRITE
                )
            log.store.write_if_absent(path, content)

    pauses.clear()
    overtaken = Overtaken(clock)
    overtaken._files = log.store._files
    late = DeltaLog(overtaken, clock=clock, backoff=log.backoff)
    result = late.start_transaction().commit(adds=added(("b", "1", None)), operation=WRITE)
    assert (result.version, result.attempts) == (6, 5)
    assert pauses == [0.5, 1.0, 2.0]


def test_commits_that_come_while_a_writer_waits_do_not_cost_it_the_next_attempt(metadata, clock, added):
    """A writer that waits longer than others take for a commit would lose for ever."""
    log = DeltaLog(InMemoryLogStore(clock=clock), clock=clock)
    log.create_transaction(metadata).commit(operation=WRITE)

    def commit_another(*_):
        number = log.refresh().version
        log.start_transaction().commit(adds=added((f"r{number}", "1", None)), operation=WRITE)

    class Overtaken(InMemoryLogStore):
        concurrent_writers = 2

        def write_if_absent(self, path, content):
            if self.concurrent_writers:
                self.concurrent_writers -= 1
                commit_another()
            log.store.write_if_absent(path, content)

    overtaken = Overtaken(clock=clock)
    overtaken._files = log.store._files
    late = DeltaLog(overtaken, clock=clock, backoff=Backoff(tries=4, sleep=commit_another))
    result = late.start_transaction().commit(adds=added(("b", "1", None)), operation=WRITE)
    assert (result.version, result.attempts, len(result.conflicts)) == (4, 3, 3)
