"""The state of the table at one version, rebuilt from its log files when it is asked for, and carried on to later versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import pyarrow as pa

from airflow_delta.core.actions import NO_ADDS, NO_REMOVES, CommitInfo, DomainMetadata, Metadata, Protocol, SetTransaction
from airflow_delta.core.errors import CorruptLogError, LogGapError, VersionNotFoundError
from airflow_delta.core.log.action_reconciliation import FileChanges, file_changes
from airflow_delta.core.log.checkpoint_reader import CheckpointHeader, read_active_files, read_header, read_tombstones
from airflow_delta.core.log.commit_reader import CommitBatch, read_commit_info, read_commits
from airflow_delta.core.log.file_names import LOG_DIRECTORY
from airflow_delta.core.log.log_segment import Checkpoint, LogSegment, find_segment
from airflow_delta.core.storage.log_store import LogStore


class LogReplay:
    """What the log says up to one version. Immutable; file actions are read when they are first asked for, and kept.

    The live files are those of a base (the checkpoint, or an earlier replay that knows them) with the commits since applied.
    """

    def __init__(self, store: LogStore, segment: LogSegment, header: CheckpointHeader, tail: CommitBatch) -> None:
        self.segment = segment
        self._store = store
        self._header = header
        self._tail = tail  # all commits after the checkpoint
        self._known_active: tuple[pa.Table, CommitBatch] | None = None  # of an earlier version, and the commits since
        self._known_tombstones: tuple[pa.Table, CommitBatch] | None = None

    @classmethod
    def of(cls, store: LogStore, version: int | None = None) -> LogReplay:
        """The replay up to ``version`` (the latest one when None).

        Where the newest checkpoint is unreadable, an older one serves if the commits since are there.

        Raises:
            TableNotFoundError: There is no table.
            VersionNotFoundError: The log does not reach from a start to ``version``.
            CorruptLogError: A log file that is needed cannot be read or is missing.
            UnsupportedReaderFeatureError: Only a v2 checkpoint could tell.
        """
        broken: list[Checkpoint] = []
        first_error: CorruptLogError | None = None
        while True:
            try:
                segment = find_segment(store, version, broken=broken)
            except (LogGapError, VersionNotFoundError) as error:
                raise first_error or error from error
            if segment.checkpoint is None:
                header = CheckpointHeader(protocol=None, metadata=None, transactions={}, domains={})
                return cls(store, segment, header, read_commits(store, segment.commits))
            try:
                header = read_header(store, segment.checkpoint)
            except CorruptLogError as error:
                first_error = first_error or error
                broken.append(segment.checkpoint)
            else:
                return cls(store, segment, header, read_commits(store, segment.commits))

    def followed_by(self, segment: LogSegment) -> LogReplay:
        """The replay of ``segment``, which is this one's with later commits; what is known here is not read again."""
        news = read_commits(self._store, [version for version in segment.commits if version > self.segment.version])
        later = LogReplay(self._store, segment, self._header, self._tail.followed_by(news))
        if "active_files" in self.__dict__:
            later._known_active = (self.active_files, news)  # the same class
        if "tombstones" in self.__dict__:
            later._known_tombstones = (self.tombstones, news)
        return later

    @property
    def protocol(self) -> Protocol:
        """The latest protocol. Raises ``CorruptLogError`` when there is none."""
        protocol = self._tail.protocol or self._header.protocol
        if protocol is None:
            raise self._lacks("protocol")
        return protocol

    @property
    def metadata(self) -> Metadata:
        """The latest metadata. Raises ``CorruptLogError`` when there is none."""
        metadata = self._tail.metadata or self._header.metadata
        if metadata is None:
            raise self._lacks("metaData")
        return metadata

    def _lacks(self, action: str) -> CorruptLogError:
        detail = f"no {action} action up to version {self.segment.version}"
        return CorruptLogError(table=self.segment.table, file=LOG_DIRECTORY, detail=detail)

    @property
    def transactions(self) -> Mapping[str, SetTransaction]:
        """How far each application has written: its latest commit counts."""
        return {**self._header.transactions, **self._tail.transactions}

    @property
    def domains(self) -> Mapping[str, DomainMetadata]:
        """The domains that are there."""
        merged = {**self._header.domains, **self._tail.domains}
        return {name: each for name, each in merged.items() if not each.removed}

    @cached_property
    def commit_info(self) -> CommitInfo | None:
        """Who made this version; None when its commit file is gone or does not say."""
        if self.segment.commits or not self.segment.commit_of_version:
            return self._tail.commit_info
        return read_commit_info(self._store, self.segment.version)

    @cached_property
    def active_files(self) -> pa.Table:
        """The live files, columns ``ADD_FILE``."""
        if self._known_active:
            known, news = self._known_active
            return file_changes(news.adds, news.removes).active_files(known)
        return self._tail_changes.active_files(self._from_checkpoint(read_active_files, NO_ADDS))

    @cached_property
    def tombstones(self) -> pa.Table:
        """The removed files that the log still remembers, columns ``REMOVE_FILE``."""
        if self._known_tombstones:
            known, news = self._known_tombstones
            return file_changes(news.adds, news.removes).tombstones(known)
        return self._tail_changes.tombstones(self._from_checkpoint(read_tombstones, NO_REMOVES))

    @cached_property
    def _tail_changes(self) -> FileChanges:
        return file_changes(self._tail.adds, self._tail.removes)

    def _from_checkpoint(self, read: Callable[[LogStore, Checkpoint], pa.Table], nothing: pa.Table) -> pa.Table:
        return read(self._store, self.segment.checkpoint) if self.segment.checkpoint else nothing
