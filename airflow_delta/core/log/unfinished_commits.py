"""Distinguishes an unfinished commit, which only the newest one can be, from a damaged one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from airflow_delta.core.errors import CorruptLogError, UnfinishedCommitError
from airflow_delta.core.log.file_names import parse_name
from airflow_delta.core.log.log_segment import list_log
from airflow_delta.core.storage.log_store import LogStore

Content = TypeVar("Content")


def read_settled(store: LogStore, read: Callable[[], Content]) -> Content:
    """The result of ``read``, which reads commits; repeated if a commit was finished while it was read.

    Raises:
        UnfinishedCommitError: As of ``read``, for the newest commit.
        CorruptLogError: As of ``read``; and for a commit that is cut off although the log goes on: it was complete once.
    """
    try:
        return read()
    except UnfinishedCommitError as error:
        path, sign = error.file, _sign_of_completion(store, error.file)
        if sign is None:
            raise
    try:
        return read()
    except UnfinishedCommitError as error:
        if error.file != path:  # this one was finished, and a later one begun
            raise
        detail = f"{error.detail}, although {sign}"
        raise CorruptLogError(table=error.table, file=path, detail=detail) from error


def _sign_of_completion(store: LogStore, path: str) -> str | None:
    """What shows that this commit was complete once; None for the newest commit, and for a file outside of the log."""
    name = parse_name(path.rpartition("/")[2])
    if name is None:
        return None
    listing = list_log(store, name.version)
    if listing.latest_version is not None and listing.latest_version > name.version:
        return "later commits exist"
    return "its version has a checkpoint" if listing.checkpoints else None
