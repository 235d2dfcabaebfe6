"""Which files are compacted together; no I/O, and columnar except for one pass over file sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.schema import StructField
from airflow_delta.spark.optimize.candidates import hides_many_rows, partition_codes


def compaction_bins(files: pa.Table, partition_fields: Sequence[StructField], file_size: int) -> tuple[pa.Table, pa.Array]:
    """Small files of one partition, packed into bins that each become one file.

    As in Delta Spark: the smallest files first, a new bin when the next file would not fit, and no bin with a single file
    unless many of its rows are deleted. Partitions are equal if their typed values are, however the log spells them.

    Args:
        files: Live files, ``ADD_FILE``.
        partition_fields: The table's partition columns.
        file_size: Bytes: only smaller files are taken, and a bin of several files is no larger.

    Returns:
        The files of all bins, bin by bin, and for each file the index of its bin (int32).
    """
    small = files.filter(pc.or_(pc.less(files["size"], file_size), hides_many_rows(files)))
    partitions = partition_codes(small, partition_fields).to_numpy()
    order = np.lexsort((small["size"].to_numpy(), partitions))
    bins = np.fromiter(
        _bins(partitions[order].tolist(), small["size"].to_numpy()[order].tolist(), file_size), np.int64, len(order)
    )
    _, ordinals, members = np.unique(bins, return_inverse=True, return_counts=True)
    is_kept = (members[ordinals] > 1) | hides_many_rows(small).to_numpy()[order]
    _, outputs = np.unique(ordinals[is_kept], return_inverse=True)
    return small.take(pa.array(order[is_kept])), pa.array(outputs, pa.int32())


def _bins(partitions: Iterable[int], sizes: Iterable[int], file_size: int) -> Iterator[int]:
    """For each file, in order, the number of its bin."""
    number, filled, former = 0, 0, None
    for partition, size in zip(partitions, sizes, strict=True):
        if former is not None and (partition != former or filled + size > file_size):
            number, filled = number + 1, 0
        filled, former = filled + size, partition
        yield number
