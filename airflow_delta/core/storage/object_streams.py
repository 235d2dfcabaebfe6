"""Files of an object store as streams: reads by range, and an upload that happens at the end or not at all."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

_READ_AHEAD = 1 << 20  # bytes: a request takes as long as to send this much


class RangeReader(io.RawIOBase):
    """An object for random reads: what its end holds is there already (a Parquet footer, or the whole of a small file).

    A read beyond that is one request for what is asked for, but for no less than 1 MiB.
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
        """Begin the next read there; nothing is asked for yet."""
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
        length = left if size is None or size < 0 else min(size, left)
        content = self._bytes(self._position, length)
        self._position += length
        return content

    def _bytes(self, start: int, length: int) -> bytes:
        if not length:
            return b""
        if start >= self._tail_start:
            return self._tail[start - self._tail_start :][:length]
        needed = min(start + length, self._tail_start)
        if not self._block_start <= start <= needed <= self._block_start + len(self._block):
            until = min(max(needed, start + _READ_AHEAD), self._tail_start)
            self._block_start, self._block = start, self._read_range(start, until - start)
            if len(self._block) != until - start:
                raise OSError(f"{until - start} bytes were asked for, {len(self._block)} came")
        content = self._block[start - self._block_start :][:length]
        rest = length - len(content)
        return content + self._tail[:rest] if rest else content


class WholeUpload(io.BufferedWriter):
    """A temporary file that is uploaded when it is closed; a stream that is dropped unclosed leaves nothing."""

    def __init__(self, upload: Callable[[Path], None]) -> None:
        self._upload = upload
        descriptor, name = tempfile.mkstemp(prefix="airflow-delta-")
        self._path = Path(name)
        super().__init__(io.FileIO(descriptor, "wb"))

    def close(self) -> None:
        """Upload what was written."""
        if self.closed:
            return
        try:
            super().close()
            self._upload(self._path)
        finally:
            self._discard()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self._discard()

    def __del__(self) -> None:
        self._discard()

    def _discard(self) -> None:
        if not self.closed:
            super().close()
        self._path.unlink(missing_ok=True)
