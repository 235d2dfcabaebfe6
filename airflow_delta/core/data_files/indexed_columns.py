"""Which columns of a table have Bloom filters in its data files: the table's ``airflow_delta.bloomFilter.*`` properties."""

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
"""A thousand looked-up values then leave one in a hundred of the files that hold none of them; four bytes for each value."""
LEAST_FALSE_POSITIVES, MOST_FALSE_POSITIVES = 1e-9, 0.1
MOST_ITEMS: Final = 1 << 31
MOST_COLUMNS: Final = 32

_RATE = re.compile(r"(0?\.\d{1,12}|\d(\.\d{1,6})?[eE]-\d{1,2})")
_NUMBER = re.compile(r"\d{1,10}")
_LEAST_SKIPPED = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedColumns:
    """What the table's properties say about Bloom filters; one that cannot be read counts as absent.

    Attributes:
        names: The columns, in lower case.
        false_positives: How often a filter may take a value that is not there for one that is.
        items: Distinct values of a row group, about; None lets the writer count them.
    """

    names: frozenset[str] = frozenset()
    false_positives: float = DEFAULT_FALSE_POSITIVES
    items: int | None = None

    @classmethod
    def from_properties(cls, configuration: Mapping[str, str]) -> IndexedColumns:
        """Those of a table with these properties."""
        paths = list(parse_names(configuration.get(COLUMNS, "")))[:MOST_COLUMNS]
        return cls(
            names=frozenset(name_key(path[0]) for path in paths if len(path) == 1),
            false_positives=false_positives(configuration.get(FALSE_POSITIVES, "")) or DEFAULT_FALSE_POSITIVES,
            items=number_of_items(configuration.get(ITEMS, "")),
        )

    def fields(self, schema: StructType) -> tuple[StructField, ...]:
        """Those of a schema's columns that have filters: of a type whose equal values have equal bits."""
        return tuple(field for field in schema.fields if name_key(field.name) in self.names and has_stored_form(field))

    @property
    def most_values(self) -> int:
        """So many values may be looked up at once that of the files without any of them half are still found out."""
        return int((1 - _LEAST_SKIPPED) / self.false_positives)

    @property
    def most_items(self) -> int:
        """So many values a filter of the greatest size tells apart at this rate: BloomFilter.md, "Build a Bloom filter"."""
        bits_of_value = -8 / math.log(1 - self.false_positives ** (1 / 8))
        return int(MOST_FILTER_BYTES * 8 / bits_of_value)


NO_COLUMNS: Final = IndexedColumns()


def false_positives(text: str) -> float | None:
    """A rate as a property says it; None where the text is no number, or makes no sense as a rate."""
    rate = float(text) if _RATE.fullmatch(text.strip()) else 0.0
    return rate if LEAST_FALSE_POSITIVES <= rate <= MOST_FALSE_POSITIVES else None


def number_of_items(text: str) -> int | None:
    """A number of values as a property says it; None where the text is no such number."""
    number = int(text) if _NUMBER.fullmatch(text.strip()) else 0
    return number if 0 < number <= MOST_ITEMS else None
