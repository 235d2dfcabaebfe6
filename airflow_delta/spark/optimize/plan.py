"""What an OPTIMIZE will do, determined from the log alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.log.record_counts import COUNTED_FILE
from airflow_delta.core.predicate import Expression
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import OptimizeStatement
from airflow_delta.core.table_changes.column_path import ColumnPath, path_text
from airflow_delta.spark.optimize.bins import compaction_bins
from airflow_delta.spark.optimize.candidates import candidates, partition_codes, partition_fields, target_file_size
from airflow_delta.spark.optimize.columns import clustered_by, ordered_by
from airflow_delta.spark.optimize.cubes import CUBE_ID, cubes_to_make


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OptimizePlan:
    """Which files are rewritten, and how.

    Attributes:
        inputs: The files (``COUNTED_FILE``), group by group.
        groups: For each file the index of its group (int32), ascending without gaps. Each group lies in one partition, and is
            committed or lost as a whole.
        columns: The columns by which the rows of a group are clustered; without columns, each group becomes one file.
        is_clustered: Whether these are the table's clustering columns.
        file_size: Bytes of a new file.
    """

    inputs: pa.Table
    groups: pa.Array
    columns: tuple[ColumnPath, ...]
    is_clustered: bool
    file_size: int

    @property
    def new_files(self) -> int:
        """Approximate number of files to write."""
        groups = self.groups.to_numpy()
        if not self.columns:
            return len(self.groups.unique())
        sizes = np.bincount(groups, weights=self.inputs["size"].to_numpy()) if len(groups) else np.array([])
        return int(np.maximum(1, np.rint(sizes / self.file_size)).sum())

    def details(self) -> dict[str, Any]:
        """What Delta reports of a rewrite that clusters rows."""
        if not self.columns:
            return {}
        in_cubes = pa.array([CUBE_ID in dict(tags or ()) for tags in self.inputs["tags"].to_pylist()], pa.bool_())
        cubes = {dict(tags or ()).get(CUBE_ID) for tags in self.inputs["tags"].to_pylist()} - {None}
        return {
            "clusteringStats" if self.is_clustered else "zOrderStats": {
                "strategyName": "minCubeSize" if self.is_clustered else "all",
                "inputCubeFiles": _counted(self.inputs.filter(in_cubes)),
                "inputOtherFiles": _counted(self.inputs.filter(pc.invert(in_cubes))),
                "inputNumCubes": len(cubes),
                "mergedFiles": _counted(self.inputs),
                "numOutputCubes": len(self.groups.unique()),
            }
        }


def plan_of(snapshot: Snapshot, statement: OptimizeStatement, predicate: Expression | None) -> OptimizePlan:
    """The plan of the statement for this version of the table.

    Args:
        snapshot: The table.
        statement: The statement.
        predicate: As of ``named_partitions``.

    Raises:
        UnsuitableColumnsError: The rows cannot be clustered by these columns.
    """
    columns = ordered_by(snapshot, statement)
    is_clustered = bool(clustered_by(snapshot))
    file_size = target_file_size(snapshot, statement)
    if is_clustered:
        files = snapshot.files(predicate, COUNTED_FILE)
        inputs, groups = cubes_to_make(files, [path_text(path) for path in columns], full=statement.full)
    elif columns:
        inputs, groups = _whole_partitions(snapshot, statement, file_size, predicate)
    else:
        small = candidates(snapshot, statement, predicate)
        inputs, groups = compaction_bins(small, partition_fields(snapshot), file_size)
    return OptimizePlan(inputs=inputs, groups=groups, columns=columns, is_clustered=is_clustered, file_size=file_size)


def _whole_partitions(
    snapshot: Snapshot, statement: OptimizeStatement, file_size: int, predicate: Expression | None
) -> tuple[pa.Table, pa.Array]:
    """All files of the partitions in which clustering has an effect: with several files, or one large file."""
    files = snapshot.files(predicate, COUNTED_FILE)
    if not len(files):
        return files, pa.array([], pa.int32())
    codes = partition_codes(files, partition_fields(snapshot)).to_numpy()
    counts, sizes = np.bincount(codes), np.bincount(codes, weights=files["size"].to_numpy())
    is_taken = ((counts >= statement.min_files) | (np.rint(sizes / file_size) > 1))[codes]
    order = np.flatnonzero(is_taken)[np.argsort(codes[is_taken], kind="stable")]
    groups = np.unique(codes[order], return_inverse=True)[1]
    return files.take(pa.array(order, pa.int64())), pa.array(groups, pa.int32())


def _counted(files: pa.Table) -> Mapping[str, int]:
    return {"num": len(files), "size": pc.sum(files["size"]).as_py() or 0}
