"""``DeltaLog``: the log of a table at a path, the entry point of the core."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

import pyarrow as pa

from airflow_delta.core.actions import Metadata, Origin, Protocol
from airflow_delta.core.backoff import Backoff
from airflow_delta.core.change_feed import ChangedRange, change_feed, changelog, check_recorded
from airflow_delta.core.clock import Clock, system_clock
from airflow_delta.core.log.history import (
    CommitTimes,
    HistoryEntry,
    InCommitTimestamps,
    find_commit,
    find_produced,
    history,
    newest,
    version_at,
)
from airflow_delta.core.log.latest_replay import LatestReplay
from airflow_delta.core.log.log_replay import LogReplay
from airflow_delta.core.log.log_segment import holds_table
from airflow_delta.core.log.managed_commits import ManagedCommits, identifying_properties
from airflow_delta.core.log.managed_log_store import ManagedLogStore
from airflow_delta.core.log.timestamp import milliseconds
from airflow_delta.core.operations.after_commit import AfterCommit
from airflow_delta.core.operations.checkpoints import CheckpointKind, CheckpointResult, checkpoint
from airflow_delta.core.operations.clone import CloneResult, deep_clone, shallow_clone
from airflow_delta.core.operations.convert import ConvertResult, convert
from airflow_delta.core.operations.discard import discard
from airflow_delta.core.operations.feature_drop import drop_feature
from airflow_delta.core.operations.file_copier import FileCopier, LocalFileCopier
from airflow_delta.core.operations.log_cleanup import CleanupResult, clean_up_log
from airflow_delta.core.operations.log_compaction import CompactionResult, compact_log
from airflow_delta.core.operations.manifest import ManifestResult, generate_manifests
from airflow_delta.core.operations.publication import plan_publication
from airflow_delta.core.operations.recompute_statistics import StatisticsResult, recompute_statistics
from airflow_delta.core.operations.restore import RestoreResult, restore
from airflow_delta.core.operations.staging import stage, staged_store
from airflow_delta.core.operations.stray_file import find_stray_file
from airflow_delta.core.operations.vacuum import VacuumResult, vacuum
from airflow_delta.core.operations.vacuum_executor import LocalVacuumExecutor, VacuumExecutor
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.snapshot.stored_deletion_vectors import StoredDeletionVectors
from airflow_delta.core.statements import CreateMode
from airflow_delta.core.statements.publish import StagedHandle
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.resolve import log_store_for
from airflow_delta.core.table_changes import NewTable, TableChanges, TablePlace, create_table
from airflow_delta.core.table_changes.create import PlannedTable, plan_table
from airflow_delta.core.table_features.protocol import protocol_for
from airflow_delta.core.transaction.commit_loop import COMMIT_BACKOFF
from airflow_delta.core.transaction.commit_result import CommitResult
from airflow_delta.core.transaction.optimistic_transaction import OptimisticTransaction, Stage


class DeltaLog:
    """The log of one table. Reading creates no file or folder, even where no table exists.

    Not thread-safe; make one for each thread.
    """

    def __init__(self, store: LogStore, *, clock: Clock = system_clock, backoff: Backoff = COMMIT_BACKOFF) -> None:
        self.store = store
        self.clock = clock
        self.backoff = backoff
        self._after_commit = AfterCommit(self)
        self._replay = LatestReplay(store, self._after_commit.forget_another_table)
        self._latest: Snapshot | None = None
        self._stage: Stage | None = None

    @classmethod
    def for_table(
        cls,
        uri: str,
        storage_options: Mapping[str, Any] | None = None,
        *,
        allowed_prefixes: Iterable[str] = (),
        clock: Clock = system_clock,
        store: LogStore | None = None,
        commits: ManagedCommits | None = None,
    ) -> DeltaLog:
        """The log of the table at ``uri``; nothing is read yet.

        Args:
            uri: A local path or a URI.
            storage_options: Credentials and endpoint for object stores.
            allowed_prefixes: URIs outside of the table from which its files may be read, as other engines' shallow clones need
                it. Files elsewhere are refused; clones registered beside their source (``operations.clone_sources``) need none.
            clock: Gives the time of commits, in milliseconds since the epoch.
            store: Used instead of the store for the URI's scheme: any object that meets the contract of ``LogStore``, such as
                one over Hadoop for HDFS. ``tests/core/storage/log_store_contract.py`` tests the contract.
            commits: The catalog's interface to the commits of a catalog-managed table.

        Raises:
            InvalidStatementError: The URI is blank, or names no bucket.
            UnsupportedStorageError: The filesystem cannot hold a log safely.
        """
        store = store or log_store_for(uri, storage_options, allowed_prefixes)
        return cls(store if commits is None else ManagedLogStore(store, commits), clock=clock)

    @property
    def table_uri(self) -> str:
        """The table's root as the user wrote it, without a trailing slash."""
        return self.store.table_uri

    def exists(self) -> bool:
        """Whether the table exists: its log has any commit or checkpoint."""
        return holds_table(self.store)

    def snapshot(self, version: int | None = None, timestamp: int | str | None = None) -> Snapshot:
        """The table at a version or a time; the latest version when neither is given.

        Args:
            version: Number of the version.
            timestamp: Milliseconds since the epoch, or ISO text (UTC where it names no zone).

        Raises:
            TableNotFoundError: The table does not exist.
            VersionNotFoundError: The log does not hold the version.
            TimestampOutOfRangeError: The time lies before the first or after the last version.
            CorruptLogError: A log file that is needed cannot be read or is missing.
            UnsupportedReaderFeatureError: The table needs a reader feature that is not supported here.
            InvalidStatementError: The text is not a time.
            ValueError: Both are given.
        """
        if version is not None and timestamp is not None:
            raise ValueError("give a version or a timestamp, not both")
        if timestamp is not None:
            version = version_at(self.store, milliseconds(timestamp), self._in_commit_timestamps())
        if version is None:
            return self.refresh()
        if self._latest and self._latest.version == version:
            return self._latest
        return Snapshot(self.store, LogReplay.from_store(self.store, version))

    def refresh(self) -> Snapshot:
        """The latest version. After the first call, only newer commits are listed and read. Raises as ``snapshot``."""
        replay = self._replay.refresh()
        if self._latest is None or self._latest.replay is not replay:
            self._latest = Snapshot(self.store, replay)
        return self._latest

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """The commits that the log still holds, newest first; works for tables that need unsupported reader features, too.

        Args:
            limit: The most commits to return; all when None.

        Raises:
            InvalidStatementError: The limit is negative.
            TableNotFoundError: The table does not exist.
            CorruptLogError: A log file that is needed cannot be read or is missing.
        """
        return newest(history(self.store, self._in_commit_timestamps()), limit)

    def produced_by(self, *, with_token: bool = False, **wanted: Any) -> HistoryEntry | None:
        """The newest commit that a task run made; None when the log holds none.

        Args:
            with_token: Whether to skip commits without a token. Those only prepare or follow the task's own commit: an auto
                compaction, or a protocol upgrade that comes first.
            wanted: Which task run: any of ``dag_id``, ``task_id``, ``run_id``, ``map_index``, ``logical_date`` (ISO text).

        Raises:
            TableNotFoundError: The table does not exist.
        """
        return find_produced(self.store, self._in_commit_timestamps(), wanted, with_token=with_token)

    def changes(
        self,
        start: int | str,
        end: int | str | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        as_changelog: bool = False,
    ) -> pa.RecordBatchReader:
        """The rows changed in the versions from ``start`` to ``end``, both included; see ``change_feed`` for the columns.

        Args:
            start: A version, or ISO text (UTC where it names no zone): the first version committed at that time or later.
            end: A version, or ISO text: the last version committed at that time or before; the latest version when None.
            columns: Names of the table's columns to return; all when None.
            where: Which changes to return; the condition may name any column of the feed.
            as_changelog: Whether ``_row_kind`` (+I, -U, +U, -D) replaces ``_change_type``, and within each version removed rows
                come before added ones.

        Raises:
            ChangeDataNotRecordedError: The change data feed was not enabled for all of these versions.
            ChangeSchemaError: A column of an earlier version is gone or has another type.
            InvalidStatementError: The end lies before the start, or a text is not a time.
            As ``snapshot``.
        """
        covered, last = self.changed_range(start, end)
        feed = change_feed(last, covered, columns=columns, where=where, going_first=as_changelog)
        return changelog(feed) if as_changelog else feed

    def changed_range(self, start: int | str, end: int | str | None = None) -> tuple[ChangedRange, Snapshot]:
        """The versions that ``changes`` covers, and the table at the last one. Arguments and errors as of ``changes``."""
        latest = self.refresh()
        covered = ChangedRange.from_bounds(start, end, latest, lambda: CommitTimes(self.store, self._in_commit_timestamps()))
        last = self.snapshot(covered.last)
        check_recorded(self.store, covered, self.snapshot(covered.first), last)
        return covered, last

    def find_commit(self, token: str, after: int) -> HistoryEntry | None:
        """The first commit after version ``after`` that carries the token; None when no commit does.

        Raises:
            TokenHistoryLostError: Commits right after ``after`` were cleaned up, one of which may have carried the token.
        """
        return find_commit(self.store, token, after)

    def start_transaction(self, snapshot: Snapshot | None = None, *, enforces: Iterable[str] = ()) -> OptimisticTransaction:
        """A transaction on ``snapshot``, or on the latest version when None; loading that raises as ``snapshot`` does.

        Args:
            snapshot: The version that the transaction reads.
            enforces: Features whose constraints its writer enforces on the rows; see ``table_features.support.ROW_FEATURES``.
        """
        return self._transaction(snapshot or self.refresh(), enforces)

    def create_transaction(
        self, metadata: Metadata, protocol: Protocol | None = None, *, enforces: Iterable[str] = ()
    ) -> OptimisticTransaction:
        """A transaction that creates the table; nothing is written before it commits.

        Args:
            metadata: Metadata of the new table.
            protocol: Protocol of the new table; when None, the lowest one that supports the schema and properties.
            enforces: As of ``start_transaction``.
        """
        transaction = self._transaction(None, enforces)
        transaction.set_metadata(metadata)
        transaction.set_protocol(protocol or protocol_for(metadata))
        return transaction

    def _transaction(self, snapshot: Snapshot | None, enforces: Iterable[str]) -> OptimisticTransaction:
        return OptimisticTransaction(
            self.store,
            self.clock,
            snapshot,
            hooks=self._after_commit.hooks,
            enforces=enforces,
            deletion_vectors=StoredDeletionVectors(self.store),
            backoff=self.backoff,
            stage=self._stage,
        )

    def staging(self, id: str | None = None) -> DeltaLog:  # noqa: A002
        """This log, but its transactions stage their commit instead of making it; ``CommitResult.staged`` is the handle.

        Args:
            id: Id of the staged commit: letters, digits, dashes and underscores. A random one when None.
        """
        log = DeltaLog(self.store, clock=self.clock, backoff=self.backoff)
        log._stage = partial(stage, log, id or uuid4().hex)
        return log

    def staged(self, handle: Mapping[str, Any] | StagedHandle) -> DeltaLog:
        """The table as it will be once the staged commit is published: the newest version is the staged one.

        Commits that others made since it was staged are not included. If the task had nothing to stage (the handle's id is
        None), this is the table as it is now. Errors: ``operations.staging.staged_store``.
        """
        given = StagedHandle.of(handle)
        return self if given.id is None else DeltaLog(staged_store(self, given), clock=self.clock, backoff=self.backoff)

    def publish(self, handle: Mapping[str, Any] | StagedHandle, *, origin: Origin | None = None) -> CommitResult:
        """Commit what is staged, once only. Errors: ``operations.publication.plan_publication`` and ``Publication.commit``."""
        return plan_publication(self, StagedHandle.of(handle), origin or Origin()).commit()

    def discard(self, handle: Mapping[str, Any] | StagedHandle, *, origin: Origin | None = None) -> int:
        """Drop what is staged; returns the number of files deleted. Errors: ``operations.discard.discard``."""
        return discard(self, StagedHandle.of(handle), origin or Origin())

    def create(self, new: NewTable, *, mode: CreateMode = "error", origin: Origin | None = None) -> CommitResult:
        """Create the table, empty, or replace an existing one; see ``table_changes.create``."""
        return create_table(new, self._place(), mode=mode, origin=origin)

    def plan_create(self, new: NewTable, *, mode: CreateMode = "error") -> PlannedTable:
        """What ``create`` would do; nothing is committed. Errors: as of ``create``."""
        return plan_table(new, self._place(), mode=mode)

    def _place(self) -> TablePlace:
        return TablePlace(
            uri=self.table_uri,
            now=self.clock(),
            create=self.create_transaction,
            latest=self.start_transaction,
            stray_file=partial(find_stray_file, self.store),
            identity=identifying_properties(self.store),
        )

    def alter(self, *, origin: Origin | None = None) -> TableChanges:
        """The statements that change columns, properties, rules and features of the table; see ``TableChanges``."""
        return TableChanges(start=self.start_transaction, origin=origin)

    def drop_feature(self, name: str, *, truncate_history: bool = False, origin: Origin | None = None) -> CommitResult:
        """Drop a table feature from the protocol. Arguments and errors: ``operations.feature_drop``."""
        return drop_feature(self, name, truncate_history=truncate_history, origin=origin)

    def checkpoint(self, version: int | None = None, *, kind: CheckpointKind | str | None = None) -> CheckpointResult:
        """Write a checkpoint of a version, the latest when None. Arguments and errors: ``operations.checkpoints``."""
        return checkpoint(self, version, kind=kind)

    def compact_log(self, start: int | None = None, end: int | None = None) -> CompactionResult:
        """Write a range of commits as one compacted log file. Arguments and errors: ``operations.log_compaction``."""
        return compact_log(self, start=start, end=end)

    def cleanup_log(self, *, dry_run: bool = False) -> CleanupResult:
        """Delete log files that only versions older than the log retention need. Errors: ``operations.log_cleanup``."""
        return clean_up_log(self, dry_run=dry_run)

    def vacuum(
        self,
        retention_hours: float | None = None,
        *,
        dry_run: bool = False,
        enforce_retention: bool = True,
        lite: bool = False,
        inventory: pa.Table | str | None = None,
        protect: Iterable[int] = (),
        origin: Origin | None = None,
        executor: VacuumExecutor | None = None,
    ) -> VacuumResult:
        """Delete files that no version within the retention needs. Arguments and errors: ``operations.vacuum``."""
        return vacuum(
            self,
            retention_hours=retention_hours,
            dry_run=dry_run,
            enforce_retention=enforce_retention,
            lite=lite,
            inventory=inventory,
            protect=protect,
            origin=origin or Origin(),
            executor=executor or LocalVacuumExecutor(),
        )

    @classmethod
    def convert(
        cls,
        uri: str,
        storage_options: Mapping[str, Any] | None = None,
        *,
        partition_schema: Mapping[str, str] | None = None,
        infer_partitions: bool = False,
        statistics: bool = True,
        properties: Mapping[str, str] | None = None,
        time_zone: str = "UTC",
        origin: Origin | None = None,
        clock: Clock = system_clock,
    ) -> ConvertResult:
        """Convert a directory of Parquet files to a Delta table, in place. Arguments and errors: ``operations.convert``."""
        return convert(
            cls.for_table(uri, storage_options, clock=clock),
            partition_schema=partition_schema,
            infer_partitions=infer_partitions,
            statistics=statistics,
            properties=properties or {},
            time_zone=time_zone,
            origin=origin or Origin(),
        )

    def generate_manifests(self) -> ManifestResult:
        """Write manifests: lists of the table's files for readers without Delta support; see ``operations.manifest``."""
        return generate_manifests(self.refresh())

    def recompute_statistics(
        self, where: str | None = None, *, missing_only: bool = False, dry_run: bool = False, origin: Origin | None = None
    ) -> StatisticsResult:
        """Compute the file statistics that the table requires. Arguments and errors: ``operations.recompute_statistics``."""
        return recompute_statistics(self, where=where, missing_only=missing_only, dry_run=dry_run, origin=origin or Origin())

    def restore(
        self,
        version: int | None = None,
        timestamp: int | str | None = None,
        *,
        ignore_missing_files: bool = False,
        dry_run: bool = False,
        origin: Origin | None = None,
    ) -> RestoreResult:
        """Restore the table to a version or timestamp. Arguments and errors: ``operations.restore``."""
        return restore(
            self,
            version=version,
            timestamp=timestamp,
            ignore_missing_files=ignore_missing_files,
            dry_run=dry_run,
            origin=origin or Origin(),
        )

    def shallow_clone(
        self,
        target: str | DeltaLog,
        *,
        version: int | None = None,
        timestamp: int | str | None = None,
        mode: CreateMode = "error",
        properties: Mapping[str, str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        origin: Origin | None = None,
    ) -> CloneResult:
        """Make a new table that shares this table's files. Arguments and errors: ``snapshot``, ``operations.clone``."""
        if isinstance(target, str):
            target = DeltaLog.for_table(target, storage_options, clock=self.clock)
        source = self.snapshot(version, timestamp)
        return shallow_clone(source, target, mode=mode, properties=properties or {}, dry_run=dry_run, origin=origin or Origin())

    def deep_clone(
        self,
        target: str | DeltaLog,
        *,
        version: int | None = None,
        timestamp: int | str | None = None,
        mode: CreateMode = "error",
        properties: Mapping[str, str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        copier: FileCopier | None = None,
        dry_run: bool = False,
        origin: Origin | None = None,
    ) -> CloneResult:
        """Make a new table with copies of this table's files. Arguments and errors: ``snapshot``, ``operations.clone``."""
        if isinstance(target, str):
            target = DeltaLog.for_table(target, storage_options, clock=self.clock)
        return deep_clone(
            self.snapshot(version, timestamp),
            target,
            mode=mode,
            properties=properties or {},
            copier=copier or LocalFileCopier(),
            dry_run=dry_run,
            origin=origin or Origin(),
        )

    def _in_commit_timestamps(self) -> InCommitTimestamps:
        return InCommitTimestamps.from_metadata(self._replay.refresh().metadata)
