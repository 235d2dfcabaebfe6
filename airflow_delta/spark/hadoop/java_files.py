"""Java's streams and exceptions as those of Python."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

from airflow_delta.spark.jvm import Py4JError, Py4JJavaError

_BUFFER = 1 << 20  # bytes transferred to the JVM at once
_ERRORS: dict[str, type[OSError]] = {
    "java.io.FileNotFoundException": FileNotFoundError,
    "org.apache.hadoop.fs.FileAlreadyExistsException": FileExistsError,
    "org.apache.hadoop.fs.ParentNotDirectoryException": NotADirectoryError,
    "org.apache.hadoop.fs.PathIsNotDirectoryException": NotADirectoryError,
    "org.apache.hadoop.security.AccessControlException": PermissionError,
}


@contextmanager
def as_os_errors(path: str = "") -> Iterator[None]:
    """Convert Java exceptions to ``OSError``s with the same meaning."""
    try:
        yield
    except Py4JJavaError as error:
        thrown = error.java_exception
        name = thrown.getClass().getName()
        if name == "org.apache.hadoop.ipc.RemoteException":  # the actual error of the name node
            name = thrown.getClassName()
        kind = _ERRORS.get(name, OSError)
        raise kind(f"{name}: {thrown.getMessage()} ({path})" if path else f"{name}: {thrown.getMessage()}") from error


class JavaInput(io.RawIOBase):
    """An ``FSDataInputStream`` as a file for random reads."""

    def __init__(self, stream: Any, size: int) -> None:
        self._stream = stream
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        """Always True."""
        return True

    def seekable(self) -> bool:
        """Always True."""
        return True

    def tell(self) -> int:
        """The current position."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position, which may lie after the end."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError(f"negative position {start + offset}")
        self._position = start + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer from the current position, as far as the file reaches."""
        length = min(len(buffer), max(self._size - self._position, 0))
        if not length:
            return 0
        with as_os_errors():
            self._stream.seek(self._position)
            content = bytes(self._stream.readNBytes(length))
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)

    def close(self) -> None:
        """Close Java's stream; its errors are ignored."""
        if not self.closed:
            super().close()
            with suppress(Py4JError):
                self._stream.close()


class _RawOutput(io.RawIOBase):
    """An ``FSDataOutputStream``."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._written = 0

    def writable(self) -> bool:
        """Always True."""
        return True

    def tell(self) -> int:
        """How many bytes were written; seeking is not supported."""
        return self._written

    def write(self, content: Any) -> int:
        """Write all of the content."""
        with as_os_errors():
            self._stream.write(bytes(content))
        self._written += len(content)
        return len(content)

    def close(self) -> None:
        """Close Java's stream, which completes the file."""
        if not self.closed:
            super().close()
            with as_os_errors():
                self._stream.close()


class JavaOutput(io.BufferedWriter):
    """Writes a temporary file that is renamed on ``close``; a stream that is dropped without being closed leaves nothing.

    Args:
        stream: An ``FSDataOutputStream`` into the temporary file.
        take_place: Renames the temporary file to its final name.
        give_up: Deletes the temporary file.
    """

    def __init__(self, stream: Any, take_place: Callable[[], None], give_up: Callable[[], None]) -> None:
        self._take_place = take_place
        self._give_up = give_up
        self._ended = False
        super().__init__(_RawOutput(stream), _BUFFER)

    def close(self) -> None:
        """Complete the file, under its final name."""
        if self._ended:
            return
        self._ended = True
        try:
            super().close()
            self._take_place()
        except BaseException:
            self._discard()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        elif not self._ended:
            self._ended = True
            self._discard()

    def __del__(self) -> None:
        if not self._ended:
            self._ended = True
            self._discard()

    def _discard(self) -> None:
        with suppress(OSError, Py4JError):
            super().close()
        with suppress(OSError, Py4JError):
            self._give_up()
