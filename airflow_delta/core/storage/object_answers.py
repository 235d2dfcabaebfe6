"""What an object store answers, whichever it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_delta.core.backoff import Backoff

UNREPEATED = Backoff(tries=6, first=0.5, most=8.0)
"""Some 12 seconds, for requests that a service's package is kept from repeating: its repeats would be multiplied by ours."""


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
