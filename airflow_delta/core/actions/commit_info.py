"""Who made a commit, how, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

RECORD_KEY = "airflowDelta"
"""Key of our own record inside a commit info; other engines ignore it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The run that asked for a commit, so that the log can answer "has this task committed?" and "who did this?".

    Attributes:
        token: The asking task's random id; equal in all tries of one task run. None for work that no task asked for.
        job: Delta's own job fields (jobId, jobName, jobRunId, runId, jobOwnerId, triggerType), shown by every history.
        record: Further fields of ours, JSON values (logical date, task, map index, try).
        user_metadata: The user's own text.
    """

    token: str | None = None
    job: Mapping[str, str] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)
    user_metadata: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInfo:
    """Provenance of one commit; readers of the table never need it.

    Protocol: PROTOCOL.md, "Commit Provenance Information".

    Attributes:
        timestamp: When the commit was prepared, milliseconds since the epoch.
        operation: Delta's name of the operation, such as ``MERGE``.
        operation_parameters: Values as JSON text, as Delta writes them.
        operation_metrics: Delta's metric names; numbers as strings.
        txn_id: Random id of this attempt to commit, by which a writer finds its own commit again.
        is_blind_append: Whether the commit only added files and had read nothing; None when not recorded.
        fields: The whole object as it stands in the log, unknown fields included.
    """

    timestamp: int
    operation: str
    operation_parameters: Mapping[str, Any] = field(default_factory=dict)
    operation_metrics: Mapping[str, str] = field(default_factory=dict)
    read_version: int | None = None
    isolation_level: str | None = None
    is_blind_append: bool | None = None
    engine_info: str | None = None
    txn_id: str | None = None
    origin: Origin = field(default_factory=Origin)
    fields: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The object below the ``commitInfo`` key of a log line."""
        record = {**self.origin.record, "token": self.origin.token} if self.origin.token else dict(self.origin.record)
        document: dict[str, Any] = {
            "timestamp": self.timestamp,
            "operation": self.operation,
            "operationParameters": dict(self.operation_parameters),
            "readVersion": self.read_version,
            "isolationLevel": self.isolation_level,
            "isBlindAppend": self.is_blind_append,
            "operationMetrics": dict(self.operation_metrics),
            "userMetadata": self.origin.user_metadata,
            "job": dict(self.origin.job) or None,
            "engineInfo": self.engine_info,
            "txnId": self.txn_id,
            RECORD_KEY: record or None,
        }
        return {key: value for key, value in document.items() if value is not None}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> CommitInfo:
        """The action that a log line's ``commitInfo`` object describes; any field may be missing."""
        record = dict(document.get(RECORD_KEY) or {})
        token = record.pop("token", None)
        return cls(
            timestamp=int(document.get("timestamp") or 0),
            operation=document.get("operation") or "UNKNOWN",
            operation_parameters=document.get("operationParameters") or {},
            operation_metrics=document.get("operationMetrics") or {},
            read_version=document.get("readVersion"),
            isolation_level=document.get("isolationLevel"),
            is_blind_append=document.get("isBlindAppend"),
            engine_info=document.get("engineInfo"),
            txn_id=document.get("txnId"),
            origin=Origin(
                token=token, job=document.get("job") or {}, record=record, user_metadata=document.get("userMetadata")
            ),
            fields=document,
        )
