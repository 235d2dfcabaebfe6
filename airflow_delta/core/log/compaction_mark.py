"""By what a compacted file says that it leaves out nothing that cancels an action of an earlier commit.

Protocol: PROTOCOL.md, "Log Compaction Files", which does not say whether tombstones may expire there as in a checkpoint: other
engines leave out those that have, so that a removed file of an earlier commit would be live again. The mark is an action that
readers do not know and must ignore ("Protocol Evolution").
"""

from __future__ import annotations

from airflow_delta.core.log.log_segment import CompactedCommits
from airflow_delta.core.storage.log_store import LogStore

KEEPS_ALL_TOMBSTONES = b'{"airflowDelta":{"keepsAllTombstones":true}}\n'
"""The first line of a compacted file with all removed files, removed domains and transactions, however old."""


def keeps_all_tombstones(store: LogStore, compacted: CompactedCommits) -> bool:
    """Whether the file can stand for its commits: nothing is before them, or it says so; found by one short read.

    Raises:
        OSError, StorageAccessError: The storage does not answer, or refuses.
    """
    if compacted.start == 0:
        return True
    try:
        with store.open_input(compacted.status.path) as stream:
            return stream.read(len(KEEPS_ALL_TOMBSTONES)) == KEEPS_ALL_TOMBSTONES
    except FileNotFoundError:  # cleaned up by now
        return False
