"""A table on a local (or locally mounted) filesystem."""

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
"""Version checksums are not synced: losing one is harmless, and syncing would double the time of a commit."""

_LOG_DIRECTORY = "_delta_log"
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EMLINK}
_NO_FILE = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP}
"""Errors that mean that a file does not exist; includes names that are too long, and circular links."""


class LocalLogStore:
    """A ``LogStore`` over plain files.

    A file is created as a hard link to a complete, synced temporary file: that fails if the name is taken, and readers never
    see partial content. On filesystems without hard links (some FUSE and SMB mounts) ``O_EXCL`` is used, which is just as
    exclusive, but shows the file while it is still being written: until complete it begins with ``UNFINISHED``, so that readers
    recognize it, and it can be deleted if its writer has died.

    Missing permissions and a full disk raise typed errors (``StorageAccessError``, ``StorageFullError``): then nothing was
    done.
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
        """Create the file atomically; of concurrent writers exactly one succeeds."""
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
                with suppress(OSError):  # a vacuum will delete it; the file exists, or the first error matters more
                    os.unlink(temporary)  # noqa: PTH108 - see _locate_text
        if is_synced:  # outside of the block: from here on the file exists, whatever fails
            _sync_directory(Path(target).parent)

    def write(self, path: str, content: bytes) -> None:
        """Create or replace the file atomically."""
        with self._refusals(), self.open_output(path) as stream:
            stream.write(content)

    def open_output(self, path: str) -> BinaryIO:
        """A stream whose content becomes the file on close."""
        with self._refusals():
            return _WholeFile.beside(self._locate(path))

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStatus]:
        """The files directly below ``directory``, from the name ``start`` on; each status is requested when it is yielded."""
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
        """Every file below ``directory`` from ``start`` on; links to directories are neither followed nor listed as files."""
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
                if path < first[: len(path)]:  # so does everything below it
                    continue
                if entry.is_dir(follow_symlinks=False):
                    pending.append(path)
                elif path >= first and _is_file(entry) and (status := _status(entry, path)):
                    yield status

    def delete(self, paths: Iterable[str]) -> None:
        """Delete the files; missing ones are ignored, as are those behind a link to a directory, which are not the table's."""
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
        """URIs outside of the root from which the table's files may be read."""
        return self._allowed_prefixes

    @property
    def storage_options(self) -> Mapping[str, Any]:
        """Empty, as none are needed."""
        return {}

    def data_filesystem(self, uri: str | None = None) -> tuple[pyarrow.fs.FileSystem, str]:
        """Arrow's filesystem of the table's data files, or of another file, and the path in it."""
        return data_filesystem(str(self._root) if uri is None else uri)  # absolute: independent of chdir

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Raises the typed error if the system denies access or the disk is full; other errors pass through."""
        try:
            yield
        except OSError as error:
            failure = storage_failure(error, self._table_uri)
            if isinstance(failure, StorageAccessError):
                raise failure from error
            raise

    def _locate(self, path: str) -> Path:
        """The file's path on the filesystem; see ``_locate_text``."""
        return Path(self._locate_text(path))

    def _locate_text(self, path: str) -> str:
        """The file's path on the filesystem; raises for a path outside of the table, which is a bug in the caller.

        The root and ``_delta_log`` may be links, as the owner may have set up the table that way. Links below them must not
        lead outside of the table, except to allowed prefixes.

        Returns text, because creating a ``Path`` takes as long as opening the file.

        Raises:
            PathOutsideTableError: A link does.
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
        real = Path(os.path.realpath(link))  # unlike Path.resolve, raises no error for circular links
        return any(real.is_relative_to(home.resolve()) for home in homes)


def _check_relative(path: str, table_uri: str) -> None:
    if path.startswith("/") or ".." in path.split("/"):
        raise ValueError(f"{path!r} is not a path below {table_uri}")


class _WholeFile(TemporaryFile):
    """Writes beside the target and replaces it on ``close``; a stream that is dropped without being closed leaves nothing."""

    def __init__(self, target: Path, temporary: Path, file: io.FileIO) -> None:
        self._target = target
        super().__init__(temporary, file)

    @classmethod
    def beside(cls, target: Path) -> Self:
        """An open stream; if opening fails, nothing needs to be closed."""
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
    """A new hidden name in the target's directory, which is created if missing."""
    directory, name = os.path.split(target)
    if not os.path.isdir(directory):  # noqa: PTH112 - see _locate_text
        _make_directory(Path(directory))
    return f"{directory}/.{name}.{uuid.uuid4()}.tmp"


def _make_directory(directory: Path) -> None:
    """Create the directory and its missing parents durably, so that a power cut does not lose them."""
    if not directory.is_dir():
        _make_directory(directory.parent)
        try:
            directory.mkdir(exist_ok=True)
        except FileExistsError as error:  # would otherwise be taken to mean that the commit exists
            detail = "it is a file or a link to nothing, where a directory is needed"
            raise StorageAccessError(uri=str(directory), detail=detail) from error
        with suppress(PermissionError):  # creating directories may be allowed where reading is not
            _sync_directory(directory.parent)


def _sync(stream: BinaryIO) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def _write_exclusively(path: Path, content: bytes) -> None:
    """Create the file with ``O_EXCL``; if writing its content fails, the name becomes free again.

    The first byte is written last: an incomplete file is not valid JSON, and its complete lines are not taken for a commit.
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
    """Whether the file at ``path`` is this open file: another process may have deleted it, taking its writer for dead."""
    with suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(stream.fileno()))
    return False


def _sync_directory(directory: Path) -> None:
    """Make the new directory entry survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP, errno.EBADF}:  # some mounts cannot sync directories
            raise
    finally:
        os.close(descriptor)


def _is_file(entry: os.DirEntry[str] | Path) -> bool:
    """Whether it is a file or a link to one; unlike ``Path.is_file`` of Python 3.14, raises if permission is missing."""
    try:
        return entry.is_file() if isinstance(entry, os.DirEntry) else stat.S_ISREG(entry.stat().st_mode)
    except ValueError:  # a name with a NUL character
        return False
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        return False


def _status(entry: os.DirEntry[str] | Path, path: str) -> FileStatus | None:
    try:
        status = entry.stat()
    except FileNotFoundError:  # deleted meanwhile, or a dangling link
        return None
    return FileStatus(path, status.st_size, status.st_mtime_ns // 1_000_000)
