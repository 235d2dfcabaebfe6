"""The result of a statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from airflow_delta.core.foreign_values import json_value

NO_TABLE = -1
"""The version of a table that does not exist yet; the first commit makes version 0."""

_LISTS = ("conflicts", "sources", "warnings")
_KINDS: Mapping[str, type] = {
    "table": str,
    "version": int,
    "read_version": int,
    "operation": str,
    "committed": bool,
    "already_committed": bool,
    "metrics": Mapping,
    "attempts": int,
    "details": Mapping,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationResult:
    """The outcome of one statement.

    Attributes:
        table: URI of the table's root.
        version: The version that the statement committed, or the one that it read if nothing was committed.
        read_version: The version that the result was computed from; -1 if the statement created the table.
        operation: Delta's name of the operation, such as ``MERGE``.
        committed: Whether the table's log holds a commit of this statement.
        dry_run: Whether this was a dry run, which changes nothing.
        already_committed: Whether an earlier or a duplicate attempt of the task had already made the commit.
        metrics: Numbers (or text) by Delta's names of operation metrics.
        conflicts: The concurrent commits that this one overcame, oldest first, as JSON values, see ``CommitResult``; if the
            statement had to run again, ``lost_ms`` is the time that the lost attempt took, in milliseconds.
        attempts: How often the statement was computed or its commit was tried.
        sources: The versions that were read, as ``{"table": ..., "version": ...}``, from which the result can be reproduced.
        details: What the operation reports beyond numbers, such as the findings of a health check; JSON values.
        warnings: What failed after the commit, such as a checkpoint that was due; the commit stands.
    """

    table: str
    version: int
    read_version: int
    operation: str
    committed: bool
    already_committed: bool = False
    dry_run: bool = False
    metrics: Mapping[str, int | str] = field(default_factory=dict)
    conflicts: tuple[Mapping[str, Any], ...] = ()
    attempts: int = 1
    sources: tuple[Mapping[str, Any], ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The result as a JSON object, with the field names as keys."""
        return {field.name: json_value(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> OperationResult:
        """The result that ``to_json`` wrote; fields added by a later version of the package are ignored.

        Raises:
            ValueError: A field has a value of the wrong type.
        """
        known = {field.name: document[field.name] for field in fields(cls) if field.name in document}
        for name, kind in _KINDS.items():
            if name in known and not isinstance(known[name], kind):
                raise ValueError(f"the {name} of a result is {known[name]!r:.100}")
        return cls(**{**known, **{name: tuple(document.get(name, ())) for name in _LISTS}})
