"""Which files OPTIMIZE rewrites, determined from the log alone, so that it is known without Spark if there is work to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.errors import InvalidPredicateError
from airflow_delta.core.log.record_counts import COUNTED_FILE, NUM_RECORDS, with_record_counts
from airflow_delta.core.predicate import Expression, is_partition_only
from airflow_delta.core.schema import StructField, StructType, partition_arrays
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import OptimizeStatement
from airflow_delta.core.transaction import table_properties

DEFAULT_FILE_SIZE = 1 << 30
"""Bytes; Delta Spark's default."""

_HIDDEN_SHARE = 0.05  # as in Delta Spark


def target_file_size(snapshot: Snapshot, statement: OptimizeStatement) -> int:
    """Target size of a rewritten file, in bytes: the statement's, else the table's, else the default."""
    of_table = table_properties.target_file_size(snapshot.metadata.configuration)
    return statement.target_file_size or of_table or DEFAULT_FILE_SIZE


def partition_fields(snapshot: Snapshot) -> list[StructField]:
    """The table's partition columns."""
    return [field for field in snapshot.schema.fields if field.name in snapshot.partition_columns]


def candidates(snapshot: Snapshot, statement: OptimizeStatement, predicate: Expression | None) -> pa.Table:
    """The small files (``COUNTED_FILE``), and those with many deleted rows, in partitions with enough of them.

    Args:
        snapshot: The table.
        statement: The statement.
        predicate: As of ``named_partitions``.
    """
    files = snapshot.files(predicate, COUNTED_FILE)
    target = target_file_size(snapshot, statement)
    is_small = pc.less(files["size"], min(statement.small_file_size or target, target))
    small = files.filter(pc.or_(is_small, hides_many_rows(files)))
    partitions = partition_codes(small, partition_fields(snapshot))
    counts = partitions.value_counts()
    crowded = counts.field("values").filter(pc.greater_equal(counts.field("counts"), statement.min_files))
    return small.filter(pc.or_(pc.is_in(partitions, crowded), hides_many_rows(small)))


def hides_many_rows(files: pa.Table) -> pa.Array:
    """Which files are worth rewriting just for the rows that their deletion vectors delete."""
    rows = with_record_counts(files, [NUM_RECORDS.name])[NUM_RECORDS.name]
    hidden = pc.struct_field(files["deletion_vector"], "cardinality")
    # An unsafe cast: a file may claim more rows than a double can represent exactly.
    hidden, rows_in_file = (counts.cast(pa.float64(), safe=False) for counts in (hidden, rows))
    is_worth = pc.greater(hidden, pc.multiply(rows_in_file, _HIDDEN_SHARE))
    is_unknown = pc.and_(files["deletion_vector"].is_valid(), rows.is_null())
    return pc.or_(pc.fill_null(is_worth, fill_value=False), is_unknown)


def partition_codes(files: pa.Table, fields: Sequence[StructField]) -> pa.Array:
    """A number (int64) for each file, equal for files of the same partition, however the log spells its values."""
    codes = pa.repeat(pa.scalar(0, pa.int64()), len(files))
    for column in partition_arrays(files, fields).values():
        values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        encoded = values.dictionary_encode(null_encoding="encode")
        joined = pc.add(pc.multiply(codes, len(encoded.dictionary)), encoded.indices.cast(pa.int64()))
        codes = joined.dictionary_encode().indices.cast(pa.int64())  # keeps codes small, however many columns there are
    return codes


def named_partitions(
    snapshot: Snapshot, where: str | None, read: Callable[[str, StructType, str], Expression]
) -> Expression | None:
    """A predicate on the partitions that a condition may select; None for all. If it is opaque, Spark decides.

    Args:
        snapshot: The version.
        where: The statement's condition.
        read: Parses the predicate of a text, for rows of a schema, of the table at a URI.

    Raises:
        InvalidPredicateError: The condition references other columns than partition columns.
    """
    if where is None:
        return None
    predicate = read(where, snapshot.schema, snapshot.table_uri)
    if not is_partition_only(predicate, snapshot.partition_columns):
        if columns := ", ".join(snapshot.partition_columns):
            detail = f"OPTIMIZE takes whole partitions; the partition columns are {columns}"
            cure = f"name partitions alone, by conditions on {columns}; or leave the condition out"
        else:
            detail, cure = "OPTIMIZE takes whole partitions; the table has no partition columns", "leave the condition out"
        raise InvalidPredicateError(table=snapshot.table_uri, predicate=where, detail=detail, cure=cure)
    return predicate
