"""Conditions on commits, and how many rows a commit changed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import CommitActions, Metadata
from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.foreign_values import natural_number
from airflow_delta.core.log.history import is_produced_by
from airflow_delta.core.log.record_counts import NUM_RECORDS, with_record_counts
from airflow_delta.core.predicate import NO, evaluate_files, is_partition_only, parse_predicate
from airflow_delta.core.table_features.feature import columns_of

RUN_FIELDS = frozenset({"dag_id", "task_id", "run_id", "map_index", "logical_date"})
"""The fields of a commit's record that identify a DAG run."""

_MERGED = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
_CHANGED = ("numOutputRows", "numUpdatedRows", "numDeletedRows")  # of a MERGE, the first one counts copied rows too


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFilter:
    """Conditions on a commit; all that are given must hold.

    Attributes:
        operations: Delta's names, such as ``MERGE``, in any case; one of them.
        partitions: A predicate over the partition columns; a file that the commit adds or removes satisfies it.
        data_change_only: Whether to skip a commit that only rearranges files, or touches none. Then ``partitions`` considers
            only the files that changed data.
        run: The run that made the commit: some of ``RUN_FIELDS``.
    """

    operations: tuple[str, ...] = ()
    partitions: str | None = None
    data_change_only: bool = False
    run: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given = {name for name, value in self.run.items() if value not in {None, "", "None"}}
        is_run = "dag_id" in given and given & {"run_id", "logical_date"}
        if self.run and not (is_run and given == {*self.run} and given <= RUN_FIELDS):
            detail = (
                "a run needs dag_id, and run_id or logical_date; besides them it may have task_id and map_index: "
                f"found {dict(self.run)}"
            )
            raise InvalidStatementError(statement="CommitFilter", detail=detail)
        if not all(self.operations):
            detail = "operations must not contain an empty string"
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
        """The filter of an operator's arguments: one operation stands for itself."""
        names = (operations,) if isinstance(operations, str) else operations
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

    def matches(self, commit: CommitActions, metadata: Metadata | None, table: str) -> bool:
        """Whether the commit fulfills the conditions.

        Args:
            commit: Its actions.
            metadata: Of the table at that commit; needed for ``partitions`` only.
            table: URI of the table, for errors.

        Raises:
            InvalidPredicateError: ``partitions`` is not a condition on the table's columns.
            InvalidStatementError: It names a column that does not partition the table.
        """
        info = commit.commit_info
        if self.operations and (info is None or info.operation.upper() not in self.operations):
            return False
        if self.run and (info is None or not is_produced_by(info, self.run)):
            return False
        files = (commit.adds, commit.removes, commit.changes)
        if self.data_change_only:
            files = tuple(actions.filter(actions["data_change"]) for actions in files)
            if not any(len(actions) for actions in files):
                return False
        if self.partitions is None or metadata is None:
            return True
        return any(_touches(self.partitions, actions, metadata, table) for actions in files[:2])


ANY_COMMIT = CommitFilter()


def _as_recorded(name: str, value: Any) -> Any:
    """The value as a commit's record has it: a template's text may be a number, and a native one a date."""
    if name == "map_index" and str(value).lstrip("-").isdecimal():
        return int(value)
    return value.isoformat() if isinstance(value, datetime) else value


def _touches(partitions: str, files: pa.Table, metadata: Metadata, table: str) -> bool:
    """Whether one of the files is in such a partition; a removed file without partition values may be."""
    schema = columns_of(metadata)
    predicate = parse_predicate(partitions, schema, table)
    if not is_partition_only(predicate, metadata.partition_columns):
        detail = f"partitions must name only partition columns of {table}, found {partitions!r}"
        raise InvalidStatementError(statement="CommitFilter", detail=detail)
    known = files.filter(pc.is_valid(files["partition_values"]))
    if len(known) < len(files):
        return True
    verdicts = evaluate_files(predicate, known.select(["partition_values", "stats"]), schema, metadata.partition_columns)
    return bool(pc.any(pc.not_equal(verdicts, NO)).as_py())


def rows_changed(commit: CommitActions) -> int:
    """Rows that the commit inserted, updated or deleted, by its metrics.

    Where the writer left no such metrics, the rows of the files that it added; 0 where these are unknown too.
    """
    metrics = commit.commit_info.operation_metrics if commit.commit_info else {}
    names = _MERGED if any(name in metrics for name in _MERGED) else _CHANGED
    counts = [number for name in names if (number := natural_number(metrics.get(name))) is not None]
    if counts:
        return sum(counts)
    added = with_record_counts(commit.adds.filter(commit.adds["data_change"]), [NUM_RECORDS.name])
    return pc.sum(added[NUM_RECORDS.name]).as_py() or 0
