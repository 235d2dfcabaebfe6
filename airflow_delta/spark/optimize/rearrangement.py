"""Commits rewritten files with unchanged rows, with Delta's metrics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import NO_ADDS, NO_REMOVES, Origin, removes_of
from airflow_delta.core.committed import after_commit_warnings, result_of_commit
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import OperationResult
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.rewrite_bins import FileRewriteBin
from airflow_delta.spark.rewrite.rewrite import Rewritten
from airflow_delta.spark.statement.outcome import uncommitted
from airflow_delta.spark.supported_features import ENFORCED


def commit_rearrangement(
    log: DeltaLog,
    snapshot: Snapshot,
    operation: Operation,
    *,
    inputs: pa.Table,
    groups: pa.Array,
    rewritten: Rewritten,
    origin: Origin,
) -> OperationResult:
    """Commit the groups whose inputs all still exist.

    Args:
        log: The table's log.
        snapshot: The version of the inputs.
        operation: The operation as the history shows it.
        inputs: The files to remove, ``ADD_FILE``, group by group.
        groups: For each file the index of its group: int32, ascending from 0 without gaps.
        rewritten: The new files; its outputs are the groups.
        origin: The task run that the commit records.
    """
    removes = removes_of(inputs, deletion_timestamp=log.clock(), data_change=False)
    numbers = np.arange(len(groups.unique()) + 1)
    first_input, first_output = (np.searchsorted(array, numbers).tolist() for array in (groups, rewritten.outputs))
    bins = [
        FileRewriteBin(
            removes=removes[first_input[number] : first_input[number + 1]],
            adds=rewritten.adds[first_output[number] : first_output[number + 1]],
        )
        for number in numbers[:-1].tolist()
    ]
    commit = log.start_transaction(snapshot, enforces=ENFORCED).commit_rewrites(
        bins, operation=operation, metrics=metrics_of, origin=origin
    )
    if commit.commit_info is None:
        nothing = uncommitted(snapshot, operation.name, metrics_of(NO_ADDS, NO_REMOVES))
        result = replace(nothing, version=commit.version)
    else:
        result = result_of_commit(
            snapshot.table_uri, commit.version, commit.commit_info, already_committed=commit.already_committed
        )
    warnings = after_commit_warnings(commit)
    return replace(result, conflicts=commit.conflicts, attempts=commit.attempts, details=commit.after_commit, warnings=warnings)


def planned_metrics(inputs: pa.Table, new_files: int) -> dict[str, int]:
    """The metrics that rewriting these files (``ADD_FILE``) would have."""
    return {
        "numRemovedFiles": len(inputs),
        "numRemovedBytes": pc.sum(inputs["size"]).as_py() or 0,
        "numAddedFiles": new_files,
    }


def metrics_of(adds: pa.Table, removes: pa.Table) -> dict[str, int]:
    """The metrics, by Delta's names; sizes in bytes."""
    sizes = adds["size"].to_numpy()
    quartiles = np.quantile(sizes, [0, 0.25, 0.5, 0.75, 1], method="nearest").astype(int).tolist() if len(sizes) else [0] * 5
    names = ("minFileSize", "p25FileSize", "p50FileSize", "p75FileSize", "maxFileSize")
    return {
        "numRemovedFiles": len(removes),
        "numRemovedBytes": pc.sum(removes["size"]).as_py() or 0,
        "numAddedFiles": len(adds),
        "numAddedBytes": int(sizes.sum()),
        "numDeletionVectorsRemoved": len(removes) - removes["deletion_vector"].null_count,
        **dict(zip(names, quartiles, strict=True)),
    }
