"""The version checksum, computed from the previous one and the commit, without reading files of the table.

Protocol: PROTOCOL.md, "Version Checksum File". No checksum is written unless it is certain: other engines rely on it.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pyarrow.compute as pc

from airflow_delta.core.actions import CommitActions, Metadata
from airflow_delta.core.log.file_names import checksum_path
from airflow_delta.core.log.version_checksum import VersionChecksum
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.transaction.table_properties import transaction_retention

_MAX_LISTED = 1_000  # applications or domains: every commit rewrites the whole list

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30
_IN_MIB = (1, 2, *range(4, 41, 4), *range(48, 121, 8), *range(124, 145, 4), *range(160, 577, 16), *range(640, 1409, 64))
_IN_LARGER_STEPS = (*range(1536, 2049, 128), *range(2304, 3841, 256))
_BOUNDARIES = (
    0,
    *(size * _KIB for size in (8, 16, 32, 64, 128, 256, 512)),
    *(size * _MIB for size in (*_IN_MIB, *_IN_LARGER_STEPS)),
    *(size * _GIB for size in (4, 8, 16, 32, 64, 128, 256)),
)
_NO_FILES = {
    "sortedBinBoundaries": list(_BOUNDARIES),
    "fileCounts": [0] * len(_BOUNDARIES),
    "totalBytes": [0] * len(_BOUNDARIES),
}
"""The file size histogram of an empty table, with Delta Spark's bin boundaries."""


def next_checksum(previous: VersionChecksum | None, actions: CommitActions) -> VersionChecksum | None:
    """The checksum of the version that ``actions`` made; None if it cannot be computed with certainty.

    Args:
        previous: Checksum of the previous version; None for the first version.
        actions: The actions of the commit.
    """
    protocol = actions.protocol or (previous.protocol if previous else None)
    metadata = actions.metadata or (previous.metadata if previous else None)
    if protocol is None or metadata is None or _may_add_again(actions) or actions.removes["size"].null_count:
        return None
    info = actions.commit_info
    added, removed = (files["size"].to_pylist() for files in (actions.adds, actions.removes))
    before = (previous.num_files, previous.table_size) if previous else (0, 0)
    checksum = VersionChecksum(
        num_files=before[0] + len(added) - len(removed),
        table_size=before[1] + sum(added) - sum(removed),
        protocol=protocol,
        metadata=metadata,
        txn_id=info.txn_id if info else None,
        in_commit_timestamp=info.in_commit_timestamp if info else None,
        transactions=None
        if _forgets_transactions(metadata)
        else _merged(previous.transactions if previous else (), actions.transactions, "app_id"),
        domains=_merged(previous.domains if previous else (), actions.domains, "domain"),
        histogram=_moved(previous.histogram if previous else _NO_FILES, added, removed),
    )
    return checksum if min(checksum.num_files, checksum.table_size) >= 0 else None


def counted_checksum(carried: VersionChecksum | None, snapshot: Snapshot, *, files: int, size: int) -> VersionChecksum:
    """The checksum with the file totals counted for a checkpoint, if they differ from those carried forward."""
    if carried and (carried.num_files, carried.table_size) == (files, size):
        return carried
    info = snapshot.commit_info
    return VersionChecksum(
        num_files=files,
        table_size=size,
        protocol=snapshot.protocol,
        metadata=snapshot.metadata,
        txn_id=info.txn_id if info else None,
        in_commit_timestamp=info.in_commit_timestamp if info else None,
        transactions=None
        if _forgets_transactions(snapshot.metadata)
        else _merged((), tuple(snapshot.transactions.values()), "app_id"),
        domains=_merged((), tuple(snapshot.domains.values()), "domain"),
    )


def write_checksum(store: LogStore, version: int, checksum: VersionChecksum) -> None:
    """Write the checksum file of a version, unless it exists; an existing one is kept, even another writer's."""
    with suppress(FileExistsError):
        content = json.dumps(checksum.to_json(), ensure_ascii=False, separators=(",", ":"))
        store.write_if_absent(checksum_path(version), content.encode())


def _may_add_again(actions: CommitActions) -> bool:
    """Whether the commit may add files that are live already, with more information (statistics, row ids)."""
    return not len(actions.removes) and not pc.all(actions.adds["data_change"], min_count=0).as_py()


def _forgets_transactions(metadata: Metadata) -> bool:
    """Whether application transactions expire, so that the last checkpoint determines which are still known."""
    return transaction_retention(metadata.configuration) is not None


def _merged(before: tuple[Any, ...] | None, news: tuple[Any, ...], key: str) -> tuple[Any, ...] | None:
    """The latest value of each key, without removed ones; None if the former values are unknown, or there are too many."""
    if before is None:
        return None
    latest = {getattr(action, key): action for action in (*before, *news)}
    kept = tuple(action for action in latest.values() if not getattr(action, "removed", False))
    return kept if len(kept) <= _MAX_LISTED else None


def _moved(histogram: Mapping[str, Any] | None, added: list[int], removed: list[int]) -> Mapping[str, Any] | None:
    """The histogram after files of these sizes were added and removed; None without a former histogram."""
    try:
        boundaries, counts, sizes = (list(histogram[key]) for key in _NO_FILES) if histogram else ([], [], [])
        for sign, files in ((1, added), (-1, removed)):
            for size in files:
                position = bisect_right(boundaries, size) - 1
                counts[position] += sign
                sizes[position] += sign * size
    except (LookupError, TypeError):
        return None
    moved = dict(zip(_NO_FILES, (boundaries, counts, sizes), strict=True))
    return moved if boundaries and min(*counts, *sizes) >= 0 and boundaries[0] == 0 else None
