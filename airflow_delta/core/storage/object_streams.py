"""Files of an object store as streams: reads by range, and an upload that happens at the end or not at all."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from airflow_delta.core.storage.temporary_file import TemporaryFile

_READ_AHEAD = 1 << 20  # bytes: a request takes as long as to send this much


class RangeReader(io.RawIOBase):
    """An object for random reads: what its end holds is there already (a Parquet footer, or the whole of a small file).

    A read beyond that is one request for what is requested, but for no less than 1 MiB.
    """

    def __init__(self, read_range: Callable[[int, int], bytes], *, size: int, tail: bytes) -> None:
        """Read by ``read_range(start, length)``; ``tail`` is the end of the object, ``size`` all its bytes."""
        super().__init__()
        self._read_range = read_range
        self._size = size
        self._tail_start, self._tail = size - len(tail), tail
        self._block_start, self._block = 0, b""
        self._position = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Begin the next read there; nothing is requested yet."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"there is nothing before the start ({offset})")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """Fill the buffer; less only at the end."""
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def readall(self) -> bytes:
        """All that follows."""
        return self.read()

    def read(self, size: int | None = -1, /) -> bytes:
        """All of ``size`` bytes, fewer only at the end."""
        left = max(self._size - self._position, 0)
        wanted = left if size is None or size < 0 else min(size, left)
        parts = []
        while wanted:
            parts.append(self._next(wanted))
            wanted -= len(parts[-1])
            self._position += len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _next(self, length: int) -> bytes:
        """At most so many bytes from the position on: what is there already, or else what one request brings."""
        if self._position >= self._tail_start:
            start = self._position - self._tail_start
            return self._tail[start : start + length]
        start = self._position - self._block_start
        if not 0 <= start < len(self._block):
            requested = min(max(length, _READ_AHEAD), self._tail_start - self._position)
            start, self._block_start, self._block = 0, self._position, self._read_range(self._position, requested)
            if len(self._block) != requested:
                raise OSError(f"expected {requested} bytes, found {len(self._block)}")
        return self._block[start : start + length]


class WholeUpload(TemporaryFile):
    """A temporary file that is uploaded when it is closed; a stream that is dropped unclosed leaves nothing."""

    def __init__(self, upload: Callable[[Path], None]) -> None:
        self._upload = upload
        descriptor, name = tempfile.mkstemp(prefix="airflow-delta-")
        super().__init__(Path(name), io.FileIO(descriptor, "wb"))

    def close(self) -> None:
        """Upload what was written."""
        if self.closed:
            return
        try:
            super().close()
            self._upload(self._path)
        finally:
            self._discard()
