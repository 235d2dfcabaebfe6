"""Discards a staged commit: it can no longer be published, and its files are deleted."""

from __future__ import annotations

import logging
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import Origin
from airflow_delta.core.errors import (
    StagedCommitExpiredError,
    StagedCommitNotFoundError,
    StagedCommitOutdatedError,
    StagedCommitPendingError,
    StagedCommitPublishedError,
    TokenHistoryLostError,
)
from airflow_delta.core.operations.bulk_delete import delete_in_bulk
from airflow_delta.core.operations.publication import plan_publication, published
from airflow_delta.core.operations.staged_folder import (
    AREA,
    decide,
    load,
    missing_files,
    staged_files,
)
from airflow_delta.core.operations.table_log import TableLog
from airflow_delta.core.operations.unneeded_files import named_paths
from airflow_delta.core.statements.publish import StagedHandle
from airflow_delta.core.transaction.staged_commit import StagedCommit

_logger = logging.getLogger(__name__)


def discard(log: TableLog, handle: StagedHandle, origin: Origin) -> int:
    """Drop a staged commit, so that it can no longer be published; returns how many of its files were deleted.

    Files that cannot be deleted are left to a vacuum, as are those of an expired commit whose publication had begun.
    Idempotent, also for a commit that is long gone.

    Raises:
        StagedCommitPublishedError: It has been published.
        StagedCommitPendingError: Another task has begun to publish it, and may still finish.
        StagedCommitDamagedError: The document, or the decision file, cannot be read.
    """
    if handle.id is None:
        return 0
    table, store = log.table_uri, log.store
    with suppress(TokenHistoryLostError):  # the decision file shows it too, if it still exists
        if (done := published(log, handle)) is not None:
            raise StagedCommitPublishedError(table=table, id=handle.id, version=done.version)
    try:
        staged, _ = load(store, handle)
    except StagedCommitNotFoundError:
        return 0
    if decide(store, staged.id, "discard", origin) == "publish":
        try:
            done = plan_publication(log, handle, origin).done
        except StagedCommitOutdatedError:  # a publication that has begun meets the same conflict, so it will never succeed
            return _delete_files(log, staged)
        except (StagedCommitExpiredError, TokenHistoryLostError):  # a publication that has begun may still run
            return 0
        if done is None:
            raise StagedCommitPendingError(table=table, id=staged.id)
        raise StagedCommitPublishedError(table=table, id=staged.id, version=done.version)
    return _delete_files(log, staged)


def _delete_files(log: TableLog, staged: StagedCommit) -> int:
    """Delete its files, but only in directories of its own and only those that no version references."""
    paths = staged_files(staged, log.table_uri)
    paths = paths.filter(pc.match_substring_regex(paths, AREA))
    if log.exists():
        snapshot = log.refresh()
        known = [files.select(["path", "deletion_vector"]) for files in (snapshot.files(), snapshot.tombstones())]
        paths = paths.filter(pc.invert(pc.is_in(paths, named_paths(known, table=log.table_uri).combine_chunks())))
    gone = missing_files(log.store, paths)
    paths = paths.filter(pc.invert(pc.is_in(paths, pa.array(gone, pa.string()))))
    failed = delete_in_bulk(log.store, paths.combine_chunks())
    for failure in failed:
        _logger.warning("%s: %d discarded files are left to a vacuum: %s", log.table_uri, failure.number, failure.detail)
    return len(paths) - sum(failure.number for failure in failed)
