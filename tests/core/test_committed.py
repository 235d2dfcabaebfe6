"""The result of a commit, read from what the commit itself records."""

import pytest

from airflow_delta.core.actions import CommitInfo, Metadata
from airflow_delta.core.committed import result_of_commit, staged_result
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.operations.staged_folder import staged_id
from airflow_delta.core.transaction.operation import Operation
from tests.core.faults.scenarios import SCHEMA


@pytest.mark.parametrize(("version", "recorded", "expected"), [(7, 5, 5), (7, None, 6), (0, None, -1), (-1, None, -1)])
def test_a_commit_that_records_no_version_read_follows_the_one_before_it(version, recorded, expected):
    info = CommitInfo(timestamp=1, operation="WRITE", read_version=recorded)
    assert result_of_commit("t", version, info, already_committed=False).read_version == expected


def test_a_new_table_is_computed_from_no_version_staged_and_published(tmp_path):
    log = DeltaLog.for_table(str(tmp_path / "t"))
    transaction = log.staging(staged_id("token")).create_transaction(Metadata(id="m", schema_string=SCHEMA))
    commit = transaction.commit(operation=Operation(name="WRITE"), allow_empty=True)
    staged = staged_result(log, "token")
    assert (staged.version, staged.read_version, staged.committed) == (-1, -1, False)
    assert result_of_commit("t", commit.version, commit.commit_info, already_committed=False).read_version == -1
    published = log.publish(commit.staged)
    result = result_of_commit("t", published.version, published.commit_info, already_committed=False)
    assert (result.version, result.read_version) == (0, -1)
