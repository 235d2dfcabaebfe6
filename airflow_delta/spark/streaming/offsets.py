"""How far a stream has read a table: what Spark writes into its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_delta.core.errors import InvalidStatementError

_MEMBERS = frozenset({"table_id", "version", "index", "is_snapshot"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """Everything before this place has been read; the meaning of the members never changes, since checkpoints live long.

    Attributes:
        table_id: Id of the table, which another table at its place does not share.
        version: The version that is being read.
        index: How many of its files were read: of those of the whole version in their stable order, or of those that its commit
            added, in the commit's order.
        is_snapshot: Whether the rows of the whole version are read (the start of a stream), rather than what its commit added.
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
        """The offset that ``to_json`` described.

        Raises:
            InvalidStatementError: It is the offset of another source, such as Delta's own.
        """
        if not document.keys() >= _MEMBERS:
            detail = (
                f"the checkpoint is that of another source, whose offset has {', '.join(sorted(document))}; start with a new "
                "checkpoint, and name the first version that is still to be read as startingVersion"
            )
            raise InvalidStatementError(statement="a streaming read", detail=detail)
        return cls(**{name: document[name] for name in _MEMBERS})
