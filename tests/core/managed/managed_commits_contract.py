"""The contract of a managed table's commits at its catalog, which every catalog must meet."""

import threading
import uuid

import pytest

from airflow_delta.core.errors import CommitRefusedError
from airflow_delta.core.log.file_names import staged_commit_file
from airflow_delta.core.log.managed_commits import Maintenance, ProposedCommit, TooManyUnpublishedError


def proposed(version, **fields):
    """A proposed commit of this version; its file is not written."""
    name = staged_commit_file(version, str(uuid.uuid4()))
    times = {"modification_time": 1_700_000_000_000 + version, "timestamp": 1_700_000_000_000 + version}
    return ProposedCommit(**{"version": version, "file_name": name, "size": 100 + version} | times | fields)


class ManagedCommitsContract:
    """Subclass with only a fixture ``commits``: of a new table without permissions, keeping at most 10 unpublished commits."""

    def test_a_new_table_has_no_ratified_commit_and_no_latest_version(self, commits):
        assert commits.ratified().commits == ()
        assert commits.ratified().latest is None

    def test_a_ratified_commit_is_reported_as_it_was_proposed(self, commits):
        first, second = proposed(1), proposed(2)
        commits.ratify(first)
        commits.ratify(second)
        assert commits.ratified().commits == (first.ratified, second.ratified)
        assert commits.ratified().latest == 2

    def test_a_version_that_is_taken_is_refused_to_another_commit_which_leaves_no_trace(self, commits):
        winner = proposed(1)
        commits.ratify(winner)
        with pytest.raises(FileExistsError):
            commits.ratify(proposed(1))
        assert commits.ratified().commits == (winner.ratified,)

    def test_a_version_is_refused_to_another_commit_also_after_it_was_published(self, commits):
        for version in (1, 2):
            commits.ratify(proposed(version))
        commits.published(2)
        with pytest.raises(FileExistsError):
            commits.ratify(proposed(2))
        assert commits.ratified().latest == 2

    def test_versions_are_ratified_in_order_without_a_gap(self, commits):
        commits.ratify(proposed(1))
        with pytest.raises(CommitRefusedError):
            commits.ratify(proposed(3))
        assert commits.ratified().latest == 1

    def test_of_racing_commits_of_one_version_exactly_one_is_ratified(self, commits):
        commits.ratify(proposed(1))
        racers, winners = [proposed(2) for _ in range(8)], []
        barrier = threading.Barrier(len(racers))

        def race(racer):
            barrier.wait()
            try:
                commits.ratify(racer)
            except FileExistsError:
                return
            winners.append(racer.ratified)

        threads = [threading.Thread(target=race, args=(racer,)) for racer in racers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(winners) == 1
        assert commits.ratified().commits[1:] == tuple(winners)

    def test_what_is_published_is_forgotten_and_the_latest_version_stays(self, commits):
        ratified = [proposed(version) for version in (1, 2, 3)]
        for commit in ratified:
            commits.ratify(commit)
        commits.published(2)
        commits.published(2)
        assert commits.ratified().commits == (ratified[2].ratified,)
        commits.published(3)
        assert commits.ratified().commits == ()
        assert commits.ratified().latest == 3
        commits.ratify(proposed(4))
        assert commits.ratified().latest == 4

    def test_more_unpublished_commits_than_it_keeps_are_refused_until_some_are_published(self, commits):
        for version in range(1, 11):
            commits.ratify(proposed(version))
        with pytest.raises(TooManyUnpublishedError):
            commits.ratify(proposed(11))
        commits.published(1)
        commits.ratify(proposed(11))
        assert [commit.version for commit in commits.ratified().commits] == list(range(2, 12))

    def test_it_has_a_name_and_leaves_maintenance_to_its_clients_only_where_it_says_so(self, commits):
        assert commits.catalog
        assert not set(Maintenance) & set(commits.permits)
