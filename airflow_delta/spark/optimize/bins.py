"""Which files are put together: pure, and columnar but for one pass over their sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.schema import StructField, partition_arrays


def compaction_bins(files: pa.Table, partition_fields: Sequence[StructField], file_size: int) -> tuple[pa.Table, pa.Array]:
    """Small files of one partition, put together as far as they fit into one file.

    As Delta-Spark does: the smallest first, a new bin when the next file would not fit, no bin of one file. Partitions are
    equal when their typed values are, however the log spells them.

    Args:
        files: Live files, ``ADD_FILE``.
        partition_fields: The table's partition columns.
        file_size: Bytes: smaller files are taken, and no bin holds more.

    Returns:
        The files of all bins, bin by bin, and for each the ordinal of its bin (int32).
    """
    small = files.filter(pc.less(files["size"], file_size))
    partitions = _partition_ordinals(small, partition_fields)
    order = np.lexsort((small["size"].to_numpy(), partitions))
    bins = np.fromiter(
        _bins(partitions[order].tolist(), small["size"].to_numpy()[order].tolist(), file_size), np.int64, len(order)
    )
    _, ordinals, members = np.unique(bins, return_inverse=True, return_counts=True)
    is_kept = members[ordinals] > 1
    _, outputs = np.unique(ordinals[is_kept], return_inverse=True)
    return small.take(pa.array(order[is_kept])), pa.array(outputs, pa.int32())


def _partition_ordinals(files: pa.Table, fields: Sequence[StructField]) -> np.ndarray:
    """A number for each file, equal for files of one partition."""
    columns = [_codes(column) for column in partition_arrays(files, fields).values()]
    if not columns or not len(files):
        return np.zeros(len(files), np.int64)
    return np.unique(np.stack(columns), axis=1, return_inverse=True)[1].reshape(-1)


def _codes(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return values.dictionary_encode(null_encoding="encode").indices.to_numpy()


def _bins(partitions: Iterable[int], sizes: Iterable[int], file_size: int) -> Iterator[int]:
    """For each file in order the number of its bin."""
    number, filled, former = 0, 0, None
    for partition, size in zip(partitions, sizes, strict=True):
        if former is not None and (partition != former or filled + size > file_size):
            number, filled = number + 1, 0
        filled, former = filled + size, partition
        yield number
