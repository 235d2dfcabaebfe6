"""Transfers partition values from the rows of a Spark plan to the log without using paths.

Rows are distributed over directories by an id, a hash of their typed partition values; the values of each id are returned as an
observed metric of the same pass that writes the rows.
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
    """The expressions that send partition values, and their decoding on the driver.

    Attributes:
        fields: The partition columns, in order; at least one.
    """

    fields: tuple[StructField, ...]

    def directory_id(self) -> Column:
        """The id of a row's directory: equal for equal values. NULLs are included, although Spark's hash skips them."""
        columns = [_comparable(field) for field in self.fields]
        return F.xxhash64(*columns, *(F.isnull(column) for column in columns))

    def observed(self, directory: str) -> Column:
        """One aggregate with the distinct ids, in the column ``directory``, and their values."""
        values = [_portable(field).alias(f"v{position}") for position, field in enumerate(self.fields)]
        return F.collect_set(F.struct(F.col(directory).alias(_ID), *values))

    def understood(self, observed: Iterable[Any], table: str) -> dict[str, dict[str, str | None]]:
        """The partition values of each id (as text), in the form of the log (by physical name).

        Raises:
            StagedFilesError: Two sets of values have the same id, with a probability of 2**-64 for each pair.
            UnwritablePartitionValueError: The log cannot represent a value.
        """
        understood: dict[str, dict[str, str | None]] = {}
        for row in observed:
            values = {physical_name(field): _text(row[f"v{position}"], field) for position, field in enumerate(self.fields)}
            if understood.setdefault(str(row[_ID]), values) != values:
                raise StagedFilesError(table=table, detail=f"two partitions share the hash {row[_ID]}")
        return understood


def partition_maps(values: Iterable[Mapping[str, str | None]]) -> pa.Array:
    """Partition values of files as the ``partition_values`` column."""
    return pa.array([list(row_values.items()) for row_values in values], STRING_MAP)


def _comparable(field: StructField) -> Column:
    column = F.col(quoted(field.name))
    if has_collation(field):  # the log distinguishes strings by their bytes
        return F.collate(column, "UTF8_BINARY")
    # -0.0 equals 0.0, and must not become a second partition.
    return column + F.lit(0.0).cast(str(field.type)) if field.type in (FLOAT, DOUBLE) else column


def _portable(field: StructField) -> Column:
    """The value in a form that no time zone, calendar or Python type limit changes in transfer."""
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
    except (OverflowError, ValueError) as error:  # years outside of Python's range
        raise UnwritablePartitionValueError(column=field.name, value=_shown(sent, field.type), type=str(field.type)) from error
    return serialize(value, field.type, column=field.name)


def _shown(sent: Any, data_type: DataType) -> str:
    """The text of a value outside of Python's range, by Arrow."""
    match data_type:
        case kind if kind == DATE:
            value = pa.scalar(sent, pa.int32()).cast(pa.date32())
        case kind if kind == TIMESTAMP:
            value = pa.scalar(sent, pa.int64()).cast(pa.timestamp("us", "UTC"))
        case _:
            return str(sent)
    return str(value.cast(pa.string()))


def _received(value: Any, data_type: DataType) -> Any:
    """A value sent by ``_portable``, in the form that ``serialize`` takes."""
    if value is None:
        return None
    if data_type == DATE:
        return (_EPOCH + dt.timedelta(days=value)).date()
    if data_type == TIMESTAMP:
        return _EPOCH + dt.timedelta(microseconds=value)
    return dt.datetime.fromisoformat(value) if data_type == TIMESTAMP_NTZ else value
