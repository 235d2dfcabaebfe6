"""The party of a race that wants to commit: what it read, and what it writes."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from airflow_delta.core.actions import CommitActions, Metadata, Protocol
from airflow_delta.core.predicate import Expression
from airflow_delta.core.schema import StructType
from airflow_delta.core.transaction.isolation_level import IsolationLevel

NO_PATHS = pa.array([], pa.string())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommitAttempt:
    """One transaction at the moment it commits.

    Attributes:
        table: URI of the table, for errors.
        read_version: Version it was computed from; -1 for a table that is to be created.
        protocol: Protocol of the table as far as the attempt knows it (winners that it passed included).
        metadata: Metadata of the table at ``read_version``.
        schema: The schema in ``metadata``.
        actions: What it writes.
        read_predicates: What it looked for.
        read_files: Paths it used, as in the log.
        read_whole_table: Whether it depends on every file there was.
        read_app_ids: Applications whose progress it asked for.
        passes_winners: Whether it may follow other commits than the one it read.
    """

    table: str
    read_version: int
    protocol: Protocol
    metadata: Metadata
    schema: StructType
    actions: CommitActions
    isolation_level: IsolationLevel = IsolationLevel.SERIALIZABLE
    read_predicates: tuple[Expression, ...] = ()
    read_files: pa.Array = field(default_factory=lambda: NO_PATHS)
    read_whole_table: bool = False
    read_app_ids: frozenset[str] = frozenset()
    passes_winners: bool = True

    @property
    def is_blind_append(self) -> bool:
        """Whether it only adds files and read nothing, so that no other append can make it wrong."""
        read = self.read_predicates or self.read_whole_table or len(self.read_files)
        return not read and not len(self.actions.removes)
