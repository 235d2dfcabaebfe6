"""DROP TABLE with its files: deletes everything below the table's root, after checking that it is the right table.

A note below the root, written before the first file is deleted, lets another try continue once the log, and with it the table's
id, is gone. The log is deleted first, so that no reader sees a partly deleted table.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.errors import DeletionIncompleteError, DeltaError, TableNotDeletedError
from airflow_delta.core.log.file_names import LOG_DIRECTORY
from airflow_delta.core.operations.bulk_delete import delete_in_bulk, refusal_of_all
from airflow_delta.core.operations.pins import read_pin_folder
from airflow_delta.core.operations.table_log import TableLog
from airflow_delta.core.operations.vacuum_candidates import list_files_below_root
from airflow_delta.core.statements.result import NO_TABLE
from airflow_delta.core.storage.log_store import LogStore

NOTE = "_airflow_delta/deleting.json"
"""Path below the root of a note with the id of the table that is being deleted."""

_ID = "tableId"
_MOST_BYTES = 1 << 16
_OTHER_LOG = rf"^(?P<table>.+)/{LOG_DIRECTORY}/[^/]+$"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTable:
    """What was deleted, or in a dry run would be.

    Attributes:
        version: The table's latest version; -1 if its log was gone already.
    """

    version: int
    files: int
    bytes: int

    def metrics(self) -> dict[str, int]:
        """The numbers as operation metrics."""
        return {"numDeletedFiles": self.files, "sizeOfDeletedFiles": self.bytes}


def delete_table(log: TableLog, table_id: str, *, dry_run: bool = False) -> DeletedTable:
    """Delete every file below the table's root, the log included; empty local folders stay.

    Args:
        log: The log of the table.
        table_id: Delta's id of the table.
        dry_run: Check and count, but delete nothing.

    Raises:
        TableNotDeletedError: Another table is there or below, a run has pinned a version, or the root is a whole store.
        DeletionIncompleteError: The storage did not delete everything; another call continues.
        StorageAccessError: The storage denies deleting any file.
        DeltaError: The log cannot be opened; ``CatalogRequiredError`` if the table is catalog-managed.
    """
    store = log.store
    is_begun = _begun(store) == table_id
    version = _checked_version(log, table_id, is_begun=is_begun)
    if version == NO_TABLE and not is_begun:
        return DeletedTable(version=NO_TABLE, files=0, bytes=0)
    files = list_files_below_root(store)
    _refuse_other_tables(store, files["path"])
    found = DeletedTable(version=version, files=len(files), bytes=pc.sum(files["size"], min_count=0).as_py())
    if not dry_run:
        store.write(NOTE, json.dumps({_ID: table_id}).encode())
        _delete(store, files["path"])
    return found


def _checked_version(log: TableLog, table_id: str, *, is_begun: bool) -> int:
    """The version of the table at this place, if it may be deleted; -1 if its log is gone."""
    table = log.table_uri
    if not urlsplit(table).path.strip("/"):
        raise _refusal(table, "its root is a whole store", "delete what is the table's in the store itself")
    if not log.exists():
        return NO_TABLE
    try:
        snapshot = log.refresh()
    except DeltaError:
        if is_begun:  # only a part of its log is left
            return NO_TABLE
        raise
    if snapshot.metadata.id != table_id:
        detail = f"expected the table of the id {table_id[:100]} there, found that of {snapshot.metadata.id[:100]}"
        raise _refusal(table, detail, "see which of the two the name is to be of; delete the other's files by hand")
    pins = read_pin_folder(log.store)
    if (pinned := pins.versions(log.clock())) and not is_begun:
        holders = ", ".join(sorted({pin.holder for pin in pins.live(log.clock())})) or "a damaged pin"
        detail = f"version {min(pinned)} is pinned by {holders}"
        raise _refusal(table, detail, "wait until the run has ended, or release its pin: see docs/versions-tokens-pins.md")
    return snapshot.version


def _refuse_other_tables(store: LogStore, paths: pa.ChunkedArray) -> None:
    found = pc.extract_regex(paths, _OTHER_LOG).drop_null()
    if len(found):
        other = min(pc.struct_field(found, "table").unique().to_pylist())
        detail = f"another table lies below its root, at {other[:200]}"
        raise _refusal(store.table_uri, detail, "move or delete that one first, or drop the name alone")


def _delete(store: LogStore, paths: pa.ChunkedArray) -> None:
    is_of_log = pc.starts_with(paths, f"{LOG_DIRECTORY}/")
    rest = pc.and_(pc.invert(is_of_log), pc.not_equal(paths, NOTE))
    deleted = 0
    for part in (paths.filter(is_of_log), paths.filter(rest)):
        if failed := delete_in_bulk(store, part.combine_chunks()):
            if not deleted and (refusal := refusal_of_all(store.table_uri, part, failed)):
                raise refusal
            left = sum(failure.number for failure in failed)
            raise DeletionIncompleteError(
                table=store.table_uri,
                deleted=deleted + len(part) - left,
                left=len(paths) - deleted - len(part) + left,
                example=failed[0].example,
                detail=failed[0].detail,
            )
        deleted += len(part)
    store.delete([NOTE])


def _begun(store: LogStore) -> str | None:
    """The id of the table whose deletion was begun here; None if none was."""
    status = store.status(NOTE)
    if status is None or status.size > _MOST_BYTES:
        return None
    try:
        document = json.loads(store.read(NOTE))
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    found = document.get(_ID) if isinstance(document, dict) else None
    return found if isinstance(found, str) else None


def _refusal(table: str, detail: str, cure: str) -> TableNotDeletedError:
    return TableNotDeletedError(table=table, detail=detail, cure=cure)
