"""How partition values get from the rows of a Spark plan into the log without passing through a path.

Rows are spread over directories by an id, which is a hash of their typed partition values; which values an id stands for
travels beside the rows, as an observed metric of the one pass that writes them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.actions.file_actions import STRING_MAP
from airflow_delta.core.errors import UnwritablePartitionValueError
from airflow_delta.core.schema import DataType, StructField, physical_name, serialize
from airflow_delta.core.schema.collations import has_collation
from airflow_delta.core.schema.data_types import DATE, DOUBLE, FLOAT, TIMESTAMP, TIMESTAMP_NTZ
from airflow_delta.spark.errors import StagedFilesError
from airflow_delta.spark.schema_conversion import quoted

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_ID = "id"


@dataclass(frozen=True, slots=True)
class PartitionTransport:
    """The expressions that send partition values, and how they are understood on the driver.

    Attributes:
        fields: The partition columns, in order; at least one.
    """

    fields: tuple[StructField, ...]

    def directory_id(self) -> Column:
        """The id of a row's directory: equal for equal values. NULLs count, though the hash skips them."""
        columns = [_comparable(field) for field in self.fields]
        return F.xxhash64(*columns, *(F.isnull(column) for column in columns))

    def observed(self, directory: str) -> Column:
        """The distinct ids, which lie in the column ``directory``, with their values, as one aggregate."""
        values = [_portable(field).alias(f"v{position}") for position, field in enumerate(self.fields)]
        return F.collect_set(F.struct(F.col(directory).alias(_ID), *values))

    def understood(self, observed: Iterable[Any], table: str) -> dict[str, dict[str, str | None]]:
        """The partition values, as the log holds them (by physical name), of each id (as text).

        Raises:
            StagedFilesError: One id stands for two sets of values; it happens once in 2**64 pairs.
            UnwritablePartitionValueError: A value that the log cannot hold.
        """
        understood: dict[str, dict[str, str | None]] = {}
        for row in observed:
            values = {physical_name(field): _text(row[f"v{position}"], field) for position, field in enumerate(self.fields)}
            if understood.setdefault(str(row[_ID]), values) != values:
                raise StagedFilesError(table=table, detail=f"two partitions share the hash {row[_ID]}")
        return understood


def partition_maps(values: Iterable[Mapping[str, str | None]]) -> pa.Array:
    """The ``partition_values`` column of as many files."""
    return pa.array([list(row_values.items()) for row_values in values], STRING_MAP)


def _comparable(field: StructField) -> Column:
    column = F.col(quoted(field.name))
    if has_collation(field):  # the log tells texts apart by their bytes
        return F.collate(column, "UTF8_BINARY")
    # -0.0 equals 0.0 and must not become a second partition.
    return column + F.lit(0.0).cast(str(field.type)) if field.type in (FLOAT, DOUBLE) else column


def _portable(field: StructField) -> Column:
    """The value in a shape that no time zone, calendar or range of Python's types changes on the way."""
    column = _comparable(field)
    match field.type:
        case kind if kind == DATE:
            return F.unix_date(column)
        case kind if kind == TIMESTAMP:
            return F.unix_micros(column)
        case kind if kind == TIMESTAMP_NTZ:
            return column.cast("string")
        case _:
            return column


def _text(sent: Any, field: StructField) -> str | None:
    try:
        value = _received(sent, field.type)
    except (OverflowError, ValueError) as error:  # years that Python does not count to
        raise UnwritablePartitionValueError(column=field.name, value=_shown(sent, field.type), type=str(field.type)) from error
    return serialize(value, field.type, column=field.name)


def _shown(sent: Any, data_type: DataType) -> str:
    """A value that Python has none for, by Arrow, which counts to more years."""
    match data_type:
        case kind if kind == DATE:
            value = pa.scalar(sent, pa.int32()).cast(pa.date32())
        case kind if kind == TIMESTAMP:
            value = pa.scalar(sent, pa.int64()).cast(pa.timestamp("us", "UTC"))
        case _:
            return str(sent)
    return str(value.cast(pa.string()))


def _received(value: Any, data_type: DataType) -> Any:
    """What ``_portable`` sent, as ``serialize`` takes it."""
    if value is None:
        return None
    if data_type == DATE:
        return (_EPOCH + dt.timedelta(days=value)).date()
    if data_type == TIMESTAMP:
        return _EPOCH + dt.timedelta(microseconds=value)
    return dt.datetime.fromisoformat(value) if data_type == TIMESTAMP_NTZ else value
