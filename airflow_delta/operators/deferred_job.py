"""A job whose result the triggerer waits for: what the task hands over, and what it goes on with."""

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
    """A submitted job, and where it leaves its result.

    Attributes:
        attempt: The try of the task.
        location: Of the result documents.
    """

    attempt: Attempt
    location: ResultLocation

    @classmethod
    def from_event(cls, hook: DeltaHook, statement: Statement, event: Mapping[str, Any]) -> DeferredJob:
        """The job as ``trigger`` handed it over; the statement with the tables that the task began with.

        Args:
            hook: The tables of the operator's connection; it learns which of them are managed by a catalog.
            statement: As rendered; what its queries name is the job's affair. Its names may be dropped by now, or those of
                other tables.
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
        """What waits for the job.

        Args:
            table: That of the statement, as it is named in the DAG.
            try_number: The try of the task.
            spark_conn_id: The Spark connection.
            job_id: The driver; None when the cluster cannot report it.
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
            tables={**hook.resolved_tables, table: self.attempt.statement.table},  # the hook resolves no name that is dropped
            managed_tables=[table.to_json() for table in hook.managed_tables],
            try_number=try_number,
            spark_conn_id=spark_conn_id,
            job_id=job_id,
            until=None if timeout is None else time.time() + timeout.total_seconds(),
            poll_interval=poll_interval,
        )

    def failure(self, state: str) -> DriverLostError | None:
        """The error of a job that ended in this state of the trigger's event without a result; None where it has left one."""
        if state in _WITH_RESULT:
            return None
        return DriverLostError(table=self.attempt.statement.table, detail=ENDINGS.get(state, state))


def check_end_is_noticed(target: SparkTarget, conn_id: str, timeout: timedelta | None) -> None:
    """Refuse to wait without end for a driver that may have died.

    Args:
        target: Where the job goes.
        conn_id: The Spark connection, for the error's text.
        timeout: How long the triggerer waits at most.

    Raises:
        SparkTargetError: The cluster does not report drivers, and there is no time limit either.
    """
    if not target.reports_drivers and timeout is None:
        raise SparkTargetError(
            conn_id=conn_id,
            detail="with deferrable=True the death of the driver would go unnoticed",
            cure=f"name {YARN_WEBAPP} in the connection's extra, or set execution_timeout",
        )
