"""The part of ``DeltaLog`` that the operations use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol as Port

from airflow_delta.core.actions import Metadata, Protocol
from airflow_delta.core.clock import Clock
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.transaction.optimistic_transaction import OptimisticTransaction


class TableLog(Port):
    """One table's log as operations use it; ``DeltaLog``, a layer above the operations, implements it."""

    store: LogStore
    clock: Clock

    @property
    def table_uri(self) -> str:
        """The table's root as the user wrote it, without a trailing slash."""
        ...

    def exists(self) -> bool:
        """Whether the table exists."""
        ...

    def refresh(self) -> Snapshot:
        """The latest version."""
        ...

    def snapshot(self, version: int | None = None, timestamp: int | str | None = None) -> Snapshot:
        """The table at a version or a time."""
        ...

    def start_transaction(self, snapshot: Snapshot | None = None, *, enforces: Iterable[str] = ()) -> OptimisticTransaction:
        """A transaction on ``snapshot``, or on the latest version when None."""
        ...

    def create_transaction(
        self, metadata: Metadata, protocol: Protocol | None = None, *, enforces: Iterable[str] = ()
    ) -> OptimisticTransaction:
        """A transaction that creates the table."""
        ...
