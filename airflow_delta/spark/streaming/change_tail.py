"""Which files a stream of changes reads next: follows the change data feed of a table from an offset on.

The rows of the version with which a stream begins are inserts of that version; each later commit contributes its recorded
changes. The changes of a commit are never split between batches, so that both images of an update are in the same batch.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import CommitActions, Metadata
from airflow_delta.core.change_feed.changed_files import CHANGED_FILE, changed_files
from airflow_delta.core.change_feed.changed_range import ENABLED
from airflow_delta.core.data_files.changed_rows import CHANGE_FIELDS, INSERT
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import ChangeDataNotRecordedError, InvalidStatementError
from airflow_delta.core.log.history import InCommitTimestamps, commit_timestamp, monotonic_times
from airflow_delta.core.log.log_segment import list_log
from airflow_delta.core.schema import StructType
from airflow_delta.spark.change_feed.committed_files import COMMITTED_FILE, committed
from airflow_delta.spark.streaming.log_tail import LogTail
from airflow_delta.spark.streaming.offsets import StreamOffset
from airflow_delta.spark.streaming.options import StreamOptions


class ChangeTail(LogTail):
    """As ``LogTail``, for changes."""

    streamed = COMMITTED_FILE
    splits_commits = False

    def __init__(self, log: DeltaLog, options: StreamOptions) -> None:
        """Read the table's log.

        Raises:
            ChangeDataNotRecordedError: The change data feed is not enabled.
            DeltaError: As a stream of rows raises it.
        """
        super().__init__(log, options)
        self._file_times: dict[int, int] = {}
        self._in_commit = InCommitTimestamps.from_metadata(self._began.metadata)
        self._check_recorded(self._began.version, self._began.metadata)

    @property
    def shown(self) -> StructType:
        """The table's columns, followed by those of the change data feed."""
        return StructType((*self.schema.fields, *CHANGE_FIELDS))

    def _check_start(self, start: StreamOffset) -> None:
        if start.index and not start.is_snapshot:
            detail = "the checkpoint is that of a stream without readChangeFeed, which has read a part of a commit"
            raise InvalidStatementError(statement="a streaming read", detail=detail)
        super()._check_start(start)

    def _of_snapshot(self, version: int) -> pa.Table:
        files = super()._of_snapshot(version)
        snapshot = self._log.snapshot(version)
        changes = {
            "path": files["path"],
            "partition_values": files["partition_values"],
            "change_type": pa.repeat(pa.scalar(INSERT), len(files)),
            "shown_by": pa.nulls(len(files), CHANGED_FILE.field("shown_by").type),
            "hidden_by": files["deletion_vector"],
            "size": files["size"],
        }
        return committed(pa.table(changes, schema=CHANGED_FILE), version, snapshot.history_timestamp * 1000)

    def _of_commit(self, version: int) -> pa.Table:
        """The files with the changed rows of this version's commit."""
        actions = self._commit(version)
        files = changed_files(actions)
        if self._began.partition_columns and files["partition_values"].null_count:
            path = files["path"].filter(pc.is_null(files["partition_values"]))[0]
            detail = f"the removed file {path} has no partition values in the log"
            raise ChangeDataNotRecordedError(table=self._log.table_uri, version=version, detail=detail)
        return committed(files, version, self._time_of(version, actions) * 1000)

    def _time_of(self, version: int, actions: CommitActions) -> int:
        """When the commit was made, in milliseconds since the epoch."""
        if version not in self._file_times:
            self._file_times = monotonic_times(list_log(self._log.store).commits)
            self._in_commit = InCommitTimestamps.from_metadata(self._log.refresh().metadata)
        return commit_timestamp(version, self._file_times[version], actions.commit_info, self._in_commit)

    def _check_metadata(self, version: int, metadata: Metadata) -> None:
        super()._check_metadata(version, metadata)
        self._check_recorded(version, metadata)

    def _check_recorded(self, version: int, metadata: Metadata) -> None:
        if metadata.configuration.get(ENABLED, "").lower() != "true":
            detail = f"the property {ENABLED} was not true"
            raise ChangeDataNotRecordedError(table=self._log.table_uri, version=version, detail=detail)
