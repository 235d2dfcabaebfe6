"""The source of a MERGE, computed once: its rows, and what its keys imply for the target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import add

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql.types import BooleanType
from pyspark.sql.types import StructField as SparkField
from pyspark.sql.types import StructType as SparkStruct

from airflow_delta.core.log.record_counts import NUM_RECORDS, live_rows, with_record_counts
from airflow_delta.core.predicate.expression import TRUE, Column, Expression, In, Literal, conjunction, range_predicate
from airflow_delta.core.schema import DecimalType, StructField, StructType, arrow_schema, arrow_type
from airflow_delta.core.schema.char_columns import has_char
from airflow_delta.core.schema.collations import has_collation
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.schema.data_types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGERS,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
)
from airflow_delta.spark.constraints.column_references import SOURCE, TARGET
from airflow_delta.spark.dml import key_filter
from airflow_delta.spark.dml.key_filter import KeyFilter
from airflow_delta.spark.dml.merge.condition import KeyEquality, MergeCondition
from airflow_delta.spark.folded import folded
from airflow_delta.spark.io.map_files import shareable_bytes
from airflow_delta.spark.io.row_cache import RowCache
from airflow_delta.spark.io.row_width import row_width
from airflow_delta.spark.io.shared_bytes import SharedBytes, share
from airflow_delta.spark.io.small_work import HeldRows
from airflow_delta.spark.io.sql_expression import sql_expression
from airflow_delta.spark.io.worker_values import to_ipc
from airflow_delta.spark.schema_conversion import from_spark, quoted
from airflow_delta.spark.session import result_bytes
from airflow_delta.spark.statement.sources import OpenSource
from airflow_delta.spark.statement.target_reads import TargetReads

_SIMPLE = (*INTEGERS, STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ)
_MAX_KEYS = 1_000_000
_MAX_KEY_BYTES = 64 << 20
_FEW_BYTES = 1 << 20
_MAX_LISTED_VALUES = 64
_ROW_BYTES, _VALUE_BYTES = 16, 8
"""Least bytes of a row in Spark, and of each of its values."""
_SIZED = (*_SIMPLE, BOOLEAN, FLOAT, DOUBLE)
_MAX_TEXTS = 64
_KEY = "__airflow_delta_key_"
IN_SOURCE = "__airflow_delta_in_source"
"""Column of the source's rows that is never NULL."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergeSource:
    """The rows of the source, fixed for all attempts of the statement.

    Attributes:
        frame: The source's columns, a column for each key, and ``IN_SOURCE``.
        rows: Number of rows.
        size: Approximate bytes in memory; None if unknown.
        key_fields: Columns of the target that the condition equates with keys; integers as longs.
        keys: The distinct keys that can match (no NULLs), with columns named as the target's. None if the condition equates no
            keys, or if there are too many to send to every worker.
        are_keys_unique: Whether certainly no two rows have the same key, so that no target row has two matches.
        on: The condition as SQL over ``target`` and ``source``, with computed key columns.
        matched: Predicate that holds for every target row that a source row may match, as far as the keys show.
    """

    frame: DataFrame
    rows: int
    size: int | None
    key_fields: tuple[StructField, ...]
    keys: pa.Table | None
    are_keys_unique: bool
    on: str
    matched: Expression

    def keys_for(self, files: pa.Table, cache: RowCache) -> SharedBytes | KeyFilter | None:
        """What shows workers which rows of these files (``COUNTED_FILE``) may match: the keys, or a filter of very many.

        Also a filter if the keys are too large for the number of workers.

        None if neither is available, or a filter would cost more than it saves: if the files have fewer live rows than the
        source, all rows of which would go into the filter. Workers share the result until the cache is released.
        """
        spark = self.frame.sparkSession
        shareable = shareable_bytes(spark, files)
        if self.keys is not None and len(content := to_ipc(self.keys)) <= shareable:
            return share(spark, content, cache.at_end)
        if not self.key_fields or not key_filter.suits(spark, self.rows, shareable):
            return None
        counts = with_record_counts(files, [NUM_RECORDS.name])[NUM_RECORDS.name]
        if not counts.null_count and live_rows(files) < self.rows:
            return None
        keys = self.frame.select(*_key_names(self.key_fields)).dropna()
        return key_filter.build(keys, arrow_schema(StructType(self.key_fields)), self.rows, shareable, cache.at_end)


def materialize(
    source: OpenSource,
    condition: MergeCondition,
    schema: StructType,
    reads: TargetReads | None,
    cache: RowCache,
) -> MergeSource:
    """Compute the source, with its keys as additional columns, and analyze the keys.

    The rows are cached, so that a source that is not deterministic is only computed once; keys are columns of it, so that files
    are skipped and rows are joined by the same values.

    Args:
        source: The rows.
        condition: The statement's condition.
        schema: The target's schema.
        reads: Records what the source reads of the target; None if it reads nothing of it.
        cache: Keeps the rows.
    """
    columns = from_spark(source.frame.schema)
    usable: dict[StructField, KeyEquality] = {}
    for key in condition.keys:
        field = _joinable(key, source.frame, columns, schema)
        if field is not None:
            usable.setdefault(field, key)
    fields, equalities = list(usable), list(usable.values())
    names = _key_names(fields)
    key_texts = [name for name, field in zip(names, fields, strict=True) if field.type in (STRING, BINARY)]
    texts = _texts(columns)
    here = _held_with_keys(source, equalities)
    if here is None:
        computed = [sql_expression(equality.other).alias(name) for equality, name in zip(equalities, names, strict=True)]
        frame = source.frame.alias(SOURCE).select(f"{SOURCE}.*", *computed, F.lit(True).alias(IN_SOURCE))
        if reads is not None:
            reads.look_into(frame)
        here = None if source.size is None else cache.keep_here(frame, source.size)
    if here is None:
        counted = {"rows": F.count(F.lit(1)), "bytes": F.sum(_length(key_texts)), "texts": F.sum(_length(texts or ()))}
        frame, observed = cache.keep(frame, counted)
        rows, key_bytes, text_bytes = observed["rows"], observed["bytes"] or 0, observed["texts"] or 0
    else:
        frame, rows = here.frame, len(here.rows)
        key_bytes, text_bytes = _length_here(here.rows, key_texts), _length_here(here.rows, texts or ())
    equal = [f"{TARGET}.{quoted(field.name)} = {SOURCE}.{name}" for field, name in zip(fields, names, strict=True)]
    rest = [*condition.others, *(key.text for key in condition.keys if key not in equalities)]
    keys, is_unique = None, False
    are_few = rows <= _MAX_KEYS and key_bytes <= _MAX_KEY_BYTES
    if fields and are_few and _may_be_brought(frame.sparkSession, rows * row_width(StructType(tuple(fields))) + key_bytes):
        found = frame.select(*names).dropna().toArrow() if here is None else here.rows.select(names).drop_null()
        every = _renamed(found, fields)
        keys = every.group_by(every.column_names).aggregate([])
        is_unique = len(keys) == len(every)
        matched = conjunction(_values_predicate(field, keys[field.name]) for field in fields)
    else:
        matched = conjunction(_range_predicates(frame, names, fields))
    width = _ROW_BYTES + sum(max(_VALUE_BYTES, row_width(field.type)) for field in (*columns.fields, *fields))
    return MergeSource(
        frame=frame,
        rows=rows,
        size=None if texts is None else rows * width + text_bytes + key_bytes,
        key_fields=tuple(fields),
        keys=keys,
        are_keys_unique=is_unique,
        on=" AND ".join([*equal, *(f"({conjunct}\n)" for conjunct in rest)]),  # the line break ends a trailing comment
        matched=matched,
    )


def _held_with_keys(source: OpenSource, equalities: Sequence[KeyEquality]) -> HeldRows | None:
    """The rows with their keys, if this process holds them and each key is one of their columns; else None."""
    if source.held is None:
        return None
    rows, shown = source.held, source.frame.schema.fields
    places = {name_key(name): place for place, name in enumerate(rows.column_names)}
    fields = []
    for name, equality in zip(_key_names(equalities), equalities, strict=True):
        place = None if equality.source_column is None else places.get(name_key(equality.source_column))
        if place is None:
            return None
        rows = rows.append_column(name, rows.column(place))
        fields.append(SparkField(name, shown[place].dataType))
    rows = rows.append_column(IN_SOURCE, pa.repeat(pa.scalar(True), len(rows)))
    schema = SparkStruct([*shown, *fields, SparkField(IN_SOURCE, BooleanType(), False)])
    return HeldRows(source.frame.sparkSession.createDataFrame(rows, schema), rows)


def _key_names(keys: Sequence[object]) -> list[str]:
    return [f"{_KEY}{position}" for position in range(len(keys))]


def _texts(columns: StructType) -> list[str] | None:
    """Names of the columns of variable length; None if nested columns are among them, or if there are very many."""
    is_known = all(field.type in _SIZED or isinstance(field.type, DecimalType) for field in columns.fields)
    texts = [field.name for field in columns.fields if field.type in (STRING, BINARY)]
    is_known &= len(texts) <= _MAX_TEXTS and len({name_key(name) for name in columns.names}) == len(columns.names)
    return texts if is_known else None


def _may_be_brought(spark: SparkSession, size: int) -> bool:
    """Whether the driver accepts results of about this many bytes; the session's limit is only read if they are large."""
    return size <= _FEW_BYTES or size <= result_bytes(spark)


def _length(texts: Iterable[str]) -> SparkColumn:
    """Bytes of these columns in a row."""
    return folded(add, [F.lit(0), *(F.coalesce(F.octet_length(quoted(name)), F.lit(0)) for name in texts)])


def _length_here(rows: pa.Table, texts: Iterable[str]) -> int:
    """Bytes of these columns in rows that this process holds."""
    return sum(pc.sum(pc.binary_length(rows[name])).as_py() or 0 for name in texts)


def _joinable(key: KeyEquality, source: DataFrame, columns: StructType, schema: StructType) -> StructField | None:
    """The target's field, if the other side only uses the source and both have the same simple type (or are integers: long).

    Only then do Arrow, the statistics in the log and Spark's join agree on equality. Floats (NaN, -0.0), types that Spark would
    cast first, and CHAR, which it may pad, are left to Spark.
    """
    field = schema.find(key.column)
    plain = () if key.source_column is None else tuple(_named(key.source_column, columns))
    if len(plain) != 1:
        try:
            plain = from_spark(source.alias(SOURCE).select(sql_expression(key.other).alias(_KEY)).schema).fields
        except AnalysisException:
            return None
    [found] = plain
    if field is None or has_char(field) or has_collation(field) or found.metadata:
        return None
    if field.type in INTEGERS and found.type in INTEGERS:
        return replace(field, type=LONG)  # a source key may be too large for the column
    is_simple = field.type in _SIMPLE or isinstance(field.type, DecimalType)
    return field if is_simple and field.type == found.type else None


def _named(name: str, columns: StructType) -> Iterator[StructField]:
    return (column for column in columns.fields if name_key(column.name) == name_key(name))


def _renamed(keys: pa.Table, fields: Sequence[StructField]) -> pa.Table:
    return pa.table(
        {field.name: column.cast(arrow_type(field.type)) for field, column in zip(fields, keys.columns, strict=True)}
    )


def _values_predicate(field: StructField, values: pa.ChunkedArray) -> Expression:
    """The values themselves if there are few, else their range; TRUE if there are timestamps outside of Python's years."""
    distinct = values.unique()
    try:
        if 0 < len(distinct) <= _MAX_LISTED_VALUES:
            return In(Column(field.name), tuple(Literal(value, field.type) for value in distinct.sort().to_pylist()))
        extremes = pc.min_max(values)
        return range_predicate(field, extremes["min"].as_py(), extremes["max"].as_py())
    except OverflowError:
        return TRUE


def _range_predicates(frame: DataFrame, names: Sequence[str], fields: Sequence[StructField]) -> Iterator[Expression]:
    if not fields:
        return
    extremes = frame.select(*names).dropna().agg(*(extreme(name) for name in names for extreme in (F.min, F.max))).toArrow()
    for position, field in enumerate(fields):
        columns = extremes.columns[2 * position : 2 * position + 2]
        try:
            low, high = (column.cast(arrow_type(field.type))[0].as_py() for column in columns)
        except OverflowError:  # a timestamp outside of Python's years: any row may match
            yield TRUE
        else:
            yield range_predicate(field, low, high)
