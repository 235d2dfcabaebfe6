"""The changes of rows of a table, computed once and cached."""

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
"""Column of staged rows: ordinal of the clause that applies; NULL for none."""
MOVED = "__airflow_delta_moved"
"""Column of staged rows: whether an updated row belongs to another partition now."""
_MATCHED, _FORMER = "__airflow_delta_matched", "__airflow_delta_former_"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StagedChanges:
    """The change of each row of the target; the first look at the rows computes them, and keeps them for the others.

    Attributes:
        snapshot: The target.
        clauses: The statement's, bound to the target.
        candidates: The files (``COUNTED_FILE`` at least) that may hold matches; ``FILE`` counts them.
        rows: One row for each pair that matches, each source row that a clause inserts and each target row without match that a
            clause changes: ``FILE``, ``ROW``, ``CLAUSE_INDEX``, ``MOVED`` and new values; of all columns where rows are
            inserted, else of those that updated rows have. ``ROW_ID`` where updated rows take their ids elsewhere; inserted
            rows have none.
        marks: The last values that inserted rows got in identity columns.
        here: The same rows, where this process keeps them.
    """

    snapshot: Snapshot
    clauses: BoundClauses
    candidates: pa.Table
    rows: DataFrame
    marks: Mapping[str, int] = field(default_factory=dict)
    here: pa.Table | None = None

    @property
    def columns(self) -> StructType:
        """The columns of the table that the rows have new values of."""
        return _columns(self.snapshot, self.clauses)

    @property
    def writes_new_rows(self) -> bool:
        """Whether rows may be written elsewhere than in the place of their file."""
        return bool(self.clauses.of(ClauseKind.INSERT)) or _leave_their_file(self.snapshot, self.clauses)

    @property
    def has_row_ids(self) -> bool:
        """Whether the rows have ``ROW_ID``."""
        return bool(_carried(self.snapshot, self.clauses))

    def of(self, *kinds: ClauseKind) -> Column:
        """Whether a row takes a clause of one of these kinds."""
        return self.clauses.is_of(F.col(CLAUSE_INDEX), *kinds)

    def not_matched_by_source(self, kind: ClauseKind) -> Column:
        """Whether a row takes a clause of this kind about target rows that no source row matches."""
        return self.clauses.is_of(F.col(CLAUSE_INDEX), kind, not_matched_by_source=True)


def _columns(snapshot: Snapshot, clauses: BoundClauses) -> StructType:
    return snapshot.schema if clauses.of(ClauseKind.INSERT) else clauses.updated


def columns_needed(snapshot: Snapshot, clauses: BoundClauses, *texts: str) -> StructType:
    """The columns of the target that the clauses and these texts may reference, and ``ROW_ID`` where rows take it elsewhere."""
    partitions = map(quoted, snapshot.partition_columns) if clauses.moves_rows else ()
    referenced = column_references([*texts, *clauses.texts(), *partitions], snapshot.schema)
    return StructType((*referenced.fields, *_carried(snapshot, clauses)))


def _carried(snapshot: Snapshot, clauses: BoundClauses) -> tuple[StructField, ...]:
    """``ROW_ID``, where the table tracks rows and an updated row may be written elsewhere than in the place of its file."""
    is_tracked = RowIds.from_configuration(snapshot.metadata.configuration) is not None
    return (StructField(ROW_ID, LONG),) if is_tracked and _leave_their_file(snapshot, clauses) else ()


def _leave_their_file(snapshot: Snapshot, clauses: BoundClauses) -> bool:
    """Whether updated rows may be written elsewhere than in the place of their file."""
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
        pairs: The rows of the candidates as ``target``, with ``FILE`` and ``ROW``, joined with what the clauses use beside
            them; rows to be inserted have no ``FILE``.
        snapshot: The target.
        clauses: The statement's, bound to the target.
        candidates: The files (``ADD_FILE``) that ``FILE`` counts.
        cache: Keeps the decisions.
        in_source: Whether a row of the source stands in the pair; None where always.
        reads: Takes note of what conditions and values read of the target; None where they cannot.
        size: Bytes of the decided rows in memory, about, at most; None where that is not known.
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
    if with_numbers is not kept:  # of which generated columns may be
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
    """Whether a partition column has another value than the former one, as the log tells them apart."""
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
        files: ``ADD_FILE``; ``FILE`` is their ordinal.
        columns: Those that are wanted.
        keys: Rows that have none of these, or whose key does not pass, are left out; None leaves out none.
        where: Rows for which this is not true are left out.
        unless: Rows for which this is true stay, whatever their key.
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
    large_first = numbered.sort_by([("size", "descending")])  # that no large one is begun when all others are done
    return map_files(
        spark,
        large_first.select(POSITIONED),
        tasks_of_files(spark, large_first, share=share_of(columns, snapshot.schema)),
        lambda shares: scan(shares=shares),
        schema,
        size=size,
    )
