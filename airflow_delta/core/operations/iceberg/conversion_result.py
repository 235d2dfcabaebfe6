"""The outcome of a conversion to Iceberg metadata."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergConversion:
    """What a conversion wrote.

    Attributes:
        version: The version of the Delta table that Iceberg readers now see.
        number: Number of the metadata file, ``metadata/v<number>.metadata.json``.
        added_files: Data files added since the previous conversion.
        removed_files: Data files removed since then.
        is_from_scratch: Whether all files were listed anew.
        is_new: Whether anything was written; False if this or a later version had been converted already.
    """

    version: int
    number: int
    added_files: int = 0
    removed_files: int = 0
    is_from_scratch: bool = False
    is_new: bool = True

    def to_json(self) -> dict[str, Any]:
        """The conversion as a JSON object, with the field names as keys."""
        return asdict(self)
