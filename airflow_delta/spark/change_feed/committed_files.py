"""The files with the changed rows of commits."""

from __future__ import annotations

import pyarrow as pa

from airflow_delta.core.change_feed import ChangedRange, changed_commits
from airflow_delta.core.change_feed.changed_files import CHANGED_FILE
from airflow_delta.core.snapshot.snapshot import Snapshot

COMMITTED_FILE = pa.schema([*CHANGED_FILE, pa.field("version", pa.int64()), pa.field("time", pa.int64())])
"""``CHANGED_FILE`` with the version and the time (microseconds since the epoch) of its commit."""


def committed(files: pa.Table, version: int, time: int) -> pa.Table:
    """Files (``CHANGED_FILE``) of a commit, as ``COMMITTED_FILE``."""
    about = [pa.repeat(pa.scalar(value, pa.int64()), len(files)) for value in (version, time)]
    return pa.table([*files.columns, *about], schema=COMMITTED_FILE)


def committed_files(last: Snapshot, covered: ChangedRange) -> pa.Table:
    """The files (``COMMITTED_FILE``) with the rows that the commits of a range changed.

    Args:
        last: The table at the last version of the range.
        covered: The range of versions.

    Raises:
        ChangeDataNotRecordedError: A removed file has no partition values.
        CorruptLogError: A commit cannot be read, is missing, or has an impossible time.
    """
    commits = (committed(commit.files, commit.version, commit.time.value) for commit in changed_commits(last, covered))
    return pa.concat_tables([COMMITTED_FILE.empty_table(), *commits])
