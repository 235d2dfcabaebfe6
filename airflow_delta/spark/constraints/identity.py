"""Assigns values of identity columns: consecutive and unique.

The rows are cached while values are assigned (see ``row_cache``), so that a row keeps its value however often it is read, and
even if executors are lost; there are no gaps, and the last value is known before anything is written.
Protocol: PROTOCOL.md, "Identity Columns".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.actions import Metadata
from airflow_delta.core.errors import ConstraintViolatedError
from airflow_delta.core.schema import StructField, StructType, parse_schema, schema_json
from airflow_delta.core.table_changes.columns import IDENTITY_HIGH_WATER_MARK
from airflow_delta.spark.constraints.column_rules import Identity
from airflow_delta.spark.io.row_cache import RowCache
from airflow_delta.spark.io.worker_values import typed_worker_errors
from airflow_delta.spark.schema_conversion import quoted

IDENTITY_TAGS: Mapping[str, str] = MappingProxyType({"delta.identity.schemaUpdate": "true"})
"""Tag of a commit whose metadata only changes high-water marks: Delta Spark does not treat it as a conflict."""

_PLACE, _ROWS = "__airflow_delta_place", "rows"
_ROW_BITS = 33  # of ``monotonically_increasing_id``: the row number in its task, below the task number
_SMALLEST, _LARGEST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NumberedRows:
    """Rows with identity values.

    Attributes:
        frame: The rows.
        marks: The last value assigned in each column, by the column's name; empty without rows.
    """

    frame: DataFrame
    marks: Mapping[str, int] = field(default_factory=dict)


def numbered(
    frame: DataFrame,
    columns: Sequence[StructField],
    *,
    table: str,
    cache: RowCache,
    where: Mapping[str, Column] | None = None,
) -> NumberedRows:
    """The rows with values in these identity columns, computed once.

    Args:
        frame: The rows, which have these columns.
        columns: Identity columns.
        table: URI of the table, for errors.
        cache: Keeps the rows.
        where: By column name, which rows get a value, while the others keep theirs; for columns not listed, all rows.

    Raises:
        ConstraintViolatedError: The range of a column is exhausted.
        DeltaError: As computing the rows raises it.
    """
    with typed_worker_errors():
        placed = frame.withColumn(_PLACE, F.monotonically_increasing_id())
        kept, observed = cache.keep(placed, {_ROWS: F.count(F.lit(1))})
    if not observed[_ROWS]:
        return NumberedRows(frame=kept.drop(_PLACE))
    task = F.shiftright(_PLACE, _ROW_BITS).cast("int")
    counted = kept.groupBy(task.alias("task")).count().toArrow().sort_by("task").to_pydict()
    counts = dict(zip(counted["task"], counted["count"], strict=True))
    rows = sum(counts.values())
    row = F.col(_PLACE).bitwiseAND(F.lit((1 << _ROW_BITS) - 1))
    values: dict[str, Column] = {}
    marks: dict[str, int] = {}
    for column in columns:
        identity = _of(column)
        last = identity.next + identity.step * (rows - 1)
        if not _SMALLEST <= last <= _LARGEST:
            raise ConstraintViolatedError(table=table, constraint=f"the range of the identity column {column.name}", rows=rows)
        first_of_task = F.element_at(_literal(_firsts(identity, counts)), task + 1)
        number = first_of_task + row * F.lit(identity.step)
        is_wanted = (where or {}).get(column.name)
        values[column.name] = number if is_wanted is None else F.when(is_wanted, number).otherwise(F.col(quoted(column.name)))
        marks[column.name] = last
    return NumberedRows(frame=kept.withColumns(values).drop(_PLACE), marks=marks)


def with_marks(metadata: Metadata, marks: Mapping[str, int]) -> Metadata:
    """The metadata with these values as high-water marks of identity columns."""
    fields = (
        replace(field, metadata={**field.metadata, IDENTITY_HIGH_WATER_MARK: marks[field.name]})
        if field.name in marks
        else field
        for field in parse_schema(metadata.schema_string).fields
    )
    return replace(metadata, schema_string=schema_json(StructType(tuple(fields))))


def only_numbers_differ(before: Metadata, after: Metadata) -> bool:
    """Whether other commits changed only high-water marks in the metadata, so that rows just need new values."""
    return before != after and _without_marks(before) == _without_marks(after)


def identity_tags(before: Metadata | None, after: Metadata) -> Mapping[str, str]:
    """The tags for a commit with metadata ``after``: the identity tag only if nothing but high-water marks changes."""
    return IDENTITY_TAGS if before is not None and only_numbers_differ(before, after) else {}


def _without_marks(metadata: Metadata) -> tuple[Metadata, StructType]:
    fields = parse_schema(metadata.schema_string).fields
    kept = ({key: value for key, value in field.metadata.items() if key != IDENTITY_HIGH_WATER_MARK} for field in fields)
    plain = StructType(tuple(replace(field, metadata=rest) for field, rest in zip(fields, kept, strict=True)))
    return replace(metadata, schema_string=""), plain


def _of(column: StructField) -> Identity:
    identity = Identity.of(column)
    if identity is None:
        raise ValueError(f"{column.name} is no identity column")
    return identity


def _firsts(identity: Identity, counts: Mapping[int, int]) -> list[int]:
    """The first value of each task, by the task's index; arbitrary for tasks without rows."""
    firsts, following = [], identity.next
    for task in range(max(counts) + 1):
        firsts.append(following)
        following += identity.step * counts.get(task, 0)
    # After the last row the range may be exhausted, but then no task needs a value.
    return [min(max(first, _SMALLEST), _LARGEST) for first in firsts]


def _literal(numbers: Sequence[int]) -> Column:
    """The numbers as one constant expression, however many there are."""
    return F.from_json(F.lit(json.dumps(numbers)), "array<bigint>")
