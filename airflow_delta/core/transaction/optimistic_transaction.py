"""The user's transaction: it remembers what was read, and commits if that still holds."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta import __version__
from airflow_delta.core.actions import (
    ADD_FILE,
    NO_ADDS,
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
from airflow_delta.core.clock import Clock
from airflow_delta.core.errors import MetadataChangedError, TableExistsError, TableNotFoundError
from airflow_delta.core.log.log_segment import list_log
from airflow_delta.core.predicate import TRUE, Expression, parse_predicate
from airflow_delta.core.schema import parse_schema
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.table_features.support import check_writable
from airflow_delta.core.transaction import commit_loop
from airflow_delta.core.transaction.commit_attempt import CommitAttempt
from airflow_delta.core.transaction.commit_checks import check_append_only, check_no_duplicates, is_empty
from airflow_delta.core.transaction.commit_result import CommitResult
from airflow_delta.core.transaction.isolation_level import commit_isolation_level, table_isolation_level
from airflow_delta.core.transaction.operation import Operation

PostCommitHook: TypeAlias = Callable[[CommitResult, CommitActions, Metadata], None]
"""Work that follows a commit of ours, such as a checkpoint; it gets what was written, and the table's metadata as committed."""

MAX_ATTEMPTS = 100
ENGINE = f"airflow-delta/{__version__}"

_logger = logging.getLogger(__name__)


class OptimisticTransaction:
    """One read and one commit on top of it, safe against every other writer.

    What the transaction reads must be read through it, or told to it: the conflict rules can only protect what they know.
    Make it with ``DeltaLog.start_transaction`` or ``DeltaLog.create_transaction``; it commits at most once.
    """

    def __init__(
        self, store: LogStore, clock: Clock, snapshot: Snapshot | None, *, hooks: Iterable[PostCommitHook] = ()
    ) -> None:
        """Stand on ``snapshot``, or before the first version of a table when it is None."""
        self._store = store
        self._clock = clock
        self._snapshot = snapshot
        self._hooks = tuple(hooks)
        self._txn_id = str(uuid.uuid4())  # one for all calls of commit: after a lost answer the next call finds the commit
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
        """The table as it was read. Raises ``TableNotFoundError`` where the transaction is to create the table."""
        if self._snapshot is None:
            raise TableNotFoundError(table=self._store.table_uri)
        return self._snapshot

    @property
    def read_version(self) -> int:
        """Version the transaction stands on; -1 for a table that is to be created."""
        return -1 if self._snapshot is None else self._snapshot.version

    @property
    def metadata(self) -> Metadata:
        """The table's metadata as this transaction leaves it."""
        return self._metadata or self.snapshot.metadata

    @property
    def protocol(self) -> Protocol:
        """The table's protocol as this transaction leaves it."""
        return self._protocol or self.snapshot.protocol

    def files(self, where: str | Expression | None = None) -> pa.Table:
        """The active files that may hold rows for ``where``, columns ``ADD_FILE``; records both as read."""
        if self._snapshot is None:
            return NO_ADDS
        self.record_read(where)
        files = self._snapshot.files(where)
        self.record_read_files(files["path"])
        return files

    def record_read(self, where: str | Expression | None) -> None:
        """The result depends on all rows that satisfy ``where``, also on those that do not exist yet; None is every row."""
        if isinstance(where, str):
            where = parse_predicate(where, self.snapshot.schema, self._store.table_uri)
        self._predicates.append(TRUE if where is None else where)

    def record_read_files(self, paths: pa.Array | pa.ChunkedArray) -> None:
        """The result depends on the rows of these files (paths as in the log)."""
        self._files.extend(paths.chunks if isinstance(paths, pa.ChunkedArray) else [paths])

    def read_whole_table(self) -> None:
        """The result depends on every file, and on there being no other."""
        self._read_whole_table = True

    def transaction_version(self, app_id: str) -> int | None:
        """How far this application has written; records that the commit depends on it."""
        self._app_ids.add(app_id)
        progress = self._snapshot.transactions.get(app_id) if self._snapshot else None
        return progress.version if progress else None

    # -- what is written

    def set_metadata(self, metadata: Metadata) -> None:
        """Give the table this metadata with the commit."""
        self._metadata = metadata

    def set_protocol(self, protocol: Protocol) -> None:
        """Give the table this protocol with the commit."""
        self._protocol = protocol

    def commit(
        self,
        *,
        adds: pa.Table = NO_ADDS,
        removes: pa.Table = NO_REMOVES,
        transactions: Iterable[SetTransaction] = (),
        domains: Iterable[DomainMetadata] = (),
        operation: Operation,
        metrics: Mapping[str, int | str] | None = None,
        origin: Origin | None = None,
        max_attempts: int = MAX_ATTEMPTS,
        allow_empty: bool = False,
        resolve_conflicts: bool = True,
    ) -> CommitResult:
        """Make all of it one version of the table, or nothing.

        A commit that removes rows although nothing was recorded as read counts as one that read the whole table.

        Args:
            adds: Files to add, columns ``ADD_FILE``.
            removes: Files to remove, columns ``REMOVE_FILE``.
            transactions: Progress of applications. A commit without data change must not carry any: it would lose its
                right to pass appends.
            domains: Metadata domains to set.
            operation: What the history shows.
            metrics: Delta's operation metrics.
            origin: The run that asks for it. Its token stands for one commit: any commit with it counts as this one.
            max_attempts: Versions to try before giving up against faster writers.
            allow_empty: Commit even when there is nothing to write; otherwise nothing is committed then.
            resolve_conflicts: Whether to pass winners that do no harm; an operation that replaces the table's state as a whole
                (restore, clone, convert) passes nobody.

        Raises:
            ConcurrentWriteError: Somebody was faster, and ``resolve_conflicts`` is False.
            CommitConflictError: A faster writer made the work wrong.
            CommitAttemptsExhaustedError: Others were faster ``max_attempts`` times.
            CommitStateUnknownError: The storage did not answer.
            TableExistsError: The table to be created is there.
            AppendOnlyTableError: Rows would go from a table that only takes appends.
            DuplicateActionError: A file, application or domain is named twice.
            UnsupportedWriterFeatureError: The table needs writers that know more.
        """
        if self._committed:
            raise RuntimeError("this transaction has committed; start another one")
        actions = CommitActions(
            protocol=self._protocol,
            metadata=self._metadata,
            adds=adds.select(ADD_FILE.names).cast(ADD_FILE),
            removes=removes.select(REMOVE_FILE.names).cast(REMOVE_FILE),
            transactions=tuple(dict.fromkeys(transactions)),
            domains=tuple(domains),
        )
        if is_empty(actions) and not allow_empty:
            return CommitResult(
                version=self.read_version, timestamp=self._clock(), read_version=self.read_version, committed=False
            )
        check_no_duplicates(self._store.table_uri, actions)
        check_append_only(self._store.table_uri, self.metadata, actions)
        check_writable(self._store.table_uri, self.protocol, self.metadata)
        self._check_log_is_the_one_read()
        attempt, info = self._attempt(actions, operation, metrics or {}, origin or Origin())
        attempt = replace(attempt, passes_winners=resolve_conflicts)
        landed = commit_loop.commit(attempt, info, self._store, max_attempts=max_attempts)
        self._committed = True
        result = CommitResult(
            version=landed.version,
            timestamp=landed.info.timestamp,
            read_version=self.read_version,
            attempts=landed.attempts,
            conflicts=landed.conflicts,
            already_committed=landed.by_twin,
            commit_info=landed.info,
        )
        return result if landed.by_twin else replace(result, hook_failures=tuple(self._run_hooks(result, landed.actions)))

    def _attempt(
        self, actions: CommitActions, operation: Operation, metrics: Mapping[str, int | str], origin: Origin
    ) -> tuple[CommitAttempt, CommitInfo]:
        read = self._predicates or self._files or self._read_whole_table
        removes_rows = bool(pc.any(actions.removes["data_change"]).as_py())
        basis = self._snapshot or self
        table_level = table_isolation_level(basis.metadata.configuration)
        attempt = CommitAttempt(
            table=self._store.table_uri,
            read_version=self.read_version,
            protocol=basis.protocol,
            metadata=basis.metadata,
            schema=parse_schema(basis.metadata.schema_string),
            actions=actions,
            isolation_level=commit_isolation_level(table_level, actions, changes_data=operation.changes_data),
            read_predicates=tuple(dict.fromkeys(self._predicates)),
            read_files=pa.chunked_array(self._files, pa.string()).unique(),
            read_whole_table=self._read_whole_table or (removes_rows and not read),
            read_app_ids=frozenset(self._app_ids),
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
        )
        return replace(attempt, actions=replace(actions, commit_info=info)), info

    def _check_log_is_the_one_read(self) -> None:
        """Raise when the next version would not follow what was read: the table was dropped, or made anew at its place."""
        if self._snapshot is None:
            listing = list_log(self._store)
            if listing.latest_version is not None and 0 not in listing.commits:  # an old table, whose first commits are gone
                raise TableExistsError(table=self._store.table_uri, version=listing.latest_version)
            return
        if not self._snapshot.segment.is_part_of(list_log(self._store, self.read_version)):
            raise MetadataChangedError(
                table=self._store.table_uri, read_version=self.read_version, winning_version=self.read_version
            )

    def _run_hooks(self, result: CommitResult, actions: CommitActions) -> Iterable[str]:
        for hook in self._hooks:
            try:
                hook(result, actions, self.metadata)
            except Exception as error:  # the commit stands, whatever happens after it
                _logger.warning(
                    "%s: version %d is committed, but work after it failed",
                    self._store.table_uri,
                    result.version,
                    exc_info=True,
                )
                yield f"{type(error).__name__}: {error}"
