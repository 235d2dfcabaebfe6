import pytest

from airflow_delta.core.log.in_memory_managed_commits import InMemoryManagedCommits
from tests.core.managed.managed_commits_contract import ManagedCommitsContract


class TestInMemoryManagedCommits(ManagedCommitsContract):
    @pytest.fixture
    def commits(self):
        return InMemoryManagedCommits()


def test_an_inline_commit_is_kept_with_its_content_until_it_is_published():
    commits = InMemoryManagedCommits()
    commits.ratify_inline(1, b"{}", 42)
    assert commits.ratified().commits[0].content == b"{}"
    commits.published(1)
    assert commits.ratified().commits == ()
