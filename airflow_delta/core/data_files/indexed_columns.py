"""The columns with Bloom filters in data files, from the table's ``airflow_delta.bloomFilter.*`` properties."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from airflow_delta.core.data_files.column_lists import parse_names
from airflow_delta.core.data_files.stored_values import has_stored_form
from airflow_delta.core.parquet.bloom_filter import MOST_FILTER_BYTES
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.column_names import name_key

COLUMNS: Final = "airflow_delta.bloomFilter.columns"
FALSE_POSITIVES: Final = "airflow_delta.bloomFilter.fpp"
ITEMS: Final = "airflow_delta.bloomFilter.numItems"

DEFAULT_FALSE_POSITIVES: Final = 1e-5
"""With a thousand looked-up values, one in a hundred files without any of them is still read; four bytes per value."""
LEAST_FALSE_POSITIVES, MOST_FALSE_POSITIVES = 1e-9, 0.1
MOST_ITEMS: Final = 1 << 31
MOST_COLUMNS: Final = 32

_RATE = re.compile(r"(0?\.\d{1,12}|\d(\.\d{1,6})?[eE]-\d{1,2})")
_NUMBER = re.compile(r"\d{1,10}")
_LEAST_SKIPPED = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedColumns:
    """The table's properties about Bloom filters; invalid ones count as absent.

    Attributes:
        names: The columns, in lower case.
        false_positives: Rate at which a filter reports an absent value as present.
        items: Approximate number of distinct values in a row group; None lets the writer count them.
    """

    names: frozenset[str] = frozenset()
    false_positives: float = DEFAULT_FALSE_POSITIVES
    items: int | None = None

    @classmethod
    def from_properties(cls, configuration: Mapping[str, str]) -> IndexedColumns:
        """The settings in these properties."""
        paths = list(parse_names(configuration.get(COLUMNS, "")))[:MOST_COLUMNS]
        return cls(
            names=frozenset(name_key(path[0]) for path in paths if len(path) == 1),
            false_positives=false_positives(configuration.get(FALSE_POSITIVES, "")) or DEFAULT_FALSE_POSITIVES,
            items=number_of_items(configuration.get(ITEMS, "")),
        )

    def fields(self, schema: StructType) -> tuple[StructField, ...]:
        """The columns of a schema that have filters: only types in which equal values have equal bits."""
        return tuple(field for field in schema.fields if name_key(field.name) in self.names and has_stored_form(field))

    @property
    def most_values(self) -> int:
        """Most values to look up at once: with more, over half of the files without any of them would be read anyway."""
        return int((1 - _LEAST_SKIPPED) / self.false_positives)

    @property
    def most_items(self) -> int:
        """Most distinct values of a filter of the greatest size at this rate: BloomFilter.md, "Build a Bloom filter"."""
        bits_of_value = -8 / math.log(1 - self.false_positives ** (1 / 8))
        return int(MOST_FILTER_BYTES * 8 / bits_of_value)


NO_COLUMNS: Final = IndexedColumns()


def false_positives(text: str) -> float | None:
    """A rate in a property; None if the text is not a number, or not a sensible rate."""
    rate = float(text) if _RATE.fullmatch(text.strip()) else 0.0
    return rate if LEAST_FALSE_POSITIVES <= rate <= MOST_FALSE_POSITIVES else None


def number_of_items(text: str) -> int | None:
    """A number of values in a property; None if the text is not such a number."""
    number = int(text) if _NUMBER.fullmatch(text.strip()) else 0
    return number if 0 < number <= MOST_ITEMS else None
