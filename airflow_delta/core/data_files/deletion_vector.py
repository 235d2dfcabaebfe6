"""Which rows of a data file are deleted although they are still in it.

Protocol: PROTOCOL.md, "Deletion Vector Format", "Derived Fields" and Appendix "Deletion Vector Format". The numbers of the rows
are a Roaring bitmap of 64 bits in the portable format: a 32-bit bitmap for each upper half, each of containers for 2**16 rows.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGITS = {character: digit for digit, character in enumerate(_Z85)}
_UUID_LENGTH = 20  # Characters of an encoded UUID; what stands before them is a directory.
_MAGIC = 1681511377
_COOKIE, _COOKIE_WITH_RUNS = 12346, 12347
_OFFSETS_FROM = 4  # With run containers, fewer containers than these come without offsets.
_ARRAY_LIMIT = 4096  # Containers of more rows are bitmaps.
_CONTAINER_ROWS = 1 << 16

FRAME_BYTES = 8
"""What a vector takes in a file besides its ``size_in_bytes``: its size before, its checksum behind."""


def vector_path(vector: Mapping[str, Any]) -> str | None:
    """The file of a vector as the log spells paths; None for one that is in the log itself.

    Raises:
        ValueError: The storage type is not known.
    """
    text = vector["path_or_inline_dv"]
    match vector["storage_type"]:
        case "i":
            return None
        case "u":
            directory, name = text[:-_UUID_LENGTH], uuid.UUID(bytes=_z85_decoded(text[-_UUID_LENGTH:]))
            return f"{directory}/deletion_vector_{name}.bin".lstrip("/")
        case "p":
            return str(text)
        case other:
            raise ValueError(f"a deletion vector of the storage type {other!r} is not known")


def deleted_rows(vector: Mapping[str, Any], framed: bytes | None) -> pa.Int64Array:
    """The positions (from 0) of the deleted rows, ascending.

    Args:
        vector: Fields of ``DELETION_VECTOR``.
        framed: ``size_in_bytes`` and ``FRAME_BYTES`` of the vector's file from its offset on; None for one in the log itself.

    Raises:
        ValueError: The content is not what the log says.
    """
    size = vector["size_in_bytes"]
    content = _z85_decoded(vector["path_or_inline_dv"])[:size] if framed is None else _unframed(framed, size)
    try:
        positions = pa.concat_arrays([pa.array([], pa.int64()), *_bitmaps(content)])
    except (struct.error, pa.ArrowException) as error:
        raise ValueError(f"the deletion vector is cut off: {error}") from error
    if len(positions) != vector["cardinality"]:
        raise ValueError(f"the deletion vector holds {len(positions)} rows, the log says {vector['cardinality']}")
    return positions


def _unframed(framed: bytes, size: int) -> bytes:
    content = framed[4 : 4 + size]
    if len(framed) != size + FRAME_BYTES or struct.unpack_from(">i", framed)[0] != size:
        raise ValueError(f"the deletion vector has not the {size} bytes that the log says")
    if zlib.crc32(content) != struct.unpack_from(">I", framed, 4 + size)[0]:
        raise ValueError("the checksum of the deletion vector does not match")
    return content


def _z85_decoded(text: str) -> bytes:
    """ZeroMQ's base 85: five characters are four bytes."""
    try:
        digits = [_DIGITS[character] for character in text]
    except KeyError as error:
        raise ValueError(f"{text!r} is not Base85") from error
    if len(digits) % 5:
        raise ValueError(f"{text!r} is not Base85: its length is no multiple of 5")
    words = []
    for start in range(0, len(digits), 5):
        word = 0
        for digit in digits[start : start + 5]:
            word = word * 85 + digit
        words.append(word)
    return struct.pack(f">{len(words)}I", *words)


def _bitmaps(content: bytes) -> Iterator[pa.Int64Array]:
    magic, count = struct.unpack_from("<iq", content)
    if magic != _MAGIC:
        raise ValueError(f"the deletion vector has an unknown format ({magic})")
    position = 12
    for _ in range(count):
        (upper,) = struct.unpack_from("<I", content, position)
        position += 4
        containers, with_offsets, position = _container_headers(content, position)
        position += 4 * len(containers) if with_offsets else 0
        for lower, rows, is_run in containers:
            values, position = _container(content, position, rows, is_run=is_run)
            yield pc.add(values.cast(pa.int64()), (upper << 32) + (lower << 16))


def _container_headers(content: bytes, position: int) -> tuple[list[tuple[int, int, bool]], bool, int]:
    """Key, rows and kind of each container; whether offsets follow; where to go on."""
    (cookie,) = struct.unpack_from("<I", content, position)
    position += 4
    flags = b""
    if cookie & 0xFFFF == _COOKIE_WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = content[position : position + (count + 7) // 8]
        position += len(flags)
    elif cookie == _COOKIE:
        (count,) = struct.unpack_from("<I", content, position)
        position += 4
    else:
        raise ValueError(f"the deletion vector holds an unknown bitmap ({cookie})")
    numbers = struct.unpack_from(f"<{2 * count}H", content, position)
    runs = [bool(flags and flags[each // 8] >> each % 8 & 1) for each in range(count)]
    headers = [(key, rows + 1, run) for key, rows, run in zip(numbers[::2], numbers[1::2], runs, strict=True)]
    return headers, not flags or count >= _OFFSETS_FROM, position + 4 * count


def _container(content: bytes, position: int, rows: int, *, is_run: bool) -> tuple[pa.Array, int]:
    if is_run:
        (count,) = struct.unpack_from("<H", content, position)
        numbers = struct.unpack_from(f"<{2 * count}H", content, position + 2)
        runs = zip(numbers[::2], numbers[1::2], strict=True)
        values = pa.array([row for first, more in runs for row in range(first, first + more + 1)], pa.int64())
        return values, position + 2 + 4 * count
    kind, length, size = (pa.uint16(), rows, 2 * rows) if rows <= _ARRAY_LIMIT else (pa.bool_(), _CONTAINER_ROWS, 8192)
    if position + size > len(content):
        raise ValueError("the deletion vector is cut off")
    stored = pa.Array.from_buffers(kind, length, [None, pa.py_buffer(content[position : position + size])])
    return (stored if rows <= _ARRAY_LIMIT else pc.indices_nonzero(stored)), position + size
