"""Checks untrusted Avro files: determines the cost of reading one before pyiceberg reads it.

Specification: https://avro.apache.org/docs/1.12.0/specification/, "Object Container Files".
"""

from __future__ import annotations

import json
import zlib
from typing import Any, Final

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import META_SCHEMA, AvroFileHeader
from pyiceberg.avro.resolver import construct_reader

MOST_BYTES: Final = 64 << 20
"""Most bytes of a file; ten thousand data files with their bounds take a tenth of this."""

MOST_INFLATED: Final = 256 << 20
"""Most bytes of all blocks of a file together, decompressed."""

_SYNC_BYTES = 16  # sync marker after each block
_RAW_DEFLATE = -15
_CODECS = {None, "null", "deflate"}


def check_bounded(content: bytes) -> None:
    """Return if this is an Avro file that can be read in bounded memory and time.

    Args:
        content: The whole file.

    Raises:
        ValueError: It would take more than ``MOST_INFLATED`` bytes, or has a form that this package does not write.
        EOFError: The file is truncated.
    """
    decoder = new_decoder(content)
    header: AvroFileHeader = construct_reader(META_SCHEMA, {-1: AvroFileHeader}).read(decoder)
    codec = header.meta.get("avro.codec")
    if codec not in _CODECS:
        raise ValueError(f"the codec {codec!r:.20} is not one that is written here")
    if _has_empty_elements(json.loads(header.meta.get("avro.schema", "null"))):
        raise ValueError("elements of an array take no bytes, so that there may be any number of them")
    left = MOST_INFLATED
    while True:
        try:
            entries = decoder.read_int()
        except EOFError:
            return
        block = decoder.read_bytes()
        size = len(zlib.decompressobj(_RAW_DEFLATE).decompress(block, left + 1)) if codec == "deflate" else len(block)
        left -= size
        if left < 0 or not 0 <= entries <= size:
            raise ValueError(
                f"a block says that it has {entries} entries, and takes more than {MOST_INFLATED} bytes or too few"
            )
        decoder.skip(_SYNC_BYTES)


def _has_empty_elements(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(map(_has_empty_elements, schema))
    if not isinstance(schema, dict):
        return False
    is_empty_array = schema.get("type") == "array" and _takes_no_bytes(schema.get("items"))
    return is_empty_array or any(map(_has_empty_elements, schema.values()))


def _takes_no_bytes(schema: Any) -> bool:
    if isinstance(schema, dict) and schema.get("type") == "record":
        return all(_takes_no_bytes(field.get("type")) for field in schema.get("fields", ()))
    if isinstance(schema, dict) and schema.get("type") == "fixed":
        return not schema.get("size")
    return _takes_no_bytes(schema["type"]) if isinstance(schema, dict) and "type" in schema else schema == "null"
