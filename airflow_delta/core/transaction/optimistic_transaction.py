"""The optimistic transaction: it records what it reads, and commits if no concurrent commit invalidates that."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta import __version__
from airflow_delta.core.actions import (
    ADD_FILE,
    CHANGE_FILE,
    NO_ADDS,
    NO_CHANGES,
    NO_REMOVES,
    REMOVE_FILE,
    CommitActions,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Origin,
    Protocol,
    SetTransaction,
)
from airflow_delta.core.backoff import Backoff
from airflow_delta.core.clock import Clock
from airflow_delta.core.errors import InvalidCommitError, InvalidStatementError, TableNotFoundError
from airflow_delta.core.log.managed_commits import (
    Maintenance,
    check_access,
    check_identity,
    check_permitted,
    check_still_identified,
)
from airflow_delta.core.predicate import TRUE, Expression, parse_predicate
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.table_features.feature import columns_of
from airflow_delta.core.transaction import commit_loop
from airflow_delta.core.transaction.commit_attempt import CommitAttempt, ConfirmConflictingFiles
from airflow_delta.core.transaction.commit_checks import check_commit, is_empty
from airflow_delta.core.transaction.commit_preparation import prepared
from airflow_delta.core.transaction.commit_result import CommitResult
from airflow_delta.core.transaction.deletion_vector_union import DeletionVectorFiles
from airflow_delta.core.transaction.in_commit_timestamps import are_enabled
from airflow_delta.core.transaction.isolation_level import commit_isolation_level, table_isolation_level
from airflow_delta.core.transaction.log_continuity import check_log_is_the_one_read
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.post_commit_hooks import PostCommitHook, run_hooks
from airflow_delta.core.transaction.rewrite_bins import FileRewriteBin, RewriteBins, RewriteMetrics, in_columns_of
from airflow_delta.core.transaction.row_tracking import ROW_TRACKING, high_water_mark

Stage: TypeAlias = Callable[[CommitAttempt], tuple[Mapping[str, Any], bool]]
"""Stores a commit to be published later; returns its handle, and whether another try of the task had already staged it."""

MAX_COMMIT_ATTEMPTS = 100
"""Most versions that one commit tries. A whole statement is retried less often, see ``spark.statement.conflict_retry``."""

ENGINE = f"airflow-delta/{__version__}"

_SHOWN_BEFORE = 40  # characters shown before the one that UTF-8 cannot encode

_logger = logging.getLogger(__name__)


class OptimisticTransaction:
    """One read and one commit based on it, safe against all concurrent writers.

    Whatever the commit depends on must be read through the transaction or reported to it (``record_read`` and others): the
    conflict rules can only protect what they know. Make one with ``DeltaLog.start_transaction`` or
    ``DeltaLog.create_transaction``; it commits at most once.
    """

    def __init__(
        self,
        store: LogStore,
        clock: Clock,
        snapshot: Snapshot | None,
        *,
        hooks: Iterable[PostCommitHook] = (),
        enforces: Iterable[str] = (),
        deletion_vectors: DeletionVectorFiles | None = None,
        backoff: Backoff = commit_loop.COMMIT_BACKOFF,
        stage: Stage | None = None,
    ) -> None:
        """Start from ``snapshot``; None starts before the first version, to create the table.

        Args:
            store: The table's log store.
            clock: Gives the time of commits, in milliseconds since the epoch.
            snapshot: The version to read.
            hooks: Post-commit hooks.
            enforces: Features (of ``table_features.support.ROW_FEATURES``, and ``rowTracking``) whose constraints the caller
                enforces on the rows of this transaction.
            deletion_vectors: Merges deletion vectors with those of a winner; without it, such winners conflict.
            backoff: Pauses before a storage request is repeated, and before another version is tried after losing to a
                concurrent commit.
            stage: Takes the commit instead of the log, once it is rebased over the newest version.
        """
        self._store = store
        self._clock = clock
        self._snapshot = snapshot
        self._hooks = tuple(hooks)
        self._enforces = frozenset(enforces)
        self._deletion_vectors = deletion_vectors
        self._backoff = backoff
        self._stage = stage
        self._txn_id = str(uuid.uuid4())  # one for all calls of commit: if an answer is lost, the next call finds the commit
        self._metadata: Metadata | None = None
        self._protocol: Protocol | None = None
        self._predicates: list[Expression] = []
        self._files: list[pa.Array] = []
        self._app_ids: set[str] = set()
        self._read_whole_table = False
        self._committed = False

    # -- what is read

    @property
    def snapshot(self) -> Snapshot:
        """The version that was read. Raises ``TableNotFoundError`` if the transaction creates the table."""
        if self._snapshot is None:
            raise TableNotFoundError(table=self._store.table_uri)
        return self._snapshot

    @property
    def read_version(self) -> int:
        """Version the transaction was computed from; -1 if it creates the table."""
        return -1 if self._snapshot is None else self._snapshot.version

    @property
    def metadata(self) -> Metadata:
        """The table's metadata after this transaction."""
        return self._metadata or self.snapshot.metadata

    @property
    def protocol(self) -> Protocol:
        """The table's protocol after this transaction."""
        return self._protocol or self.snapshot.protocol

    def files(self, where: str | Expression | None = None) -> pa.Table:
        """The live files that may hold rows for ``where``, columns ``ADD_FILE``; records predicate and files as read."""
        if self._snapshot is None:
            return NO_ADDS
        self.record_read(where)
        files = self._snapshot.files(where)
        self.record_read_files(files["path"])
        return files

    def record_read(self, where: str | Expression | None) -> None:
        """Record that the result depends on all rows that satisfy ``where``, including rows added later; None is every row."""
        if isinstance(where, str):
            where = parse_predicate(where, self.snapshot.schema, self._store.table_uri)
        self._predicates.append(TRUE if where is None else where)

    def record_read_files(self, paths: pa.Array | pa.ChunkedArray) -> None:
        """Record that the result depends on the rows of these files (paths as in the log)."""
        self._files.extend(paths.chunks if isinstance(paths, pa.ChunkedArray) else [paths])

    def read_whole_table(self) -> None:
        """Record that the result depends on every file, and on no file being added."""
        self._read_whole_table = True

    def transaction_version(self, app_id: str) -> int | None:
        """The last ``txn`` version of this application; records that the commit depends on it."""
        self._app_ids.add(app_id)
        progress = self._snapshot.transactions.get(app_id) if self._snapshot else None
        return progress.version if progress else None

    # -- what is written

    def set_metadata(self, metadata: Metadata) -> None:
        """Set the table's metadata in this commit. Raises ``InvalidTablePropertyError`` if a managed table loses its id."""
        if self._snapshot:
            check_still_identified(self._store, self._snapshot.metadata, metadata)
        self._metadata = metadata

    def set_protocol(self, protocol: Protocol) -> None:
        """Set the table's protocol in this commit."""
        self._protocol = protocol

    def commit(
        self,
        *,
        adds: pa.Table = NO_ADDS,
        removes: pa.Table = NO_REMOVES,
        changes: pa.Table = NO_CHANGES,
        transactions: Iterable[SetTransaction] = (),
        domains: Iterable[DomainMetadata] = (),
        operation: Operation,
        metrics: Mapping[str, int | str] | None = None,
        tags: Mapping[str, str] | None = None,
        origin: Origin | None = None,
        max_attempts: int = MAX_COMMIT_ATTEMPTS,
        allow_empty: bool = False,
        resolve_conflicts: bool = True,
        row_wise: bool = False,
        confirm_conflicting_files: ConfirmConflictingFiles | None = None,
    ) -> CommitResult:
        """Commit all of this as one version of the table, or nothing.

        A commit that removes rows although nothing was recorded as read counts as having read the whole table.

        Args:
            adds: Files to add, columns ``ADD_FILE``. If the table numbers its rows, files without a base row id get one.
            removes: Files to remove, columns ``REMOVE_FILE``.
            changes: Change data files, columns ``CHANGE_FILE``.
            transactions: Application transactions (``txn``) to set. A commit without data change must not set any: it could no
                longer be rebased over appends.
            domains: Metadata domains to set.
            operation: The operation as it appears in the history.
            metrics: Delta's operation metrics.
            tags: Delta's commit tags.
            origin: The task run that requests the commit. Its token identifies one commit: any commit that carries it counts as
                this one.
            max_attempts: Most versions to try before giving up against concurrent writers.
            allow_empty: Whether to commit even when there is nothing to write; otherwise no commit is made then.
            resolve_conflicts: Whether to rebase over winners that do not conflict. Restore, clone, convert and recomputed
                statistics are never rebased: see the rule ``rebase_forbidden``.
            row_wise: Whether rows deleted by others do not matter; see ``CommitAttempt``. If so, deletion vectors of the same
                file that mark different rows are merged.
            confirm_conflicting_files: Reads files added by a winner whose statistics admit rows that the transaction looked
                for; see ``ConfirmConflictingFiles``.

        Raises:
            ConcurrentWriteError: Another writer committed first, and ``resolve_conflicts`` is False.
            CommitConflictError: A concurrent commit conflicts with this one.
            CommitAttemptsExhaustedError: Other commits took ``max_attempts`` versions first.
            CommitStateUnknownError: The storage did not answer, so it is unknown whether the commit was made.
            StorageAccessError: The storage denies access.
            TableExistsError: The table to be created exists already.
            InvalidStatementError: ``user_metadata`` of ``origin`` is too long, or UTF-8 cannot encode a text of the commit.
            AppendOnlyTableError: The commit removes rows from an append-only table.
            DuplicateActionError: A file, application or domain is named twice.
            InvalidCommitError: A rule of the protocol is broken.
            IcebergCompatError: The table would not be readable as an Iceberg table, which a table property requires.
            MissingRecordCountError: The statistics of a file lack its required number of rows.
            UnsupportedWriterFeatureError: The table requires a writer feature that is not supported, or not listed in
                ``enforces``.
        """
        actions = CommitActions(
            protocol=self._protocol,
            metadata=self._metadata,
            adds=in_columns_of(ADD_FILE, adds),
            removes=in_columns_of(REMOVE_FILE, removes),
            changes=in_columns_of(CHANGE_FILE, changes),
            transactions=tuple(dict.fromkeys(transactions)),
            domains=tuple(domains),
        )
        if self._committed:
            raise RuntimeError("this transaction has committed; start another one")
        if is_empty(actions) and not allow_empty:
            return self._nothing_to_commit()
        attempt = self._attempt(actions, operation, metrics or {}, tags or {}, origin or Origin())
        return self._commit(
            replace(
                attempt,
                may_rebase=resolve_conflicts,
                row_wise=row_wise,
                deletion_vectors=self._deletion_vectors,
                confirm_conflicting_files=confirm_conflicting_files,
            ),
            max_attempts,
        )

    def commit_rewrites(
        self,
        bins: Sequence[FileRewriteBin],
        *,
        operation: Operation,
        metrics: RewriteMetrics | None = None,
        origin: Origin | None = None,
        max_attempts: int = MAX_COMMIT_ATTEMPTS,
    ) -> CommitResult:
        """Commit those bins as one version whose inputs no other writer removed or changed; rows only move between files.

        Args:
            bins: The files to replace, and their replacements.
            operation: The operation as it appears in the history.
            metrics: Computes Delta's operation metrics of the bins that are committed.
            origin: The task run that requests the commit.
            max_attempts: Most versions to try before giving up against concurrent writers.

        Returns:
            The result; ``lost_bins`` lists the bins left out, and ``committed`` is False if none were left.

        Raises:
            MetadataChangedError: Schema, partitioning or features have changed.
            MaintenanceNotPermittedError: The table is catalog-managed, and the catalog does not permit this to clients.
            As ``commit``.
        """
        check_permitted(self._store, Maintenance.DATA_LAYOUT)
        grouped, adds, removes = RewriteBins.from_bins(bins, metrics)
        if not grouped.rearranges(adds, removes):
            raise InvalidCommitError(table=self._store.table_uri, detail="a rewrite in bins must not change data")
        if self._committed:
            raise RuntimeError("this transaction has committed; start another one")
        if grouped.is_empty:
            return self._nothing_to_commit()
        actions = CommitActions(adds=adds, removes=removes)
        attempt = self._attempt(actions, operation, metrics(adds, removes) if metrics else {}, {}, origin or Origin())
        # Replaces whatever was read to choose the inputs: moved rows depend on nothing else.
        return self._commit(replace(attempt, bins=grouped, read_files=removes["path"].combine_chunks()), max_attempts)

    def publish(self, attempt: CommitAttempt, *, max_attempts: int = MAX_COMMIT_ATTEMPTS) -> CommitResult:
        """Commit an attempt that was computed, prepared and staged earlier, rebased over the commits made since.

        Args:
            attempt: The staged attempt; this transaction's snapshot is the version it is based on.
            max_attempts: Versions to try before giving up against concurrent writers.

        Raises:
            As ``commit``.
        """
        _check(attempt)
        return self._write(replace(attempt, deletion_vectors=self._deletion_vectors), max_attempts)

    def _nothing_to_commit(self) -> CommitResult:
        return CommitResult(version=self.read_version, timestamp=self._clock(), read_version=self.read_version, committed=False)

    def _commit(self, attempt: CommitAttempt, max_attempts: int) -> CommitResult:
        check_access(self._store, attempt.protocol_after)
        check_identity(self._store, attempt.metadata_after)
        _check(attempt)
        check_log_is_the_one_read(self._store, self._snapshot)
        has_times = are_enabled(attempt.metadata_after.configuration)
        attempt = prepared(
            attempt,
            after=self._snapshot.history_timestamp if self._snapshot and has_times else -1,
            keeps_row_ids=ROW_TRACKING in attempt.enforces,
        )
        try:
            if self._stage is not None:
                return self._staged(attempt, self._stage)
            return self._write(attempt, max_attempts)
        except UnicodeEncodeError as error:
            raise _unencodable(attempt, error) from None

    def _staged(self, attempt: CommitAttempt, stage: Stage) -> CommitResult:
        """Check for conflicts with commits made since the read version, and stage the rebased attempt."""
        attempt = commit_loop.rebase(attempt, self._store, backoff=self._backoff).attempt
        handle, is_another_tries = stage(attempt)
        self._committed = True
        return CommitResult(
            version=self.read_version,
            timestamp=self._clock(),
            read_version=self.read_version,
            attempts=1,
            committed=False,
            already_committed=is_another_tries,
            commit_info=attempt.actions.commit_info,
            staged=handle,
        )

    def _write(self, attempt: CommitAttempt, max_attempts: int) -> CommitResult:
        outcome = commit_loop.commit(attempt, self._store, max_attempts=max_attempts, backoff=self._backoff)
        self._committed = True
        time = outcome.info.in_commit_timestamp
        result = CommitResult(
            version=outcome.version,
            timestamp=outcome.info.timestamp if time is None else time,
            read_version=self.read_version,
            attempts=outcome.attempts,
            conflicts=outcome.conflicts,
            committed=outcome.committed,
            already_committed=outcome.by_duplicate_attempt,
            commit_info=outcome.info if outcome.committed else None,
            lost_bins=outcome.lost_bins,
        )
        if outcome.by_duplicate_attempt or not outcome.committed:
            return result
        _logger.info("Committed version %d of %s", result.version, attempt.table)
        return run_hooks(self._hooks, attempt.table, result, outcome.actions, outcome.metadata)

    def _attempt(
        self,
        actions: CommitActions,
        operation: Operation,
        metrics: Mapping[str, int | str],
        tags: Mapping[str, str],
        origin: Origin,
    ) -> CommitAttempt:
        read = self._predicates or self._files or self._read_whole_table
        removes_rows = bool(len(actions.removes) and pc.any(actions.removes["data_change"]).as_py())
        basis = self._snapshot or self
        table_level = table_isolation_level(basis.metadata.configuration)
        domains = self._snapshot.domains.values() if self._snapshot else ()
        mark = high_water_mark(domains, self._store.table_uri)
        attempt = CommitAttempt(
            table=self._store.table_uri,
            read_version=self.read_version,
            protocol=basis.protocol,
            metadata=basis.metadata,
            schema=self._snapshot.schema if self._snapshot else columns_of(basis.metadata, basis.protocol),
            actions=actions,
            isolation_level=commit_isolation_level(table_level, actions, changes_data=operation.changes_data),
            enforces=self._enforces,
            read_predicates=tuple(dict.fromkeys(self._predicates)),
            read_files=pa.chunked_array(self._files, pa.string()).unique(),
            read_whole_table=self._read_whole_table or (removes_rows and not read),
            read_app_ids=frozenset(self._app_ids),
            row_id_high_water_mark=-1 if mark is None else mark,
        )
        info = CommitInfo(
            timestamp=self._clock(),
            operation=operation.name,
            operation_parameters=operation.logged_parameters(),
            operation_metrics={name: str(value) for name, value in metrics.items()},
            read_version=self.read_version if self._snapshot else None,
            isolation_level=attempt.isolation_level,
            is_blind_append=attempt.is_blind_append,
            engine_info=ENGINE,
            txn_id=self._txn_id,
            origin=origin,
            tags=tags,
        )
        return replace(attempt, actions=replace(actions, commit_info=info))


def _unencodable(attempt: CommitAttempt, error: UnicodeEncodeError) -> InvalidStatementError:
    """The error for a text that UTF-8 cannot encode, such as in a comment or an application id."""
    info, start = attempt.actions.commit_info, max(error.start - _SHOWN_BEFORE, 0)
    detail = f"expected texts that UTF-8 can hold, found a lone surrogate: {error.object[start : error.start + 1]!a}"
    return InvalidStatementError(statement=info.operation if info else "the commit", detail=detail)


def _check(attempt: CommitAttempt) -> None:
    """Check what the protocol requires of the commit on its own. Raises as ``check_commit``."""
    check_commit(
        attempt.table,
        attempt.actions,
        attempt.protocol_after,
        attempt.metadata_after,
        before=attempt.metadata,
        enforces=attempt.enforces,
    )
