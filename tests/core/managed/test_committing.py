"""Commits to a catalog-managed table: staged, ratified, published; none is lost or duplicated, whatever fails in between."""

import json
from dataclasses import replace

import pytest

from airflow_delta.core.actions import Origin, removes_of
from airflow_delta.core.backoff import Backoff
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    CatalogAnswerError,
    CatalogRequiredError,
    CommitRefusedError,
    CommitStateUnknownError,
    ConcurrentDeleteReadError,
    InvalidCommitError,
    PublishedCommitError,
    TableNotFoundError,
)
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.log.managed_log_store import ManagedLogStore
from airflow_delta.core.operations.after_commit import AfterCommit
from airflow_delta.core.transaction.operation import Operation
from tests.core.managed.conftest import METADATA, PROTOCOL, WRITE, Managed, adds

PATIENCE = Backoff(tries=3, sleep=lambda _: None)


class Killed(BaseException):
    """Simulates the death of the process: no error handler catches it."""


class Faulty:
    """An object whose chosen calls fail; ``number`` counts the calls that change something."""

    def __init__(self, inner, journal, error=Killed):
        self._inner, self._journal, self._error = inner, journal, error

    def __getattr__(self, name):
        real = getattr(self._inner, name)
        if name not in {"write_if_absent", "write", "ratify", "published"}:
            return real

        def call(*arguments):
            number = self._journal["calls"]
            self._journal["calls"] += 1
            if self._journal.get("fail") == (number, "before"):
                raise self._error(name)
            answer = real(*arguments)
            if self._journal.get("fail") == (number, "after"):
                raise self._error(name)
            return answer

        return call


def faulty_log(managed, fail, error=Killed):
    journal = {"calls": 0, "fail": fail}
    store = ManagedLogStore(Faulty(managed.store, journal, error), Faulty(managed.catalog, journal, error))
    return DeltaLog(store, clock=managed.tick, backoff=PATIENCE), journal


def test_a_commit_is_staged_ratified_and_published_and_the_catalog_forgets_it(managed):
    result = managed.append("a")
    assert (result.version, result.hook_failures) == (1, ())
    assert managed.published_versions() == [0, 1]
    assert managed.catalog.ratified().commits == ()
    assert managed.catalog.ratified().latest == 1
    (staged,) = managed.store.list_from("_delta_log/_staged_commits")
    assert managed.store.read(staged.path) == managed.store.read(commit_path(1))


def test_a_commit_carries_its_time_and_its_transaction_id_and_times_ascend(managed):
    for name in "abc":
        managed.append(name)
    infos = [json.loads(managed.store.read(commit_path(version)).split(b"\n")[0])["commitInfo"] for version in range(4)]
    assert all(info["txnId"] for info in infos)
    times = [info["inCommitTimestamp"] for info in infos]
    assert times == sorted(set(times))


def test_the_loser_of_a_version_is_rebased_over_the_commits_that_were_ratified(managed):
    transaction = managed.log().start_transaction()
    managed.foreign_commit(1, "theirs")
    managed.foreign_commit(2, "theirs-too")
    result = transaction.commit(adds=adds("ours"), operation=WRITE)
    assert result.version == 3
    assert [conflict["version"] for conflict in result.conflicts] == [1, 2]
    assert managed.paths() == ["ours", "theirs", "theirs-too"]
    assert managed.published_versions() == [0, 1, 2, 3]


def test_a_ratified_commit_that_is_not_published_forbids_what_it_conflicts_with(managed):
    managed.append("a")
    transaction = managed.log().start_transaction()
    files = transaction.files()
    removes = removes_of(files, deletion_timestamp=1, data_change=True)
    other = managed.log().start_transaction()
    other.read_whole_table()
    store = other._store
    store.publish_ratified = lambda: 0
    other.commit(removes=removes, operation=Operation(name="DELETE"))
    assert managed.published_versions() == [0, 1]
    with pytest.raises(ConcurrentDeleteReadError):
        transaction.commit(removes=removes, adds=adds("b"), operation=Operation(name="UPDATE"))
    assert managed.paths() == []


def test_unpublished_commits_of_others_are_published_in_order_before_the_catalog_takes_more(managed):
    for version in range(1, 11):
        managed.foreign_commit(version, f"f{version}")
    order, real = [], managed.store.write_if_absent
    managed.store.write_if_absent = lambda path, content: (order.append(path), real(path, content))
    result = managed.append("ours")
    assert result.version == 11
    published = [path for path in order if "_staged_commits" not in path and path.endswith(".json")]
    assert published == [commit_path(version) for version in range(1, 12)]
    assert managed.catalog.ratified().commits == ()


def test_a_failed_publication_is_a_warning_and_the_next_writer_makes_up_for_it(managed):
    real = managed.store.write_if_absent

    def refuse(path, content):
        if path == commit_path(1):
            raise TimeoutError("no answer")
        real(path, content)

    managed.store.write_if_absent = refuse
    result = managed.append("a")
    assert result.version == 1
    assert result.hook_failures == ("TimeoutError: no answer",)
    assert managed.published_versions() == [0]
    assert managed.paths() == ["a"]
    managed.store.write_if_absent = real
    managed.append("b")
    assert managed.published_versions() == [0, 1, 2]
    assert managed.paths() == ["a", "b"]


def test_a_foreign_file_in_the_place_of_a_ratified_commit_does_not_replace_it(managed):
    managed.foreign_commit(1, "ratified")
    managed.store.write_if_absent(commit_path(1), managed.text("foreign")[0])
    with pytest.raises(PublishedCommitError, match=commit_path(1)):
        managed.log().store.publish_ratified()
    result = managed.append("a")
    assert (result.version, len(result.hook_failures)) == (2, 1)
    assert result.hook_failures[0].startswith("PublishedCommitError: ")
    assert managed.paths() == ["a", "ratified"]
    managed.store.delete([commit_path(1)])
    assert managed.append("b").hook_failures == ()
    assert managed.published_versions() == [0, 1, 2, 3]
    assert managed.paths() == ["a", "b", "ratified"]


def test_a_commit_without_time_is_refused_before_anything_is_staged(managed):
    store = managed.log().store
    with pytest.raises(CommitRefusedError, match="in-commit timestamp"):
        store.write_if_absent(commit_path(1), b'{"commitInfo":{"txnId":"t"}}')
    assert list(managed.store.list_from("_delta_log/_staged_commits")) == []


def test_in_commit_timestamps_cannot_be_switched_off(managed):
    transaction = managed.log().start_transaction()
    transaction.set_metadata(replace(METADATA, configuration={"delta.enableInCommitTimestamps": "false"}))
    with pytest.raises(InvalidCommitError, match="must keep in-commit timestamps"):
        transaction.commit(operation=Operation(name="SET TBLPROPERTIES"))


def test_the_catalog_is_shown_the_metadata_and_protocol_that_a_commit_changes_and_only_those(managed):
    seen, real = [], managed.catalog.ratify
    managed.catalog.ratify = lambda commit: (seen.append(commit), real(commit))
    managed.append("a")
    managed.log().alter().set_properties({"delta.appendOnly": "true"})
    assert (seen[0].metadata, seen[0].protocol) == (None, None)
    assert seen[1].metadata.configuration["delta.appendOnly"] == "true"


def calls_of_a_commit():
    log, journal = faulty_log(Managed(), None)
    log.start_transaction().commit(adds=adds("a"), operation=WRITE)
    return journal["calls"]


CALLS = calls_of_a_commit()
MOMENTS = [(number, moment) for number in range(CALLS) for moment in ("before", "after")]


@pytest.mark.parametrize("fail", MOMENTS, ids=lambda fail: f"{fail[1]}-call-{fail[0]}")
def test_a_process_that_ends_anywhere_in_a_commit_leaves_it_whole_or_not_at_all_and_the_next_goes_on(managed, fail):
    managed.foreign_commit(1, "theirs")
    log, _ = faulty_log(managed, fail)
    with pytest.raises(Killed):
        log.start_transaction().commit(adds=adds("a"), operation=WRITE)
    is_ratified = managed.catalog.ratified().latest == 2
    assert managed.paths() == (["a", "theirs"] if is_ratified else ["theirs"])
    result = managed.append("b")
    assert result.version == (3 if is_ratified else 2)
    assert managed.paths() == (["a", "b", "theirs"] if is_ratified else ["b", "theirs"])
    assert managed.published_versions() == list(range(result.version + 1))
    assert managed.catalog.ratified().commits == ()


@pytest.mark.parametrize("fail", MOMENTS, ids=lambda fail: f"{fail[1]}-call-{fail[0]}")
def test_a_lost_answer_anywhere_in_a_commit_is_settled_and_it_is_made_once(managed, fail):
    log, _ = faulty_log(managed, fail, error=TimeoutError)
    result = log.start_transaction().commit(adds=adds("a"), operation=WRITE)
    assert (result.version, result.committed) == (1, True)
    assert managed.paths() == ["a"]
    assert managed.append("b").version == 2
    assert managed.published_versions() == [0, 1, 2]


def test_a_catalog_that_never_answers_leaves_the_outcome_unknown_and_nothing_visible(managed):
    def silent(_commit):
        raise TimeoutError("no answer")

    managed.catalog.ratify = silent
    log = managed.log()
    log.backoff = PATIENCE
    with pytest.raises(CommitStateUnknownError):
        log.start_transaction().commit(adds=adds("a"), operation=WRITE)
    assert managed.paths() == []


REFUSALS = [
    CommitRefusedError(table="t", catalog="c", detail="INVALID_ARGUMENT"),
    CatalogAnswerError(table="t", catalog="c", detail="no JSON"),
    TableNotFoundError(table="t"),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda error: error.code)
def test_a_second_sending_that_the_catalog_refuses_is_a_success_where_the_first_one_was_ratified(managed, refusal):
    real, sendings = managed.catalog.ratify, []

    def ratify(commit):
        sendings.append(commit)
        if len(sendings) == 1:
            real(commit)
            raise TimeoutError("no answer")
        raise refusal

    managed.catalog.ratify = ratify
    log = managed.log()
    log.backoff = PATIENCE
    assert log.start_transaction().commit(adds=adds("a"), operation=WRITE).version == 1
    assert len(sendings) == 2
    assert managed.paths() == ["a"]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda error: error.code)
def test_a_commit_that_the_catalog_refuses_at_once_is_the_error_that_says_so(managed, refusal):
    def refuse(_commit):
        raise refusal

    managed.catalog.ratify = refuse
    with pytest.raises(type(refusal)):
        managed.append("a")
    assert managed.paths() == []


def test_a_table_that_was_dropped_meanwhile_is_the_error_that_says_so_and_not_an_unknown_outcome(managed):
    transaction = managed.log().start_transaction()

    def missing(*_):
        raise TableNotFoundError(table="t")

    managed.catalog.ratify = managed.catalog.ratified = missing
    with pytest.raises(TableNotFoundError):
        transaction.commit(adds=adds("a"), operation=WRITE)


def test_a_catalog_that_answers_nothing_sensible_after_a_lost_answer_leaves_the_outcome_unknown(managed):
    log = managed.log()
    log.backoff = PATIENCE
    transaction, real = log.start_transaction(), managed.catalog.ratify

    def refuse(*_):
        raise CatalogAnswerError(table="t", catalog="c", detail="no JSON")

    def ratify(commit):
        real(commit)
        managed.catalog.ratify = managed.catalog.ratified = refuse
        raise TimeoutError("no answer")

    managed.catalog.ratify = ratify
    with pytest.raises(CommitStateUnknownError, match="no JSON"):
        transaction.commit(adds=adds("a"), operation=WRITE)


def test_a_commit_is_found_by_the_task_that_made_it_before_it_is_published(managed, monkeypatch):
    monkeypatch.setattr(AfterCommit, "_publish", lambda *_: None)
    managed.log().start_transaction().commit(adds=adds("a"), operation=WRITE, origin=Origin(token="the-token"))
    assert managed.published_versions() == [0]
    assert managed.log().find_commit("the-token", 0).version == 1
    again = managed.log().start_transaction(managed.log().snapshot(0))
    result = again.commit(adds=adds("a2"), operation=WRITE, origin=Origin(token="the-token"))
    assert (result.version, result.already_committed) == (1, True)
    assert managed.paths() == ["a"]


def test_creating_a_table_writes_its_first_version_directly(managed):
    assert managed.log().snapshot(0).protocol == PROTOCOL
    assert managed.catalog.ratified().latest is None
    assert managed.published_versions() == [0]


def test_a_table_with_the_former_name_of_the_feature_is_read_and_committed_to():
    managed = Managed(feature="catalogOwned-preview")
    managed.foreign_commit(1, "theirs")
    assert managed.append("ours").version == 2
    assert managed.paths() == ["ours", "theirs"]
    with pytest.raises(CatalogRequiredError):
        DeltaLog.for_table("memory://table", store=managed.store).snapshot()
