"""A reader of a catalog-managed table sees all ratified commits, wherever they are stored, and nothing else."""

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import CatalogAnswerError, CatalogRequiredError, NotCatalogManagedError, VersionNotFoundError
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.log.managed_commits import RatifiedCommit, RatifiedCommits
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from tests.core.managed.conftest import METADATA, PROTOCOL, WRITE


def as_the_protocol_has_it(managed):
    """The example of the protocol: 7 is published and still kept, 8 is staged, 9 inline, one of 8 lost, 10 is not ratified."""
    for version in range(1, 7):
        managed.publish(managed.foreign_commit(version, f"f{version}"))
        managed.catalog.published(version)
    managed.publish(managed.foreign_commit(7, "f7"))
    managed.foreign_commit(8, "f8")
    managed.stage(8, "rejected")
    content, time = managed.text("f9")
    managed.catalog.ratify_inline(9, content, time)
    managed.stage(10, "not-ratified")
    managed.store.write("_delta_log/_staged_commits/00000000000000000010.7a980438-cb67-4b89-82d2-86f73239b6d6.json", b'{"ad')
    return [f"f{version}" for version in range(1, 10)]


def test_a_snapshot_is_made_of_published_staged_and_inline_commits_up_to_the_latest_ratified_one(managed):
    expected = as_the_protocol_has_it(managed)
    assert managed.log().snapshot().version == 9
    assert managed.paths() == expected


def test_a_published_file_after_the_latest_ratified_version_is_ignored(managed):
    expected = as_the_protocol_has_it(managed)
    managed.store.write_if_absent(commit_path(10), managed.text("stray")[0])
    managed.store.write_if_absent("_delta_log/00000000000000000010.crc", b"{}")
    assert managed.paths() == expected
    assert "stray" not in managed.paths(log=managed.log())
    with pytest.raises(VersionNotFoundError):
        managed.log().snapshot(10)


def test_a_new_reader_is_not_given_a_file_after_the_latest_ratified_version(managed):
    as_the_protocol_has_it(managed)
    managed.store.write_if_absent(commit_path(10), managed.text("stray")[0])
    with pytest.raises(FileNotFoundError):
        managed.log().store.read(commit_path(10))


def test_a_latest_version_whose_commit_is_nowhere_is_an_error_and_no_older_snapshot(managed, monkeypatch):
    managed.append("a")
    monkeypatch.setattr(managed.catalog, "ratified", lambda: RatifiedCommits(latest=9))
    with pytest.raises(CatalogAnswerError, match="latest version is 9"):
        managed.log().snapshot()


def test_of_a_commit_that_is_published_too_the_catalogs_is_read(managed):
    managed.foreign_commit(1, "of-the-catalog")
    managed.store.write_if_absent(commit_path(1), managed.text("of-the-folder")[0])
    assert managed.paths() == ["of-the-catalog"]


def test_every_version_can_be_read_by_number_and_by_time_whether_published_or_not(managed):
    as_the_protocol_has_it(managed)
    log = managed.log()
    for version in (3, 7, 8, 9):
        assert managed.paths(version, log) == [f"f{number}" for number in range(1, version + 1)]
        time = log.snapshot(version).timestamp
        assert managed.log().snapshot(timestamp=time).version == version
    assert [entry.version for entry in log.history()] == list(range(9, -1, -1))


def test_the_change_feed_covers_unpublished_commits(managed):
    managed.log().alter().set_properties({"delta.enableChangeDataFeed": "true"})
    managed.foreign_commit(2, "f2")
    managed.foreign_commit(3, "f3")
    covered, last = managed.log().changed_range(2)
    assert (covered.first, covered.last, last.version) == (2, 3, 3)


def test_a_refresh_reads_only_what_came_since_and_publication_in_between_changes_nothing(managed):
    log = managed.log()
    managed.foreign_commit(1, "f1")
    first = log.refresh()
    managed.log().checkpoint()  # publishes 1
    assert managed.catalog.ratified().commits == ()
    assert log.refresh() is first
    managed.foreign_commit(2, "f2")
    read, real = [], managed.store.read
    managed.store.read = lambda path: read.append(path) or real(path)
    assert sorted(log.refresh().files()["path"].to_pylist()) == ["f1", "f2"]
    assert [path for path in read if path.endswith(".json")] == [
        f"_delta_log/_staged_commits/{managed.catalog.ratified().commits[0].file_name}"
    ]


def test_a_staged_file_that_was_cleaned_up_after_its_publication_is_read_from_the_log(managed):
    proposed = managed.foreign_commit(1, "f1")
    log = managed.log()
    managed.publish(proposed)
    managed.store.delete([f"_delta_log/_staged_commits/{proposed.file_name}"])
    assert managed.paths(log=log) == ["f1"]


@pytest.mark.parametrize("read", ["snapshot", "history", "start_transaction", "refresh"])
def test_opened_by_its_path_the_table_is_refused_with_the_way_out(managed, read):
    log = DeltaLog.for_table("memory://table", store=managed.store)
    with pytest.raises(CatalogRequiredError, match="open it through the catalog") as refused:
        getattr(log, read)()
    assert refused.value.features == ("catalogManaged",)


def test_a_commit_by_its_path_that_would_make_a_table_catalog_managed_is_refused():
    log = DeltaLog.for_table("memory://table", store=InMemoryLogStore())
    with pytest.raises(CatalogRequiredError):
        log.create_transaction(METADATA, PROTOCOL).commit(operation=WRITE)
    assert not log.exists()


def test_a_table_without_the_feature_is_refused_through_a_catalog(managed):
    store = InMemoryLogStore()
    DeltaLog.for_table("memory://table", store=store).create_transaction(METADATA).commit(operation=WRITE)
    with pytest.raises(NotCatalogManagedError, match="open it by its path"):
        managed.log(store).snapshot()


@pytest.mark.parametrize(
    "name",
    ["../00000000000000000001.json", "00000000000000000002.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json", "", "1.json", "x/y"],
)
def test_a_commit_whose_file_is_not_named_as_a_staged_commit_of_its_version_cannot_be(name):
    with pytest.raises(ValueError, match="expected the name of a staged commit of version 1"):
        RatifiedCommit(version=1, file_name=name, size=1, modification_time=1)


def test_an_answer_with_a_version_twice_or_after_the_latest_cannot_be():
    commit = RatifiedCommit(version=3, size=1, modification_time=1, content=b"{}")
    with pytest.raises(ValueError, match="ascending"):
        RatifiedCommits(commits=(commit, commit), latest=3)
    with pytest.raises(ValueError, match="after the latest"):
        RatifiedCommits(commits=(commit,), latest=2)


class OvertakenCommits:
    """A catalog during whose next response something else happens."""

    def __init__(self, commits):
        self._commits, self.meanwhile = commits, None

    def __getattr__(self, name):
        return getattr(self._commits, name)

    def ratified(self):
        said, meanwhile, self.meanwhile = self._commits.ratified(), self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return said


def test_an_answer_that_another_thread_has_overtaken_takes_back_nothing_that_is_known(managed):
    managed.foreign_commit(1, "f1")
    managed.catalog = OvertakenCommits(managed.catalog)
    log = managed.log()

    def another_thread_learns_of_a_version():
        managed.foreign_commit(2, "f2")
        assert log.refresh().version == 2

    managed.catalog.meanwhile = another_thread_learns_of_a_version
    assert log.refresh().version == 2
    assert managed.paths(log=log) == ["f1", "f2"]
