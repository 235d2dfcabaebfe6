"""What a conversion to Iceberg's metadata did."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergConversion:
    """What was written.

    Attributes:
        version: The version of the Delta table that Iceberg's readers see.
        number: Of the metadata file, ``metadata/v<number>.metadata.json``.
        added_files: Data files that came since the conversion before.
        removed_files: Data files that went since then.
        is_from_scratch: Whether all files were named anew.
        is_new: Whether anything was written: False where a conversion had come as far.
    """

    version: int
    number: int
    added_files: int = 0
    removed_files: int = 0
    is_from_scratch: bool = False
    is_new: bool = True

    def to_json(self) -> dict[str, Any]:
        """The conversion as a JSON object, by field names."""
        return asdict(self)
