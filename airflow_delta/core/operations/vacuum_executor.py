"""Listing and deleting the files of a vacuum, in this process or elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from airflow_delta.core.errors import StorageAccessError, VacuumIncompleteError
from airflow_delta.core.operations.bulk_delete import FailedDelete, delete_in_bulk, refusal_of_all
from airflow_delta.core.operations.vacuum_candidates import list_files_below_root
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.storage.log_store import LogStore


class VacuumExecutor(Protocol):
    """Lists and deletes files for a vacuum, which decides which files to delete."""

    def list_files(self, snapshot: Snapshot) -> pa.Table:
        """Every file below the root, at any depth, including hidden ones: columns ``LISTED_FILE``, in any order.

        A file missing from the result is kept. No file may appear older than it is.
        """
        ...

    def delete(self, store: LogStore, paths: pa.Array) -> None:
        """Delete these files, paths below the root; a failure does not stop the deletion of others.

        Raises:
            VacuumIncompleteError: Some files were not deleted.
            StorageAccessError: The storage denies deleting any file.
        """
        ...


class LocalVacuumExecutor:
    """Lists and deletes in this process, through the table's store."""

    def list_files(self, snapshot: Snapshot) -> pa.Table:
        """List with one flat listing."""
        return list_files_below_root(snapshot.store)

    def delete(self, store: LogStore, paths: pa.Array) -> None:
        """Delete many files per request."""
        if failed := delete_in_bulk(store, paths):
            raise vacuum_incomplete(store.table_uri, paths, failed)


def vacuum_incomplete(
    table: str, paths: pa.Array, failed: Sequence[FailedDelete]
) -> VacuumIncompleteError | StorageAccessError:
    """The error for the paths that were not deleted; if the storage denied all, its ``StorageAccessError``."""
    if refusal := refusal_of_all(table, paths, failed):
        return refusal
    left = sum(failure.number for failure in failed)
    first = failed[0]
    return VacuumIncompleteError(table=table, deleted=len(paths) - left, left=left, example=first.example, detail=first.detail)
