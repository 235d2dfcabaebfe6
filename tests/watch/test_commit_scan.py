"""Commits after a version, read by a watcher while others are written."""

import pytest

from airflow_delta.core.errors import CorruptLogError, UnfinishedCommitError
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.watch.commit_filter import CommitFilter
from airflow_delta.watch.commit_scan import CommitScan
from tests.core.builders import HandmadeLog, add


@pytest.mark.parametrize("with_files", [False, True])
def test_a_commit_that_is_cut_off_is_waited_for_only_until_there_is_a_later_one(with_files):
    handmade = HandmadeLog().create()
    handmade.store.write(commit_path(1), b'{"commitInfo":{"timest')
    scan = CommitScan(handmade.store, CommitFilter.of(), with_files=with_files)
    with pytest.raises(UnfinishedCommitError) as unfinished:
        list(scan.matches([1]))
    assert unfinished.value.retryable
    handmade.commit(add("b"), version=2)
    with pytest.raises(CorruptLogError) as corrupt:
        list(scan.matches([1]))
    assert (corrupt.value.code, corrupt.value.file, corrupt.value.retryable) == ("DELTA_CORRUPT_LOG", commit_path(1), False)
