"""Finds columns that a dictionary does not make smaller; trying it out while encoding costs the Parquet writer time and bytes.

The writer puts values into a hash table until its dictionary is full (1 MiB), and only then switches to plain encoding. Here a
sample decides: n values, drawn at random from D distinct ones, contain duplicates at a rate of about n / 2D. A higher rate than
for as many distinct values as a dictionary can hold (262,144 of four bytes) means that the column repeats.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

_SAMPLED_ROWS = 1 << 14
_LEAST_VALUES = 1 << 8
_MOST_REPEATED = 0.025


def without_repetition(rows: pa.Table) -> frozenset[str]:
    """The columns, except nested ones, in which values hardly repeat."""
    samples = pa.Table.from_batches(_samples(rows), rows.schema)
    return frozenset(name for name in rows.column_names if _hardly_repeats(samples[name]))


def _samples(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    step = max(1, len(rows) // _SAMPLED_ROWS)
    for number, batch in enumerate(rows.to_batches()):
        starts = pa.array(range(0, batch.num_rows - step + 1, step), pa.int64())
        # Values may recur at any distance, which could be that between sampled rows, so the sample is not equidistant.
        moves = pc.floor(pc.multiply(pc.random(len(starts), initializer=number), float(step)))
        yield batch.take(pc.add(starts, moves.cast(pa.int64())))


def _hardly_repeats(sample: pa.ChunkedArray) -> bool:
    values = len(sample) - sample.null_count
    if values < _LEAST_VALUES or pa.types.is_nested(sample.type) or pa.types.is_null(sample.type):
        return False
    return bool(pc.count_distinct(sample).as_py() > (1 - _MOST_REPEATED) * values)
