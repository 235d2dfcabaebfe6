"""Limits the size of a micro-batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Admission:
    """Counts the files of one batch until it is full; the first file is always admitted."""

    def __init__(self, max_files: int | None = None, max_bytes: int | None = None) -> None:
        """Set the limits.

        Args:
            max_files: Most files; None for no limit.
            max_bytes: Bytes from which on no further file is admitted; None for no limit.
        """
        self._max_files = max_files
        self._max_bytes = max_bytes
        self._files = self._bytes = 0

    @property
    def has_taken(self) -> bool:
        """Whether the batch has any file."""
        return self._files > 0

    def take(self, sizes: Iterable[int]) -> int:
        """How many of the next files, given their sizes in bytes in order, belong to the batch."""
        taken = 0
        for size in sizes:
            if self._is_full():
                break
            self._files, self._bytes, taken = self._files + 1, self._bytes + size, taken + 1
        return taken

    def take_all(self, sizes: Sequence[int]) -> int:
        """As ``take``, for files that belong together: all of them, or none if the batch is full already."""
        if self._is_full():
            return 0
        self._files, self._bytes = self._files + len(sizes), self._bytes + sum(sizes)
        return len(sizes)

    def _is_full(self) -> bool:
        is_full_of_bytes = self._max_bytes is not None and self._files > 0 and self._bytes >= self._max_bytes
        return is_full_of_bytes or (self._max_files is not None and self._files >= self._max_files)
