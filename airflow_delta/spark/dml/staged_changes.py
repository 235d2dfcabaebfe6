"""The changes of a table's rows, computed once and cached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import or_

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql import types as spark_types

from airflow_delta.core.data_files.row_ids import RowIds
from airflow_delta.core.schema import StructField, StructType, without_column_mapping
from airflow_delta.core.schema.collations import has_collation
from airflow_delta.core.schema.data_types import LONG
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.spark.constraints.char_values import padded
from airflow_delta.spark.constraints.column_references import TARGET, column_references
from airflow_delta.spark.dml.clauses import BoundClauses, ClauseKind
from airflow_delta.spark.dml.deletion_vectors import uses_deletion_vectors
from airflow_delta.spark.dml.key_filter import KeyFilter
from airflow_delta.spark.dml.position_scan import FILE, POSITIONED, ROW, ROW_ID, PositionScan
from airflow_delta.spark.folded import folded
from airflow_delta.spark.io.arrow_scan import estimated_size
from airflow_delta.spark.io.file_tasks import share_of, tasks_of_files
from airflow_delta.spark.io.map_files import all_files, map_files
from airflow_delta.spark.io.row_cache import RowCache
from airflow_delta.spark.io.shared_bytes import SharedBytes
from airflow_delta.spark.io.small_work import is_done_here, kept_here
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.io.worker_values import typed_worker_errors
from airflow_delta.spark.schema_conversion import quoted, to_spark
from airflow_delta.spark.statement.target_reads import TargetReads

CLAUSE_INDEX = "__airflow_delta_clause"
"""Column of staged rows: index of the clause that applies; NULL for none."""
MOVED = "__airflow_delta_moved"
"""Column of staged rows: whether an updated row changes its partition."""
_MATCHED, _FORMER = "__airflow_delta_matched", "__airflow_delta_former_"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StagedChanges:
    """The change of each target row; the first use of the rows computes them, and caches them for further uses.

    Attributes:
        snapshot: The target.
        clauses: The statement's clauses, bound to the target.
        candidates: The files (``COUNTED_FILE`` at least) that may contain matches; ``FILE`` is an index into them.
        rows: One row for each matching pair, each source row that a clause inserts, and each target row without match that a
            clause changes: ``FILE``, ``ROW``, ``CLAUSE_INDEX``, ``MOVED`` and new values; of all columns if rows are inserted,
            else of those that updated rows need. ``ROW_ID`` if updated rows keep their ids in another file; NULL for inserted
            rows.
        marks: The last values assigned to identity columns.
        here: The same rows, if this process holds them.
    """

    snapshot: Snapshot
    clauses: BoundClauses
    candidates: pa.Table
    rows: DataFrame
    marks: Mapping[str, int] = field(default_factory=dict)
    here: pa.Table | None = None

    @property
    def columns(self) -> StructType:
        """The columns of the table for which the rows have new values."""
        return _columns(self.snapshot, self.clauses)

    @property
    def writes_new_rows(self) -> bool:
        """Whether rows may be written to other files than those that replace their own."""
        return bool(self.clauses.of(ClauseKind.INSERT)) or _leave_their_file(self.snapshot, self.clauses)

    @property
    def has_row_ids(self) -> bool:
        """Whether the rows have the column ``ROW_ID``."""
        return bool(_carried(self.snapshot, self.clauses))

    def of(self, *kinds: ClauseKind) -> Column:
        """Whether a clause of one of these kinds applies to a row."""
        return self.clauses.is_of(F.col(CLAUSE_INDEX), *kinds)

    def not_matched_by_source(self, kind: ClauseKind) -> Column:
        """Whether a clause of this kind on target rows without match applies to a row."""
        return self.clauses.is_of(F.col(CLAUSE_INDEX), kind, not_matched_by_source=True)


def _columns(snapshot: Snapshot, clauses: BoundClauses) -> StructType:
    return snapshot.schema if clauses.of(ClauseKind.INSERT) else clauses.updated


def columns_needed(snapshot: Snapshot, clauses: BoundClauses, *texts: str) -> StructType:
    """The target's columns that the clauses and these texts may reference, and ``ROW_ID`` if rows keep it in other files."""
    partitions = map(quoted, snapshot.partition_columns) if clauses.moves_rows else ()
    referenced = column_references([*texts, *clauses.texts(), *partitions], snapshot.schema)
    return StructType((*referenced.fields, *_carried(snapshot, clauses)))


def _carried(snapshot: Snapshot, clauses: BoundClauses) -> tuple[StructField, ...]:
    """``ROW_ID``, if the table tracks rows and an updated row may be written to a file that does not replace its own."""
    is_tracked = RowIds.from_configuration(snapshot.metadata.configuration) is not None
    return (StructField(ROW_ID, LONG),) if is_tracked and _leave_their_file(snapshot, clauses) else ()


def _leave_their_file(snapshot: Snapshot, clauses: BoundClauses) -> bool:
    """Whether updated rows may be written to files that do not replace their own."""
    return bool(clauses.of(ClauseKind.UPDATE)) and (clauses.moves_rows or uses_deletion_vectors(snapshot))


def stage(
    pairs: DataFrame,
    snapshot: Snapshot,
    clauses: BoundClauses,
    candidates: pa.Table,
    *,
    cache: RowCache,
    in_source: Column | None = None,
    reads: TargetReads | None = None,
    size: int | None = None,
) -> StagedChanges:
    """Decide the change of each row; the decisions are cached.

    Args:
        pairs: The rows of the candidates as ``target``, with ``FILE`` and ``ROW``, joined with whatever else the clauses use;
            rows to be inserted have NULL as ``FILE``.
        snapshot: The target.
        clauses: The statement's clauses, bound to the target.
        candidates: The files (``ADD_FILE``) that ``FILE`` is an index into.
        cache: Keeps the decisions.
        in_source: Whether the pair has a source row; None if always.
        reads: Records what conditions and values read of the target; None if they cannot read it.
        size: Most bytes that the decided rows take in memory, approximately; None if unknown.
    """
    in_target, in_source = F.col(FILE).isNotNull(), F.lit(True) if in_source is None else in_source
    decisions = {CLAUSE_INDEX: clauses.clause_index(in_target, in_source), _MATCHED: in_target & in_source}
    decided = pairs.withColumns(decisions)
    clause_index = F.col(CLAUSE_INDEX)
    partitions = [field for field in snapshot.schema.fields if field.name in snapshot.partition_columns and clauses.moves_rows]
    former = {f"{_FORMER}{position}": field.name for position, field in enumerate(partitions)}
    fields = _columns(snapshot, clauses).fields
    rows = decided.where(F.col(_MATCHED) | clause_index.isNotNull())
    rows = rows.select(
        FILE,
        ROW,
        clause_index,
        *(field.name for field in _carried(snapshot, clauses)),
        *(F.col(f"{TARGET}.{quoted(name)}").alias(column) for column, name in former.items()),
        *(clauses.new_value(field, clause_index) for field in fields),
    )
    rows = clauses.with_generated(padded(rows, fields), clause_index, snapshot.schema, snapshot.table_uri)
    moved = (_is_another(field, F.col(column)) for column, field in zip(former, partitions, strict=True))
    is_moved = folded(or_, [F.lit(False), *moved])
    rows = rows.withColumn(MOVED, clauses.is_of(clause_index, ClauseKind.UPDATE) & is_moved)
    rows = rows.drop(*former) if former else rows
    if reads is not None:
        reads.look_into(rows)
    with typed_worker_errors():
        here = None if size is None else cache.keep_here(rows, size)
        kept = cache.keep(rows, {}, of_fixed_files=True).frame if here is None else here.frame
    numbered = clauses.with_numbers(kept, clause_index, snapshot.schema, snapshot.table_uri, cache)
    with_numbers = numbered.frame
    if with_numbers is not kept:  # generated columns may depend on them
        with_numbers = clauses.with_generated(with_numbers, clause_index, snapshot.schema, snapshot.table_uri)
    return StagedChanges(
        snapshot=snapshot,
        clauses=clauses,
        candidates=candidates,
        rows=with_numbers,
        marks=numbered.marks,
        here=None if here is None or numbered.frame is not kept else here.rows,
    )


def _is_another(field: StructField, former: Column) -> Column:
    """Whether a partition column's value differs from the former one, as distinguished in the log."""
    value = F.col(quoted(field.name))
    if has_collation(field):
        value, former = (F.collate(text, "UTF8_BINARY") for text in (value, former))
    return ~value.eqNullSafe(former)


def scan_positions(
    spark: SparkSession,
    snapshot: Snapshot,
    files: pa.Table,
    columns: StructType,
    *,
    keys: SharedBytes | KeyFilter | None = None,
    where: pc.Expression | None = None,
    unless: pc.Expression | None = None,
) -> DataFrame:
    """The rows of these files with ``FILE`` and ``ROW``.

    Args:
        spark: The session.
        snapshot: The table.
        files: ``ADD_FILE``; ``FILE`` is the index of a file.
        columns: The columns to read.
        keys: The keys to keep, or a filter of them; rows with other keys are left out. None keeps all.
        where: Rows for which this is not true are left out.
        unless: Rows for which this is true are kept, whatever their key.
    """
    schema = to_spark(without_column_mapping(columns)).add(FILE, spark_types.IntegerType()).add(ROW, spark_types.LongType())
    if not len(files):
        return spark.createDataFrame([], schema)
    scan = partial(
        PositionScan,
        table=TableFiles.of(snapshot).in_session(spark),
        columns=columns,
        keys=None if isinstance(keys, KeyFilter) else keys,
        key_filter=keys if isinstance(keys, KeyFilter) else None,
        where=where,
        unless=unless,
        row_ids=RowIds.from_configuration(snapshot.metadata.configuration) if columns.find(ROW_ID) else None,
    )
    numbered = files.append_column(FILE, pa.array(np.arange(len(files)), pa.int32())).select([*POSITIONED, "size"])
    size = estimated_size(files, snapshot.schema, columns)
    if is_done_here(spark, columns, size, files=len(files)):
        shares, task = all_files(numbered.select(POSITIONED))
        worker = scan(shares=shares)
        with typed_worker_errors():
            rows = kept_here(worker(iter([task])), worker.schema)
        if rows is not None:
            return spark.createDataFrame(rows, schema)
    large_first = numbered.sort_by([("size", "descending")])  # so that no large file is started last
    return map_files(
        spark,
        large_first.select(POSITIONED),
        tasks_of_files(spark, large_first, share=share_of(columns, snapshot.schema)),
        lambda shares: scan(shares=shares),
        schema,
        size=size,
    )
