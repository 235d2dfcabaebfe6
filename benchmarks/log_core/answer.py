"""What both sides must find alike, whatever the order of their files."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def answer(paths: pa.ChunkedArray, sizes: pa.ChunkedArray, records: pa.ChunkedArray) -> list[int]:
    """Files, sums of sizes and of records, of their product (which file has which), and of all bytes of all paths."""
    sums = (pc.sum(sizes), pc.sum(records), pc.sum(pc.multiply(sizes, records)))
    return [len(paths), *(total.as_py() for total in sums), sum(map(_sum_of_bytes, paths.chunks))]


def _sum_of_bytes(texts: pa.StringArray) -> int:
    offsets = pa.Array.from_buffers(pa.int32(), len(texts) + 1, [None, texts.buffers()[1]], offset=texts.offset)
    start, end = offsets[0].as_py(), offsets[-1].as_py()
    text = pa.Array.from_buffers(pa.uint8(), end - start, [None, texts.buffers()[2].slice(start, end - start)])
    return pc.sum(text).as_py() or 0
