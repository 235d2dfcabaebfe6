"""Staged commits: what readers see before and after publishing, which decision wins, and what is refused."""

import json
from threading import Barrier, Thread

import duckdb
import pytest

from airflow_delta.core.actions import Metadata, Origin, Protocol
from airflow_delta.core.actions.commit_info import PUBLISHED_BY_KEY
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    AccessDeniedError,
    CommitStateUnknownError,
    CredentialsExpiredError,
    InvalidStatementError,
    StagedCommitDiscardedError,
    StagedCommitExpiredError,
    StagedCommitOutdatedError,
    StagedCommitPendingError,
    StagedCommitPublishedError,
    StorageUnavailableError,
)
from airflow_delta.core.operations.staged_folder import STAGED_FOLDER, decide
from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.core.storage.staging_area import StagingArea
from airflow_delta.core.transaction.operation import Operation
from tests.core.faults.scenarios import SCHEMA
from tests.core.operations.staging.staged_table import (
    AREA,
    DAY,
    WRITE,
    Table,
    lose_versions,
    seen_by_others,
)


def test_staged_rows_are_seen_by_nobody_until_they_are_published(table):
    staged = table.stage(3, token="abc")
    assert (staged.committed, staged.version, staged.staged["id"]) == (False, 1, "abc")
    assert table.numbers() == seen_by_others(table) == [1, 2]
    published = table.log.publish(staged.staged)
    assert (published.version, published.committed, published.already_committed) == (2, True, False)
    assert table.numbers() == seen_by_others(table) == [1, 2, 3]


def test_the_handle_says_what_is_staged(table):
    handle = table.stage(3, 4).staged
    assert {name: handle[name] for name in ("table", "base_version", "operation", "files", "rows")} == {
        "table": str(table.root),
        "base_version": 1,
        "operation": "WRITE",
        "files": 1,
        "rows": 2,
    }
    assert json.loads(json.dumps(handle)) == handle
    assert duckdb.sql(f"SELECT sum(n) FROM read_parquet({handle['paths']})").fetchone() == (7,)
    assert handle["bytes"] == (table.root / AREA / "rows/a.parquet").stat().st_size
    week = 7 * DAY
    assert 0.9 * week < handle["expires"] - handle["created"] < week


def test_before_it_is_published_the_table_can_be_read_as_it_will_be(table):
    staged = table.stage_replacement("n = 1", 7)
    table.append("other.parquet", 100)
    future = table.log.staged(staged.staged)
    assert table.numbers(future) == [7]
    assert future.snapshot().version == 2
    assert future.snapshot().commit_info.operation == "WRITE"
    assert table.numbers(DeltaLog(future.store)) == [7]
    assert future.snapshot(1).files()["path"].to_pylist() == ["first.parquet"]
    assert table.numbers() == [1, 2, 100]


def test_a_table_that_does_not_exist_yet_is_staged_read_and_published(tmp_path):
    table = Table(tmp_path / "new")
    staging = table.log.staging()
    transaction = staging.create_transaction(table.metadata)
    handle = transaction.commit(adds=table.file(f"{AREA}/rows/a.parquet", 5), operation=WRITE).staged
    assert handle["base_version"] == -1
    assert not table.log.exists()
    assert table.numbers(table.log.staged(handle)) == [5]
    assert table.log.publish(handle).version == 0
    assert table.numbers() == seen_by_others(table) == [5]
    assert table.log.publish(handle).already_committed


def test_what_is_read_of_a_staged_version_cannot_be_written_on(table):
    future = table.log.staged(table.stage(3).staged)
    with pytest.raises(InvalidStatementError, match="publish it first"):
        table.append("more.parquet", 4, log=future)
    assert table.numbers() == [1, 2]


def test_a_handle_is_published_once_however_often_it_is(table):
    handle = table.stage(3).staged
    assert table.log.publish(handle).version == 2
    table.append("other.parquet", 4)
    again = table.log.publish(handle)
    assert (again.version, again.already_committed) == (2, True)
    for path in (table.root / STAGED_FOLDER).iterdir():
        path.unlink()  # as a vacuum does in time
    assert table.log.publish(handle).version == 2
    assert table.numbers() == [1, 2, 3, 4]


def test_what_is_published_is_found_when_the_log_has_lost_the_version_behind_which_it_was_staged(table):
    handle = table.stage(3).staged
    assert table.log.publish(handle).version == 2
    table.log.checkpoint()
    lose_versions(table, 0, 1)
    again = table.log.publish(handle)
    assert (again.version, again.already_committed) == (2, True)


@pytest.mark.parametrize("lost", [(0, 1), (1,)], ids=["cleaned up", "a gap"])
def test_what_was_never_published_has_expired_with_the_version_behind_which_it_was_staged(table, lost):
    handle = table.stage(3).staged
    table.append("second.parquet", 4)
    table.log.checkpoint()
    lose_versions(table, *lost)
    with pytest.raises(StagedCommitExpiredError, match="lost version 1"):
        table.log.publish(handle)


def test_publishing_is_rebased_over_commits_that_do_no_harm(table):
    handle = table.stage_replacement("n = 1", 7).staged
    table.append("other.parquet", 100)
    published = table.log.publish(handle)
    assert published.version == 3
    assert [conflict["version"] for conflict in published.conflicts] == [2]
    assert table.numbers() == [7, 100]


def test_a_commit_that_harms_it_makes_it_outdated_for_ever(table):
    handle = table.stage_replacement("n = 1", 7).staged
    table.append("other.parquet", 1)
    for _ in range(2):
        with pytest.raises(StagedCommitOutdatedError, match=r"other\.parquet") as raised:
            table.log.publish(handle)
        assert (raised.value.rule, raised.value.retryable) == ("DELTA_CONCURRENT_APPEND", False)
    assert table.numbers() == [1, 1, 2]


def test_what_harms_it_before_it_is_staged_is_a_conflict_of_the_statement(table):
    log = table.log
    transaction = log.staging().start_transaction()
    transaction.files("n = 1")
    table.append("other.parquet", 1)
    with pytest.raises(Exception, match="DELTA_CONCURRENT_APPEND"):
        transaction.commit(adds=table.file("x.parquet", 7), operation=WRITE)
    assert table.documents == []


def test_what_was_got_past_before_it_is_staged_is_not_looked_at_again(table):
    transaction = table.log.staging().start_transaction()
    table.append("other.parquet", 4)
    handle = transaction.commit(adds=table.file("x.parquet", 7), operation=WRITE).staged
    assert handle["base_version"] == 2
    assert table.log.publish(handle).conflicts == ()


def test_a_table_that_was_created_in_the_meantime_makes_a_new_one_outdated(tmp_path):
    table = Table(tmp_path / "new")
    transaction = table.log.staging().create_transaction(table.metadata)
    handle = transaction.commit(adds=table.file("a.parquet", 5), operation=WRITE).staged
    table.create()
    with pytest.raises(StagedCommitOutdatedError, match="already exists"):
        table.log.publish(handle)


def test_a_table_that_was_replaced_by_another_one_is_not_published_into(table):
    handle = table.stage(3).staged
    for path in (table.root / "_delta_log").iterdir():
        path.unlink()
    other = Table(table.root)
    other.metadata = Metadata(id="other", schema_string=SCHEMA)
    other.create().append("second.parquet", 9)
    with pytest.raises(StagedCommitOutdatedError, match="replaced"):
        other.log.publish(handle)
    assert other.numbers() == [9]


def test_a_second_try_finds_what_the_first_has_staged(table):
    first = table.stage(3, token="same")
    second = table.stage(4, token="same", name=f"{AREA}/rows/other.parquet")
    assert (first.already_committed, second.already_committed) == (False, True)
    assert second.staged == first.staged
    table.log.publish(second.staged)
    assert table.numbers() == [1, 2, 3]


@pytest.mark.parametrize(
    "also_fails",
    [
        None,
        StorageUnavailableError(uri="t", detail="timeout"),
        CredentialsExpiredError(uri="t", detail="old"),
        AccessDeniedError(table="t", detail="the catalog gives no new keys"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_lost_answer_leaves_the_staged_files_and_the_next_try_publishes_them(table, also_fails):
    class LosingStore(LocalLogStore):
        def write_if_absent(self, path, content):
            super().write_if_absent(path, content)
            if also_fails is not None:  # the client retries the request, and finds the file of the first one
                raise FileExistsError(path)
            raise StorageUnavailableError(uri=self.table_uri, detail="timeout")

        def read(self, path):
            if also_fails is not None and path.startswith(STAGED_FOLDER):
                raise also_fails
            return super().read(path)

    log = DeltaLog(LosingStore(str(table.root))).staging("s")
    area = StagingArea(log.store)
    transaction = log.start_transaction()
    adds = table.file(f"{area.name}/rows/a.parquet", 3)
    area.keep()
    with pytest.raises(CommitStateUnknownError, match=f"version 2 of .*{STAGED_FOLDER}/s.json") as raised, area:
        transaction.commit(adds=adds, operation=WRITE)
    assert raised.value.retryable
    found = table.stage(4, token="s", name=f"{AREA}/rows/other.parquet")
    assert found.already_committed
    table.log.publish(found.staged)
    assert table.numbers() == [1, 2, 3]


@pytest.mark.parametrize(
    ("arrives", "answers"), [(True, True), (True, False), (False, False)], ids=["it arrived", "unknown", "unknown to all"]
)
def test_a_sending_that_is_refused_leaves_the_files_of_one_that_may_have_arrived_before(table, arrives, answers):
    class RefusingStore(LocalLogStore):
        def write_if_absent(self, path, content):
            if arrives:
                super().write_if_absent(path, content)
            raise CredentialsExpiredError(uri=self.table_uri, detail="old")

        def exists(self, path):
            if path.startswith(STAGED_FOLDER) and not answers:
                raise CredentialsExpiredError(uri=self.table_uri, detail="old")
            return super().exists(path)

    area = StagingArea(LocalLogStore(str(table.root)))
    transaction = DeltaLog(RefusingStore(str(table.root))).staging("s").start_transaction()
    adds = table.file(f"{area.name}/rows/a.parquet", 3)
    area.keep()
    with pytest.raises(CommitStateUnknownError), area:
        transaction.commit(adds=adds, operation=WRITE)
    assert (table.root / area.name / "rows/a.parquet").exists()


def test_a_sending_that_is_refused_and_has_not_arrived_leaves_no_files(table):
    class RefusingStore(LocalLogStore):
        def write_if_absent(self, path, content):
            raise AccessDeniedError(table="t", detail="read only")

    area = StagingArea(LocalLogStore(str(table.root)))
    transaction = DeltaLog(RefusingStore(str(table.root))).staging("s").start_transaction()
    adds = table.file(f"{area.name}/rows/a.parquet", 3)
    area.keep()
    with pytest.raises(AccessDeniedError), area:
        transaction.commit(adds=adds, operation=WRITE)
    assert not (table.root / area.name).exists()


def test_what_is_discarded_is_deleted_and_cannot_be_published(table):
    handle = table.stage(3).staged
    assert table.log.discard(handle) == 1
    assert not (table.root / AREA / "rows/a.parquet").exists()
    assert table.log.discard(handle) == 0
    with pytest.raises(StagedCommitDiscardedError):
        table.log.publish(handle)
    with pytest.raises(StagedCommitDiscardedError):
        table.log.staged(handle)
    assert table.numbers() == [1, 2]


def test_what_is_published_cannot_be_discarded(table):
    handle = table.stage(3).staged
    table.log.publish(handle)
    with pytest.raises(StagedCommitPublishedError) as raised:
        table.log.discard(handle)
    assert raised.value.version == 2
    assert table.numbers() == [1, 2, 3]


def test_what_somebody_has_begun_to_publish_is_not_discarded_but_published(table):
    handle = table.stage(3).staged
    decide(table.log.store, handle["id"], "publish", Origin())  # and then the process died
    with pytest.raises(StagedCommitPendingError):
        table.log.discard(handle)
    assert table.log.publish(handle).version == 2


def test_what_can_never_be_published_can_be_discarded_whoever_has_tried(table):
    handle = table.stage_replacement("n = 1", 7).staged
    decide(table.log.store, handle["id"], "publish", Origin())
    table.append("other.parquet", 1)
    assert table.log.discard(handle) == 1
    assert table.numbers() == [1, 1, 2]


def test_what_has_expired_can_be_discarded_whoever_has_begun_to_publish_it(table):
    handle = table.stage(3).staged
    decide(table.log.store, handle["id"], "publish", Origin())  # and then the process died
    table.later = 8 * DAY
    assert table.log.discard(handle) == 0
    with pytest.raises(StagedCommitExpiredError):
        table.log.publish(handle)
    assert table.log.vacuum().paths.to_pylist() == [f"{AREA}/rows/a.parquet"]
    assert table.log.discard(handle) == 0


@pytest.mark.parametrize("decision", ["publish", None])
def test_what_was_staged_behind_a_version_that_the_log_has_lost_can_be_discarded(table, decision):
    handle = table.stage(3, token="s").staged
    if decision is not None:
        decide(table.log.store, "s", decision, Origin())
    table.append("second.parquet", 4)
    table.append("third.parquet", 5)
    table.log.checkpoint()
    lose_versions(table, 0, 1, 2)
    assert table.log.discard(handle) == (1 if decision is None else 0)
    for document in (table.root / STAGED_FOLDER).iterdir():
        document.unlink()
    assert table.log.discard(handle) == 0


def test_of_publishers_and_discarders_at_once_all_agree(tmp_path):
    for number in range(12):
        table = Table(tmp_path / str(number)).create()
        handle, barrier, outcomes = table.stage(3).staged, Barrier(4), []

        def work(act, handle=handle, barrier=barrier, outcomes=outcomes, table=table):
            log = table.log
            barrier.wait()
            try:
                outcomes.append((act, getattr(log, act)(handle)))
            except (StagedCommitDiscardedError, StagedCommitPublishedError, StagedCommitPendingError) as error:
                outcomes.append((act, error))

        threads = [Thread(target=work, args=(act,)) for act in ("publish", "publish", "discard", "discard")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(outcomes) == 4
        done = {act for act, outcome in outcomes if not isinstance(outcome, Exception)}
        assert len(done) == 1
        assert table.numbers() == ([3] if done == {"publish"} else [])


def test_a_commit_that_was_published_names_who_staged_and_who_published_it(table):
    staged_by = Origin(token="t", job={"jobId": "dag"}, record={"dag_id": "dag", "task_id": "stage"}, user_metadata="note")
    handle = table.stage(3, origin=staged_by).staged
    table.later = 3_600_000
    table.log.publish(handle, origin=Origin(token="p", record={"dag_id": "dag", "task_id": "publish"}))
    info = table.log.history()[0].commit_info
    assert info.origin.token == handle["id"]
    assert (dict(info.origin.job), info.origin.user_metadata) == ({"jobId": "dag"}, "note")
    published_by = {"dag_id": "dag", "task_id": "publish"}
    assert info.origin.record == {"dag_id": "dag", "task_id": "stage", PUBLISHED_BY_KEY: published_by}
    assert info.timestamp >= handle["created"] + 3_600_000


def test_a_commit_that_was_published_is_found_by_the_run_that_staged_and_by_the_one_that_published_it(table):
    handle = table.stage(3, origin=Origin(token="t", record={"dag_id": "dag", "task_id": "stage", "run_id": "r1"})).staged
    table.log.publish(handle, origin=Origin(token="p", record={"dag_id": "dag", "task_id": "publish", "run_id": "r2"}))
    staged_by, published_by = {"task_id": "stage", "run_id": "r1"}, {"task_id": "publish", "run_id": "r2"}
    for run in (staged_by, published_by):
        entry = table.log.produced_by(dag_id="dag", **run)
        assert entry is not None
        assert entry.version == table.log.snapshot().version
    assert table.log.produced_by(dag_id="dag", task_id="publish", run_id="r1") is None


def test_a_published_commit_has_the_time_of_its_publication_where_commits_carry_times(tmp_path):
    table = Table(tmp_path / "t", **{"delta.enableInCommitTimestamps": "true"}).create()
    handle = table.stage(3).staged
    table.later = DAY
    table.append("other.parquet", 4)
    published = table.log.publish(handle)
    assert published.timestamp > handle["created"] + DAY
    assert table.log.snapshot().timestamp == published.timestamp > table.log.snapshot(1).timestamp


def test_row_ids_are_those_after_whatever_was_published_before(tmp_path):
    table = Table(tmp_path / "t", **{"delta.enableRowTracking": "true"})
    features = frozenset({"rowTracking", "domainMetadata"})
    protocol = Protocol(min_reader_version=1, min_writer_version=7, writer_features=features)
    table.log.create_transaction(table.metadata, protocol).commit(operation=Operation(name="CREATE TABLE"))
    handles = [table.stage(1, 2, name="a.parquet").staged, table.stage(3, name="b.parquet").staged]
    table.append("c.parquet", 4, 5)
    for handle in reversed(handles):
        table.log.publish(handle)
    snapshot = table.log.snapshot()
    ids = {row["path"]: (row["base_row_id"], row["default_row_commit_version"]) for row in snapshot.files().to_pylist()}
    assert ids == {"c.parquet": (0, 1), "b.parquet": (2, 2), "a.parquet": (3, 3)}
    assert json.loads(snapshot.domains["delta.rowTracking"].configuration)["rowIdHighWaterMark"] == 4
    assert snapshot.commit_info.tags == {"delta.rowTracking.preserved": "true"}
