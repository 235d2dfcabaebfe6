"""The ``commitInfo`` action: who made a commit, how, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_delta.core.errors.conflict import RECORD_KEY

LATEST_TIME = 253_402_300_799_999
"""The end of the year 9999 in milliseconds since the epoch: the latest time that can be displayed here."""

PUBLISHED_BY_KEY = "published_by"
"""Key, in a commit's record, of the task run that published it; the other members are of the run that staged it."""

_LONG = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The task run that requested a commit, so that the log answers "has this task committed?" and "who did this?".

    Attributes:
        token: Random id of the requesting task, equal in all tries of a task run; None for work that no task requested.
        job: Delta's own job fields (jobId, jobName, jobRunId, runId, jobOwnerId, triggerType), which every history shows.
        record: This package's further fields, as JSON values (logical date, task, map index, try).
        user_metadata: The user's own text; a commit with more than 100,000 characters is refused.
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
        txn_id: Random id of this commit attempt, by which a writer recognizes its own commit.
        is_blind_append: Whether the commit only added files and had read nothing; None when not recorded.
        in_commit_timestamp: The in-commit timestamp, in milliseconds since the epoch; None without one.
        tags: What Delta writers record for each other about a commit, such as whether row ids were preserved.
        fields: The whole object as in the log, including unknown fields; empty if it is not an object.
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
    in_commit_timestamp: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The object under the ``commitInfo`` key of a log line; the timestamp comes first, so that a short read finds it."""
        record = {**self.origin.record, "token": self.origin.token} if self.origin.token else dict(self.origin.record)
        document: dict[str, Any] = {
            "inCommitTimestamp": self.in_commit_timestamp,
            "timestamp": self.timestamp,
            "operation": self.operation,
            "operationParameters": dict(self.operation_parameters),
            "readVersion": self.read_version,
            "isolationLevel": self.isolation_level,
            "isBlindAppend": self.is_blind_append,
            "operationMetrics": dict(self.operation_metrics),
            "tags": dict(self.tags) or None,
            "userMetadata": self.origin.user_metadata,
            "job": dict(self.origin.job) or None,
            "engineInfo": self.engine_info,
            "txnId": self.txn_id,
            RECORD_KEY: record or None,
        }
        return {key: value for key, value in document.items() if value is not None}

    @classmethod
    def from_json(cls, document: Any) -> CommitInfo:
        """The action in a log line's ``commitInfo``.

        Writers may put any JSON there, so values of an unexpected type count as missing and never make a table unreadable.
        """
        fields: dict[str, Any] = document if isinstance(document, dict) else {}

        def mapping(key: str) -> dict[str, Any]:
            return found if isinstance(found := fields.get(key), dict) else {}

        def text(key: str) -> str | None:
            return found if isinstance(found := fields.get(key), str) else None

        def number(key: str) -> int | None:
            return found if type(found := fields.get(key)) is int and abs(found) < _LONG else None

        def time(key: str) -> int | None:
            return found if (found := number(key)) is not None and 0 <= found <= LATEST_TIME else None

        is_blind_append = fields.get("isBlindAppend")
        record = dict(mapping(RECORD_KEY))
        token = record.pop("token", None)
        return cls(
            timestamp=time("timestamp") or 0,
            operation=text("operation") or "UNKNOWN",
            operation_parameters=mapping("operationParameters"),
            operation_metrics=mapping("operationMetrics"),
            read_version=number("readVersion"),
            isolation_level=text("isolationLevel"),
            is_blind_append=is_blind_append if isinstance(is_blind_append, bool) else None,
            engine_info=text("engineInfo"),
            txn_id=text("txnId"),
            in_commit_timestamp=time("inCommitTimestamp"),
            tags=mapping("tags"),
            origin=Origin(token=token, job=mapping("job"), record=record, user_metadata=text("userMetadata")),
            fields=fields,
        )
