"""Files of an object store as streams: reads by range, and uploads that happen on close or not at all."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from airflow_delta.core.storage.temporary_file import TemporaryFile

_READ_AHEAD = 1 << 20  # bytes; a request takes as long as transferring this much


class RangeReader(io.RawIOBase):
    """An object for random reads. Its end is already available (a Parquet footer, or the whole of a small file).

    A read before that sends one request for at least 1 MiB.
    """

    def __init__(self, read_range: Callable[[int, int], bytes], *, size: int, tail: bytes) -> None:
        """Read with ``read_range(start, length)``; ``tail`` is the end of the object, ``size`` its size in bytes."""
        super().__init__()
        self._read_range = read_range
        self._size = size
        self._tail_start, self._tail = size - len(tail), tail
        self._block_start, self._block = 0, b""
        self._position = 0

    def readable(self) -> bool:
        """Always True."""
        return True

    def seekable(self) -> bool:
        """Always True."""
        return True

    def tell(self) -> int:
        """Position of the next read."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Set the position of the next read; nothing is requested yet."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"there is nothing before the start ({offset})")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """Fill the buffer; partially only at the end."""
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def readall(self) -> bytes:
        """Read to the end."""
        return self.read()

    def read(self, size: int | None = -1, /) -> bytes:
        """Read exactly ``size`` bytes, fewer only at the end."""
        left = max(self._size - self._position, 0)
        wanted = left if size is None or size < 0 else min(size, left)
        parts = []
        while wanted:
            parts.append(self._next(wanted))
            wanted -= len(parts[-1])
            self._position += len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _next(self, length: int) -> bytes:
        """At most ``length`` bytes from the current position: from those already available, or by one request."""
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
    """A temporary file that is uploaded on close; a stream that is dropped without being closed leaves nothing."""

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
