"""What a log cleanup deletes, in which order, and that every version from the barrier on stays readable."""

import json
import shutil

import pytest
from deltalake import DeltaTable

from airflow_delta.core.actions import Metadata
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidTablePropertyError, TokenHistoryLostError, VersionNotFoundError
from airflow_delta.core.log.file_names import (
    LAST_CHECKPOINT,
    checkpoint_part_path,
    checkpoint_path,
    checksum_path,
    commit_path,
    compacted_path,
    sidecar_path,
    v2_checkpoint_path,
)
from airflow_delta.core.log.log_segment import list_log
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.transaction.operation import Operation

WRITE = Operation(name="WRITE")
DAY = 86_400_000
START = 20_000 * DAY  # a midnight
MANUAL = {"delta.checkpointInterval": "1000", "delta.enableExpiredLogCleanup": "false"}


class AgingTable:
    """A table in memory whose clock is set by hand; a commit a day, at noon."""

    def __init__(self, **configuration):
        self.now = START + DAY // 2
        self.store = InMemoryLogStore("memory://aging", clock=lambda: self.now)
        self.log = DeltaLog(self.store, clock=lambda: self.now)
        metadata = Metadata(id="m", schema_string='{"type":"struct","fields":[]}', configuration={**MANUAL, **configuration})
        self.log.create_transaction(metadata).commit(operation=WRITE)

    def commit(self, days=1, **options):
        for _ in range(days):
            self.now += DAY
            self.log.start_transaction().commit(operation=WRITE, allow_empty=True, **options)
        return self

    def names(self):
        return {file.path for file in self.store.list_from("_delta_log")}

    def versions(self):
        return sorted(list_log(self.store).commits)


def test_everything_before_the_last_checkpoint_that_is_old_enough_goes():
    table = AgingTable().commit(45)
    for version in (3, 7, 12, 20, 40):
        table.log.checkpoint(version)
    table.store.write(compacted_path(1, 6), b"")
    table.store.write(compacted_path(12, 14), b"")
    table.store.write(compacted_path(13, 14), b"")
    before = {version: table.log.snapshot(version).version for version in range(12, 46)}

    result = table.log.cleanup_log()

    # today is day 45: the retention begins at day 15, so version 14 is the newest commit before it, and 12 the checkpoint
    assert result.barrier == 12
    assert table.versions() == list(range(12, 46))
    assert table.names() == {
        *(commit_path(version) for version in range(12, 46)),
        *(checksum_path(version) for version in range(12, 46)),
        *(checkpoint_path(version) for version in (12, 20, 40)),
        compacted_path(13, 14),
        LAST_CHECKPOINT,
    }
    reopened = DeltaLog(table.store, clock=lambda: table.now)
    assert {version: reopened.snapshot(version).version for version in before} == before
    with pytest.raises(VersionNotFoundError):
        reopened.snapshot(11)
    assert table.log.cleanup_log().log_files == ()


@pytest.mark.parametrize(("days", "barrier"), [(31, None), (32, 1), (33, 1)])
def test_the_retention_ends_at_midnight(days, barrier):
    table = AgingTable().commit(days)
    table.log.checkpoint(1)
    assert table.log.cleanup_log().barrier == barrier


def test_the_table_says_how_long_commits_stay():
    table = AgingTable(**{"delta.logRetentionDuration": "interval 2 days"}).commit(10)
    table.log.checkpoint(5)
    table.log.checkpoint(8)
    assert table.log.cleanup_log().barrier == 5
    assert table.versions() == [5, 6, 7, 8, 9, 10]


def test_commits_stay_while_the_retention_is_unknown():
    table = AgingTable(**{"delta.logRetentionDuration": "interval 2 months"}).commit(100)
    table.log.checkpoint(5)
    for dry_run in (True, False):
        with pytest.raises(InvalidTablePropertyError) as caught:
            table.log.cleanup_log(dry_run=dry_run)
    assert (caught.value.name, caught.value.value) == ("delta.logRetentionDuration", "interval 2 months")
    assert table.versions() == list(range(101))
    table.log.alter().set_properties({"delta.logRetentionDuration": "interval +2 days"})
    assert table.log.cleanup_log().barrier == 5


def test_the_commit_with_which_a_cleanup_is_due_stands_although_the_retention_is_unknown():
    properties = {
        "delta.logRetentionDuration": "long",
        "delta.checkpointInterval": "4",
        "delta.enableExpiredLogCleanup": "true",
    }
    table = AgingTable(**properties).commit(100)
    assert table.versions() == list(range(101))
    table.now += DAY
    (failure,) = [table.log.start_transaction().commit(operation=WRITE, allow_empty=True) for _ in range(4)][-1].hook_failures
    assert failure.startswith("InvalidTablePropertyError: ")


@pytest.mark.parametrize("text", ["soon", "", "-3"])
def test_checkpoints_stay_while_it_is_unknown_which_are_protected(text):
    table = AgingTable(**{"delta.requireCheckpointProtectionBeforeVersion": text}).commit(100)
    table.log.checkpoint()
    assert table.commit(100).log.cleanup_log().barrier is None
    assert table.versions() == list(range(201))


def test_without_a_checkpoint_old_enough_nothing_goes():
    table = AgingTable().commit(100)
    table.log.checkpoint()
    assert table.log.cleanup_log().barrier is None
    assert table.versions() == list(range(101))


def test_incomplete_and_empty_checkpoints_are_no_barrier_and_go_with_the_rest():
    table = AgingTable().commit(50)
    table.log.checkpoint(4)
    table.log.checkpoint(6)
    stray = [
        checkpoint_part_path(9, 1, 2),
        checkpoint_part_path(5, 1, 2),
        checkpoint_path(10),
        v2_checkpoint_path(3, "u", "json"),
    ]
    for path in stray:
        table.store.write(path, b"" if path == checkpoint_path(10) else b"x")
    result = table.log.cleanup_log()
    assert result.barrier == 6
    assert {checkpoint_part_path(9, 1, 2), checkpoint_path(10), checkpoint_path(6)} <= table.names()
    assert not {checkpoint_part_path(5, 1, 2), v2_checkpoint_path(3, "u", "json"), checkpoint_path(4)} & table.names()


def test_a_broken_checkpoint_is_no_barrier():
    table = AgingTable().commit(50)
    table.log.checkpoint(4)
    table.store.write(checkpoint_path(8), b"PAR1 garbage PAR1")
    assert table.log.cleanup_log().barrier == 4
    assert DeltaLog(table.store).snapshot(9).version == 9


def test_a_clock_that_ran_backwards_makes_no_young_commit_old():
    table = AgingTable().commit(40)
    table.log.checkpoint(20)
    table.now -= 38 * DAY
    table.commit(2)  # versions 41 and 42 look as if they were of the third day
    table.now += 50 * DAY
    table.store.write(commit_path(5), table.store.read(commit_path(5)))  # version 5 looks as if it were of today
    assert table.log.cleanup_log().barrier is None


def test_times_in_commits_count_instead_of_those_of_files():
    table = AgingTable().commit(40)
    table.log.checkpoint(6)
    properties = {"delta.enableInCommitTimestamps": "true", "delta.logRetentionDuration": "interval 30 days"}
    for version in range(41):
        lines = [json.loads(line) for line in table.store.read(commit_path(version)).splitlines()]
        lines[0]["commitInfo"]["inCommitTimestamp"] = START + version * DAY
        for action in lines:
            if "metaData" in action:
                action["metaData"]["configuration"] = properties
        table.store.write(commit_path(version), "\n".join(map(json.dumps, lines)).encode())
    table.store.delete([checkpoint_path(6)])
    log = DeltaLog(table.store, clock=lambda: table.now)  # the files are all of today, as in a copy
    log.checkpoint(6)
    assert log.cleanup_log().barrier == 6


def test_commits_go_before_the_checkpoint_that_replaces_them_and_compacted_ones_first():
    table = AgingTable().commit(50)
    for version in (2, 4):
        table.log.checkpoint(version)
    table.store.write(compacted_path(0, 4), b"")
    assert table.log.cleanup_log().log_files == (
        compacted_path(0, 4),
        checksum_path(0), commit_path(0), checksum_path(1), commit_path(1),
        checksum_path(2), commit_path(2), checkpoint_path(2), checksum_path(3), commit_path(3),
    )  # fmt: skip


class Killed(BaseException):
    """The process ends here."""


class DyingStore(InMemoryLogStore):
    """Simulates the death of the process after a number of deleted files."""

    def __init__(self, store, deaths_after):
        super().__init__(store.table_uri, clock=store._clock)
        self._files = dict(store._files)
        self.left = deaths_after

    def delete(self, paths):
        for path in paths:
            if not self.left:
                raise Killed
            self.left -= 1
            super().delete([path])


def test_a_cleanup_that_is_killed_anywhere_leaves_every_later_version_and_the_next_one_finishes():
    table = AgingTable().commit(50)
    for version in (3, 6, 9, 30):
        table.log.checkpoint(version)
    table.store.write(compacted_path(1, 8), table.store.read(commit_path(1)))
    whole = DyingStore(table.store, -1)
    expected = DeltaLog(whole, clock=lambda: table.now).cleanup_log()
    for deaths_after in range(len(expected.log_files)):
        store = DyingStore(table.store, deaths_after)
        log = DeltaLog(store, clock=lambda: table.now)
        with pytest.raises(Killed):
            log.cleanup_log()
        for version in (9, 10, 29, 50):
            assert DeltaLog(store).snapshot(version).version == version
        assert DeltaLog(store).refresh().version == 50
        store.left = -1
        assert DeltaLog(store, clock=lambda: table.now).cleanup_log().barrier == expected.barrier
        assert store._files.keys() == whole._files.keys()


def test_a_hint_at_a_checkpoint_that_goes_goes_first():
    table = AgingTable().commit(50)
    table.log.checkpoint(3)
    hint = table.store.read(LAST_CHECKPOINT)
    table.log.checkpoint(9)
    table.store.write(LAST_CHECKPOINT, hint)
    table.log.cleanup_log()
    assert not table.store.exists(LAST_CHECKPOINT)
    assert DeltaLog(table.store).refresh().version == 50


def test_protected_checkpoints_go_only_together():
    table = AgingTable(**{"delta.requireCheckpointProtectionBeforeVersion": "10"}).commit(50)
    for version in (0, 5):
        table.store.write(checkpoint_path(version), b"")
    other = AgingTable().commit(50)
    other.log.checkpoint(5)
    table.store.write(checkpoint_path(5), other.store.read(checkpoint_path(5)))
    assert table.log.cleanup_log().barrier is None
    table.log.checkpoint(12)
    assert table.log.cleanup_log().barrier == 12
    assert table.versions()[0] == 12


def test_a_search_for_a_commit_that_is_gone_says_so():
    table = AgingTable().commit(50)
    table.log.checkpoint(10)
    table.log.cleanup_log()
    with pytest.raises(TokenHistoryLostError):
        table.log.find_commit("token", after=3)
    assert table.log.find_commit("token", after=9) is None


# -- after automatic checkpoints


def test_automatic_checkpoints_are_followed_by_a_cleanup():
    table = AgingTable(**{"delta.checkpointInterval": "10", "delta.enableExpiredLogCleanup": "true"}).commit(49)
    assert table.versions()[0] == 0
    table.commit(1)  # version 50 on day 50: 19 is the newest commit out of the retention, and 10 the checkpoint before
    assert table.versions() == list(range(10, 51))
    table.commit(10)
    assert table.versions() == list(range(20, 61))


def test_a_table_can_do_without():
    table = AgingTable(**{"delta.checkpointInterval": "10"}).commit(60)
    assert table.versions() == list(range(61))


# -- sidecars


def test_old_sidecars_that_no_checkpoint_names_go():
    table = AgingTable().commit(5)
    manifest = [{"sidecar": {"path": name}} for name in ("needed.parquet", "with%20space.parquet")]
    table.store.write(v2_checkpoint_path(3, "u", "json"), "\n".join(map(json.dumps, manifest)).encode())
    for name in ("needed.parquet", "with space.parquet", "stray.parquet"):
        table.store.write(sidecar_path(name), b"x")
    table.now += DAY
    table.store.write(sidecar_path("young.parquet"), b"x")
    table.now += DAY - 1
    assert table.log.cleanup_log().sidecars == (sidecar_path("stray.parquet"),)
    assert {file.path.rpartition("/")[2] for file in table.store.list_from("_delta_log/_sidecars")} == {
        "needed.parquet", "with space.parquet", "young.parquet",
    }  # fmt: skip


def test_what_killed_writers_left_goes_a_day_later():
    table = AgingTable().commit(1)
    left = [f"_delta_log/.{name}.6f1f2f6e-0000-4000-8000-000000000001.tmp" for name in ("_last_checkpoint", "5.json")]
    others = ["_delta_log/.5.json.crc", "_delta_log/.x.tmp", "_delta_log/_staged.tmp"]
    for path in [*left, *others]:
        table.store.write(path, b"x")
    assert table.log.cleanup_log().temporaries == ()
    table.now += 2 * DAY
    assert set(table.log.cleanup_log().temporaries) == set(left)
    assert table.names() > set(others)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"sidecar":{"path":""}}', b'{"sidecar":{"path":5}}'])
def test_no_sidecar_goes_while_a_checkpoint_does_not_tell_which_it_needs(content):
    table = AgingTable().commit(5)
    table.store.write(v2_checkpoint_path(3, "u", "json"), content or b"\xff")
    table.store.write(sidecar_path("stray.parquet"), b"x")
    table.now += 3 * DAY
    assert table.log.cleanup_log().sidecars == ()


# -- others


def test_other_engines_read_and_clean_up_what_is_left(real_table, tmp_path):
    now = [START]
    table = real_table(clock=lambda: now[0], **MANUAL)
    for number in range(6):
        table.commit(adds=table.add(f"f{number}.parquet", number))
    table.log.checkpoint(4)
    now[0] = 100_000 * DAY  # every file is old
    assert table.log.cleanup_log().barrier == 4
    copy = shutil.copytree(table.root, tmp_path / "copy")
    other = DeltaTable(copy)
    assert sorted(other.to_pyarrow_table()["n"].to_pylist()) == list(range(6))
    other.load_as_version(4)
    assert sorted(other.to_pyarrow_table()["n"].to_pylist()) == list(range(4))
    DeltaTable(copy).cleanup_metadata()
    assert DeltaLog.for_table(str(copy)).refresh().version == 6


def test_a_dry_run_says_what_would_go_and_deletes_nothing():
    table = AgingTable().commit(45)
    table.log.checkpoint(12)
    before = table.names()
    said = table.log.cleanup_log(dry_run=True)
    assert table.names() == before
    assert said == table.log.cleanup_log()
    assert set(said.log_files) == before - table.names()
