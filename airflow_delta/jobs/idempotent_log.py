"""A log that notices the commit of a zombie: an earlier try of the task that still runs and may commit at any time."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.transaction.optimistic_transaction import OptimisticTransaction


class AlreadyCommitted(Exception):  # noqa: N818 - never reaches a user
    """The table already holds the task's commit."""


class IdempotentLog(DeltaLog):
    """A log on which no transaction starts from a version that includes the task's own commit.

    A duplicate attempt may commit between the search for the token and the read of the table; without this class, its commit
    would count as another writer's, and the task would commit again. A duplicate that commits after the read is found when the
    transaction commits.
    """

    def __init__(self, log: DeltaLog, token: str, start_version: int) -> None:
        """Watch the table of ``log`` for a commit with the token later than ``start_version`` (-1 for no table)."""
        super().__init__(log.store, clock=log.clock, backoff=log.backoff)
        self._token = token
        self._start_version = start_version

    def start_transaction(self, snapshot: Snapshot | None = None, *, enforces: Iterable[str] = ()) -> OptimisticTransaction:
        """Start a transaction, as on any log.

        Raises:
            AlreadyCommitted: The task's commit is in the table, at the version read or before.
            TokenHistoryLostError: Commits were cleaned up, so the outcome is unknown.
        """
        transaction = super().start_transaction(snapshot, enforces=enforces)
        if transaction.read_version > self._start_version and self.find_commit(self._token, self._start_version):
            raise AlreadyCommitted
        return transaction
