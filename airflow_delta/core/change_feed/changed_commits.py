"""What each commit of a range changed, read from the log alone; no data file is opened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.change_feed.changed_files import changed_files
from airflow_delta.core.change_feed.changed_range import ChangedRange
from airflow_delta.core.errors import ChangeDataNotRecordedError, CorruptLogError
from airflow_delta.core.log.commit_reader import read_commit
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.log.history import InCommitTimestamps, commit_timestamp, monotonic_times
from airflow_delta.core.log.log_segment import list_log
from airflow_delta.core.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChangedCommit:
    """A commit, and the files that contain its changed rows.

    Attributes:
        version: The version.
        time: When it was committed, timestamp[us, UTC].
        files: The files, columns ``CHANGED_FILE``.
    """

    version: int
    time: pa.TimestampScalar
    files: pa.Table


def changed_commits(snapshot: Snapshot, covered: ChangedRange) -> Iterator[ChangedCommit]:
    """The commits in order; each is read when it is requested.

    Args:
        snapshot: The table at the last version covered.
        covered: The versions, which ``check_recorded`` has accepted.

    Raises:
        ChangeDataNotRecordedError: A removed file has no partition values.
        CorruptLogError: A commit cannot be read, is missing, or has an impossible time.
    """
    file_times = monotonic_times(list_log(snapshot.store).commits)
    in_commit = InCommitTimestamps.from_metadata(snapshot.metadata)
    for version in covered:
        actions = read_commit(snapshot.store, version)
        time = commit_timestamp(version, file_times[version], actions.commit_info, in_commit)
        files = changed_files(actions)
        if snapshot.partition_columns and files["partition_values"].null_count:
            path = files["path"].filter(pc.is_null(files["partition_values"]))[0]
            detail = f"the removed file {path} has no partition values"
            raise ChangeDataNotRecordedError(table=snapshot.table_uri, version=version, detail=detail)
        yield ChangedCommit(version=version, time=_moment(snapshot.table_uri, version, time), files=files)


def _moment(table: str, version: int, time: int) -> pa.TimestampScalar:
    try:
        return pa.scalar(time * 1000, pa.timestamp("us", "UTC"))
    except (pa.ArrowException, OverflowError) as error:
        raise CorruptLogError(table=table, file=commit_path(version), detail=f"invalid timestamp {time} ms") from error
