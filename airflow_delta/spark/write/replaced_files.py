"""Which files and rows a write replaces, and the rewrite of files that also contain other rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.actions import ADD_FILE, NO_ADDS, NO_REMOVES, removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import AppendOnlyTableError, InvalidPredicateError
from airflow_delta.core.log.record_counts import live_rows
from airflow_delta.core.predicate import ALL, evaluate_files
from airflow_delta.core.schema import StructType
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import WriteMode, WriteStatement
from airflow_delta.core.transaction.optimistic_transaction import OptimisticTransaction
from airflow_delta.core.transaction.table_properties import is_append_only
from airflow_delta.spark.constraints.column_references import ambiguous_member, unqualified
from airflow_delta.spark.dml.analysis import no_rows
from airflow_delta.spark.dml.application import AppliedChanges
from airflow_delta.spark.dml.deletion import delete_rows
from airflow_delta.spark.dml.selection import Selection
from airflow_delta.spark.errors import first_line
from airflow_delta.spark.io.predicates import predicate_of
from airflow_delta.spark.io.sql_expression import sql_expression
from airflow_delta.spark.io.staging import StagingArea
from airflow_delta.spark.jvm import analyzed
from airflow_delta.spark.statement.target_reads import holds_subquery
from airflow_delta.spark.write.partitions import in_partitions_of, partitions_predicate

_CHANGE_FEED = "delta.enableChangeDataFeed"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplacedFiles:
    """The files and rows that a write replaces.

    Attributes:
        files: Files that are removed as a whole, ``ADD_FILE``.
        rewritten: The rewrite of other files that lose rows; None if there are none.
        deleted: Number of rows deleted; None if not counted.
    """

    files: pa.Table = field(default_factory=lambda: NO_ADDS)
    rewritten: AppliedChanges | None = None
    deleted: int | None = None

    @property
    def adds(self) -> pa.Table:
        """Files with the rows that are kept, ``ADD_FILE``."""
        return NO_ADDS if self.rewritten is None else self.rewritten.adds

    def removes(self, now: int) -> pa.Table:
        """All removed files, ``REMOVE_FILE``; ``now`` in milliseconds since the epoch."""
        whole = removes_of(self.files, deletion_timestamp=now, data_change=True) if len(self.files) else NO_REMOVES
        return whole if self.rewritten is None else pa.concat_tables([whole, self.rewritten.removes])

    def metrics(self) -> dict[str, int]:
        """The metrics, by Delta's names."""
        removed, removed_bytes = len(self.files), pc.sum(self.files["size"]).as_py() or 0
        applied = self.rewritten
        if applied is not None:
            removed, removed_bytes = removed + applied.removed_files, removed_bytes + applied.bytes_removed
        metrics = {"numRemovedFiles": removed, "numRemovedBytes": removed_bytes}
        if self.deleted is not None:
            copied = 0 if applied is None else applied.copied
            metrics |= {"numDeletedRows": self.deleted, "numCopiedRows": copied}
        return metrics


def plan_replacement(
    spark: SparkSession,
    log: DeltaLog,
    statement: WriteStatement,
    transaction: OptimisticTransaction,
    *,
    new_files: pa.Table,
    staging: StagingArea,
) -> ReplacedFiles:
    """Find the files that the statement replaces, and rewrite those that also contain other rows.

    Args:
        spark: The session.
        log: The table's log.
        statement: The statement.
        transaction: Records what is read.
        new_files: The files of the new rows, ``ADD_FILE``.
        staging: Where rewritten files go.

    Raises:
        AppendOnlyTableError: The table to be replaced is append-only.
    """
    if transaction.read_version < 0 or statement.mode is WriteMode.APPEND:
        return ReplacedFiles()
    snapshot = transaction.snapshot
    match statement.mode:
        case WriteMode.CREATE_OR_REPLACE:
            transaction.read_whole_table()
            files = transaction.files()
            if len(files) and is_append_only(snapshot.metadata.configuration):  # whatever the new table's setting is
                raise AppendOnlyTableError(table=log.table_uri)
            return ReplacedFiles(files=files)
        case WriteMode.REPLACE_WHERE:
            selection = range_of(spark, snapshot, str(statement.replace_where))
            if selection.is_of_whole_files:
                return ReplacedFiles(files=transaction.files(selection.predicate))
            return _delete_range(spark, log, selection, transaction, staging)
        case WriteMode.DYNAMIC_OVERWRITE if snapshot.partition_columns:
            columns = tuple(field for field in snapshot.schema.fields if field.name in snapshot.partition_columns)
            predicate = partitions_predicate(new_files, columns)
            transaction.record_read(predicate)
            files = in_partitions_of(snapshot.files(predicate), new_files, columns)
            transaction.record_read_files(files["path"])
            return ReplacedFiles(files=files)
        case _:
            return ReplacedFiles(files=transaction.files())


def range_of(spark: SparkSession, snapshot: Snapshot, where: str) -> Selection:
    """The rows of a version in a range.

    Raises:
        InvalidPredicateError: Spark cannot analyze the condition, or it does not fit the table.
    """
    try:
        return Selection.of(spark, snapshot, where)
    except (AnalysisException, ParseException) as error:
        raise _refusal(spark, where, snapshot.schema, snapshot.table_uri, error) from error


def outside(spark: SparkSession, schema: StructType, where: str, *, table: str) -> Column:
    """Whether a row does not satisfy the condition of a range; NULL does not satisfy it.

    Raises:
        InvalidPredicateError: The condition does not fit rows of this schema, or does not depend on one row alone.
    """
    if (ambiguity := ambiguous_member(where, schema)) is not None:
        raise InvalidPredicateError(table=table, predicate=where, detail=ambiguity)
    try:
        is_outside = ~F.coalesce(sql_expression(unqualified(where, schema)), F.lit(False))
        counted = analyzed(no_rows(spark, schema).agg(F.count_if(is_outside)))
    except (AnalysisException, ParseException) as error:
        raise _refusal(spark, where, schema, table, error) from error
    if holds_subquery(counted):
        raise InvalidPredicateError(table=table, predicate=where, detail="it contains a subquery")
    return is_outside


def _refusal(
    spark: SparkSession, where: str, schema: StructType, table: str, error: AnalysisException | ParseException
) -> InvalidPredicateError:
    """The error for a condition that Spark rejects: the core's own, which lists the table's columns, if it has one."""
    try:
        predicate_of(spark, unqualified(where, schema), schema, table)
    except InvalidPredicateError as found:
        return found
    return InvalidPredicateError(table=table, predicate=where, detail=first_line(error))


def _delete_range(
    spark: SparkSession, log: DeltaLog, selection: Selection, transaction: OptimisticTransaction, staging: StagingArea
) -> ReplacedFiles:
    """Delete the rows of a range from files with other rows, which are rewritten, or get deletion vectors."""
    transaction.record_read(selection.predicate)
    files, candidates = _whole_files(selection, selection.candidates(ADD_FILE.names))
    deleted = delete_rows(spark, selection, candidates, staging, log.clock)
    for read in (files, deleted.files):
        transaction.record_read_files(read["path"])
    return ReplacedFiles(files=files, rewritten=deleted.applied, deleted=deleted.rows + live_rows(files))


def _whole_files(selection: Selection, candidates: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The candidates that, according to the log, contain only replaced rows; and the others.

    All count as others if the table records changes: if some files need change data, files removed as a whole need it, too.
    """
    snapshot = selection.snapshot
    if snapshot.metadata.configuration.get(_CHANGE_FEED, "").lower() == "true":
        return candidates.slice(0, 0), candidates
    verdicts = evaluate_files(selection.predicate, candidates, snapshot.schema, snapshot.partition_columns)
    is_whole = pc.equal(verdicts, ALL)
    return candidates.filter(is_whole), candidates.filter(pc.invert(is_whole))
