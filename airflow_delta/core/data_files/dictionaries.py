"""Columns that no dictionary makes smaller: to find that out while it encodes them costs a Parquet writer time and bytes.

It puts values into a hash table until its dictionary is full (1 MiB), and writes them plainly only from there on. Here a sample
tells: n of D values, drawn at random, hold about n / 2D of them twice, and of as many values as a dictionary has room for
(262,144 of four bytes) more than are found in columns without repetition.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

_SAMPLED_ROWS = 1 << 14
_LEAST_VALUES = 1 << 8
_MOST_REPEATED = 0.025


def without_repetition(rows: pa.Table) -> frozenset[str]:
    """The columns, but for nested ones, in which values hardly repeat."""
    samples = pa.Table.from_batches(_samples(rows), rows.schema)
    return frozenset(name for name in rows.column_names if _hardly_repeats(samples[name]))


def _samples(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    step = max(1, len(rows) // _SAMPLED_ROWS)
    for number, batch in enumerate(rows.to_batches()):
        starts = pa.array(range(0, batch.num_rows - step + 1, step), pa.int64())
        # Values may come round again at any distance, such as that of two rows in a sample at equal distances.
        moves = pc.floor(pc.multiply(pc.random(len(starts), initializer=number), float(step)))
        yield batch.take(pc.add(starts, moves.cast(pa.int64())))


def _hardly_repeats(sample: pa.ChunkedArray) -> bool:
    values = len(sample) - sample.null_count
    if values < _LEAST_VALUES or pa.types.is_nested(sample.type) or pa.types.is_null(sample.type):
        return False
    return bool(pc.count_distinct(sample).as_py() > (1 - _MOST_REPEATED) * values)
