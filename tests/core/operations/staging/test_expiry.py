"""Until when a staged commit can be published, and what maintenance does with its files before and after."""

import pytest
from deltalake import DeltaTable

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    CredentialsExpiredError,
    StagedCommitExpiredError,
    StagedCommitNotFoundError,
    StagedCommitOutdatedError,
    StorageUnavailableError,
)
from airflow_delta.core.operations.staged_folder import STAGED_FOLDER, decide
from airflow_delta.core.storage.local_log_store import LocalLogStore
from tests.core.operations.staging.staged_table import AREA, DAY, Table


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
