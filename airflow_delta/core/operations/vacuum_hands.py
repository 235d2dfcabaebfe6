"""Who lists a table for a vacuum, and deletes what the vacuum has decided on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from airflow_delta.core.errors import VacuumIncompleteError
from airflow_delta.core.operations.bulk_delete import FailedDelete, undeleted
from airflow_delta.core.operations.vacuum_candidates import listed_files
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.storage.log_store import LogStore


class VacuumHands(Protocol):
    """What a vacuum asks of the storage. The decision which files go is not theirs."""

    def listed(self, snapshot: Snapshot) -> pa.Table:
        """Every file below the root, at any depth, hidden ones too: columns ``LISTED_FILE``, in no order.

        One that is left out stays; none may be older in the listing than it is.
        """
        ...

    def delete(self, store: LogStore, paths: pa.Array) -> None:
        """Delete these files, paths below the root; what fails does not keep the others.

        Raises:
            VacuumIncompleteError: Some are left.
        """
        ...


class OwnHands:
    """This process lists and deletes, through the table's store."""

    def listed(self, snapshot: Snapshot) -> pa.Table:
        """One flat listing."""
        return listed_files(snapshot.store)

    def delete(self, store: LogStore, paths: pa.Array) -> None:
        """Delete many at once."""
        if failed := undeleted(store, paths):
            raise incomplete(store.table_uri, paths, failed)


def incomplete(table: str, paths: pa.Array, failed: Sequence[FailedDelete]) -> VacuumIncompleteError:
    """The error for the paths that were not deleted."""
    left = sum(failure.number for failure in failed)
    first = failed[0]
    return VacuumIncompleteError(table=table, deleted=len(paths) - left, left=left, example=first.example, detail=first.detail)
