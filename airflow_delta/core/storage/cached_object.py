"""One version of an object, of which the parts that were read once lie on disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_delta.core.storage.disk_cache import DiskCache

_PIECE = 1 << 20  # bytes


def version_key(place: Sequence[Any], version: str, size: int) -> str:
    """The key of one version of the object at this place."""
    return json.dumps([*place, version, size])


@dataclass(slots=True, kw_only=True, eq=False)
class CachedObject:
    """Reads by range: what is not on disk is fetched, in as few requests as it has gaps, and kept there.

    The last bytes are a piece of their own, since many files are read no further; those before come in pieces of 1 MiB.

    Attributes:
        cache: Where pieces lie.
        key: ``version_key``: it stands for these bytes and no others.
        size: Bytes of the object.
        end_size: Bytes of the last piece, if there are so many.
        fetch: Reads from the store, start and length; raises if the object is another version by now.
    """

    cache: DiskCache
    key: str
    size: int
    end_size: int
    fetch: Callable[[int, int], bytes]
    _last: tuple[int, bytes] = field(default=(-1, b""), init=False)  # reads that go on within a piece are common

    @property
    def _end_start(self) -> int:
        return max(0, self.size - self.end_size)

    def kept_end(self) -> bytes | None:
        """The last piece, if it is on disk."""
        return self._kept(self._end_start, self.size)

    def keep_end(self, content: bytes) -> None:
        """Keep the last piece, which came by another way."""
        self.cache.put(self._piece_key(self._end_start), content)

    def read_at(self, start: int, length: int) -> bytes:
        """So many bytes, all of which the object has."""
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
        """Where the pieces begin and end that hold the bytes between."""
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
