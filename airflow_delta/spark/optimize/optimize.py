"""OPTIMIZE: small files become larger ones, and no row changes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from airflow_delta.core.actions import Origin, removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import CommitConflictError, InvalidPredicateError
from airflow_delta.core.predicate import is_partition_only, parse_predicate
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import OperationResult, OptimizeStatement
from airflow_delta.core.transaction.commit_result import redone
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.spark.optimize.bins import compaction_bins
from airflow_delta.spark.outcome import earlier_result, result_of
from airflow_delta.spark.rewrite import FileRewrite
from airflow_delta.spark.session import time_zone
from airflow_delta.spark.staging import StagingArea
from airflow_delta.spark.supported import check_rows_writable

DEFAULT_FILE_SIZE = 1 << 30
"""Bytes; Delta-Spark's default."""

_SIZE = re.compile(r"(\d+)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compaction:
    """Files that become others, bin by bin.

    Attributes:
        inputs: The files (``ADD_FILE``) that go.
        input_bins: For each its bin.
        adds: The files that come.
        add_bins: For each its bin.
    """

    inputs: pa.Table
    input_bins: pa.Array
    adds: pa.Table
    add_bins: pa.Array

    def with_live_inputs(self, snapshot: Snapshot) -> Compaction:
        """Only the bins all whose inputs are still in the table."""
        live = pa.table({"path": snapshot.files()["path"], "dv": snapshot.files()["deletion_vector"].is_valid()})
        intact = live.filter(pc.invert(live["dv"]))["path"]
        dead = self.input_bins.filter(
            pc.invert(pc.is_in(self.inputs["path"].combine_chunks(), value_set=intact.combine_chunks()))
        )
        kept_inputs, kept_adds = (pc.invert(pc.is_in(bins, value_set=dead)) for bins in (self.input_bins, self.add_bins))
        return Compaction(
            inputs=self.inputs.filter(kept_inputs),
            input_bins=self.input_bins.filter(kept_inputs),
            adds=self.adds.filter(kept_adds),
            add_bins=self.add_bins.filter(kept_adds),
        )

    def metrics(self) -> dict[str, int]:
        """By Delta's names; sizes in bytes."""
        sizes = self.adds["size"].to_numpy()
        quartiles = (
            np.quantile(sizes, [0, 0.25, 0.5, 0.75, 1], method="nearest").astype(int).tolist() if len(sizes) else [0] * 5
        )
        names = ("minFileSize", "p25FileSize", "p50FileSize", "p75FileSize", "maxFileSize")
        return {
            "numRemovedFiles": len(self.inputs),
            "numRemovedBytes": pc.sum(self.inputs["size"]).as_py() or 0,
            "numAddedFiles": len(self.adds),
            "numAddedBytes": int(sizes.sum()),
            "numDeletionVectorsRemoved": 0,
            **dict(zip(names, quartiles, strict=True)),
        }


def optimize(
    spark: SparkSession,
    log: DeltaLog,
    statement: OptimizeStatement,
    *,
    origin: Origin | None = None,
    start_version: int | None = None,
) -> OperationResult:
    """Compact small files, as one commit that changes no data.

    Other writers may append, and change other files, meanwhile. A bin loses its work only when one of its own inputs went; the
    others are committed.

    Args:
        spark: The session.
        log: The table's log.
        statement: What to compact.
        origin: Who asks; a commit with its token counts as this statement's.
        start_version: Version of the table when the token was minted, for the search for that commit.

    Raises:
        TableNotFoundError: There is no table.
        InvalidPredicateError: ``where`` is about other columns than partition columns.
    """
    origin = origin or Origin()
    earlier = earlier_result(log, origin, start_version)
    if earlier is not None:
        return earlier
    snapshot = log.refresh()
    check_rows_writable(snapshot.table_uri, snapshot.protocol, snapshot.metadata)
    fields = [each for each in snapshot.schema.fields if each.name in snapshot.partition_columns]
    inputs, bins = compaction_bins(
        _candidates(snapshot, statement.where, time_zone(spark)), fields, _file_size(snapshot, statement)
    )
    if statement.dry_run or not len(inputs):
        metrics = {
            "numRemovedFiles": len(inputs),
            "numRemovedBytes": pc.sum(inputs["size"]).as_py() or 0,
            "numAddedFiles": len(bins.unique()),
        }
        return _uncommitted(snapshot, metrics)
    with StagingArea(snapshot.table_uri) as staging:
        rewrite = FileRewrite(snapshot=snapshot, inputs=inputs, outputs=bins, directory=staging.name, data_change=False)
        rewritten = rewrite.concatenate(spark, clock=log.clock)
        compaction = Compaction(inputs=inputs, input_bins=bins, adds=rewritten.adds, add_bins=rewritten.outputs)
        staging.entrust()
        result = _commit(log, snapshot, statement, compaction, origin)
        if not result.committed or result.already_committed:
            staging.discard()
    return result


def _candidates(snapshot: Snapshot, where: str | None, session_time_zone: str) -> pa.Table:
    if where is None:
        return snapshot.files()
    predicate = parse_predicate(where, snapshot.schema, snapshot.table_uri, time_zone=session_time_zone)
    if not is_partition_only(predicate, snapshot.partition_columns):
        detail = f"OPTIMIZE takes whole partitions; the partition columns are {', '.join(snapshot.partition_columns) or 'none'}"
        raise InvalidPredicateError(table=snapshot.table_uri, predicate=where, detail=detail)
    return snapshot.files(predicate)


def _file_size(snapshot: Snapshot, statement: OptimizeStatement) -> int:
    """Bytes: the statement's, else the table's, else the default."""
    match = _SIZE.fullmatch(snapshot.metadata.configuration.get("delta.targetFileSize", "").strip())
    of_table = int(match[1]) << _UNITS[match[2].lower()] if match else DEFAULT_FILE_SIZE
    return statement.target_file_size or of_table


def _commit(
    log: DeltaLog, snapshot: Snapshot, statement: OptimizeStatement, compaction: Compaction, origin: Origin
) -> OperationResult:
    """Commit what still holds; each lost race costs the bins whose inputs went."""
    first, searched_from = snapshot, snapshot.version
    conflicts: list[Mapping[str, Any]] = []
    parameters = {"predicate": [statement.where] if statement.where else [], "zOrderBy": [], "clusterBy": [], "auto": False}
    operation = Operation(name="OPTIMIZE", parameters=parameters, changes_data=False)
    while len(compaction.inputs):
        transaction = log.start_transaction(snapshot)
        transaction.record_read_files(compaction.inputs["path"])
        metrics = compaction.metrics()
        try:
            commit = transaction.commit(
                adds=compaction.adds,
                removes=removes_of(compaction.inputs, deletion_timestamp=log.clock(), data_change=False),
                operation=operation,
                metrics=metrics,
                origin=origin,
            )
        except CommitConflictError as conflict:
            conflicts.append(redone(conflict))
            snapshot = log.refresh()
            if (twin := earlier_result(log, origin, searched_from)) is not None:
                return twin
            if _layout(snapshot) != _layout(first):
                raise
            compaction = compaction.with_live_inputs(snapshot)
        else:
            return result_of(snapshot.table_uri, commit, metrics, conflicts)
    return _uncommitted(snapshot, compaction.metrics(), conflicts)


def _layout(snapshot: Snapshot) -> tuple[str, tuple[str, ...]]:
    return snapshot.schema_string, snapshot.partition_columns


def _uncommitted(
    snapshot: Snapshot, metrics: Mapping[str, int], conflicts: list[Mapping[str, Any]] | None = None
) -> OperationResult:
    return OperationResult(
        table=snapshot.table_uri,
        version=snapshot.version,
        read_version=snapshot.version,
        operation="OPTIMIZE",
        committed=False,
        metrics=metrics,
        conflicts=tuple(conflicts or ()),
        attempts=max(1, len(conflicts or ())),
    )
