"""A job whose result the triggerer waits for: what the task hands to the trigger, and what it resumes with."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow_delta.core.statements import Statement
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.hooks.errors import DriverLostError, SparkTargetError
from airflow_delta.hooks.spark_target import YARN_WEBAPP, SparkTarget
from airflow_delta.hooks.task_token import TaskToken
from airflow_delta.operators.attempt import Attempt, visible_head
from airflow_delta.operators.result_location import ResultLocation
from airflow_delta.triggers.result import ENDINGS, DeltaResultTrigger

_WITH_RESULT = ("document", "succeeded")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeferredJob:
    """A submitted job and the location of its result.

    Attributes:
        attempt: The try of the task.
        location: Location of the result documents.
    """

    attempt: Attempt
    location: ResultLocation

    @classmethod
    def from_event(cls, hook: DeltaHook, statement: Statement, event: Mapping[str, Any]) -> DeferredJob:
        """The job that ``trigger`` handed over; its statement has the URIs of tables from when the job was submitted.

        Args:
            hook: The tables of the operator's connection; the hook is updated with the tables that a catalog manages.
            statement: The rendered statement. Its names are not looked up again: by now they may be dropped, or stand for other
                tables. Names in its queries were resolved for the job already.
            event: The event of ``DeltaResultTrigger``.
        """
        from airflow_delta.catalogs.managed_tables import ManagedTable

        hook.remember_managed(map(ManagedTable.from_json, event.get("managed_tables") or ()))
        resolved = hook.resolve_table_uris(statement, event.get("tables"))
        base, token = event["base"], event["token"]
        return cls(
            attempt=Attempt(
                statement=resolved,
                token=TaskToken(token=token, start_version=event["start_version"], is_new=False),
                head=visible_head(hook, resolved.table, base),
                scratch=base,
            ),
            location=ResultLocation(hook=hook, base=base, token=token, before=frozenset(event["before"])),
        )

    def trigger(
        self,
        table: str,
        *,
        try_number: int,
        spark_conn_id: str,
        job_id: str | None,
        timeout: timedelta | None,
        poll_interval: float,
    ) -> DeltaResultTrigger:
        """The trigger that waits for the job.

        Args:
            table: The statement's table, as the DAG names it.
            try_number: The try of the task.
            spark_conn_id: The Spark connection.
            job_id: Id of the driver; None if the cluster cannot report its state.
            timeout: How long the triggerer waits at most.
            poll_interval: Seconds between two polls.
        """
        hook = self.location.hook
        return DeltaResultTrigger(
            delta_conn_id=hook.delta_conn_id,
            base=self.location.base,
            token=self.location.token,
            start_version=self.attempt.token.start_version,
            before=sorted(self.location.before),
            tables={**hook.resolved_tables, table: self.attempt.statement.table},  # a DROP's name is not among them
            managed_tables=[table.to_json() for table in hook.managed_tables],
            try_number=try_number,
            spark_conn_id=spark_conn_id,
            job_id=job_id,
            until=None if timeout is None else time.time() + timeout.total_seconds(),
            poll_interval=poll_interval,
        )

    def failure(self, state: str) -> DriverLostError | None:
        """The error for the final state in the trigger's event; None if the job has left a result."""
        if state in _WITH_RESULT:
            return None
        return DriverLostError(table=self.attempt.statement.table, detail=ENDINGS.get(state, state))


def check_end_is_noticed(target: SparkTarget, conn_id: str, timeout: timedelta | None) -> None:
    """Refuse to defer a task if the death of its driver could go unnoticed forever.

    Args:
        target: Where the job goes.
        conn_id: The Spark connection, for the error's text.
        timeout: How long the triggerer waits at most.

    Raises:
        SparkTargetError: The cluster does not report the state of drivers, and there is no timeout.
    """
    if not target.reports_drivers and timeout is None:
        raise SparkTargetError(
            conn_id=conn_id,
            detail="with deferrable=True the death of the driver would go unnoticed",
            cure=f"name {YARN_WEBAPP} in the connection's extra, or set execution_timeout",
        )
