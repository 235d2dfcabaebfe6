"""The compression codec of data files and checkpoints (``delta.parquet.compression.codec``).

Protocol: PROTOCOL.md, "Table Properties".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PROPERTY: Final = "delta.parquet.compression.codec"
DEFAULT: Final = "snappy"

_FOR_ARROW = {"uncompressed": "none", "lz4_raw": "lz4"}
_WRITTEN = ("none", "snappy", "gzip", "zstd", "lz4", "brotli")


def requested_codec(configuration: Mapping[str, str]) -> str | None:
    """The codec as named in Spark and Delta; None where the table does not set it."""
    return configuration.get(PROPERTY, "").strip().lower() or None


def codec_for_arrow(configuration: Mapping[str, str]) -> str:
    """The codec as Arrow names it; the default if the table sets none, or one that cannot be written here."""
    requested = requested_codec(configuration) or DEFAULT
    codec = _FOR_ARROW.get(requested, requested)
    return codec if codec in _WRITTEN else DEFAULT


def ending(codec: str) -> str:
    """The suffix of file names for a codec (as Arrow names it), for people only."""
    return ".parquet" if codec == "none" else f".{codec}.parquet"
