"""One version of an object, whose parts are kept on disk once read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_delta.core.storage.disk_cache import DiskCache

_PIECE = 1 << 20  # bytes


def version_key(place: Sequence[Any], version: str, size: int) -> str:
    """The cache key of one version of the object at this place."""
    return json.dumps([*place, version, size])


@dataclass(slots=True, kw_only=True, eq=False)
class CachedObject:
    """Reads by range; parts that are not on disk are fetched with one request per gap, and kept.

    The last bytes form a piece of their own, because only the end of many files is ever read; those before are pieces of 1 MiB.

    Attributes:
        cache: Holds the pieces.
        key: As of ``version_key``; identifies exactly this content.
        size: Size of the object, in bytes.
        end_size: Size of the last piece in bytes, if the object is that long.
        fetch: Reads from the store (start, length); raises if the object has another version now.
    """

    cache: DiskCache
    key: str
    size: int
    end_size: int
    fetch: Callable[[int, int], bytes]
    _last: tuple[int, bytes] = field(default=(-1, b""), init=False)  # sequential reads within a piece are common

    @property
    def _end_start(self) -> int:
        return max(0, self.size - self.end_size)

    def kept_end(self) -> bytes | None:
        """The last piece, if it is on disk."""
        return self._kept(self._end_start, self.size)

    def keep_end(self, content: bytes) -> None:
        """Keep the last piece, which was read in another way."""
        self.cache.put(self._piece_key(self._end_start), content)

    def read_at(self, start: int, length: int) -> bytes:
        """Exactly ``length`` bytes from ``start``; the object must be long enough."""
        pieces = list(self._pieces(start, start + length))
        found = [self._kept(*piece) for piece in pieces]
        parts: list[bytes] = []
        number = 0
        while number < len(pieces):
            content = found[number]
            if content is None:
                gap = next((later for later in range(number, len(pieces)) if found[later] is not None), len(pieces))
                content = self._fetched(pieces[number:gap])
                number = gap
            else:
                number += 1
            parts.append(content)
        whole = parts[0] if len(parts) == 1 else b"".join(parts)
        first = pieces[0][0] if pieces else start
        return whole[start - first : start - first + length]

    def _pieces(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Start and end of the pieces that cover this range."""
        for position in range(start // _PIECE * _PIECE, min(end, self._end_start), _PIECE) if start < self._end_start else ():
            yield position, min(position + _PIECE, self._end_start)
        if end > max(start, self._end_start):
            yield self._end_start, self.size

    def _kept(self, start: int, end: int) -> bytes | None:
        if self._last[0] == start:
            return self._last[1]
        content = self.cache.get(self._piece_key(start), end - start)
        if content is not None:
            self._last = start, content
        return content

    def _fetched(self, pieces: Sequence[tuple[int, int]]) -> bytes:
        first, end = pieces[0][0], pieces[-1][1]
        content = self.fetch(first, end - first)
        if len(content) != end - first:
            raise OSError(f"expected {end - first} bytes, found {len(content)}")
        for start, piece_end in pieces:
            self.cache.put(self._piece_key(start), content[start - first : piece_end - first])
        start = pieces[-1][0]
        self._last = start, content[start - first :]
        return content

    def _piece_key(self, start: int) -> str:
        return f"{self.key} {self._end_start} {start}"
