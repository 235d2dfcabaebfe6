"""The result of a statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from airflow_delta.core.foreign_values import json_value

NO_TABLE = -1
"""Version of a table that does not exist yet: the first commit is the next one."""

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
        version: The version that holds the result: the commit's, or the one read when nothing was committed.
        read_version: The version the result was computed from; -1 when the statement made the table.
        operation: Delta's name of the operation, such as ``MERGE``.
        committed: Whether the table's log holds a commit of this statement.
        dry_run: Whether it was a dry run: nothing was changed.
        already_committed: Whether that commit was there before: an earlier or a duplicate attempt of the task made it.
        metrics: Delta's names of operation metrics to numbers (or text).
        conflicts: The commits that won a race against this one and were got past, oldest first; JSON values, see
            ``CommitResult``, with ``lost_ms``, the milliseconds of the attempt, where it was made again.
        attempts: How often the statement was computed or its commit attempted.
        sources: The versions that were read, as ``{"table": ..., "version": ...}``: with them the result can be made again.
        details: What the operation reports beyond numbers, such as the findings of a health check; JSON values.
        warnings: What failed behind the commit, such as the checkpoint that was due; the commit stands.
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
        """The result as a JSON object, by field names."""
        return {field.name: json_value(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> OperationResult:
        """The result that ``to_json`` described; fields of a later version of the package are ignored.

        Raises:
            ValueError: A field is not of its kind.
        """
        known = {field.name: document[field.name] for field in fields(cls) if field.name in document}
        for name, kind in _KINDS.items():
            if name in known and not isinstance(known[name], kind):
                raise ValueError(f"the {name} of a result is {known[name]!r:.100}")
        return cls(**{**known, **{name: tuple(document.get(name, ())) for name in _LISTS}})
