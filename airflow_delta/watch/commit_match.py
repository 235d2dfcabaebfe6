"""Whether a commit fulfills a filter, and how many rows it changed."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import CommitActions, Metadata
from airflow_delta.core.foreign_values import natural_number
from airflow_delta.core.log.history import is_produced_by
from airflow_delta.core.log.record_counts import NUM_RECORDS, with_record_counts
from airflow_delta.core.predicate import NO, evaluate_files
from airflow_delta.core.table_features.feature import columns_of
from airflow_delta.watch.commit_filter import CommitFilter
from airflow_delta.watch.partition_predicate import partition_predicate

_MERGED = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
_CHANGED = ("numOutputRows", "numUpdatedRows", "numDeletedRows")  # for a MERGE, the first one also counts copied rows


def fulfills(commit: CommitActions, wanted: CommitFilter, metadata: Metadata | None, table: str) -> bool:
    """Whether a commit fulfills the conditions of a filter.

    Args:
        commit: The commit's actions.
        wanted: The filter.
        metadata: The table's metadata at that commit; only needed for ``partitions``.
        table: URI of the table, for errors.

    Raises:
        InvalidPredicateError: ``partitions`` is not a condition on the table's columns, or only Spark could decide it.
        InvalidStatementError: ``partitions`` names a column that is not a partition column.
    """
    info = commit.commit_info
    if wanted.operations and (info is None or info.operation.upper() not in wanted.operations):
        return False
    if wanted.run and (info is None or not is_produced_by(info, wanted.run)):
        return False
    files = (commit.adds, commit.removes, commit.changes)
    if wanted.data_change_only:
        files = tuple(actions.filter(actions["data_change"]) for actions in files)
        if not any(len(actions) for actions in files):
            return False
    if wanted.partitions is None or metadata is None:
        return True
    return any(_touches(wanted.partitions, actions, metadata, table) for actions in files[:2])


def _touches(partitions: str, files: pa.Table, metadata: Metadata, table: str) -> bool:
    """Whether a file is in a matching partition; a removed file without partition values counts as such."""
    schema = columns_of(metadata)
    predicate = partition_predicate(partitions, schema, metadata.partition_columns, table=table, sensor="DeltaCommitSensor")
    known = files.filter(pc.is_valid(files["partition_values"]))
    if len(known) < len(files):
        return True
    verdicts = evaluate_files(predicate, known.select(["partition_values", "stats"]), schema, metadata.partition_columns)
    return bool(pc.any(pc.not_equal(verdicts, NO)).as_py())


def rows_changed(commit: CommitActions) -> int:
    """Rows that the commit inserted, updated or deleted, by its metrics.

    Without such metrics, the rows of the files that the commit added; 0 if these are unknown, too.
    """
    metrics = commit.commit_info.operation_metrics if commit.commit_info else {}
    names = _MERGED if any(name in metrics for name in _MERGED) else _CHANGED
    counts = [number for name in names if (number := natural_number(metrics.get(name))) is not None]
    if counts:
        return sum(counts)
    added = with_record_counts(commit.adds.filter(commit.adds["data_change"]), [NUM_RECORDS.name])
    return pc.sum(added[NUM_RECORDS.name]).as_py() or 0
