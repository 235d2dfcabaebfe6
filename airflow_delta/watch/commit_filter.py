"""Conditions on commits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.log.timestamp import iso_text
from airflow_delta.core.statements.fields import Time, converted_value, is_template, shortened
from airflow_delta.core.statements.validation import texts

RUN_FIELDS = frozenset({"dag_id", "task_id", "run_id", "map_index", "logical_date"})
"""The fields of a commit's record that identify a DAG run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFilter:
    """Conditions on a commit; all given ones must hold.

    Attributes:
        operations: Accepted operations, by the names in Delta's commit information, such as ``MERGE``, in any case; empty for
            any operation.
        partitions: A predicate over the partition columns that a file which the commit adds or removes must satisfy.
        data_change_only: Whether to skip commits without data changes, such as those that only rearrange files. Then
            ``partitions`` only considers files with ``dataChange``.
        run: The run that made the commit: values for some of ``RUN_FIELDS``, as the commit's record has them; strings except
            for ``map_index``. In a DAG file they may be templates.
    """

    operations: tuple[str, ...] = ()
    partitions: str | None = None
    data_change_only: bool = False
    run: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given = {name for name, value in self.run.items() if value not in ("", "None", None)}
        is_run = "dag_id" in given and given & {"run_id", "logical_date"}
        if self.run and not (is_run and given == {*self.run} and given <= RUN_FIELDS):
            detail = (
                "a run needs dag_id, and run_id or logical_date; besides them it may have task_id and map_index: "
                f"found {dict(self.run)}"
            )
            raise InvalidStatementError(statement="CommitFilter", detail=detail)
        for name, value in self.run.items():
            kind, wanted = (int, "a number") if name == "map_index" else (str, "a text")
            if not isinstance(value, kind) and not is_template(value):
                detail = f"{name} of a run must be {wanted}, found {shortened(value)}"
                raise InvalidStatementError(statement="CommitFilter", detail=detail)
        if {"", "NONE"} & {*self.operations}:
            detail = f"operations must be names such as MERGE, found {list(self.operations)}: did a template render to nothing?"
            raise InvalidStatementError(statement="CommitFilter", detail=detail)

    @classmethod
    def of(
        cls,
        *,
        operations: str | Iterable[str] = (),
        partitions: str | None = None,
        data_change_only: bool = False,
        run: Mapping[str, Any] | None = None,
    ) -> CommitFilter:
        """The filter for the arguments of a sensor or trigger; ``operations`` may be a single name."""
        names = texts("CommitFilter", "operations", operations, may_be_empty=True)
        return cls(
            operations=tuple(name.strip().upper() for name in names),
            partitions=partitions or None,
            data_change_only=data_change_only,
            run={name: _as_recorded(name, value) for name, value in (run or {}).items()},
        )

    @property
    def looks_at_files(self) -> bool:
        """Whether the file actions of a commit are needed, not only its ``commitInfo``."""
        return bool(self.partitions) or self.data_change_only

    def to_json(self) -> dict[str, Any]:
        """The filter as JSON values, which ``of`` takes."""
        return {
            "operations": list(self.operations),
            "partitions": self.partitions,
            "data_change_only": self.data_change_only,
            "run": dict(self.run),
        }


ANY_COMMIT = CommitFilter()


def _as_recorded(name: str, value: Any) -> Any:
    """The value in the form of a commit's record: numbers may come as strings of templates, times as milliseconds or dates."""
    if name == "map_index" and str(value).removeprefix("-").isdecimal():
        return int(value)
    if name == "logical_date" and (isinstance(value, int) or str(value).isdecimal()):
        value = converted_value("CommitFilter", "logical_date of a run", value, Time)
        return iso_text(value) if isinstance(value, int) else value
    return value.isoformat() if isinstance(value, datetime) else value
