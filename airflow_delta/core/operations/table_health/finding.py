"""A finding of the health check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """Rows are wrong, missing or unreadable."""
    WARNING = "warning"
    """Data is lost or work will fail later, or other engines cannot cope."""
    HINT = "hint"
    """Costs time or storage only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem found.

    Attributes:
        code: Stable name, such as ``MISSING_DATA_FILES``, or the code of the error that readers get.
        text: The problem in words.
        remedy: What to do about it.
        files: Some of the files concerned, as paths below the root; at most a few.
    """

    severity: Severity
    code: str
    text: str
    remedy: str
    files: tuple[str, ...] = ()
