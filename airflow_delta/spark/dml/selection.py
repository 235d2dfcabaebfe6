"""The rows of a table that satisfy a condition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from airflow_delta.core.errors import InvalidPredicateError
from airflow_delta.core.log.record_counts import COUNTED_FILE
from airflow_delta.core.predicate import (
    TRUE,
    Expression,
    exact_part,
    is_exact,
    is_partition_only,
    to_arrow_expression,
)
from airflow_delta.core.schema import StructType
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.spark.constraints.column_references import TARGET, ambiguous_member, column_references, unqualified
from airflow_delta.spark.dml.analysis import no_rows
from airflow_delta.spark.dml.clauses import BoundClauses
from airflow_delta.spark.dml.jvm_positions import in_file_order, jvm_positions
from airflow_delta.spark.dml.position_scan import FILE, ROW
from airflow_delta.spark.dml.staged_changes import StagedChanges, columns_needed, scan_positions, stage
from airflow_delta.spark.io.arrow_scan import estimated_size
from airflow_delta.spark.io.predicates import predicate_of_analyzed
from airflow_delta.spark.io.row_cache import RowCache
from airflow_delta.spark.io.sql_expression import sql_expression
from airflow_delta.spark.jvm import analyzed
from airflow_delta.spark.statement.conflict_retry import Conflicts, WriteConflict, check_definition
from airflow_delta.spark.statement.steps import log_candidates
from airflow_delta.spark.statement.target_reads import TargetReads, holds_subquery
from airflow_delta.spark.supported_features import check_rows_writable

_ALL = "TRUE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A condition, as Spark evaluates it, and as far as the core understands it.

    Attributes:
        snapshot: The table.
        text: Spark SQL.
        predicate: The core's predicate, which every selected row satisfies.
    """

    snapshot: Snapshot
    text: str
    predicate: Expression

    @classmethod
    def of(cls, spark: SparkSession, snapshot: Snapshot, where: str | None) -> Selection:
        """The selection by this condition; all rows when None.

        Raises:
            AnalysisException: Spark cannot analyze it; the message says why.
            InvalidPredicateError: It does not fit the table.
        """
        if where is None:
            return cls(snapshot=snapshot, text=_ALL, predicate=TRUE)
        if (ambiguity := ambiguous_member(where, snapshot.schema)) is not None:
            raise InvalidPredicateError(table=snapshot.table_uri, predicate=where, detail=ambiguity)
        selected = analyzed(no_rows(spark, snapshot.schema).where(sql_expression(where)))
        predicate = predicate_of_analyzed(spark, unqualified(where, snapshot.schema), snapshot.schema, snapshot.table_uri)
        if holds_subquery(selected):  # whatever the core parses the text as
            raise InvalidPredicateError(
                table=snapshot.table_uri,
                predicate=where,
                detail="it contains a subquery; compute that first, and write its result into the predicate",
            )
        return cls(snapshot=snapshot, text=where, predicate=predicate)

    @classmethod
    def for_change(cls, spark: SparkSession, where: str | None, snapshot: Snapshot, conflicts: Conflicts) -> Selection:
        """The rows that a statement will change; the step ``prepare`` of ``retry_on_conflict``.

        Raises:
            UnsupportedWriterFeatureError: A constraint of the table cannot be enforced.
            As ``of``.
        """
        del conflicts
        check_rows_writable(snapshot.table_uri, snapshot.protocol, snapshot.metadata)
        return cls.of(spark, snapshot, where)

    def after_conflict(self, conflict: WriteConflict, newest: Snapshot) -> None:
        """Always None, as nothing can be kept. Raises the conflict if the table's definition has changed."""
        check_definition(conflict, self.snapshot.metadata, newest)

    @property
    def is_of_whole_files(self) -> bool:
        """Whether partition values alone decide, so that no file contains both selected and other rows."""
        return is_exact(self.predicate) and is_partition_only(self.predicate, self.snapshot.partition_columns)

    def candidates(self, columns: Sequence[str] = COUNTED_FILE) -> pa.Table:
        """The files that may contain such rows, without statistics."""
        candidates = self.snapshot.files(self.predicate, columns)
        log_candidates(self.snapshot, candidates)
        return candidates

    def positions(self, spark: SparkSession, candidates: pa.Table) -> DataFrame:
        """``FILE`` and ``ROW`` of the selected rows in these files, sorted by them; all rows of a file in one partition."""
        columns = column_references([self.text], self.snapshot.schema)
        by_jvm = self._found_by_jvm(spark, candidates, columns)
        if by_jvm is not None:
            return in_file_order(by_jvm, self.snapshot, candidates, columns)
        return self._found_by_workers(spark, candidates, columns).select(FILE, ROW)

    def stage(
        self,
        spark: SparkSession,
        clauses: BoundClauses,
        candidates: pa.Table,
        *,
        cache: RowCache,
        reads: TargetReads | None = None,
    ) -> StagedChanges:
        """Find the rows in these files, and decide for each: deletion or update. ``cache``, ``reads``: as of ``stage``."""
        columns = columns_needed(self.snapshot, clauses, self.text)
        found = self._found_by_jvm(spark, candidates, columns)
        if found is None:
            found = self._found_by_workers(spark, candidates, columns)
        size = estimated_size(candidates, self.snapshot.schema, self.snapshot.schema)
        return stage(found, self.snapshot, clauses, candidates, cache=cache, reads=reads, size=size)

    def _found_by_jvm(self, spark: SparkSession, candidates: pa.Table, columns: StructType) -> DataFrame | None:
        """The selected rows, read by the JVM; None if Python workers are faster, as when Arrow can evaluate the condition."""
        rows = None if is_exact(self.predicate) else jvm_positions(spark, self.snapshot, candidates, columns)
        return None if rows is None else self._chosen(rows)

    def _found_by_workers(self, spark: SparkSession, candidates: pa.Table, columns: StructType) -> DataFrame:
        """The selected rows: workers leave out what Arrow can exclude; Spark decides on the remaining rows."""
        possible = to_arrow_expression(exact_part(self.predicate), table=self.snapshot.table_uri)
        return self._chosen(scan_positions(spark, self.snapshot, candidates, columns, where=possible))

    def _chosen(self, rows: DataFrame) -> DataFrame:
        return rows.alias(TARGET).where(sql_expression(self.text))
