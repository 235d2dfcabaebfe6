"""A task run identified by names alone, for jobs of other operators and for Airflow without a state store."""

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
    """One try of a task that has no stored token.

    Attributes:
        clear_count: ``ti.max_tries``, which changes when the task is cleared, not when it is retried; ``generation`` in JSON.
        run_after: The DAG run's ``run_after``, in milliseconds since the epoch; the task has made no commit before that.
        logical_date: ISO 8601 text; None if the DAG run has no logical date.
        ti_id: Id of the task instance.
        owner: Owner of the task.
        trigger: Type of the DAG run.
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
        """The task run in a spec; numbers may be strings, because they come from templates.

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
        """A key that is the same for all tries of the task until it is cleared; it names the folder of its documents."""
        return _digest(self.dag_id, self.run_id, self.task_id, self.map_index, self.clear_count)

    @property
    def record(self) -> dict[str, Any]:
        """What the commits of all tries record about the run, as ``DeltaLog.produced_by`` takes it."""
        return {
            "dag_id": self.dag_id,
            "task_id": self.task_id,
            "run_id": self.run_id,
            "map_index": self.map_index,
            "generation": self.clear_count,
        }

    def origin(self, statement_digest: str) -> Origin:
        """The origin of the task's commit."""
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
        """The idempotency token of a statement: the same in all tries of a task until the task is cleared or changed."""
        return _digest(self.key, statement_digest)


def _digest(*parts: str | int) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
