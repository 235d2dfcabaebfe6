"""The answers of an object store, in a form common to all services."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_delta.core.backoff import Backoff

UNREPEATED = Backoff(tries=6, first=0.5, most=8.0)
"""About 12 seconds, for requests whose retries in the service's package are disabled, as both would multiply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectPage:
    """One page of a listing.

    Attributes:
        objects: Key, size in bytes, milliseconds since the epoch, and version of each object, sorted by key. The version is the
            same text as in ``ObjectContent``.
        rest: Where the next page begins; None at the end.
    """

    objects: list[tuple[str, int, int, str]]
    rest: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectContent:
    """An object, or the end of it.

    Attributes:
        size: Size of the whole object, in bytes.
        version: Changes whenever the content changes; empty if the store does not report it.
    """

    content: bytes
    size: int
    version: str
