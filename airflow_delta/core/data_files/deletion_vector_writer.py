"""Writes deletion vectors, many into one file, as Delta Spark does.

Protocol: PROTOCOL.md, Appendix "Deletion Vector File Storage Format".
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from airflow_delta.core.actions.file_actions import DELETION_VECTOR
from airflow_delta.core.data_files.deletion_vector import FRAME_BYTES, framed_deletion_vector
from airflow_delta.core.data_files.row_bitmap import RowBitmap
from airflow_delta.core.data_files.z85 import z85_encoded

_FORMAT_VERSION = b"\1"
_TARGET_BYTES = 2 << 20


def write_deletion_vectors(
    filesystem: pafs.FileSystem,
    root: str,
    deletion_vectors: Iterable[RowBitmap],
    *,
    directory: str = "",
    target_bytes: int = _TARGET_BYTES,
) -> pa.StructArray:
    """Write the deleted rows of each data file into new files below the table's root; an error leaves none of these files.

    Args:
        filesystem: The table's filesystem.
        root: The table's root in it.
        deletion_vectors: All deleted rows of each data file, including those of its former deletion vector (``union``).
        directory: Directory for the files, below the root; must exist. The root itself when empty.
        target_bytes: Size in bytes at which a file is full; a larger deletion vector gets its own file.

    Returns:
        ``DELETION_VECTOR`` structs, in the order of ``deletion_vectors``. The statistics of the data files must have
        ``numRecords`` and wide bounds (``with_wide_bounds``).
    """
    written: list[str] = []
    found: list[dict[str, Any]] = []
    try:
        for pack in _packs(deletion_vectors, target_bytes):
            name = uuid.uuid4()
            written.append("/".join(filter(None, (root, directory, f"deletion_vector_{name}.bin"))))
            with filesystem.open_output_stream(written[-1]) as stream:
                stream.write(_FORMAT_VERSION)
                for content, rows in pack:
                    found.append(_descriptor(directory + z85_encoded(name.bytes), stream.tell(), len(content), rows))
                    stream.write(framed_deletion_vector(content))
    except BaseException:
        for path in written:
            with suppress(pa.ArrowException, OSError):
                filesystem.delete_file(path)
        raise
    return pa.array(found, DELETION_VECTOR)


def _packs(deletion_vectors: Iterable[RowBitmap], target_bytes: int) -> Iterator[list[tuple[bytes, int]]]:
    """Content and number of rows of the deletion vectors that share a file, file by file."""
    pack: list[tuple[bytes, int]] = []
    size = len(_FORMAT_VERSION)
    for bitmap in deletion_vectors:
        content = bitmap.serialize()
        if pack and size + len(content) + FRAME_BYTES > target_bytes:
            yield pack
            pack, size = [], len(_FORMAT_VERSION)
        pack.append((content, len(bitmap)))
        size += len(content) + FRAME_BYTES
    if pack:
        yield pack


def _descriptor(place: str, offset: int, size: int, rows: int) -> dict[str, Any]:
    return {
        "storage_type": "u",
        "path_or_inline_dv": place,
        "offset": offset,
        "size_in_bytes": size,
        "cardinality": rows,
    }
