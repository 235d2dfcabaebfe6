"""The wait for partitions that hold so many rows, in whichever commits these came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow.compute as pc

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError, TableNotFoundError
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.log.record_counts import NUM_RECORDS
from airflow_delta.core.predicate import is_partition_only, parse_predicate
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements.result import NO_TABLE
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.watch.commit_watch import LISTED_EVERY, head_version

_COUNTED = (NUM_RECORDS.name, "deletion_vector")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWait:
    """What is waited for, and the progress.

    Attributes:
        partitions: A predicate over the partition columns.
        min_rows: How many rows these partitions must hold together.
        after: The latest version that was counted, or ``NO_TABLE``.
    """

    partitions: str
    min_rows: int = 1
    after: int = NO_TABLE

    @property
    def progress(self) -> dict[str, int]:
        """What the search has changed."""
        return {"after": self.after}

    def watch(self, store: LogStore) -> PartitionWatch:
        """The count of these rows in a table's log."""
        return PartitionWatch(store, self)

    def to_json(self) -> dict[str, Any]:
        """The wait as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> PartitionWait:
        """The wait that ``to_json`` described."""
        return cls(**document)


class PartitionWatch:
    """Counts the rows of partitions whenever there is a new version, by what the log says of the files.

    Attributes:
        wait: The wait with the version that was counted last.
    """

    def __init__(self, store: LogStore, wait: PartitionWait) -> None:
        self.wait = wait
        self._store = store
        self._log = DeltaLog(store)
        self._polls = 0

    def poll(self) -> int | None:
        """The latest version, if the partitions hold enough rows there; None while they do not, and for a missing table.

        Raises:
            InvalidStatementError: The condition names a column that does not partition the table.
            InvalidPredicateError: It is not a condition on the table's columns.
            CorruptLogError: The log cannot be read.
            OSError: The storage does not answer.
        """
        thorough = self._polls % LISTED_EVERY == 0
        self._polls += 1
        if self.wait.after != NO_TABLE and not self._is_changed(thorough=thorough):
            return None
        try:
            snapshot = self._log.refresh()
        except TableNotFoundError:
            return None
        rows = rows_in(snapshot, self.wait.partitions)  # what raises has not counted this version
        self.wait = replace(self.wait, after=snapshot.version)
        return snapshot.version if rows >= self.wait.min_rows else None

    def _is_changed(self, *, thorough: bool) -> bool:
        """Whether there is another version than the counted one; not thorough, whether the next one is there still."""
        if thorough:
            return head_version(self._store) != self.wait.after
        return self._store.exists(commit_path(self.wait.after + 1))


def rows_in(snapshot: Snapshot, partitions: str) -> int:
    """The rows of the partitions for which a predicate holds; a file whose writer did not count them has at least one.

    Raises:
        InvalidStatementError: It names a column that does not partition the table.
        InvalidPredicateError: It is not a condition on the table's columns.
    """
    predicate = parse_predicate(partitions, snapshot.schema, snapshot.table_uri)
    if not is_partition_only(predicate, snapshot.partition_columns):
        detail = f"partitions must name only partition columns of {snapshot.table_uri}, found {partitions!r}"
        raise InvalidStatementError(statement="DeltaPartitionSensor", detail=detail)
    files = snapshot.files(predicate, _COUNTED)
    hidden = pc.fill_null(pc.struct_field(files["deletion_vector"], "cardinality"), 0)
    return pc.sum(pc.fill_null(pc.subtract(files[NUM_RECORDS.name], hidden), 1)).as_py() or 0
