"""The commit attempt: what a transaction read, and what it will write."""

from __future__ import annotations

import typing
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import CommitActions, Metadata, Protocol
from airflow_delta.core.predicate import Expression
from airflow_delta.core.schema import StructType
from airflow_delta.core.table_features.feature import reader_features, writer_features
from airflow_delta.core.transaction.deletion_vector_union import DeletionVectorFiles
from airflow_delta.core.transaction.isolation_level import IsolationLevel
from airflow_delta.core.transaction.rewrite_bins import RewriteBins

NO_PATHS = pa.nulls(0, pa.string())


class ConfirmConflictingFiles(typing.Protocol):
    """Callback by which the rule ``added_files_the_attempt_should_have_read`` has rows read; the core reads none itself.

    An implementation is made for one attempt and knows everything that the attempt looked for. It never raises: a file that
    cannot be read is confirmed, so that the winner conflicts.
    """

    def __call__(self, files: pa.Table, /) -> pa.Table:
        """Those of the files (``ADD_FILE``; statistics admit rows that the attempt looked for) that do hold such a row."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommitAttempt:
    """One transaction at the moment it commits; each winner that it is rebased over gives a new attempt.

    Attributes:
        table: URI of the table, for errors.
        read_version: Version the attempt was computed from; -1 if it creates the table.
        protocol: The table's protocol, including the changes of winners that the attempt was rebased over.
        metadata: The table's metadata, likewise.
        schema: The schema in ``metadata``.
        actions: The actions that the attempt will write.
        enforces: Features whose constraints its writer has enforced on the rows; see ``ROW_FEATURES``.
        read_predicates: Predicates of the rows that it looked for.
        read_files: Paths of the files that it used, as in the log.
        read_whole_table: Whether it depends on every live file.
        read_app_ids: Ids of applications whose last transaction (``txn``) it read.
        may_rebase: Whether it may be rebased over commits made after the version it read.
        row_wise: Whether rows deleted by others do not matter to it: a DELETE whose condition depends only on the row's own
            values and is deterministic, or a MERGE that changes every row it matches or inserts no rows. Never an UPDATE
            statement: its new values may depend on anything.
        row_id_high_water_mark: The highest row id assigned as far as the attempt knows; -1 before the first.
        confirm_conflicting_files: See ``ConfirmConflictingFiles``.
        deletion_vectors: Reads and writes deletion vectors, for a ``row_wise`` attempt.
        bins: Groups of files, each of which can be left out of the commit by itself; None if the commit is all or nothing.
    """

    table: str
    read_version: int
    protocol: Protocol
    metadata: Metadata
    schema: StructType
    actions: CommitActions
    isolation_level: IsolationLevel = IsolationLevel.SERIALIZABLE
    enforces: frozenset[str] = frozenset()
    read_predicates: tuple[Expression, ...] = ()
    read_files: pa.Array = field(default_factory=lambda: NO_PATHS)
    read_whole_table: bool = False
    read_app_ids: frozenset[str] = frozenset()
    may_rebase: bool = True
    row_wise: bool = False
    row_id_high_water_mark: int = -1
    confirm_conflicting_files: ConfirmConflictingFiles | None = None
    deletion_vectors: DeletionVectorFiles | None = None
    bins: RewriteBins | None = None

    @property
    def is_blind_append(self) -> bool:
        """Whether the attempt only adds new rows and read nothing, so that no concurrent append can invalidate it."""
        read = self.read_predicates or self.read_whole_table or len(self.read_files)
        other = len(self.actions.removes) or len(self.actions.changes)
        return not (read or other) and pc.all(self.actions.adds["data_change"], min_count=0).as_py()

    @property
    def rearranges(self) -> bool:
        """Whether the attempt adds or removes files without changing any row (``dataChange`` is false)."""
        files = (self.actions.adds["data_change"], self.actions.removes["data_change"])
        return any(map(len, files)) and not any(pc.any(file).as_py() for file in files)

    @property
    def metadata_after(self) -> Metadata:
        """The table's metadata after this attempt commits."""
        return self.actions.metadata or self.metadata

    @property
    def protocol_after(self) -> Protocol:
        """The table's protocol after this attempt commits."""
        return self.actions.protocol or self.protocol

    @property
    def dropped_features(self) -> frozenset[str]:
        """The features that the table supports and that this attempt drops."""
        if self.actions.protocol is None:
            return frozenset()
        return all_features(self.protocol) - all_features(self.actions.protocol)


def all_features(protocol: Protocol) -> frozenset[str]:
    """The features that readers or writers must support."""
    return reader_features(protocol) | writer_features(protocol)
