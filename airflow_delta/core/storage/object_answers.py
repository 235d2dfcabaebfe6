"""What an object store answers, whichever it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectPage:
    """One answer to a listing.

    Attributes:
        objects: Key, bytes, milliseconds since the epoch, and version of each object; by key. The version is the same text as
            in ``ObjectContent``.
        rest: Where the next page begins; None at the end.
    """

    objects: list[tuple[str, int, int, str]]
    rest: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectContent:
    """An object, or the end of it.

    Attributes:
        size: Bytes of the whole object.
        version: What changes when the content of the object does; empty where the store does not say it.
    """

    content: bytes
    size: int
    version: str
