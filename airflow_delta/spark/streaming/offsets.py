"""The offset of a stream in a table, which Spark stores in the stream's checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_delta.core.errors import InvalidStatementError

_MEMBERS = frozenset({"table_id", "version", "index", "is_snapshot"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """Everything before this offset has been read. Members never change their meaning, as checkpoints live long.

    Attributes:
        table_id: Id of the table, which detects that it was replaced by another one.
        version: The version that is being read.
        index: How many of the version's files were read: of all its files, in a stable order, or of those its commit added, in
            the commit's order.
        is_snapshot: Whether all rows of the version are read (at the start of a stream), or only those that its commit added.
    """

    table_id: str
    version: int
    index: int = 0
    is_snapshot: bool = False

    def to_json(self) -> dict[str, Any]:
        """The offset as Spark stores it."""
        return {"table_id": self.table_id, "version": self.version, "index": self.index, "is_snapshot": self.is_snapshot}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> StreamOffset:
        """The offset that ``to_json`` wrote.

        Raises:
            InvalidStatementError: It is the offset of another source, such as Delta Spark's.
        """
        if not document.keys() >= _MEMBERS:
            detail = (
                f"the checkpoint is that of another source, whose offset has {', '.join(sorted(document))}; start with a new "
                "checkpoint, and name the first version that is still to be read as startingVersion"
            )
            raise InvalidStatementError(statement="a streaming read", detail=detail)
        return cls(**{name: document[name] for name in _MEMBERS})
