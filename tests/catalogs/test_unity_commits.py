from dataclasses import replace

import pytest

from airflow_delta.catalogs.unity_commits import TABLE_ID, UnityCommits
from airflow_delta.core.errors import (
    CatalogAnswerError,
    CommitRefusedError,
    InvalidStatementError,
    StorageAccessError,
    StorageUnavailableError,
    TableNotFoundError,
)
from airflow_delta.core.log.managed_commits import TooManyUnpublishedError
from tests.catalogs.unity_commits_server import UnityServer
from tests.core.managed.conftest import METADATA
from tests.core.managed.managed_commits_contract import ManagedCommitsContract, proposed

ID = "4ab3e1f0-9a1c-4a5e-8f3e-2f0f1f6d7c11"


@pytest.fixture
def server():
    server = UnityServer(token="t0ken")
    yield server
    server.close()


@pytest.fixture
def table(server, tmp_path):
    return server.add_table(ID, tmp_path.as_uri())


@pytest.fixture
def commits(server, table):
    return UnityCommits(uri=server.uri, table_id=ID, table_uri=table.uri, token=lambda: "t0ken", timeout=5)


class TestUnityCommits(ManagedCommitsContract):
    @pytest.fixture
    def commits(self, commits, tmp_path):
        """Also stores the commit files that the server compares for a version backfilled long ago."""
        log = tmp_path / "_delta_log"
        (log / "_staged_commits").mkdir(parents=True)
        return commits


def test_commits_beyond_one_answer_are_read_in_pages(commits, table):
    for version in range(1, 11):
        commits.ratify(proposed(version))
    table.commits |= {version: vars_of(proposed(version)) for version in range(11, 26)}
    found = commits.ratified()
    assert [commit.version for commit in found.commits] == list(range(1, 26))
    assert found.latest == 25


def vars_of(commit):
    return {
        "version": commit.version,
        "timestamp": commit.timestamp,
        "file_name": commit.file_name,
        "file_size": commit.size,
        "file_modification_timestamp": commit.modification_time,
    }


def test_a_request_that_is_sent_twice_is_no_conflict(commits):
    commit = proposed(1)
    commits.ratify(commit)
    commits.ratify(commit)
    assert commits.ratified().commits == (commit.ratified,)


def test_a_commit_shows_the_comment_and_the_properties_that_it_changes_with_the_id_of_the_table(commits, table):
    commits.ratify(proposed(1))
    assert table.properties is None
    commits.ratify(proposed(2, metadata=replace(METADATA, description="Flights")))
    assert table.properties == {**METADATA.configuration, TABLE_ID: ID}
    assert table.comment == "Flights"


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (400, "INVALID_ARGUMENT", CommitRefusedError),
        (401, "UNAUTHENTICATED", StorageAccessError),
        (403, "PERMISSION_DENIED", StorageAccessError),
        (404, "TABLE_NOT_FOUND", TableNotFoundError),
        (404, "", StorageUnavailableError),
        (409, "COMMIT_VERSION_CONFLICT", FileExistsError),
        (409, "ALREADY_EXISTS", FileExistsError),
        (409, "UPDATE_REQUIREMENT_CONFLICT", StorageUnavailableError),
        (429, "RESOURCE_EXHAUSTED", TooManyUnpublishedError),
        (429, "", StorageUnavailableError),
        (500, "COMMIT_STATE_UNKNOWN", StorageUnavailableError),
        (503, "", StorageUnavailableError),
        (302, "", StorageUnavailableError),
    ],
)
def test_each_refusal_is_what_the_commit_loop_makes_of_it(commits, server, status, code, error):
    server.faults = [(status, {"error_code": code, "message": "no\x1b[2J"})]
    with pytest.raises(error) as raised:
        commits.ratify(proposed(1))
    assert "t0ken" not in str(raised.value)
    assert "\x1b" not in str(raised.value)


def test_a_server_that_is_gone_is_no_answer(commits, server):
    server.close()
    with pytest.raises(OSError, match="did not serve the request"):
        commits.ratified()


def test_another_token_is_refused_and_each_request_asks_for_the_token(server, table):
    tokens = iter(["t0ken", "ended"])
    commits = UnityCommits(uri=server.uri, table_id=ID, table_uri=table.uri, token=lambda: next(tokens))
    assert commits.ratified().commits == ()
    with pytest.raises(StorageAccessError, match="no valid token"):
        commits.ratified()
    assert "t0ken" not in repr(commits)


@pytest.mark.parametrize(
    "answer",
    [
        {"commits": 3},
        {"commits": [3]},
        {"commits": [{"version": 1}], "latest_table_version": 1},
        {"commits": [{**vars_of(proposed(1)), "file_name": "../../etc/passwd"}], "latest_table_version": 1},
        {"commits": [{**vars_of(proposed(1)), "version": 2}], "latest_table_version": 2},
        {"commits": [vars_of(proposed(3))], "latest_table_version": 2},
        {"commits": [], "latest_table_version": "many"},
        ["no object"],
    ],
    ids=[
        "no list",
        "no object in the list",
        "no file",
        "a file elsewhere",
        "the file of another version",
        "beyond the latest version",
        "no latest version",
        "no object",
    ],
)
def test_what_cannot_be_an_answer_is_refused(commits, server, answer):
    server.faults = [(200, answer)] * 2
    with pytest.raises(CatalogAnswerError):
        commits.ratified()


@pytest.mark.parametrize("again", [1, 0], ids=["the same page", "an earlier one"])
def test_pages_that_do_not_ascend_are_refused(commits, server, again):
    server.faults = [(200, {"commits": [vars_of(proposed(version))], "latest_table_version": 9}) for version in (1, again)]
    with pytest.raises(CatalogAnswerError, match="ascending pages"):
        commits.ratified()


def test_more_commits_than_a_catalog_keeps_are_refused(commits, server):
    page = [vars_of(proposed(version)) for version in range(1, 1_002)]
    server.faults = [(200, {"commits": page, "latest_table_version": 5_000})]
    with pytest.raises(CatalogAnswerError, match="at most 1000 commits"):
        commits.ratified()


def test_whether_a_commit_was_ratified_is_unknown_when_the_answer_cannot_be_read(commits, server):
    server.faults = [(200, ["no object"])]
    with pytest.raises(StorageUnavailableError):
        commits.ratify(proposed(1))


def test_a_token_with_a_line_end_is_refused_and_not_shown(table, server):
    commits = UnityCommits(uri=server.uri, table_id=ID, table_uri=table.uri, token=lambda: "s3cret\n")
    with pytest.raises(StorageAccessError, match="visible ASCII") as refused:
        commits.ratified()
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("latest", [None, -1, 0])
def test_a_catalog_that_has_ratified_nothing_leaves_it_to_the_published_files(commits, server, latest):
    server.faults = [(200, {"commits": [], "latest_table_version": latest})]
    assert commits.ratified().latest is None


@pytest.mark.parametrize("uri", ["http://example.org", "ftp://example.org", "https://", "https://user:secret@example.org", ""])
def test_a_server_to_which_the_token_must_not_go_is_refused(uri):
    with pytest.raises(InvalidStatementError) as refused:
        UnityCommits(uri=uri, table_id=ID, table_uri="s3://lake/t", token=lambda: "t0ken")
    assert "secret" not in str(refused.value)
