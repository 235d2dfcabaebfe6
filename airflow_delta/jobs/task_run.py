"""A task that another operator submits, identified by names alone, because no token was generated for it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from airflow_delta.core.actions.commit_info import Origin
from airflow_delta.jobs.errors import InvalidSpecError

_NUMBERS = ("map_index", "generation", "try_number", "run_after")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """One try of such a task.

    Attributes:
        clear_count: ``ti.max_tries``: it changes when the task is cleared, not when it is retried. ``generation`` in JSON.
        run_after: The DAG run's ``run_after``, in milliseconds since the epoch: no commit of the task is older.
        logical_date: ISO text; None when the DAG run has none.
    """

    dag_id: str
    task_id: str
    run_id: str
    map_index: int
    clear_count: int
    try_number: int
    run_after: int = 0
    logical_date: str | None = None
    ti_id: str = ""
    owner: str = ""
    trigger: str = ""

    @classmethod
    def from_json(cls, document: Any) -> TaskRun:
        """The task run in a spec; numbers may be strings, because templates were rendered into them.

        Raises:
            InvalidSpecError: A member is missing, unknown, or not a number.
        """
        try:
            numbers = {name: int(float(document[name])) for name in _NUMBERS if name in document}
            values = {**document, **numbers, "logical_date": document.get("logical_date") or None}
            return cls(clear_count=values.pop("generation"), **values)
        except KeyError as error:
            raise InvalidSpecError(detail=f"invalid run: the member {error} is missing") from error
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            raise InvalidSpecError(detail=f"invalid run: {error}") from error

    @property
    def key(self) -> str:
        """Equal for all tries of the task until it is cleared: the folder of its documents."""
        return _digest(self.dag_id, self.run_id, self.task_id, self.map_index, self.clear_count)

    @property
    def record(self) -> dict[str, Any]:
        """What of the run stands in its commits, whichever try made them, as ``DeltaLog.produced_by`` takes it."""
        return {
            "dag_id": self.dag_id,
            "task_id": self.task_id,
            "run_id": self.run_id,
            "map_index": self.map_index,
            "generation": self.clear_count,
        }

    def origin(self, statement_digest: str) -> Origin:
        """The origin of the commit."""
        job = {
            "jobId": self.dag_id,
            "jobName": f"{self.dag_id}.{self.task_id}",
            "jobRunId": self.run_id,
            "runId": self.ti_id,
            "jobOwnerId": self.owner,
            "triggerType": self.trigger,
        }
        record = self.record | {"try_number": self.try_number, "logical_date": self.logical_date}
        return Origin(token=self.token(statement_digest), job=job, record=record)

    def token(self, statement_digest: str) -> str:
        """The idempotency token of a statement: equal for all tries of a task until it is cleared or changed."""
        return _digest(self.key, statement_digest)


def _digest(*parts: str | int) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
