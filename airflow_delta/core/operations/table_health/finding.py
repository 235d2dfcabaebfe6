"""A finding of the health check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad it is."""

    ERROR = "error"
    """Rows are wrong, missing or unreadable."""
    WARNING = "warning"
    """Something is lost or fails later, or another engine stumbles."""
    HINT = "hint"
    """It costs time or storage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        code: Stable name, such as ``MISSING_DATA_FILES``, or the code of the error that a reader meets.
        text: What, in words.
        remedy: What to do about it.
        files: Some of the files concerned, paths below the root; not all where there are many.
    """

    severity: Severity
    code: str
    text: str
    remedy: str
    files: tuple[str, ...] = ()
