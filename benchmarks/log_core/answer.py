"""The answer that must be equal on both sides, independent of the order of files."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def answer(paths: pa.ChunkedArray, sizes: pa.ChunkedArray, records: pa.ChunkedArray) -> list[int]:
    """Number of files; sums of sizes, of record counts, of their products (to match them per file), and of all path bytes."""
    sums = (pc.sum(sizes), pc.sum(records), pc.sum(pc.multiply(sizes, records)))
    return [len(paths), *(total.as_py() for total in sums), sum(map(_sum_of_bytes, paths.chunks))]


def _sum_of_bytes(texts: pa.StringArray) -> int:
    offsets = pa.Array.from_buffers(pa.int32(), len(texts) + 1, [None, texts.buffers()[1]], offset=texts.offset)
    start, end = offsets[0].as_py(), offsets[-1].as_py()
    text = pa.Array.from_buffers(pa.uint8(), end - start, [None, texts.buffers()[2].slice(start, end - start)])
    return pc.sum(text).as_py() or 0
