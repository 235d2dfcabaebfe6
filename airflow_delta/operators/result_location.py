"""Where the job of a task leaves its result document, and which of the documents there is the result."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.statements.result import NO_TABLE
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.hooks.errors import ScratchUriNeededError
from airflow_delta.hooks.spark_target import SparkTarget
from airflow_delta.jobs.result import ResultDocument, newest_document, result_uri, written_results
from airflow_delta.operators.attempt import Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultLocation:
    """The folder of a task's result documents, one for each try.

    Attributes:
        hook: Has the credentials of the storage.
        base: URI below which the folder lies.
        token: The task's idempotency token, which names the folder.
        before: The tries that had left a document before the job was submitted.
    """

    hook: DeltaHook
    base: str
    token: str
    before: frozenset[int] = frozenset()

    @classmethod
    def before_submit(cls, hook: DeltaHook, attempt: Attempt, target: SparkTarget, private: str) -> ResultLocation:
        """The location for the job that is submitted next.

        When nothing is configured, it is beside the table; nothing is ever created where there is no table.

        Args:
            hook: The tables of the operator's connection.
            attempt: The try of the task.
            target: Where the job goes.
            private: A directory of this user alone, for a driver beside the worker.

        Raises:
            ScratchUriNeededError: There is no table, and the driver runs on the cluster.
        """
        table, token = attempt.statement.table, attempt.token.token
        is_private = target.remote is not None or (attempt.scratch is None and attempt.head == NO_TABLE)
        base = private if is_private else attempt.scratch or table
        if attempt.scratch is None and attempt.head == NO_TABLE and target.is_cluster_mode:
            raise ScratchUriNeededError(
                table=table, detail="it cannot lie beside the table, and the driver runs on the cluster"
            )
        location = cls(hook=hook, base=base, token=token)
        return cls(hook=hook, base=base, token=token, before=location.written())

    def written(self) -> frozenset[int]:
        """The tries that left a document."""
        return frozenset(written_results(self.base, self.token, self.hook.storage_options(self.base)))

    def uri(self, try_number: int) -> str:
        """The document of a try."""
        return result_uri(self.base, self.token, try_number)

    def newest(self, *, is_done: bool) -> ResultDocument | None:
        """The document of this try's job, as ``newest_document`` finds it; ``is_done`` unless the job was lost."""
        return newest_document(self.base, self.token, {*self.before}, self.hook.storage_options(self.base), is_done=is_done)
