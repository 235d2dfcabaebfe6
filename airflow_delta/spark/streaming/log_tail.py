"""Which files a stream reads next: follows the log of a table from an offset on.

A stream starts with the rows of one version, in batches, and continues with what each later commit adds. Commits that only
rearrange rows are skipped. A commit that removes rows ends the stream, unless the stream's options say what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import CommitActions, Metadata
from airflow_delta.core.actions.file_actions import ADD_FILE
from airflow_delta.core.change_feed.changed_range import lost_columns
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import ChangeSchemaError, DeltaError, LogGapError, VersionNotFoundError
from airflow_delta.core.log.commit_reader import read_commit
from airflow_delta.core.log.history import CommitTimes, InCommitTimestamps
from airflow_delta.core.log.log_segment import list_log
from airflow_delta.core.log.timestamp import milliseconds
from airflow_delta.core.schema import StructType, physical_name
from airflow_delta.core.snapshot.rows import refuse_deletion_vectors
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.table_features.feature import DELETION_VECTORS, reader_features
from airflow_delta.spark.errors import (
    StreamChangeError,
    StreamLogLostError,
    StreamSchemaChangedError,
    StreamTableReplacedError,
)
from airflow_delta.spark.io.scan import SCANNED_COLUMNS
from airflow_delta.spark.io.table_files import TableFiles, schema_of
from airflow_delta.spark.streaming.admission import Admission
from airflow_delta.spark.streaming.offsets import StreamOffset
from airflow_delta.spark.streaming.options import LATEST, StreamOptions
from airflow_delta.spark.streaming.stream_schema import stream_schema
from airflow_delta.spark.supported_features import check_scannable

_STREAMED = SCANNED_COLUMNS

_IDLE_VERSIONS = 10
"""Commits without new rows after which the offset still moves on, so that it does not depend on commits cleaned up later.

A table with only maintenance has one or two commits a day, and keeps its log for 30 days.
"""


class LogTail:
    """The log of a table as one run of a stream reads it, with the schema found when the run began.

    Attributes:
        streamed: Columns of the files that it reads.
        splits_commits: Whether a batch may end within a commit.
        schema: The table's columns.
        files: How the files are accessed.
    """

    streamed: ClassVar[pa.Schema] = pa.schema([ADD_FILE.field(name) for name in _STREAMED])
    splits_commits: ClassVar[bool] = True

    def __init__(self, log: DeltaLog, options: StreamOptions) -> None:
        """Read the table's log.

        Raises:
            TableNotFoundError: There is no table.
            UnsupportedReaderFeatureError: Spark cannot read the table here.
        """
        self._log = log
        self._options = options
        self._began = log.refresh()
        check_scannable(log.table_uri, self._began.protocol, self._began.metadata)
        self.schema: StructType = stream_schema(self._began.schema)
        self.files: TableFiles = TableFiles.of(self._began)
        self._known: dict[tuple[int, bool], pa.Table] = {}
        self._is_backlog_checked = False
        self._idle: tuple[StreamOffset, StreamOffset] | None = None

    @property
    def shown(self) -> StructType:
        """The columns of the stream's rows."""
        return self.schema

    def first(self) -> StreamOffset:
        """The offset at which a new stream begins.

        Raises:
            VersionNotFoundError: The starting version does not exist (or not any more).
            TimestampOutOfRangeError: No version was committed at or after the starting time.
            InvalidStatementError: The starting time is invalid.
        """
        options, latest = self._options, self._began.version
        version = options.starting_version
        if options.starting_timestamp is not None:
            in_commit = InCommitTimestamps.from_metadata(self._began.metadata)
            times = CommitTimes(self._log.store, in_commit, rebuilt=False)  # only the version's commit is read
            version = times.first_from(milliseconds(options.starting_timestamp))
        if version is None:
            return self._offset(latest, is_snapshot=True)
        if version == LATEST:
            return self._offset(latest + 1)
        commits = list_log(self._log.store).commits
        if version not in commits and version != latest + 1:
            earliest = min(commits, default=latest)
            raise VersionNotFoundError(table=self._log.table_uri, version=int(version), earliest=earliest, latest=latest)
        return self._offset(int(version))

    def latest_version(self) -> int:
        """The last version to read at present.

        Raises:
            StreamTableReplacedError: The table was replaced by another one.
            DeltaError: As ``DeltaLog.refresh`` raises it.
        """
        latest = self._log.refresh()
        self._check_id(latest.metadata)
        return latest.version

    def advance(self, start: StreamOffset, last: int, admission: Admission) -> StreamOffset:
        """The end of the batch that begins at ``start``; ``start`` itself if there is nothing to read yet.

        Everything before a commit that ends the stream is still read.

        Args:
            start: The end of the last batch.
            last: The last version to read.
            admission: Limits the batch.

        Raises:
            StreamChangeError: The next commit removes rows, and no option says what to do.
            StreamSchemaChangedError: The next commit changes the schema; after a restart the stream continues.
            ChangeSchemaError: Rows still to be read no longer fit the table's schema.
            StreamLogLostError: The next commit was cleaned up.
            StreamTableReplacedError: The table was replaced by another one.
        """
        end = self._behind_idle(start)
        try:
            for part, files in self._parts(end, last):
                take = admission.take if part.is_snapshot or self.splits_commits else admission.take_all
                taken = take(files["size"].to_pylist())
                if taken < len(files):
                    return replace(part, index=part.index + taken)
                end = self._offset(part.version + 1)
        except DeltaError:
            if not admission.has_taken:
                raise
        if admission.has_taken or end.version - start.version > _IDLE_VERSIONS:
            return end
        self._idle = (start, end)
        self.forget(end)
        return start

    def between(self, start: StreamOffset, end: StreamOffset) -> pa.Table:
        """The files (``streamed``) of the batch from ``start`` to ``end``. Raises as ``advance``."""
        found = []
        last = end.version if end.index else end.version - 1
        begin = self._behind_idle(start)  # commits without rows may have been cleaned up
        for part, files in self._parts(begin if begin.version <= end.version else start, last):
            is_last = part.version == end.version and part.is_snapshot == end.is_snapshot
            found.append(files.slice(0, end.index - part.index) if is_last else files)
            if is_last:
                break
        return pa.concat_tables(found) if found else self.streamed.empty_table()

    def forget(self, end: StreamOffset) -> None:
        """Tell that nothing before this offset will be requested again soon, so that it need not be cached."""
        self._known = {key: files for key, files in self._known.items() if key[0] >= end.version}

    def _behind_idle(self, start: StreamOffset) -> StreamOffset:
        """The offset after ``start`` at which reading continues, skipping commits known to have no rows."""
        return self._idle[1] if self._idle and self._idle[0] == start else start

    def _parts(self, start: StreamOffset, last: int) -> Iterator[tuple[StreamOffset, pa.Table]]:
        """The versions from ``start`` on, each with its files that are still to be read."""
        self._check_start(start)
        self._check_backlog(start)
        part = start
        while part.is_snapshot or part.version <= last:
            key = (part.version, part.is_snapshot)
            if key not in self._known:
                self._known[key] = self._of_snapshot(part.version) if part.is_snapshot else self._of_commit(part.version)
            yield part, self._known[key].slice(part.index)
            part = self._offset(part.version + 1)

    def _of_snapshot(self, version: int) -> pa.Table:
        """The files of a version, oldest first, in an order that is the same in every call."""
        snapshot = self._snapshot(version)
        if snapshot is None:
            raise self._lost(version)
        files = snapshot.files(columns=(*_STREAMED, "modification_time"))
        if DELETION_VECTORS not in reader_features(snapshot.protocol):
            refuse_deletion_vectors(snapshot.table_uri, files)
        return files.sort_by([("modification_time", "ascending"), ("path", "ascending")]).select(_STREAMED)

    def _of_commit(self, version: int) -> pa.Table:
        """The files with the new rows of this version's commit."""
        actions = self._commit(version)
        adds = actions.adds.filter(actions.adds["data_change"])
        return self._wanted(version, actions, adds).select(_STREAMED)

    def _commit(self, version: int) -> CommitActions:
        """The actions of the commit, which must not change the columns that the stream knows."""
        try:
            actions = read_commit(self._log.store, version)
        except LogGapError as error:
            raise self._lost(version) from error
        if actions.metadata is not None:
            self._check_metadata(version, actions.metadata)
        return actions

    def _wanted(self, version: int, actions: CommitActions, adds: pa.Table) -> pa.Table:
        """The files added by a commit that are to be read."""
        if not pc.any(actions.removes["data_change"]).as_py():
            return adds
        if self._options.skips_changes:
            return adds.slice(0, 0)
        if self._options.ignores_changes or (self._options.ignores_deletes and not len(adds)):
            return adds
        operation = actions.commit_info.operation if actions.commit_info else "UNKNOWN"
        raise StreamChangeError(table=self._log.table_uri, version=version, operation=operation)

    def _check_start(self, start: StreamOffset) -> None:
        """Return if the offset belongs to this kind of stream of this table."""
        if start.table_id != self._began.metadata.id:
            raise StreamTableReplacedError(table=self._log.table_uri)

    def _check_backlog(self, start: StreamOffset) -> None:
        """Return if rows written before this run fit the table's present schema, as far as the log still shows."""
        if self._is_backlog_checked:
            return
        if start.version <= self._began.version and (snapshot := self._snapshot(start.version)) is not None:
            self._check_metadata(start.version, snapshot.metadata)
        self._is_backlog_checked = True

    def _check_metadata(self, version: int, metadata: Metadata) -> None:
        self._check_id(metadata)
        known, found = ((stream_schema(schema_of(state)), _partitions(state)) for state in (self._began.metadata, metadata))
        if known == found:
            return
        if version > self._began.version:
            raise StreamSchemaChangedError(table=self._log.table_uri, version=version)
        differences = tuple(lost_columns(found[0], known[0]))
        if known[1] != found[1]:
            differences += (f"partitioned by {found[1]}, then by {known[1]}",)
        if differences:
            raise ChangeSchemaError(
                table=self._log.table_uri, version=version, read_version=self._began.version, differences=differences
            )

    def _check_id(self, metadata: Metadata) -> None:
        if metadata.id != self._began.metadata.id:
            raise StreamTableReplacedError(table=self._log.table_uri)

    def _snapshot(self, version: int) -> Snapshot | None:
        """The table at a version; None if the log does not reach back that far."""
        try:
            return self._log.snapshot(version)
        except (VersionNotFoundError, LogGapError):
            return None

    def _lost(self, version: int) -> StreamLogLostError:
        earliest = min(list_log(self._log.store).commits, default=version + 1)
        return StreamLogLostError(table=self._log.table_uri, version=version, earliest=earliest)

    def _offset(self, version: int, *, is_snapshot: bool = False) -> StreamOffset:
        return StreamOffset(table_id=self._began.metadata.id, version=version, is_snapshot=is_snapshot)


def _partitions(metadata: Metadata) -> list[str]:
    schema = schema_of(metadata)
    return [physical_name(field) for field in schema.fields if field.name in metadata.partition_columns]
