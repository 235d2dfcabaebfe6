"""What earlier tries of a task have left: a commit, a staged commit, drivers that still run."""

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
    """The earlier tries of a task, and this try once its job has ended.

    Attributes:
        hook: The tables of the operator's connection.
        attempt: The current try.
    """

    hook: DeltaHook
    attempt: Attempt

    def result(self) -> ResultDocument | None:
        """The commit, or staged commit, with the task's token; None if it is not found or the worker cannot read the table.

        Raises:
            TokenHistoryLostError: The log no longer shows whether there is such a commit.
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
        """End drivers that still run beside this worker; a driver on a cluster keeps running, as it may be followed."""
        if not self.attempt.token.is_new and not target.is_cluster_mode:
            end_orphans(self.attempt.token.token)
