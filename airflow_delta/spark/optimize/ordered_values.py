"""Columns as numpy arrays whose order is that of Delta's statistics; workers import this module.

For cutting, it does not matter if the order treats some different values as equal: strings are compared by the characters that
their statistics keep, decimals as doubles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_CHARACTERS = 32  # characters of a string in its statistics; delta.dataSkippingStringPrefixLength
_BYTES = 64

Values = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OrderedColumn:
    """The values of one column.

    Attributes:
        values: Comparable by numpy, NaN last; arbitrary where the value is NULL.
        is_null: Where the value is NULL.
    """

    values: Values
    is_null: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, rows: pa.RecordBatch, path: Sequence[str]) -> OrderedColumn:
        """A column of these rows, which may be nested in structs."""
        column = rows.column(path[0])
        for part in path[1:]:
            column = pc.struct_field(column, part)  # NULL if the struct is
        return cls(values=_comparable(column), is_null=column.is_null().to_numpy(zero_copy_only=False))

    def distinct(self) -> tuple[Values, npt.NDArray[np.int64]]:
        """The distinct values, and for each row how many of them are not greater than its own; NULL comes first, as 0."""
        distinct, positions = np.unique(self.values[~self.is_null], return_inverse=True)
        codes = np.zeros(len(self.values), np.int64)
        codes[~self.is_null] = positions + 1
        return distinct, codes

    def codes(self, begins: Values) -> npt.NDArray[np.int32]:
        """For each row, how many of these ascending values are not greater than its own; NULL comes first, as 0."""
        codes = np.searchsorted(begins, self.values, side="right").astype(np.int32)
        codes[self.is_null] = 0
        return codes


def _comparable(column: pa.Array) -> Values:
    kind = column.type
    if pa.types.is_string(kind):
        return _padded(pc.fill_null(column, ""))
    if pa.types.is_decimal(kind):
        return _filled(column.cast(pa.float64()))
    if pa.types.is_temporal(kind):
        return _filled(column.view(pa.int32() if kind.bit_width == 32 else pa.int64()))  # noqa: PLR2004 - bits of a date
    return _filled(column)


def _filled(column: pa.Array) -> Values:
    return pc.fill_null(column, 0).to_numpy(zero_copy_only=False)


def _padded(texts: pa.StringArray) -> Values:
    """Prefixes of equal width, padded with zeros, which compare as UTF-8 does."""
    prefixes = pc.binary_slice(pc.utf8_slice_codeunits(texts, 0, _CHARACTERS).cast(pa.binary()), 0, _BYTES)
    as_texts = pa.Array.from_buffers(pa.string(), len(prefixes), prefixes.buffers(), prefixes.null_count, prefixes.offset)
    padded = pc.ascii_rpad(as_texts, _BYTES, padding="\0")
    return np.frombuffer(padded.buffers()[2] or b"", f"S{_BYTES}", count=len(padded), offset=padded.offset * _BYTES)
