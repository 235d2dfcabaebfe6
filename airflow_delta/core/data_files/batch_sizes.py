"""How many rows of a Parquet file to decode at once, so that a batch takes a few MiB.

A file does not say how large its decoded values are: a few hundred KiB with a dictionary may decode to a GiB. So the first
batch is small enough even if every value has the greatest possible size, and each further one is sized by the batch before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from itertools import accumulate

import pyarrow as pa
import pyarrow.parquet as pq

BATCH_BYTES = 32 << 20
"""Most bytes of Arrow memory that a batch should take."""

_LEAST_ROWS = 16
_GROWTH = 16
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}


class BatchSizes:
    """How many rows of a file to read next. Metadata of column chunks is not used: Arrow aborts the process on damaged chunks.

    A row group may contain different rows from the one before: it starts with a small batch of its own again.
    """

    def __init__(self, footer: pq.FileMetaData, columns: Collection[str]) -> None:
        """``footer`` is that of the file, ``columns`` are the top-level names of the columns to read."""
        wanted = frozenset(columns)
        leaves = [leaf for leaf in map(footer.schema.column, range(footer.num_columns)) if _tops(leaf.path) & wanted]
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        self._starts = [0, *accumulate(group.num_rows for group in groups)]
        self._firsts = [_first_batch(leaves, group.total_byte_size) for group in groups]

    def next_rows(self, position: int, wanted: int) -> int:
        """How many rows to read from ``position`` on, at least 1 and at most ``wanted``."""
        group = bisect_right(self._starts, position) - 1
        if position == self._starts[group] and group < len(self._firsts):
            wanted = min(wanted, self._firsts[group])
        for start, first in zip(self._starts[group + 1 :], self._firsts[group + 1 :], strict=False):
            if start >= position + wanted:
                break
            if position + wanted - start > first:
                return max(1, start - position)
        return wanted


def _first_batch(leaves: Collection[pq.ColumnSchema], size: int) -> int:
    """How many rows of a row group of ``size`` bytes certainly fit into a batch."""
    return max(_LEAST_ROWS, BATCH_BYTES // max(1, sum(_widest(leaf, size) for leaf in leaves)))


def next_batch(batch: pa.RecordBatch) -> int:
    """How many rows to read after this batch: only a few times as many, as later rows may be larger."""
    rows = max(1, batch.num_rows)
    return max(1, min(rows * _GROWTH, BATCH_BYTES * rows // max(1, _bytes(batch))))


def _bytes(batch: pa.RecordBatch) -> int:
    try:
        return batch.nbytes
    except pa.ArrowTypeError:  # Arrow 23 cannot compute the size of views
        return batch.get_total_buffer_size()


def _tops(path: str) -> frozenset[str]:
    """The possible names of a leaf's top-level column, as names may contain dots."""
    parts = path.split(".")
    return frozenset(".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _widest(column: pq.ColumnSchema, size: int) -> int:
    """Most bytes that one row can take in this column: a value is no larger than its row group, a list may have any length."""
    if column.max_repetition_level:
        return BATCH_BYTES
    return int(_WIDTHS.get(column.physical_type) or column.length or size)
