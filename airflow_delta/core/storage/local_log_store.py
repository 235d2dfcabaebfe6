"""A table on a filesystem of this machine (or mounted into it)."""

from __future__ import annotations

import errno
import io
import os
import stat
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Self

import pyarrow.fs

from airflow_delta.core.errors import PathOutsideTableError, StorageAccessError
from airflow_delta.core.storage.data_filesystem import data_filesystem
from airflow_delta.core.storage.log_store import UNFINISHED, FileStatus
from airflow_delta.core.storage.storage_failures import storage_failure
from airflow_delta.core.storage.table_uri import local_path, scheme_of
from airflow_delta.core.storage.temporary_file import TemporaryFile

_NOT_SYNCED = ".crc"
"""Checksums only help, so a power cut may take them: waiting for the disk would double the time of a commit."""

_LOG_DIRECTORY = "_delta_log"
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EMLINK}
_NO_FILE = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP}
"""What says that there is no file: of a name longer than any file's, and of a link in a circle, too."""


class LocalLogStore:
    """A ``LogStore`` over plain files.

    The exclusive create is a hard link to a complete, synced temporary file: it fails when the name is held, and no reader ever
    sees part of the content. Filesystems without hard links (some FUSE and SMB mounts) get ``O_EXCL`` instead, which is as
    exclusive, but lets a reader see a file that is still being written: until it is whole it begins with ``UNFINISHED``, so
    that no reader takes a part of it for all, and it can be deleted should its writer have died.

    What this process may not do, and a full disk, are typed errors (``StorageAccessError``, ``StorageFullError``): whatever was
    requested was not done.
    """

    def __init__(self, table_uri: str, *, allowed_prefixes: Iterable[str] = ()) -> None:
        self._allowed_prefixes = tuple(allowed_prefixes)
        self._table_uri = table_uri.rstrip("/") or "/"
        self._root = local_path(self._table_uri)
        self._root_text = str(self._root).rstrip("/")

    @property
    def table_uri(self) -> str:
        """The table's root as the user wrote it, without a trailing slash."""
        return self._table_uri

    def read(self, path: str) -> bytes:
        """The whole content."""
        with self._refusals(), open(self._locate_text(path), "rb") as file:  # noqa: PTH123 - see there
            return file.read()

    def open_input(self, path: str) -> BinaryIO:
        """The file for random reads."""
        with self._refusals():
            return self._locate(path).open("rb")

    def exists(self, path: str) -> bool:
        """Whether the file is there now."""
        with self._refusals():
            return _is_file(self._locate(path))

    def status(self, path: str) -> FileStatus | None:
        """The file as a listing would show it now."""
        with self._refusals():
            return _status(self._locate(path), path)

    def write_if_absent(self, path: str, content: bytes) -> None:
        """Create the file in one step; of racing writers exactly one returns."""
        is_synced = not path.endswith(_NOT_SYNCED)
        with self._refusals():
            target = self._locate_text(path)
            temporary = _temporary_beside(target)
            try:
                with open(temporary, "wb") as stream:  # noqa: PTH123 - see _locate_text
                    stream.write(content)
                    if is_synced:
                        _sync(stream)
                try:
                    os.link(temporary, target)
                except OSError as error:
                    if error.errno not in _NO_HARD_LINKS:
                        raise
                    _write_exclusively(Path(target), content)
            finally:
                with suppress(OSError):  # a vacuum finds it; the file is there, or the first error is the one to be seen
                    os.unlink(temporary)  # noqa: PTH108 - see _locate_text
        if is_synced:  # outside: whatever fails now, the file is there
            _sync_directory(Path(target).parent)

    def write(self, path: str, content: bytes) -> None:
        """Create or replace the file in one step."""
        with self._refusals(), self.open_output(path) as stream:
            stream.write(content)

    def open_output(self, path: str) -> BinaryIO:
        """A stream whose content becomes the file when it is closed."""
        with self._refusals():
            return _WholeFile.beside(self._locate(path))

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStatus]:
        """The files right below ``directory`` from the name ``start`` on; a status is requested when its turn comes."""
        where = self._locate(directory)
        try:
            with self._refusals(), os.scandir(where) as entries:
                names = sorted((entry.name, entry) for entry in entries if entry.name >= start and _is_file(entry))
        except (FileNotFoundError, NotADirectoryError):
            return
        prefix = f"{directory.rstrip('/')}/" if directory else ""
        for name, entry in names:
            status = _status(entry, f"{prefix}{name}")
            if status:
                yield status

    def list_all(self, directory: str = "", start: str = "") -> Iterator[FileStatus]:
        """Every file below ``directory`` from ``start`` on; links to directories are neither followed nor taken for files."""
        pending = [directory.rstrip("/")]
        first = f"{pending[0]}/{start}" if pending[0] and start else start
        while pending:
            parent = pending.pop()
            prefix = f"{parent}/" if parent else ""
            try:
                with self._refusals(), os.scandir(self._locate(parent)) as entries:
                    found = list(entries)
            except (FileNotFoundError, NotADirectoryError):
                continue
            for entry in found:
                path = f"{prefix}{entry.name}"
                if path < first[: len(path)]:  # and so is all below it
                    continue
                if entry.is_dir(follow_symlinks=False):
                    pending.append(path)
                elif path >= first and _is_file(entry) and (status := _status(entry, path)):
                    yield status

    def delete(self, paths: Iterable[str]) -> None:
        """Delete the files; those already gone are no error, and those behind a link to a directory are not the table's."""
        root = self._root.resolve()
        linked: dict[Path, bool] = {}
        for path in paths:
            _check_relative(path, self._table_uri)
            file = self._root / path
            parent = file.parent
            if parent not in linked:
                linked[parent] = Path(os.path.realpath(parent)) != root / parent.relative_to(self._root)
            if not linked[parent]:
                with self._refusals():
                    file.unlink(missing_ok=True)

    @property
    def allowed_prefixes(self) -> tuple[str, ...]:
        """The places outside of the root from which the table's files may be read."""
        return self._allowed_prefixes

    @property
    def storage_options(self) -> Mapping[str, Any]:
        """None are needed."""
        return {}

    def data_filesystem(self, uri: str | None = None) -> tuple[pyarrow.fs.FileSystem, str]:
        """Arrow's filesystem of the table's data files, or of another file, and the path there."""
        return data_filesystem(str(self._root) if uri is None else uri)  # which a change of the directory does not move

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Raises the typed error where the system refuses, or the disk is full; all other errors as they are."""
        try:
            yield
        except OSError as error:
            failure = storage_failure(error, self._table_uri)
            if isinstance(failure, StorageAccessError):
                raise failure from error
            raise

    def _locate(self, path: str) -> Path:
        """Where the file lies; see ``_locate_text``."""
        return Path(self._locate_text(path))

    def _locate_text(self, path: str) -> str:
        """Where the file lies; a path that would leave the table is a mistake of the caller.

        The root and ``_delta_log`` may be links: that is how the owner has set the table up. Links below them must not lead
        out of the table, but for the places that are allowed.

        A text, as a ``Path`` would take as long as to open the file.

        Raises:
            PathOutsideTableError: One does.
        """
        _check_relative(path, self._table_uri)
        place = self._root_text
        for depth, part in enumerate(path.split("/")):
            place = f"{place}/{part}"
            is_log = part == _LOG_DIRECTORY and depth == 0
            if not is_log and os.path.islink(place) and not self._is_own(Path(place)):  # noqa: PTH114 - see above
                raise PathOutsideTableError(table=self._table_uri, path=path)
        return place

    def _is_own(self, link: Path) -> bool:
        allowed = (local_path(uri) for uri in self._allowed_prefixes if scheme_of(uri) == "file")
        homes = (self._root, self._root / _LOG_DIRECTORY, *allowed)
        real = Path(os.path.realpath(link))  # unlike Path.resolve no error of a link in a circle
        return any(real.is_relative_to(home.resolve()) for home in homes)


def _check_relative(path: str, table_uri: str) -> None:
    if path.startswith("/") or ".." in path.split("/"):
        raise ValueError(f"{path!r} is not a path below {table_uri}")


class _WholeFile(TemporaryFile):
    """Writes beside the target and takes its place on ``close``; a stream that is dropped unclosed leaves nothing."""

    def __init__(self, target: Path, temporary: Path, file: io.FileIO) -> None:
        self._target = target
        super().__init__(temporary, file)

    @classmethod
    def beside(cls, target: Path) -> Self:
        """Opened; nothing is left to be closed when that fails."""
        temporary = _temporary_beside(str(target))
        return cls(target, Path(temporary), io.FileIO(temporary, "wb"))

    def close(self) -> None:
        if self.closed:
            return
        try:
            self.flush()
            os.fsync(self.fileno())
            super().close()
            self._path.replace(self._target)
        finally:
            self._discard()
        _sync_directory(self._target.parent)


def _temporary_beside(target: str) -> str:
    """A new hidden name in the target's directory, which is made when it is missing."""
    directory, name = os.path.split(target)
    if not os.path.isdir(directory):  # noqa: PTH112 - see _locate_text
        _make_directory(Path(directory))
    return f"{directory}/.{name}.{uuid.uuid4()}.tmp"


def _make_directory(directory: Path) -> None:
    """Make the directory and those above it where they are missing, so that a power cut takes none of them."""
    if not directory.is_dir():
        _make_directory(directory.parent)
        try:
            directory.mkdir(exist_ok=True)
        except FileExistsError as error:  # which would say that a commit is there
            detail = "it is a file or a link to nothing, where a directory is needed"
            raise StorageAccessError(uri=str(directory), detail=detail) from error
        with suppress(PermissionError):  # one may be allowed to make directories where one may not read
            _sync_directory(directory.parent)


def _sync(stream: BinaryIO) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def _write_exclusively(path: Path, content: bytes) -> None:
    """Create the file by ``O_EXCL``; should the content not arrive, the name is free again.

    The first byte comes last: a file that was left half written is no JSON, and whole lines of it no commit.
    """
    with path.open("xb") as stream:
        try:
            stream.write(UNFINISHED[: len(content)] + content[1:])
            _sync(stream)
            stream.seek(0)
            stream.write(content[:1])
            _sync(stream)
        except BaseException:
            if _names(path, stream):
                path.unlink()
            raise
        if not _names(path, stream):
            raise FileNotFoundError(errno.ENOENT, "it was deleted while it was written", str(path))


def _names(path: Path, stream: BinaryIO) -> bool:
    """Whether the file at ``path`` is this open one: another process may have deleted it as that of a dead writer."""
    with suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(stream.fileno()))
    return False


def _sync_directory(directory: Path) -> None:
    """Make the new name itself survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP, errno.EBADF}:  # some mounts cannot sync a directory
            raise
    finally:
        os.close(descriptor)


def _is_file(entry: os.DirEntry[str] | Path) -> bool:
    """Whether it is a file, or a link to one; unlike ``Path.is_file`` of Python 3.14 not False where that may not be seen."""
    try:
        return entry.is_file() if isinstance(entry, os.DirEntry) else stat.S_ISREG(entry.stat().st_mode)
    except ValueError:  # of a name with a NUL
        return False
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        return False


def _status(entry: os.DirEntry[str] | Path, path: str) -> FileStatus | None:
    try:
        status = entry.stat()
    except FileNotFoundError:  # deleted since, or a link to nothing
        return None
    return FileStatus(path, status.st_size, status.st_mtime_ns // 1_000_000)
