"""Maintenance of a catalog-managed table: what clients may do, and what needs permission."""

import json

import pytest

from airflow_delta.core.actions import removes_of
from airflow_delta.core.errors import FeatureDropError, MaintenanceNotPermittedError
from airflow_delta.core.log.in_memory_managed_commits import InMemoryManagedCommits
from airflow_delta.core.log.managed_commits import Maintenance
from airflow_delta.core.transaction.rewrite_bins import FileRewriteBin
from tests.core.managed.conftest import WRITE, Managed, adds


def without(work):
    return Managed(catalog=InMemoryManagedCommits(permits=set(Maintenance) - {work}))


def rewrite(log):
    transaction = log.start_transaction()
    files = transaction.files()
    moved = adds("moved").set_column(4, "data_change", [[False]])
    removes = removes_of(files, deletion_timestamp=1, data_change=False)
    return transaction.commit_rewrites([FileRewriteBin(removes=removes, adds=moved)], operation=WRITE)


WORK = {
    Maintenance.VACUUM: lambda log: log.vacuum(),
    Maintenance.LOG_CLEANUP: lambda log: log.cleanup_log(),
    Maintenance.DATA_LAYOUT: rewrite,
}


@pytest.mark.parametrize("work", WORK, ids=lambda work: work.name)
def test_maintenance_that_the_catalog_does_not_permit_is_refused(work):
    managed = without(work)
    managed.append("a")
    before = sorted(file.path for file in managed.store.list_all())
    with pytest.raises(MaintenanceNotPermittedError, match="memory manages the table") as refused:
        WORK[work](managed.log())
    assert refused.value.work == work.value
    assert sorted(file.path for file in managed.store.list_all()) == before


@pytest.mark.parametrize("work", WORK, ids=lambda work: work.name)
def test_maintenance_that_the_catalog_permits_is_done(work):
    managed = Managed(catalog=InMemoryManagedCommits(permits=[work]))
    managed.append("a")
    WORK[work](managed.log())
    assert managed.paths() == (["moved"] if work is Maintenance.DATA_LAYOUT else ["a"])


def test_a_checkpoint_is_written_of_published_versions_only_and_publishes_them_first(managed):
    managed.foreign_commit(1, "f1")
    managed.foreign_commit(2, "f2")
    assert managed.log().checkpoint().version == 2
    assert managed.published_versions() == [0, 1, 2]
    assert managed.catalog.ratified().commits == ()
    assert managed.paths() == ["f1", "f2"]


def test_a_checkpoint_is_not_written_while_its_version_cannot_be_published(managed):
    managed.foreign_commit(1, "f1")

    def refuse(path, content):
        raise TimeoutError("no answer")

    managed.store.write_if_absent = refuse
    with pytest.raises(TimeoutError):
        managed.log().checkpoint()
    assert not [file.path for file in managed.store.list_all() if "checkpoint" in file.path]


def test_compacted_commits_are_of_published_versions_only(managed):
    managed.foreign_commit(1, "f1")
    managed.foreign_commit(2, "f2")
    done = managed.log().compact_log()
    assert (done.start, done.end) == (0, 2)
    assert managed.published_versions() == [0, 1, 2]
    assert managed.paths() == ["f1", "f2"]


def test_a_checkpoint_that_is_due_follows_the_publication_and_the_log_is_not_cleaned_up_unasked(managed):
    managed.log().alter().set_properties({"delta.checkpointInterval": "2", "delta.logRetentionDuration": "interval 1 days"})
    for number in range(4):
        managed.days_pass(3)
        assert managed.append(f"f{number}").hook_failures == ()
    assert [file.path for file in managed.store.list_from("_delta_log") if "checkpoint.parquet" in file.path]
    assert managed.published_versions() == list(range(6))


def test_a_permitted_log_cleanup_deletes_the_staged_commits_of_versions_that_it_forgets_and_no_other():
    managed = Managed(catalog=InMemoryManagedCommits(permits=[Maintenance.LOG_CLEANUP]))
    managed.log().alter().set_properties(
        {"delta.logRetentionDuration": "interval 1 days", "delta.enableExpiredLogCleanup": "false"}
    )
    for number in range(3):
        managed.append(f"f{number}")
    managed.log().checkpoint()  # version 4
    managed.days_pass(3)
    managed.append("f3")
    managed.foreign_commit(6, "unpublished")
    pending = managed.stage(7, "pending")
    result = managed.log().cleanup_log()
    assert result.barrier == 4
    left = [file.path.rpartition("/")[2] for file in managed.store.list_from("_delta_log/_staged_commits")]
    assert [int(name[:20]) for name in left] == [5, 6, 7]
    assert pending.file_name in left
    assert managed.paths() == ["f0", "f1", "f2", "f3", "unpublished"]


def test_a_permitted_vacuum_spares_staged_commits():
    managed = Managed(catalog=InMemoryManagedCommits(permits=[Maintenance.VACUUM]))
    managed.foreign_commit(1, "f1")
    managed.stage(2, "pending")
    managed.store.write("orphan", b"x")
    managed.days_pass(9)
    result = managed.log().vacuum(retention_hours=168)
    assert result.paths.to_pylist() == ["orphan"]
    assert len(list(managed.store.list_from("_delta_log/_staged_commits"))) >= 2
    assert managed.paths() == ["f1"]


def test_the_checksum_of_a_version_is_written_beside_its_commit(managed):
    managed.append("a")
    assert json.loads(managed.store.read("_delta_log/00000000000000000001.crc"))["numFiles"] == 1
    assert managed.log().snapshot().verify_checksum() == ()


def test_the_feature_cannot_be_dropped(managed):
    with pytest.raises(FeatureDropError, match="the catalog that manages the table"):
        managed.log().drop_feature("catalogManaged")
