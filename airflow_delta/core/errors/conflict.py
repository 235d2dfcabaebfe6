"""Errors of a commit that met concurrent commits: which one won and which rule failed, or that the outcome is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_delta.core.errors.base import DeltaError

RECORD_KEY = "airflowDelta"
"""Key of this package's own record inside ``commitInfo``; other engines ignore it."""

_RUN_KEYS = ("dag_id", "task_id", "run_id", "map_index", "try_number", "logical_date")


def run_of(info: Mapping[str, Any]) -> dict[str, Any]:
    """The task run that made a commit, from its ``commitInfo``: dag_id, task_id, run_id etc.; empty for other writers."""
    record = info.get(RECORD_KEY)
    return {key: record[key] for key in _RUN_KEYS if key in record} if isinstance(record, dict) else {}


@dataclass(kw_only=True, eq=False)
class CommitConflictError(DeltaError):
    """A concurrent commit conflicts with this one; nothing was committed. Only subclasses are raised.

    Spark: ``DeltaConcurrentModificationException``.

    Attributes:
        read_version: Version that the attempt was computed from.
        winning_version: Version of the commit that won.
        winner: The winner's ``commitInfo`` as in the log, without our token; see ``winning_run``.
        rule: Name of the function in ``transaction.conflict_checker.RULES`` that found the conflict; None if no rule did.
            Differs from ``rule`` in ``CommitResult.conflicts``, which is the error's code.
        path: The file concerned, as in the log; None if the rule is not about a file.
        partition: The file's partition values; empty if it has no partition.
    """

    code = "DELTA_COMMIT_CONFLICT"
    retryable = True
    message = "version {winning_version} of {table} changed what this transaction (read at version {read_version}) needs"
    remedy = "run again from the latest snapshot"
    table: str
    read_version: int
    winning_version: int
    winner: dict[str, Any] = field(default_factory=dict)
    rule: str | None = None
    path: str | None = None
    partition: dict[str, str | None] = field(default_factory=dict)

    @property
    def winning_run(self) -> dict[str, Any]:
        """The task run that made the winner, as ``run_of`` returns it."""
        return run_of(self.winner)

    def claim(self) -> str:
        """What happened and where, which commit won, and the rule that found the conflict."""
        job = self.winner.get("job")
        where = ", ".join(f"{column} = {'NULL' if value is None else repr(value)}" for column, value in self.partition.items())
        in_partition = f", in the partition {where}" if where else ""
        by = [f"made by {job.get('jobName')}, run {job.get('jobRunId')}"] if job and isinstance(job, dict) else []
        rule = [f"rule {self.rule}"] if self.rule else []
        notes = f" ({'; '.join(by + rule)})" if by or rule else ""
        return f"{super().claim()}{in_partition}{notes}"


@dataclass(kw_only=True, eq=False)
class ConcurrentWriteError(CommitConflictError):
    """Another commit was made during an operation that is never rebased; see the rule ``rebase_forbidden``.

    Spark: ``ConcurrentWriteException``.
    """

    code = "DELTA_CONCURRENT_WRITE"
    message = "version {winning_version} of {table} was committed after version {read_version} was read"


@dataclass(kw_only=True, eq=False)
class ProtocolChangedError(CommitConflictError):
    """The winner changed the protocol. Spark: ``ProtocolChangedException``."""

    code = "DELTA_PROTOCOL_CHANGED"
    message = "version {winning_version} of {table} changed the protocol after version {read_version} was read"


@dataclass(kw_only=True, eq=False)
class MetadataChangedError(CommitConflictError):
    """The winner changed the metadata. Spark: ``MetadataChangedException``."""

    code = "DELTA_METADATA_CHANGED"
    message = "version {winning_version} of {table} changed schema or properties after version {read_version} was read"


@dataclass(kw_only=True, eq=False)
class ConcurrentDomainMetadataError(CommitConflictError):
    """Both commits set the same metadata domain."""

    code = "DELTA_CONCURRENT_DOMAIN_METADATA"
    message = "version {winning_version} of {table} set the metadata domain {domain!r} too"
    domain: str


@dataclass(kw_only=True, eq=False)
class ConcurrentTransactionError(CommitConflictError):
    """The winner set an application transaction that the attempt read. Spark: ``ConcurrentTransactionException``."""

    code = "DELTA_CONCURRENT_TRANSACTION"
    message = "version {winning_version} of {table} committed the application transaction {app_id!r} too"
    app_id: str


@dataclass(kw_only=True, eq=False)
class ConcurrentAppendError(CommitConflictError):
    """The winner added a file that the attempt would have had to read. Spark: ``ConcurrentAppendException``."""

    code = "DELTA_CONCURRENT_APPEND"
    message = (
        "version {winning_version} of {table} added {path!r}, which this transaction (read at {read_version}) should have read"
    )
    remedy = (
        "run again from the latest snapshot; to avoid it, add the partition columns to the condition, or merge by equal keys"
    )


@dataclass(kw_only=True, eq=False)
class ConcurrentDeleteReadError(CommitConflictError):
    """The winner removed a file that the attempt read. Spark: ``ConcurrentDeleteReadException``."""

    code = "DELTA_CONCURRENT_DELETE_READ"
    message = "version {winning_version} of {table} removed {path!r}, which this transaction (read at {read_version}) used"


@dataclass(kw_only=True, eq=False)
class ConcurrentDeleteDeleteError(CommitConflictError):
    """Both commits remove the same file. Spark: ``ConcurrentDeleteDeleteException``."""

    code = "DELTA_CONCURRENT_DELETE_DELETE"
    message = (
        "version {winning_version} of {table} removed {path!r}, which this transaction (read at {read_version}) removes too"
    )


@dataclass(kw_only=True, eq=False)
class CommitAttemptsExhaustedError(DeltaError):
    """Other commits won every attempt. Spark: ``DELTA_MAX_COMMIT_RETRIES_EXCEEDED``."""

    code = "DELTA_MAX_COMMIT_RETRIES_EXCEEDED"
    retryable = True
    message = "{attempts} attempts to commit to {table} (read at {read_version}) lost to other writers"
    remedy = "run again when fewer writers are active"
    table: str
    read_version: int
    attempts: int


@dataclass(kw_only=True, eq=False)
class CommitStateUnknownError(DeltaError):
    """The storage did not answer the write, and the log could not be read to find out whether the commit was made."""

    code = "DELTA_COMMIT_STATE_UNKNOWN"
    retryable = True
    message = "it is unknown whether version {version} of {table} (txnId {txn_id}) was written: {detail}"
    remedy = "look for the txnId in the commit info of that version before running again"
    table: str
    version: int
    txn_id: str
    detail: str
