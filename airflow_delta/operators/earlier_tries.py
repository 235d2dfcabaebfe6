"""What earlier tries of a task have left: a commit, something staged, drivers that go on."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.statements.publish import publishes_later
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.hooks.orphans import end_orphans
from airflow_delta.hooks.spark_target import SparkTarget
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.operators.attempt import Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierTries:
    """The tries of a task before this one, and this one once its job has ended.

    Attributes:
        hook: The tables of the operator's connection.
        attempt: The try that looks.
    """

    hook: DeltaHook
    attempt: Attempt

    def result(self) -> ResultDocument | None:
        """The commit that carries the task's token, or is staged; None where there is none, or the worker sees no table.

        Raises:
            TokenHistoryLostError: Whether there is one cannot be known any more.
        """
        from airflow_delta.core.committed import committed_result, staged_result
        from airflow_delta.jobs.table_stats import attach_table_stats

        statement, token = self.attempt.statement, self.attempt.token
        if self.attempt.head is None:
            return None
        log = self.hook.delta_log(statement.table)
        if publishes_later(statement):
            found = staged_result(log, token.token)
        else:
            found = committed_result(log, token.token, token.start_version)
        return None if found is None else attach_table_stats(ResultDocument(outcome=found), log)

    def end_drivers(self, target: SparkTarget) -> None:
        """End the drivers that go on beside this worker; one in a cluster may be followed, and goes on."""
        if not self.attempt.token.is_new and not target.is_cluster_mode:
            end_orphans(self.attempt.token.token)
