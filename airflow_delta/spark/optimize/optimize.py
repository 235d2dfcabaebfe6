"""OPTIMIZE: small files become larger ones, and no row changes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from airflow_delta.core.actions import NO_ADDS, NO_REMOVES, Origin, removes_of
from airflow_delta.core.committed import result_of_commit
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidPredicateError
from airflow_delta.core.predicate import is_partition_only, parse_predicate
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import OperationResult, OptimizeStatement
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.rewrite_bins import FileRewriteBin
from airflow_delta.spark.optimize.bins import compaction_bins
from airflow_delta.spark.outcome import earlier_result
from airflow_delta.spark.rewrite import FileRewrite, Rewritten
from airflow_delta.spark.session import time_zone
from airflow_delta.spark.staging import StagingArea
from airflow_delta.spark.supported import check_rows_writable

DEFAULT_FILE_SIZE = 1 << 30
"""Bytes; Delta-Spark's default."""

_SIZE = re.compile(r"(\d+)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


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
        staging.entrust()
        result = _commit(log, snapshot, statement, _rewrites(inputs, bins, rewritten, now=log.clock()), origin)
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


def _rewrites(inputs: pa.Table, bins: pa.Array, rewritten: Rewritten, *, now: int) -> list[FileRewriteBin]:
    """The bins in order; inputs and outputs are sorted by bin."""
    removes = removes_of(inputs, deletion_timestamp=now, data_change=False)
    numbers = np.arange(len(bins.unique()) + 1)
    first_input, first_output = (np.searchsorted(each, numbers).tolist() for each in (bins, rewritten.outputs))
    return [
        FileRewriteBin(
            removes=removes[first_input[number] : first_input[number + 1]],
            adds=rewritten.adds[first_output[number] : first_output[number + 1]],
        )
        for number in numbers[:-1].tolist()
    ]


def _metrics(adds: pa.Table, removes: pa.Table) -> dict[str, int]:
    """By Delta's names; sizes in bytes."""
    sizes = adds["size"].to_numpy()
    quartiles = np.quantile(sizes, [0, 0.25, 0.5, 0.75, 1], method="nearest").astype(int).tolist() if len(sizes) else [0] * 5
    names = ("minFileSize", "p25FileSize", "p50FileSize", "p75FileSize", "maxFileSize")
    return {
        "numRemovedFiles": len(removes),
        "numRemovedBytes": pc.sum(removes["size"]).as_py() or 0,
        "numAddedFiles": len(adds),
        "numAddedBytes": int(sizes.sum()),
        "numDeletionVectorsRemoved": 0,
        **dict(zip(names, quartiles, strict=True)),
    }


def _commit(
    log: DeltaLog, snapshot: Snapshot, statement: OptimizeStatement, rewrites: Sequence[FileRewriteBin], origin: Origin
) -> OperationResult:
    parameters = {"predicate": [statement.where] if statement.where else [], "zOrderBy": [], "clusterBy": [], "auto": False}
    commit = log.start_transaction(snapshot).commit_rewrites(
        rewrites,
        operation=Operation(name="OPTIMIZE", parameters=parameters, changes_data=False),
        metrics=_metrics,
        origin=origin,
    )
    if commit.commit_info is None:
        result = _uncommitted(snapshot, _metrics(NO_ADDS, NO_REMOVES), version=commit.version)
    else:
        result = result_of_commit(
            snapshot.table_uri, commit.version, commit.commit_info, already_committed=commit.already_committed
        )
    return replace(result, conflicts=commit.conflicts, attempts=commit.attempts)


def _uncommitted(snapshot: Snapshot, metrics: Mapping[str, int], *, version: int | None = None) -> OperationResult:
    return OperationResult(
        table=snapshot.table_uri,
        version=snapshot.version if version is None else version,
        read_version=snapshot.version,
        operation="OPTIMIZE",
        committed=False,
        metrics=metrics,
    )
