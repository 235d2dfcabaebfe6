"""Columns as numpy arrays that are ordered as Delta's statistics are; workers import this module.

An order that takes some different values for equal is good enough to cut by: strings are ordered by the characters that their
statistics hold, decimals as doubles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_CHARACTERS = 32  # of a string that its statistics hold; delta.dataSkippingStringPrefixLength
_BYTES = 64

Values = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OrderedColumn:
    """The values of one column.

    Attributes:
        values: Comparable by numpy, NaN last; anything where there is none.
        is_null: Where there is none.
    """

    values: Values
    is_null: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, rows: pa.RecordBatch, path: Sequence[str]) -> OrderedColumn:
        """A column of these rows, which may lie in structs."""
        column = rows.column(path[0])
        for part in path[1:]:
            column = pc.struct_field(column, part)  # NULL where the struct is
        return cls(values=_comparable(column), is_null=column.is_null().to_numpy(zero_copy_only=False))

    def distinct(self) -> tuple[Values, npt.NDArray[np.int64]]:
        """The distinct values, and for each row how many of them are not above its own; NULLs come first, as 0."""
        distinct, positions = np.unique(self.values[~self.is_null], return_inverse=True)
        codes = np.zeros(len(self.values), np.int64)
        codes[~self.is_null] = positions + 1
        return distinct, codes

    def codes(self, begins: Values) -> npt.NDArray[np.int32]:
        """For each row how many of these values, which ascend, are not above its own; NULLs come first, as 0."""
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
    """Prefixes of one width, filled up with zeros: they compare as UTF-8 does."""
    prefixes = pc.binary_slice(pc.utf8_slice_codeunits(texts, 0, _CHARACTERS).cast(pa.binary()), 0, _BYTES)
    as_texts = pa.Array.from_buffers(pa.string(), len(prefixes), prefixes.buffers(), prefixes.null_count, prefixes.offset)
    padded = pc.ascii_rpad(as_texts, _BYTES, padding="\0")
    return np.frombuffer(padded.buffers()[2] or b"", f"S{_BYTES}", count=len(padded), offset=padded.offset * _BYTES)
