"""Which columns have statistics, and to what length strings are cut: the table's ``delta.dataSkipping*`` properties.

Also which columns have Bloom filters, a kind of statistics inside the data files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from airflow_delta.core.data_files.column_lists import Path, parse_names
from airflow_delta.core.data_files.indexed_columns import NO_COLUMNS, IndexedColumns
from airflow_delta.core.schema import DataType, StructType, physical_name
from airflow_delta.core.schema.column_names import name_key

_Leaf = tuple[Path, Path, DataType]  # logical and physical path

_INDEXED_COLUMNS = "delta.dataSkippingNumIndexedCols"
_STATS_COLUMNS = "delta.dataSkippingStatsColumns"
_PREFIX_LENGTH = "delta.dataSkippingStringPrefixLength"
_DEFAULT_INDEXED_COLUMNS = 32
_DEFAULT_PREFIX_LENGTH = 32
_ALL = -1
_NUMBER = re.compile(r"-?\d{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsSelection:
    """The table's properties about statistics. Spark: ``StatisticsCollection``.

    Attributes:
        indexed_columns: Number of leaf columns, in schema order, that have statistics; -1 for all.
        columns: Columns that have statistics with all their leaves, instead of the first ones; None when not set.
        string_prefix_length: Length to which bounds of strings are truncated, in UTF-16 code units.
        indexed: Which columns have Bloom filters.
    """

    indexed_columns: int = _DEFAULT_INDEXED_COLUMNS
    columns: tuple[Path, ...] | None = None
    string_prefix_length: int = _DEFAULT_PREFIX_LENGTH
    indexed: IndexedColumns = NO_COLUMNS

    @classmethod
    def from_properties(cls, configuration: Mapping[str, str]) -> StatisticsSelection:
        """The selection in a table's properties; a property that is not a number in its valid range counts as absent."""
        names = configuration.get(_STATS_COLUMNS)
        return cls(
            indexed_columns=_number(configuration.get(_INDEXED_COLUMNS, ""), _ALL, _DEFAULT_INDEXED_COLUMNS),
            columns=None if names is None else tuple(parse_names(names)),
            string_prefix_length=_number(configuration.get(_PREFIX_LENGTH, ""), 0, _DEFAULT_PREFIX_LENGTH),
            indexed=IndexedColumns.from_properties(configuration),
        )

    def leaves(self, schema: StructType) -> tuple[tuple[Path, DataType], ...]:
        """The selected leaf columns: fields of structs separately, lists and maps as one leaf each.

        Args:
            schema: The columns of the data files, without partition columns.
        """
        return tuple((path, kind) for path, _, kind in self._selected(schema))

    def physical_leaves(self, schema: StructType) -> tuple[tuple[Path, DataType], ...]:
        """``leaves`` with physical paths, as in data files and statistics; without column mapping both paths are the same."""
        return tuple((path, kind) for _, path, kind in self._selected(schema))

    def _selected(self, schema: StructType) -> Iterator[_Leaf]:
        every = _leaves(schema, (), ())
        if self.columns is not None:
            chosen = {_fold(column) for column in self.columns}
            return (leaf for leaf in every if any(_fold(leaf[0][:depth]) in chosen for depth in range(1, len(leaf[0]) + 1)))
        return every if self.indexed_columns == _ALL else islice(every, self.indexed_columns)


def _number(text: str, lowest: int, default: int) -> int:
    number = int(text) if _NUMBER.fullmatch(text.strip()) else default
    return number if number >= lowest else default


def _leaves(schema: StructType, parent: Path, physical_parent: Path) -> Iterator[_Leaf]:
    for field in schema.fields:
        path, physical = (*parent, field.name), (*physical_parent, physical_name(field))
        if isinstance(field.type, StructType):
            yield from _leaves(field.type, path, physical)
        else:
            yield path, physical, field.type


def _fold(path: Path) -> Path:
    return tuple(name_key(name) for name in path)
