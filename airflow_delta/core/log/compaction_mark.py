"""The mark of a compacted file that keeps every tombstone, and so can replace its commits.

Protocol: PROTOCOL.md, "Log Compaction Files", which does not say whether expired tombstones may be left out there, as in a
    checkpoint. Other engines leave them out, so that a removed file of an earlier commit would become live again. The mark is
    an unknown action, which other readers must ignore ("Protocol Evolution").
"""

from __future__ import annotations

from airflow_delta.core.log.log_segment import CompactedCommits
from airflow_delta.core.storage.log_store import LogStore

KEEPS_ALL_TOMBSTONES = b'{"airflowDelta":{"keepsAllTombstones":true}}\n'
"""The first line of a compacted file that keeps all removed files, removed domains and transactions, however old."""


def keeps_all_tombstones(store: LogStore, compacted: CompactedCommits) -> bool:
    """Whether the file can replace its commits: no earlier commit exists, or the file has the mark. Costs one short read.

    Raises:
        OSError, StorageAccessError: The storage does not answer, or denies access.
    """
    if compacted.start == 0:
        return True
    try:
        with store.open_input(compacted.status.path) as stream:
            return stream.read(len(KEEPS_ALL_TOMBSTONES)) == KEEPS_ALL_TOMBSTONES
    except FileNotFoundError:  # cleaned up meanwhile
        return False
