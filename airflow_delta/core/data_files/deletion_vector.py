"""Which rows of a data file are deleted although they are still in it.

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
"""What a deletion vector takes in a file besides its ``size_in_bytes``: its size before, its checksum behind."""

_UUID_LENGTH = 20  # Characters of an encoded UUID; what stands before them is a directory.


def deletion_vector_path(descriptor: Mapping[str, Any]) -> str | None:
    """The file of a deletion vector as the log spells paths (percent-encoded); None for one that is in the log itself.

    Raises:
        ValueError: The storage type is not known, or the text is not a path of this type.
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
    """The deleted rows of a deletion vector in the log itself (fields of ``DELETION_VECTOR``). Raises ``ValueError``."""
    size = descriptor["size_in_bytes"] or 0
    content = z85_decoded(descriptor["path_or_inline_dv"] or "")
    if not 0 <= len(content) - size < 4:  # noqa: PLR2004 - the padding
        raise ValueError(f"the deletion vector does not have the {size} bytes recorded in the log")
    return _parsed(content[:size], descriptor)


def stored_deletion_vector(descriptor: Mapping[str, Any], filesystem: pafs.FileSystem, path: str) -> RowBitmap:
    """The deleted rows of a deletion vector in a file.

    Args:
        descriptor: Fields of ``DELETION_VECTOR``.
        filesystem: Where the file lies.
        path: The file, as the filesystem names it.

    Raises:
        ValueError: The content is not what the log says.
        OSError: The file cannot be read.
    """
    size, offset = descriptor["size_in_bytes"] or 0, descriptor["offset"] or 0
    with filesystem.open_input_file(path) as source:
        stream = cached_file(filesystem, path, source)
        # What lies behind the end of the file is not requested: the log's word alone allocates no memory.
        if size < 0 or offset < 0 or offset + size + FRAME_BYTES > stream.size():
            raise ValueError(f"the deletion vector does not have the {size} bytes recorded in the log")
        framed = stream.read_at(size + FRAME_BYTES, offset)
    return _parsed(_unframed(framed, size), descriptor)


def framed_deletion_vector(content: bytes) -> bytes:
    """A deletion vector as it stands in a file: size, content, checksum."""
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
