"""A file that only takes effect when it is closed."""

from __future__ import annotations

import io
from pathlib import Path
from types import TracebackType


class TemporaryFile(io.BufferedWriter):
    """Writes a temporary file that ``close`` of a subclass puts in place; without ``close`` it is deleted."""

    def __init__(self, path: Path, file: io.FileIO) -> None:
        self._path = path
        super().__init__(file)

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
