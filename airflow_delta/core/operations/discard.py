"""Discarding what is staged: it can no longer be published, and its files are deleted."""

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
    """Drop what is staged: it can no longer be published. How many of its files were there to be deleted.

    Files that cannot be deleted are left to a vacuum, as are those of an expired handle whose publication had begun. A
    second call, and one for what has gone long ago, does no harm.

    Raises:
        StagedCommitPublishedError: It has been published.
        StagedCommitPendingError: Another task has begun to publish it, and may go on.
        StagedCommitDamagedError: The document, or the decision, cannot be read.
    """
    if handle.id is None:
        return 0
    table, store = log.table_uri, log.store
    with suppress(TokenHistoryLostError):  # the decision says it as well, if it is still there
        if (done := published(log, handle)) is not None:
            raise StagedCommitPublishedError(table=table, id=handle.id, version=done.version)
    try:
        staged, _ = load(store, handle)
    except StagedCommitNotFoundError:
        return 0
    if decide(store, staged.id, "discard", origin) == "publish":
        try:
            done = plan_publication(log, handle, origin).done
        except StagedCommitOutdatedError:  # whoever began to publish it meets the same commit: it never will be
            return _delete_files(log, staged)
        except (StagedCommitExpiredError, TokenHistoryLostError):  # a publication that had begun may still run; no other begins
            return 0
        if done is None:
            raise StagedCommitPendingError(table=table, id=staged.id)
        raise StagedCommitPublishedError(table=table, id=staged.id, version=done.version)
    return _delete_files(log, staged)


def _delete_files(log: TableLog, staged: StagedCommit) -> int:
    """Delete the files in directories of its own that no version names, whatever its document says."""
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
