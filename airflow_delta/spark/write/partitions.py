"""The partitions of files: as a predicate, and to select other files in the same partitions."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.predicate import Column, Comparison, Expression, In, IsNull, Literal, conjunction, disjunction
from airflow_delta.core.schema import StructField, serialized_values
from airflow_delta.core.schema.data_types import DOUBLE, FLOAT
from airflow_delta.core.schema.partition_values import partition_arrays

_MOST_NAMED = 100
"""With more partitions than this, the predicate lists the values of each column, not their combinations."""

Values = tuple[str | None, ...]


def partitions_predicate(files: pa.Table, columns: tuple[StructField, ...]) -> Expression:
    """A predicate that is TRUE for all rows in the partitions of these files, and in few other partitions.

    Args:
        files: Files with ``partition_values`` as in ``ADD_FILE``.
        columns: The partition columns.
    """
    arrays = partition_arrays(files, columns)
    if len(columns) == 1:
        return _among(columns[0], arrays[columns[0].name])
    chosen = pa.table(arrays).group_by(list(arrays)).aggregate([]) if len(files) else pa.table(arrays)
    if len(chosen) > _MOST_NAMED:
        return conjunction(_among(column, arrays[column.name]) for column in columns)
    return disjunction(conjunction(_equal(column, row[column.name]) for column in columns) for row in chosen.to_pylist())


def in_partitions_of(candidates: pa.Table, files: pa.Table, columns: tuple[StructField, ...]) -> pa.Table:
    """The candidates in a partition of ``files``, however their writers spelled its values."""
    wanted = set(_values(files, columns))
    return candidates.filter(pa.array([values in wanted for values in _values(candidates, columns)], pa.bool_()))


def _values(files: pa.Table, columns: tuple[StructField, ...]) -> list[Values]:
    arrays = partition_arrays(files, columns)
    texts = [_texts(arrays[column.name], column).to_pylist() for column in columns]
    return list(zip(*texts, strict=True))


def _texts(values: pa.Array, column: StructField) -> pa.Array:
    if column.type in (FLOAT, DOUBLE):  # -0.0 equals 0.0: other writers make two partitions of them
        values = pc.add(values, pa.scalar(0.0, values.type))
    return serialized_values(values, column.type, column=column.name)


def _among(column: StructField, values: pa.Array) -> Expression:
    """Whether the column has one of these values, which may include NULL."""
    distinct = values.unique()
    found = tuple(Literal(value, column.type) for value in distinct.drop_null().to_pylist())
    nothing = [IsNull(Column(column.name))] if distinct.null_count else []
    return disjunction([*([In(Column(column.name), found)] if found else []), *nothing])


def _equal(column: StructField, value: object) -> Expression:
    if value is None:
        return IsNull(Column(column.name))
    return Comparison("=", Column(column.name), Literal(value, column.type))
