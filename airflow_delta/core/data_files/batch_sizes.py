"""How many rows of a Parquet file are decoded at once: as many as some MiB hold.

A file does not say how large its values are: some hundred KiB with a dictionary may decode to a GiB. So the first batch is one
that is small even if every value is as large as it can be, and each of the others is measured by the one before it.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.parquet as pq

BATCH_BYTES = 32 << 20
"""Bytes of Arrow memory that a batch is to have at most."""

_LEAST_ROWS = 16
_GROWTH = 16
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}


def first_batch(footer: pq.FileMetaData, columns: Collection[str]) -> int:
    """How many rows to read first. Of chunks of columns nothing is looked at: of a damaged one Arrow ends the process.

    Args:
        footer: The file's.
        columns: The columns that are read, by their names at the top.
    """
    if not footer.num_row_groups:
        return _LEAST_ROWS
    size, wanted = footer.row_group(0).total_byte_size, frozenset(columns)
    leaves = map(footer.schema.column, range(footer.num_columns))
    widest = sum(_widest(leaf, size) for leaf in leaves if _tops(leaf.path) & wanted)
    return max(_LEAST_ROWS, BATCH_BYTES // max(1, widest))


def next_batch(batch: pa.RecordBatch) -> int:
    """How many rows to read after this batch: not many times more, as other rows may be larger."""
    rows = max(1, batch.num_rows)
    return max(1, min(rows * _GROWTH, BATCH_BYTES * rows // max(1, batch.nbytes)))


def _tops(path: str) -> frozenset[str]:
    """What the column at the top of a leaf may be called: names may hold dots, too."""
    parts = path.split(".")
    return frozenset(".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _widest(column: pq.ColumnSchema, size: int) -> int:
    """Bytes that no row takes more of in this column: a value is no longer than its row group, a list of any length."""
    if column.max_repetition_level:
        return BATCH_BYTES
    return int(_WIDTHS.get(column.physical_type) or column.length or size)
