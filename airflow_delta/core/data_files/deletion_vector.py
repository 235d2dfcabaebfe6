"""Deletion vectors: the rows of a data file that are deleted although the file still contains them.

Protocol: PROTOCOL.md, "Deletion Vectors", and Appendix "Deletion Vector File Storage Format".
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import pyarrow.fs as pafs

from airflow_delta.core.data_files.row_bitmap import RowBitmap
from airflow_delta.core.data_files.z85 import z85_decoded
from airflow_delta.core.storage.cached_data_files import cached_file

FRAME_BYTES = 8
"""Bytes of a deletion vector in a file in addition to its ``size_in_bytes``: its size before, its checksum after."""

_UUID_LENGTH = 20  # characters of an encoded UUID; what precedes them is a directory


def deletion_vector_path(descriptor: Mapping[str, Any]) -> str | None:
    """The file of a deletion vector, as a path of the log (percent-encoded); None for an inline one.

    Raises:
        ValueError: The storage type is unknown, or the text is not a path of this type.
    """
    text = descriptor["path_or_inline_dv"] or ""
    match descriptor["storage_type"]:
        case "i":
            return None
        case "u":
            directory, encoded = text[:-_UUID_LENGTH], z85_decoded(text[-_UUID_LENGTH:])
            return f"{quote(directory)}/deletion_vector_{uuid.UUID(bytes=encoded)}.bin".lstrip("/")
        case "p":
            return str(text)
        case "r":  # of tables with adaptive metadata: relative to the table, and not encoded
            return quote(text)
        case other:
            raise ValueError(f"a deletion vector of the storage type {other!r} is not known")


def inline_deletion_vector(descriptor: Mapping[str, Any]) -> RowBitmap:
    """The deleted rows of an inline deletion vector (fields of ``DELETION_VECTOR``). Raises ``ValueError``."""
    size = descriptor["size_in_bytes"] or 0
    content = z85_decoded(descriptor["path_or_inline_dv"] or "")
    if not 0 <= len(content) - size < 4:  # noqa: PLR2004 - the padding
        raise ValueError(f"the deletion vector does not have the {size} bytes recorded in the log")
    return _parsed(content[:size], descriptor)


def stored_deletion_vector(descriptor: Mapping[str, Any], filesystem: pafs.FileSystem, path: str) -> RowBitmap:
    """The deleted rows of a deletion vector in a file.

    Args:
        descriptor: Fields of ``DELETION_VECTOR``.
        filesystem: Filesystem of the file.
        path: Path of the file in it.

    Raises:
        ValueError: The content does not match the log.
        OSError: The file cannot be read.
    """
    size, offset = descriptor["size_in_bytes"] or 0, descriptor["offset"] or 0
    with filesystem.open_input_file(path) as source:
        stream = cached_file(filesystem, path, source)
        # Nothing beyond the end of the file is requested, so that a size in the log cannot allocate memory.
        if size < 0 or offset < 0 or offset + size + FRAME_BYTES > stream.size():
            raise ValueError(f"the deletion vector does not have the {size} bytes recorded in the log")
        framed = stream.read_at(size + FRAME_BYTES, offset)
    return _parsed(_unframed(framed, size), descriptor)


def framed_deletion_vector(content: bytes) -> bytes:
    """A deletion vector as stored in a file: size, content, checksum."""
    return struct.pack(">i", len(content)) + content + struct.pack(">I", zlib.crc32(content))


def _unframed(framed: bytes, size: int) -> bytes:
    content = framed[4 : 4 + size]
    if len(framed) != size + FRAME_BYTES or struct.unpack_from(">i", framed)[0] != size:
        raise ValueError(f"the deletion vector does not have the {size} bytes recorded in the log")
    if zlib.crc32(content) != struct.unpack_from(">I", framed, 4 + size)[0]:
        raise ValueError("the checksum of the deletion vector does not match")
    return content


def _parsed(content: bytes, descriptor: Mapping[str, Any]) -> RowBitmap:
    rows = RowBitmap.parse(content)
    if len(rows) != descriptor["cardinality"]:
        raise ValueError(f"the deletion vector holds {len(rows)} rows, the log says {descriptor['cardinality']}")
    return rows
