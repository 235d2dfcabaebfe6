"""Numbers in messages."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """A number with its noun and thousands separators: ``1 file``, ``2,000 files``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
