"""The loop that runs every statement: prepare, attempt, and after a write conflict attempt again on the newest version."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeAlias, TypeVar

from pyspark.errors import PySparkException

from airflow_delta.core.actions import Metadata, Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import CommitConflictError, MetadataChangedError, ProtocolChangedError, TableExistsError
from airflow_delta.core.foreign_values import printable
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import OperationResult
from airflow_delta.core.transaction.commit_result import retried_conflict
from airflow_delta.spark.constraints.identity import only_numbers_differ
from airflow_delta.spark.jvm import Py4JJavaError
from airflow_delta.spark.statement.application_progress import done_before
from airflow_delta.spark.statement.outcome import earlier_result
from airflow_delta.spark.statement.target_reads import Version, at_version_read

MAX_STATEMENT_ATTEMPTS = 20
"""Attempts at a statement before the conflict is raised; each attempt commits once, rebased where possible."""

_logger = logging.getLogger(__name__)
_CACHE_LOST = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"

Conflicts: TypeAlias = Sequence[Mapping[str, Any]]
"""The commits that ended earlier attempts, as ``CommitResult.conflicts`` lists them, with ``lost_ms`` (milliseconds)."""

WriteConflict: TypeAlias = CommitConflictError | TableExistsError
"""What ends an attempt: a conflicting commit, or an existing table if the statement is to create it."""

Prepared = TypeVar("Prepared")


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps(Generic[Version, Prepared]):
    """The steps that differ between statements.

    Attributes:
        name: Delta's name of the operation.
        read: Returns the newest version; None if there is no table, and the statement may create it.
        prepare: For a version, and given the conflicts so far, computes what can be kept if an attempt fails.
        attempt: Computes the changes to a version and commits them, or raises and leaves nothing behind.
        after_conflict: Returns what was prepared, adapted to the newest version; None if it must be prepared again. Raises the
            conflict if the statement cannot be repeated.
        txn: Application id and version of this statement, as of ``done_before``.
    """

    name: str
    read: Callable[[], Version]
    prepare: Callable[[Version, Conflicts], Prepared]
    attempt: Callable[[Version, Prepared, Conflicts], OperationResult]
    after_conflict: Callable[[Prepared, WriteConflict, Version], Prepared | None]
    txn: tuple[str, int] | None = None


def retry_on_conflict(
    log: DeltaLog, steps: Steps[Version, Prepared], *, origin: Origin, start_version: int | None
) -> OperationResult:
    """The result of the first attempt whose commit does not conflict.

    Args:
        log: The table's log.
        steps: The statement.
        origin: The task run that executes the statement; a commit with its token counts as this statement's.
        start_version: Version of the table when the token was generated, after which that commit is searched; None is the
            version that the first attempt reads.

    Raises:
        TableNotFoundError: There is no table.
        CommitConflictError: Every attempt conflicted, or the statement cannot be repeated after this conflict.
        DeltaError: As the steps raise it.
    """
    run, searched_from = _Run(steps), start_version
    failure: Exception = RuntimeError("no attempt was made")
    for number in range(1, MAX_STATEMENT_ATTEMPTS + 1):
        newest = steps.read()
        if searched_from is None:
            searched_from = -1 if newest is None else newest.version
        # The winner may be a duplicate attempt of this task, or have been followed by one.
        elif (earlier := earlier_result(log, origin, searched_from)) is not None:
            return run.with_conflicts(earlier)
        began = time.monotonic()
        try:
            return run.attempt(log, newest)
        except (CommitConflictError, TableExistsError) as error:
            run.add_conflict(error, lost_ms=round(1_000 * (time.monotonic() - began)))
            run.log_conflict(log.table_uri, number)
            failure = error
        except (PySparkException, Py4JJavaError) as error:
            # An executor was lost, with rows that could only be kept there: see ``row_cache``.
            if _CACHE_LOST not in str(error):
                raise
            run.prepared, failure = None, error
    raise failure


@dataclass(slots=True, eq=False)
class _Run(Generic[Version, Prepared]):
    """A statement while it runs.

    Attributes:
        steps: The statement.
        conflicts: What ended earlier attempts.
        conflict: The last of these conflicts.
        prepared: What the last attempt prepared; None if it cannot be kept.
    """

    steps: Steps[Version, Prepared]
    conflicts: list[Mapping[str, Any]] = field(default_factory=list)
    conflict: WriteConflict | None = None
    prepared: Prepared | None = None

    def attempt(self, log: DeltaLog, newest: Version) -> OperationResult:
        """Attempt it on the newest version, or on the version to which its rows are bound."""
        kept = None
        if self.conflict is not None and self.prepared is not None:
            kept = self.steps.after_conflict(self.prepared, self.conflict, newest)

        def on_version(version: Version) -> OperationResult:
            return self._prepare_and_attempt(version, kept if version is newest else None)

        return at_version_read(log, newest, on_version, conflict=self.conflict)

    def _prepare_and_attempt(self, version: Version, kept: Prepared | None) -> OperationResult:
        steps, self.prepared = self.steps, None
        done = None if version is None else done_before(version, steps.name, steps.txn)
        if done is not None:
            return self.with_conflicts(done)
        self.prepared = steps.prepare(version, self.conflicts) if kept is None else kept
        return steps.attempt(version, self.prepared, self.conflicts)

    def add_conflict(self, conflict: WriteConflict, *, lost_ms: int) -> None:
        """Record what ended an attempt that took ``lost_ms`` milliseconds. Raises it if a retry would fail alike."""
        # ``at_version_read`` and ``after_conflict`` raise the former conflict again if the statement cannot be repeated, for
        # example because it was given rows that are bound to a version.
        if conflict is self.conflict or self.prepared is None:
            raise conflict
        self.conflict = conflict
        self.conflicts.append({**_listed(conflict), "lost_ms": lost_ms})

    def log_conflict(self, table: str, number: int) -> None:
        """Log the last conflict, which ended attempt ``number``, counted from 1."""
        met = self.conflicts[-1]
        winner = printable(f"version {met['version']} ({met['operation'] or 'unknown operation'})")
        _logger.info("%s: attempt %d of %d: %s conflicts by %s", table, number, MAX_STATEMENT_ATTEMPTS, winner, met["rule"])

    def with_conflicts(self, result: OperationResult) -> OperationResult:
        """The result of another run of the statement, with the conflicts of this one added."""
        return replace(result, conflicts=tuple(self.conflicts), attempts=1 + len(self.conflicts))


def check_definition(conflict: WriteConflict, before: Metadata, newest: Snapshot) -> None:
    """Return if the conflict is only about rows, or about values of identity columns; else raise it."""
    is_redefined = isinstance(conflict, MetadataChangedError | ProtocolChangedError)
    if is_redefined and not only_numbers_differ(before, newest.metadata):
        raise conflict


def _listed(conflict: WriteConflict) -> Mapping[str, Any]:
    if isinstance(conflict, CommitConflictError):
        return retried_conflict(conflict)
    return {"version": conflict.version, "operation": None, "rule": conflict.code, "job": None}
