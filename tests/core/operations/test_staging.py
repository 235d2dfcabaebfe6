"""Commits that are staged first: what is seen before and after, who decides, and what is refused."""

import json
from threading import Barrier, Thread

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from airflow_delta.core.actions import ADD_FILE, Metadata, Origin, Protocol, removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    AccessDeniedError,
    CommitStateUnknownError,
    CredentialsExpiredError,
    InvalidStatementError,
    StagedCommitDamagedError,
    StagedCommitDiscardedError,
    StagedCommitExpiredError,
    StagedCommitNotFoundError,
    StagedCommitOutdatedError,
    StagedCommitPendingError,
    StagedCommitPublishedError,
    StorageUnavailableError,
    UnfinishedCommitError,
)
from airflow_delta.core.operations.staged_folder import STAGED_FOLDER, decide
from airflow_delta.core.operations.staging import PUBLISHED_BY_KEY
from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.core.storage.staging_area import StagingArea
from airflow_delta.core.transaction.operation import Operation
from tests.core.faults.scenarios import SCHEMA

DAY = 86_400_000
WRITE = Operation(name="WRITE", parameters={"mode": "Append"})
AREA = "write-" + "0" * 32


class Table:
    """A table of ``n`` and ``p`` on disk, whose clock the test may move."""

    def __init__(self, root, **configuration):
        self.root, self.later = root, 0
        self.metadata = Metadata(id="m", schema_string=SCHEMA, configuration=configuration)

    @property
    def log(self):
        clock = DeltaLog(LocalLogStore(str(self.root))).clock
        return DeltaLog(LocalLogStore(str(self.root)), clock=lambda: clock() + self.later)

    def create(self):
        self.log.create_transaction(self.metadata).commit(operation=Operation(name="CREATE TABLE"))
        return self

    def file(self, name, *numbers):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"n": pa.array(numbers, pa.int64()), "p": ["a"] * len(numbers)}), path)
        bounds = {"minValues": {"n": min(numbers)}, "maxValues": {"n": max(numbers)}, "nullCount": {"n": 0}}
        status = path.stat()
        row = {
            "path": name,
            "partition_values": [],
            "size": status.st_size,
            "modification_time": status.st_mtime_ns // 1_000_000,
            "data_change": True,
            "stats": json.dumps({"numRecords": len(numbers), **bounds}),
        }
        return pa.Table.from_pylist([row], schema=ADD_FILE)

    def append(self, name, *numbers, log=None):
        return (log or self.log).start_transaction().commit(adds=self.file(name, *numbers), operation=WRITE)

    def stage(self, *numbers, name=f"{AREA}/rows/a.parquet", token=None, **arguments):
        staging = self.log.staging(token)
        transaction = staging.start_transaction()
        return transaction.commit(adds=self.file(name, *numbers), operation=WRITE, **arguments)

    def stage_replacement(self, where, *numbers, token=None):
        """As an overwrite of the rows that satisfy ``where``."""
        log = self.log
        transaction = log.staging(token).start_transaction()
        files = transaction.files(where)
        removes = removes_of(files, deletion_timestamp=log.clock(), data_change=True)
        return transaction.commit(adds=self.file(f"{AREA}/rows/b.parquet", *numbers), removes=removes, operation=WRITE)

    def numbers(self, log=None):
        return sorted((log or self.log).snapshot().to_arrow(["n"]).read_all()["n"].to_pylist())

    @property
    def documents(self):
        return sorted(path.name for path in (self.root / STAGED_FOLDER).glob("*"))


@pytest.fixture
def table(tmp_path):
    table = Table(tmp_path / "t").create()
    table.append("first.parquet", 1, 2)
    return table


def seen_by_others(table):
    return sorted(DeltaTable(table.root).to_pyarrow_table()["n"].to_pylist())


def lose_versions(table, *versions):
    """As a log cleanup behind the checkpoint, which takes checksums, too."""
    for version in versions:
        (table.root / f"_delta_log/{version:020d}.json").unlink()
        (table.root / f"_delta_log/{version:020d}.crc").unlink()


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


def test_what_was_never_published_has_expired_with_the_version_behind_which_it_was_staged(table):
    handle = table.stage(3).staged
    table.append("second.parquet", 4)
    table.log.checkpoint()
    lose_versions(table, 0, 1)
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
            if also_fails is not None:  # the client sends it again, and finds the file of the first sending
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


def test_what_is_discarded_is_deleted_and_cannot_be_published(table):
    handle = table.stage(3).staged
    assert table.log.discard(handle) == 1
    assert not (table.root / AREA / "rows/a.parquet").exists()
    assert table.log.discard(handle) == 1
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


# -- time


def test_what_has_expired_is_not_published(table):
    handle = table.stage(3).staged
    table.later = 7 * DAY
    with pytest.raises(StagedCommitExpiredError, match="expired at"):
        table.log.publish(handle)
    assert table.numbers() == [1, 2]


def test_readers_of_the_version_before_have_the_whole_retention_from_the_publication_on(table):
    handle = table.stage_replacement("n = 1", 7).staged
    table.later = 6 * DAY
    published = table.log.publish(handle)
    (removed,) = table.log.snapshot().tombstones().to_pylist()
    assert (removed["path"], removed["deletion_timestamp"]) == ("first.parquet", pytest.approx(published.timestamp, abs=5_000))
    table.later = 12 * DAY
    assert table.log.vacuum().paths.to_pylist() == []
    assert table.log.snapshot(1).to_arrow(["n"]).read_all()["n"].to_pylist() == [1, 2]


def test_a_longer_retention_gives_more_time(tmp_path):
    table = Table(tmp_path / "t", **{"delta.deletedFileRetentionDuration": "interval 30 days"}).create()
    handle = table.stage(3).staged
    table.later = 29 * DAY
    assert table.log.publish(handle).committed


def test_a_table_that_keeps_nothing_stages_nothing(tmp_path):
    table = Table(tmp_path / "t", **{"delta.deletedFileRetentionDuration": "interval 0 hours"}).create()
    with pytest.raises(StagedCommitExpiredError, match="deletedFileRetentionDuration"):
        table.stage(3)
    assert table.documents == []


def test_what_another_engine_has_deleted_is_not_published(table):
    handle = table.stage(3).staged
    DeltaTable(table.root).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    assert not (table.root / AREA / "rows/a.parquet").exists()
    with pytest.raises(StagedCommitExpiredError, match="1 of its files are gone"):
        table.log.publish(handle)
    assert table.numbers() == [1, 2]


def test_a_vacuum_of_another_engine_spares_it_for_the_retention(table):
    handle = table.stage(3).staged
    gone = DeltaTable(table.root).vacuum(dry_run=False, full=True)
    assert gone == []
    assert table.log.publish(handle).committed


def test_our_vacuum_spares_it_whatever_the_retention_and_sweeps_it_in_time(table):
    handle = table.stage(3, token="s").staged
    (table.root / "orphan.parquet").write_bytes(b"")
    table.later = 1_000
    assert table.log.vacuum(0, enforce_retention=False).paths.to_pylist() == ["orphan.parquet"]
    assert table.documents == ["s.json"]
    assert table.numbers(table.log.staged(handle)) == [1, 2, 3]
    table.later = 8 * DAY
    assert table.log.vacuum().paths.to_pylist() == [f"{AREA}/rows/a.parquet"]
    assert table.documents == []
    with pytest.raises(StagedCommitNotFoundError):
        table.log.publish(handle)


def test_our_vacuum_spares_it_until_it_expires_though_the_retention_was_shortened_meanwhile(tmp_path):
    table = Table(tmp_path / "t", **{"delta.deletedFileRetentionDuration": "interval 30 days"}).create()
    handle = table.stage(3, token="s").staged
    decide(table.log.store, "s", "publish", Origin())  # and then the process died
    table.log.alter().set_properties({"delta.deletedFileRetentionDuration": "interval 1 day"})
    table.later = 2 * DAY
    assert table.log.vacuum().paths.to_pylist() == []
    assert table.documents == ["s.decision", "s.json"]
    with pytest.raises(StagedCommitOutdatedError, match="rule metadata_changed"):  # the reason, not that it is gone
        table.log.publish(handle)
    table.later = 31 * DAY
    assert table.log.vacuum().paths.to_pylist() == [f"{AREA}/rows/a.parquet"]
    assert table.documents == []


@pytest.mark.parametrize("error", [StorageUnavailableError, CredentialsExpiredError])
def test_a_vacuum_that_cannot_read_what_is_staged_deletes_nothing(table, error):
    class Failing(LocalLogStore):
        def read(self, path):
            if path.startswith(STAGED_FOLDER):
                raise error(uri=self.table_uri, detail="503 SlowDown")
            return super().read(path)

    handle, clock = table.stage(3).staged, table.log.clock
    log = DeltaLog(Failing(str(table.root)), clock=lambda: clock() + 1_000)
    with pytest.raises(error, match="SlowDown"):
        log.vacuum(0, enforce_retention=False)
    table.log.publish(handle)
    assert table.numbers() == [1, 2, 3]


def test_a_vacuum_passes_files_that_are_no_documents(table):
    handle = table.stage(3).staged
    for name in ("broken.json", "no id.json"):
        (table.root / STAGED_FOLDER / name).write_text("{}")
    table.log.vacuum(0, enforce_retention=False)
    table.log.publish(handle)
    assert table.numbers() == [1, 2, 3]


def test_what_was_discarded_is_not_spared(table):
    handle = table.stage(3, name="elsewhere.parquet").staged
    assert table.log.discard(handle) == 0  # only directories of a statement's own are deleted
    table.later = 1_000
    assert table.log.vacuum(0, enforce_retention=False).paths.to_pylist() == ["elsewhere.parquet"]


def test_log_cleanups_and_checkpoints_leave_it_alone(table):
    handle = table.stage(3).staged
    table.append("other.parquet", 4)
    table.log.checkpoint()
    table.later = 2 * DAY
    table.log.cleanup_log()
    assert table.log.publish(handle).version == 3
    assert table.numbers() == [1, 2, 3, 4]


# -- documents of strangers


def document(table, handle):
    return table.root / STAGED_FOLDER / f"{handle['id']}.json"


def rewritten(table, handle, **changes):
    """The document with other members in its first line; the handle without its digest."""
    path = document(table, handle)
    first, *others = path.read_text().splitlines()
    header = json.loads(first)
    header["stagedCommit"] |= changes
    path.write_text("\n".join([json.dumps(header), *others]))
    return {**handle, "digest": None}


def test_something_else_than_what_was_checked_is_not_published(table):
    handle = table.stage(3).staged
    path = document(table, handle)
    path.write_text(path.read_text().replace("a.parquet", "b.parquet"))
    with pytest.raises(StagedCommitDamagedError, match="SHA-256"):
        table.log.publish(handle)


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 2},
        {"id": "other"},
        {"baseVersion": -5},
        {"baseVersion": -1},
        {"baseVersion": "1"},
        {"tableId": 1},
        {"expires": None},
        {"isolationLevel": "None"},
        {"enforces": "all"},
        {"readPredicates": {}},
        {"readPredicates": [{"and": 1}]},
        {"readPredicates": [{"drop": "table"}]},
        {"readPredicates": [{"is_null": [1]}]},
        {"readPredicates": [{"literal": {"type": "{}", "int": "1"}}]},
        {"readPredicates": [{"compare": "=", "column": ["n"], "literal": {"type": SCHEMA, "int": "x"}}]},
        {"readWholeTable": "yes"},
        {"rowIdHighWaterMark": 1 << 70},
    ],
    ids=str,
)
def test_a_document_that_is_not_what_it_should_be_is_refused(table, changes):
    handle = rewritten(table, table.stage(3).staged, **changes)
    for act in (table.log.publish, table.log.staged, table.log.discard):
        with pytest.raises(StagedCommitDamagedError):
            act(handle)
    assert table.numbers() == [1, 2]
    assert table.log.vacuum().files == 0


@pytest.mark.parametrize("content", ["null", "[]", "{}", "{" * 300, '{"stagedCommit": {}}', "\x00", '{"add": 1}\n{}'], ids=repr)
def test_a_file_that_is_no_document_is_refused(table, content):
    handle = {**table.stage(3).staged, "digest": None}
    document(table, handle).write_text(content)
    with pytest.raises((StagedCommitDamagedError, UnfinishedCommitError)):
        table.log.publish(handle)
    assert table.log.vacuum().files == 0


@pytest.mark.parametrize(("id_", "schema"), [("other", SCHEMA), ("m", "{"), ("m", '{"type": "map"}')], ids=str)
def test_metadata_that_no_table_or_another_one_has_is_refused(table, id_, schema):
    handle = table.stage(3).staged
    metadata = {
        "id": id_,
        "schemaString": schema,
        "partitionColumns": [],
        "configuration": {},
        "format": {"provider": "parquet"},
    }
    with document(table, handle).open("a") as file:
        file.write(json.dumps({"metaData": metadata}) + "\n")
    with pytest.raises(StagedCommitDamagedError):
        table.log.publish({**handle, "digest": None})
    assert table.numbers() == [1, 2]


def test_a_predicate_on_another_kind_of_column_is_refused(table):
    literal = {"type": json.dumps({"type": "struct", "fields": [{"name": "v", "type": "string"}]}), "text": "x"}
    predicate = {"compare": "=", "column": ["n"], "literal": literal}
    handle = rewritten(table, table.stage_replacement("n = 1", 7).staged, readPredicates=[predicate])
    table.append("other.parquet", 100)
    with pytest.raises(StagedCommitDamagedError):
        table.log.publish(handle)


@pytest.mark.parametrize("path", ["../other/x.parquet", "/etc/passwd", "file:///etc/passwd", "s3://elsewhere/x"])
def test_files_outside_of_the_table_are_neither_published_nor_deleted(table, path):
    handle = table.stage(3).staged
    file = document(table, handle)
    file.write_text(file.read_text().replace(f"{AREA}/rows/a.parquet", path))
    handle = {**handle, "digest": None}
    with pytest.raises(StagedCommitDamagedError, match="outside"):
        table.log.publish(handle)
    with pytest.raises(StagedCommitDamagedError, match="outside"):
        table.log.discard(handle)


def test_a_document_that_names_files_of_the_table_as_its_own_deletes_none_of_them(table):
    first = table.stage(3).staged
    table.log.publish(first)
    handle = table.stage(4, name="mine.parquet").staged
    file = document(table, handle)
    file.write_text(file.read_text().replace("mine.parquet", f"{AREA}/rows/a.parquet"))
    assert table.log.discard({**handle, "digest": None}) == 0
    assert table.numbers() == seen_by_others(table) == [1, 2, 3]


@pytest.mark.parametrize("name", ["../../x", "a/b", "", "a.b", "x" * 200, "\U0001d41a" * 100, 5])
def test_an_id_leads_nowhere_else(table, name):
    with pytest.raises(InvalidStatementError):
        table.log.publish({"table": str(table.root), "id": name})


def test_a_handle_of_nothing_publishes_and_discards_nothing(table):
    nothing = {"table": str(table.root), "id": None}
    assert not table.log.publish(nothing).committed
    assert table.log.discard(nothing) == 0
    with pytest.raises(StagedCommitNotFoundError):
        table.log.publish({**nothing, "id": "unknown"})


def test_a_decision_that_cannot_be_read_stops_both_sides(table):
    handle = table.stage(3).staged
    (table.root / STAGED_FOLDER / f"{handle['id']}.decision").write_text("neither")
    for act in (table.log.publish, table.log.discard):
        with pytest.raises(StagedCommitDamagedError, match="decision"):
            act(handle)
    assert pc.sum(pa.array(table.numbers())).as_py() == 3
