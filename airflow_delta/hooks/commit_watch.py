"""How far a table's log has come, with as few requests as can be."""

from __future__ import annotations

from airflow_delta.core.log.file_names import (
    END_OF_VERSIONS,
    LOG_DIRECTORY,
    LogFileKind,
    commit_file,
    parse_name,
    version_prefix,
)
from airflow_delta.core.storage.log_store import LogStore

NO_TABLE = -1
"""The version of a table that is not there yet: the first commit is the next one."""

_NO_VERSIONS = frozenset({LogFileKind.CHECKSUM, LogFileKind.COMPACTED_COMMITS})  # they are about commits that are there or not


def head_version(store: LogStore, at_least: int = 0) -> int:
    """The latest version in the log that is not below ``at_least``, or ``NO_TABLE``; one listing, no file is read.

    Checkpoints count like commits: the commit below one may have been cleaned up.
    """
    head = NO_TABLE
    for status in store.list_from(LOG_DIRECTORY, version_prefix(at_least)):
        name = status.path.rsplit("/", 1)[-1]
        if name >= END_OF_VERSIONS:
            break
        parsed = parse_name(name)
        if parsed is not None and parsed.kind not in _NO_VERSIONS:
            head = max(head, parsed.version)
    return head


def reached_version(store: LogStore, wanted: int, *, thorough: bool) -> int | None:
    """The table's latest version if it is ``wanted`` or later, else None; a missing table has not come that far.

    :param thorough: Whether to list the log rather than to probe for the one file: needed once for each wait, because the
        wanted commit may have been cleaned up already.
    """
    if not thorough and not store.exists(f"{LOG_DIRECTORY}/{commit_file(wanted)}"):
        return None
    head = head_version(store, wanted)
    return None if head == NO_TABLE else head
