"""Finds the matching rows of the target, by one join over as few target rows as possible.

Python workers read the columns that the statement uses, and keep only rows whose key the source has (or may have, if a filter
replaces very many keys); these rows enter the JVM with their file and position, and Spark's join decides. If clauses apply to
target rows without match, the rows that such a clause may change enter, too. If all rows may matter, Spark reads them itself.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from airflow_delta.core.predicate import TRUE, Expression, exact_part, to_arrow_expression
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.data_types import INTEGER, LONG
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.spark.constraints.column_references import SOURCE, TARGET
from airflow_delta.spark.dml.clauses import BoundClauses, ClauseKind
from airflow_delta.spark.dml.jvm_positions import jvm_positions
from airflow_delta.spark.dml.key_filter import KeyFilter
from airflow_delta.spark.dml.merge.source import IN_SOURCE, MergeSource
from airflow_delta.spark.dml.position_scan import FILE, ROW
from airflow_delta.spark.dml.staged_changes import columns_needed, scan_positions
from airflow_delta.spark.io.arrow_scan import estimated_size
from airflow_delta.spark.io.row_cache import RowCache
from airflow_delta.spark.io.row_width import is_of_fixed_width
from airflow_delta.spark.io.sql_expression import sql_expression
from airflow_delta.spark.session import task_memory

FROM_SOURCE = f"{SOURCE}.{IN_SOURCE}"
"""Column of the pairs: NULL for a target row without match."""


def join(
    spark: SparkSession,
    snapshot: Snapshot,
    source: MergeSource,
    clauses: BoundClauses,
    candidates: pa.Table,
    *,
    unmatched: Expression,
    cache: RowCache,
) -> tuple[DataFrame, bool]:
    """The pairs of source rows and matching rows of the candidates; and whether certainly no target row is in two pairs.

    Includes rows of either side without match, as far as the clauses need them.

    Args:
        spark: The session.
        snapshot: The target.
        source: The materialized source.
        clauses: The statement's clauses, bound to the target.
        candidates: The files (``ADD_FILE``) that may contain rows that matter.
        unmatched: Predicate that holds for every target row that a clause may change although nothing matches it.
        cache: Cache of the statement, which keeps what workers share of the keys.
    """
    columns = columns_needed(snapshot, clauses, source.on)
    may_change = exact_part(unmatched) if clauses.not_matched_by_source else None
    keys = None if may_change == TRUE else source.keys_for(candidates, cache)
    unless = None if may_change is None else to_arrow_expression(may_change, table=snapshot.table_uri)
    target = jvm_positions(spark, snapshot, candidates, columns) if keys is None else None
    if target is None:
        target = scan_positions(spark, snapshot, candidates, columns, keys=keys, unless=unless)
    how = _JOINS[bool(clauses.of(ClauseKind.INSERT)), bool(clauses.not_matched_by_source)]
    # Spark's size estimates are not used: the source's size is known, and how much of the target remains cannot be estimated.
    broadcasts = how in _MAY_BROADCAST_SOURCE and source.size is not None and source.size <= _BROADCAST_BYTES
    size = estimated_size(candidates, snapshot.schema, StructType((*columns.fields, *_POSITION)))
    is_one_task = not broadcasts and source.size is not None and max(source.size, size) <= _TASK_BYTES
    may_hash = how in _MAY_HASH_TARGET and is_of_fixed_width(columns) and not (broadcasts or is_one_task)
    if may_hash and size * _HASHED <= task_memory(spark):
        rows, target = source.frame, target.hint("shuffle_hash")
    else:
        rows = source.frame.hint("broadcast" if broadcasts else "merge")
    if is_one_task:
        rows, target = rows.coalesce(1), target.coalesce(1)  # joining it all in one task is cheaper than two shuffles
    are_unique = keys.are_keys_unique if isinstance(keys, KeyFilter) else source.are_keys_unique
    return rows.alias(SOURCE).join(target.alias(TARGET), sql_expression(source.on), how), are_unique


_BROADCAST_BYTES = 10 << 20
"""Spark's default."""
_TASK_BYTES = 16 << 20
"""Bytes of either side that one task joins."""
_MAY_BROADCAST_SOURCE = ("inner", "right")
_MAY_HASH_TARGET = ("inner", "left")
"""Join types for which a hash table of the target's rows avoids sorting the source, the wider side."""
_HASHED = 4
"""A hash table takes about this many times the bytes of its rows, all of which may have the same key, and so be in one task."""
_POSITION = (StructField(FILE, INTEGER), StructField(ROW, LONG))
_JOINS = {(False, False): "inner", (True, False): "left", (False, True): "right", (True, True): "full"}
"""Join type, by whether source rows and target rows without match matter."""
