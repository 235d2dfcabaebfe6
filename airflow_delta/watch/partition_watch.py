"""Waiting until partitions hold a number of rows, whichever commits added them."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.compute as pc

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import TableNotFoundError
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.log.record_counts import NUM_RECORDS, plausible_counts
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements.result import NO_TABLE
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.watch.commit_scan import later_commits
from airflow_delta.watch.commit_watch import LISTED_EVERY
from airflow_delta.watch.partition_predicate import partition_predicate
from airflow_delta.watch.waits import PartitionWait

_COUNTED = (NUM_RECORDS.name, "deletion_vector")


class PartitionWatch:
    """Counts the rows of partitions from the log whenever there is a new version.

    Attributes:
        wait: The wait with the version that was counted last.
    """

    def __init__(self, store: LogStore, wait: PartitionWait) -> None:
        self.wait = wait
        self._store = store
        self._log = DeltaLog(store)
        self._polls = 0

    def poll(self) -> int | None:
        """The latest version if the partitions hold enough rows in it; else, and for a missing table, None.

        Raises:
            InvalidStatementError: The condition names a column that is not a partition column.
            InvalidPredicateError: It is not a condition on the table's columns, or one that only Spark could decide.
            CorruptLogError: The log cannot be read.
            OSError: The storage cannot be reached.
        """
        thorough = self._polls % LISTED_EVERY == 0
        self._polls += 1
        if self.wait.after != NO_TABLE and not self._is_changed(thorough=thorough):
            return None
        try:
            snapshot = self._log.refresh()
        except TableNotFoundError:
            return None
        rows = rows_in(snapshot, self.wait.partitions)  # if this raises, the version does not count as read
        status = self._store.status(commit_path(snapshot.version))
        self.wait = replace(self.wait, after=snapshot.version, written=status.modification_time if status else None)
        return snapshot.version if rows >= self.wait.min_rows else None

    def _is_changed(self, *, thorough: bool) -> bool:
        """Whether the latest version is another one, or a new commit of the same number, as after a table was created again.

        If not ``thorough``, only whether the next commit exists.
        """
        if thorough:
            found = later_commits(self._store, self.wait.after)
            written = None if found.at is None else found.at.modification_time
            return found.head != self.wait.after or (self.wait.written is not None and written != self.wait.written)
        return self._store.exists(commit_path(self.wait.after + 1))


def rows_in(snapshot: Snapshot, partitions: str) -> int:
    """The number of rows in the partitions that match a predicate; a file without a row count counts as one row.

    Raises:
        InvalidStatementError: ``partitions`` names a column that is not a partition column.
        InvalidPredicateError: It is not a condition on the table's columns, or one that only Spark could decide.
    """
    predicate = partition_predicate(
        partitions, snapshot.schema, snapshot.partition_columns, table=snapshot.table_uri, sensor="DeltaPartitionSensor"
    )
    files = snapshot.files(predicate, _COUNTED)
    hidden = pc.fill_null(plausible_counts(pc.struct_field(files["deletion_vector"], "cardinality")), 0)
    live = pc.fill_null(pc.subtract(files[NUM_RECORDS.name], hidden), 1)
    return pc.sum(pc.max_element_wise(live, 0)).as_py() or 0
