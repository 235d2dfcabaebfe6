"""The commit attempt: what the transaction read, and what it writes."""

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
    """The port by which the rule ``added_files_the_attempt_should_have_read`` has rows read, which the core leaves to others.

    An implementation is made for one attempt and knows everything that the attempt looked for. It never raises: a file that
    cannot be read is confirmed, so that the winner conflicts.
    """

    def __call__(self, files: pa.Table, /) -> pa.Table:
        """Of these files (``ADD_FILE``), whose statistics admit rows that the attempt looked for, those that hold one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommitAttempt:
    """One transaction at the moment it commits, and as rebased over each winner.

    Attributes:
        table: URI of the table, for errors.
        read_version: Version it was computed from; -1 for a table that is to be created.
        protocol: Protocol of the table as far as the attempt knows it (winners that it was rebased over included).
        metadata: Metadata of the table, likewise.
        schema: The schema in ``metadata``.
        actions: What it writes.
        enforces: Features whose constraints the writer of its rows has enforced; see ``ROW_FEATURES``.
        read_predicates: What it looked for.
        read_files: Paths it used, as in the log.
        read_whole_table: Whether it depends on every file there was.
        read_app_ids: Applications whose progress it requested.
        may_rebase: Whether it may be rebased over commits after the one it read.
        row_wise: Whether rows that others delete do not matter to it: a DELETE whose condition this row's values alone decide,
            always in the same way, or a MERGE that changes all rows that it matches, or inserts none. An UPDATE statement never
            is: new values may come from anywhere.
        row_id_high_water_mark: The highest row id that was given out as far as it knows; -1 for none.
        confirm_conflicting_files: See ``ConfirmConflictingFiles``.
        deletion_vectors: Where deletion vectors are read and written, for a ``row_wise`` attempt.
        bins: Which of the files belong together, where each group may be lost alone; None where all stand or fall together.
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
        """Whether it only adds new rows and read nothing, so that no other append can make it wrong."""
        read = self.read_predicates or self.read_whole_table or len(self.read_files)
        other = len(self.actions.removes) or len(self.actions.changes)
        return not (read or other) and pc.all(self.actions.adds["data_change"], min_count=0).as_py()

    @property
    def rearranges(self) -> bool:
        """Whether it names files and changes no row."""
        files = (self.actions.adds["data_change"], self.actions.removes["data_change"])
        return any(map(len, files)) and not any(pc.any(file).as_py() for file in files)

    @property
    def metadata_after(self) -> Metadata:
        """The table's metadata as the attempt leaves it."""
        return self.actions.metadata or self.metadata

    @property
    def protocol_after(self) -> Protocol:
        """The table's protocol as the attempt leaves it."""
        return self.actions.protocol or self.protocol

    @property
    def dropped_features(self) -> frozenset[str]:
        """The features that the table has and that the attempt takes from it."""
        if self.actions.protocol is None:
            return frozenset()
        return all_features(self.protocol) - all_features(self.actions.protocol)


def all_features(protocol: Protocol) -> frozenset[str]:
    """The features that readers or writers must know."""
    return reader_features(protocol) | writer_features(protocol)
