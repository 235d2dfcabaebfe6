"""The location of a job's result document, and the choice of the right document there."""

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
    """The folder of a task's result documents, one per try.

    Attributes:
        hook: The hook with the credentials of the storage.
        base: URI below which the folder lies.
        token: The task's idempotency token, which names the folder.
        before: Numbers of the tries that had left a document before the job was submitted.
    """

    hook: DeltaHook
    base: str
    token: str
    before: frozenset[int] = frozenset()

    @classmethod
    def before_submit(cls, hook: DeltaHook, attempt: Attempt, target: SparkTarget, private: str) -> ResultLocation:
        """The location for the job that is submitted next.

        Without a configured location, it is a folder below the table, but never if the table does not exist.

        Args:
            hook: The tables of the operator's connection.
            attempt: The try of the task.
            target: Where the job goes.
            private: A directory that only this user can access, for the result of a driver beside the worker.

        Raises:
            ScratchUriNeededError: No location is configured, there is no table, and the driver runs on the cluster.
        """
        table, token = attempt.statement.table, attempt.token.token
        is_private = target.remote is not None or (attempt.scratch is None and attempt.head == NO_TABLE)
        base = private if is_private else attempt.scratch or table
        if attempt.scratch is None and attempt.head == NO_TABLE and target.is_cluster_mode:
            raise ScratchUriNeededError(
                table=table, detail="it cannot lie in the folder of the table, and the driver runs on the cluster"
            )
        location = cls(hook=hook, base=base, token=token)
        return cls(hook=hook, base=base, token=token, before=location.written())

    def written(self) -> frozenset[int]:
        """Numbers of the tries that have left a document."""
        return frozenset(written_results(self.base, self.token, self.hook.storage_options(self.base)))

    def uri(self, try_number: int) -> str:
        """URI of the document of a try."""
        return result_uri(self.base, self.token, try_number)

    def newest(self, *, is_done: bool) -> ResultDocument | None:
        """The document of this try's job, as ``newest_document`` finds it; ``is_done`` is False if the job was lost."""
        return newest_document(self.base, self.token, {*self.before}, self.hook.storage_options(self.base), is_done=is_done)
