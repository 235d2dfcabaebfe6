"""A cache of object content on the local disk, shared by all processes, with a common size limit.

The folder must belong to this user alone; others' files in it are ignored. An entry appears by one rename, carries a checksum
of key and content, and is removed if the checksum is wrong. Failures of the cache never fail its caller: content that cannot be
cached is read from the store again.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import re
import stat
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from airflow_delta.core.errors import InvalidStatementError

_logger = logging.getLogger(__name__)

_CHECKSUM_BYTES = 4
"""CRC-32, against disks and power cuts: only this user can write here, and a stronger one takes a quarter of a read."""
_ENTRY = re.compile(r"[0-9a-f]{64}")
_UNFINISHED = ".part"  # at most one exists, as its writer holds the ledger's lock
_LEDGER = "ledger"
"""Bytes of all entries, or more, never fewer: an entry is counted before it is written. Writers must hold its lock."""
_LEDGER_DIGITS = 20
_PATIENCE = 0.1  # seconds to wait for the lock, which a stopped process may hold forever
_PAUSE = 0.001
_BLOCK = 4096  # disk space per entry is a multiple of this, in bytes
_KEPT = 7 / 8  # fraction of the limit kept after eviction, so that not every new entry evicts
_LARGEST = 1 / 4  # largest entry, as a fraction of the limit
_SAME_USE = 60.0  # seconds
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_warned: set[tuple[str, str]] = set()


class _UnusableFolderError(OSError):
    """The folder does not belong to this user alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskCache:
    """Content by keys, each of which stands for one fixed content. Safe for threads and processes, even if they are killed.

    Attributes:
        folder: An absolute path. Created with mode 0700 when the first entry is kept; an existing folder is only used if it
            belongs to this user and other users cannot enter it.
        most_bytes: Limit of all entries together; the least recently used are removed.
        keeps_files: Whether to cache whole data files, too, not only log files and footers.
    """

    folder: str
    most_bytes: int
    keeps_files: bool = False

    def __post_init__(self) -> None:
        if not os.path.isabs(self.folder):  # noqa: PTH117 - it stays a text
            raise InvalidStatementError(statement="the folder of the cache", detail=f"{self.folder!r} is not an absolute path")
        if self.most_bytes <= 0:
            raise InvalidStatementError(
                statement="the bound of the cache", detail=f"it must be a positive number of bytes, found {self.most_bytes}"
            )

    def get(self, key: str, size: int) -> bytes | None:
        """The content of ``size`` bytes under the key; None if it is missing or damaged."""
        try:
            with self._opened() as folder:
                return _content(folder, key, size)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(error)
            return None

    def put(self, key: str, content: bytes) -> None:
        """Store the content, unless the folder cannot take it now."""
        size = _CHECKSUM_BYTES + len(content)
        if _on_disk(size) > self.most_bytes * _LARGEST:
            return
        try:
            with self._opened(create=True) as folder, _locked(folder) as ledger:
                if ledger is not None and not _is_there(folder, _name(key), size):
                    self._make_room(folder, ledger, _on_disk(size))
                    _write(folder, _name(key), (_checksum(key, content), content))
        except OSError as error:
            self._warn(error)

    @contextmanager
    def _opened(self, *, create: bool = False) -> Iterator[int]:
        """The checked folder itself, as a file descriptor, even if its path is replaced meanwhile."""
        if create and not os.path.isdir(self.folder):  # noqa: PTH112 - it stays a text
            os.makedirs(os.path.dirname(self.folder), exist_ok=True)  # noqa: PTH103, PTH120
            with suppress(FileExistsError):
                os.mkdir(self.folder, 0o700)  # noqa: PTH102
        folder = os.open(self.folder, _READ | os.O_DIRECTORY)
        try:
            found = os.fstat(folder)
            if found.st_uid != os.geteuid() or found.st_mode & _OTHERS:
                raise _UnusableFolderError(
                    f"expected a folder of the user {os.geteuid()} with mode 0700, found one of the user {found.st_uid} with "
                    f"mode {stat.S_IMODE(found.st_mode):04o}: name one that is not there yet, or correct its owner and mode"
                )
            yield folder
        finally:
            os.close(folder)

    def _make_room(self, folder: int, ledger: int, size: int) -> None:
        """Count the new entry, and remove old ones if the limit would be exceeded."""
        digits = os.pread(ledger, _LEDGER_DIGITS, 0)
        known = int(digits) if len(digits) == _LEDGER_DIGITS and digits.isdigit() else None
        if known is None or known + size > self.most_bytes:
            known = _evict(folder, most=self.most_bytes - size, kept=int(self.most_bytes * _KEPT) - size)
        os.pwrite(ledger, b"%0*d" % (_LEDGER_DIGITS, known + size), 0)

    def _warn(self, error: OSError) -> None:
        """Warn once for each reason; work goes on without the cache."""
        reason = str(error) if isinstance(error, _UnusableFolderError) else f"{type(error).__name__} {error.strerror}"
        if (self.folder, reason) not in _warned:
            _warned.add((self.folder, reason))
            _logger.warning("The cache in %s is not used: %s", self.folder, reason)


def _on_disk(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _checksum(key: str, content: bytes) -> bytes:
    return zlib.crc32(content, zlib.crc32(key.encode())).to_bytes(_CHECKSUM_BYTES, "big")


def _content(folder: int, key: str, size: int) -> bytes | None:
    name = _name(key)
    file = os.open(name, _READ, dir_fd=folder)
    try:
        found = os.fstat(file)
        if stat.S_ISREG(found.st_mode) and found.st_size == _CHECKSUM_BYTES + size:
            checksum, content = os.read(file, _CHECKSUM_BYTES), _read(file, size)
            if checksum == _checksum(key, content):
                if time.time() - found.st_mtime > _SAME_USE:
                    os.utime(file)
                return content
    finally:
        os.close(file)
    _logger.info("An entry of the cache was damaged, and is removed: %s", name)
    os.unlink(name, dir_fd=folder)
    return None


def _read(file: int, size: int) -> bytes:
    content = os.read(file, size)
    while len(content) < size and (more := os.read(file, size - len(content))):
        content += more
    return content


def _write(folder: int, name: str, parts: tuple[bytes, ...]) -> None:
    unfinished = name + _UNFINISHED
    file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        with io.FileIO(file, "wb") as stream:
            for part in parts:
                left = memoryview(part)
                while left:
                    left = left[stream.write(left) :]
        os.rename(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished, dir_fd=folder)
        raise


def _is_there(folder: int, name: str, size: int) -> bool:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_size == size
    except FileNotFoundError:
        return False


def _evict(folder: int, *, most: int, kept: int) -> int:
    """Remove leftovers of killed writers and, above ``most`` bytes, the least recently used entries; returns the bytes left."""
    entries: list[tuple[int, int, str]] = []
    with os.scandir(folder) as found:
        for entry in found:
            if entry.name.endswith(_UNFINISHED):
                os.unlink(entry.name, dir_fd=folder)
            elif _ENTRY.fullmatch(entry.name):
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    entries.append((status.st_mtime_ns, _on_disk(status.st_size), entry.name))
    left = sum(size for _, size, _ in entries)
    if left <= most:
        return left
    for _, size, name in sorted(entries):
        if left <= kept:
            break
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        left -= size
    return left


@contextmanager
def _locked(folder: int) -> Iterator[int | None]:
    """The ledger, locked for this thread until the process ends at the latest; None if others hold the lock too long."""
    import fcntl  # noqa: PLC0415 - not on Windows

    ledger = os.open(_LEDGER, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(ledger, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    yield None
                    return
                time.sleep(_PAUSE)
            else:
                break
        try:
            yield ledger
        finally:
            fcntl.flock(ledger, fcntl.LOCK_UN)  # closing alone would leave the lock to a child process forked meanwhile
    finally:
        os.close(ledger)
