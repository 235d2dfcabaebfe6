"""The common base of the stores for S3, GCS and Azure: connects through fsspec, but sends the log's requests itself."""

from __future__ import annotations

import logging
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import pyarrow.fs
from fsspec import AbstractFileSystem
from fsspec.asyn import sync

from airflow_delta.core.backoff import Backoff
from airflow_delta.core.errors import StorageAccessError, StorageUnavailableError, UnsupportedStorageError
from airflow_delta.core.storage.log_store import FileStatus
from airflow_delta.core.storage.object_answers import ObjectContent, ObjectPage
from airflow_delta.core.storage.object_filesystem import ALLOW_UNSAFE, object_filesystem, secrets_of
from airflow_delta.core.storage.object_location import ObjectLocation
from airflow_delta.core.storage.object_streams import RangeReader, WholeUpload
from airflow_delta.core.storage.storage_answers import Meaning, described, meaning_of
from airflow_delta.core.storage.storage_failures import storage_failure
from airflow_delta.core.storage.table_filesystems import TableFilesystems

_logger = logging.getLogger(__name__)

END_BYTES = 1 << 20
"""Bytes that the first request returns: a Parquet footer, or a whole small file."""

_AT_ONCE = 64 << 20  # bytes above which a file is uploaded in parts
_CREATES = Backoff(tries=8)  # about ten seconds in total: a conflict ends when the other request does

_proven: dict[tuple[str, ...], bool] = {}
_proven_lock = threading.Lock()

Answer = TypeVar("Answer")


class FsspecLogStore(ABC):
    """A ``LogStore`` over an object store with conditional create.

    A file is created by one conditional request. Before the first create, once for each bucket and process, it is verified that
    the store honors the condition. Listings are not cached. Requests without an answer are repeated if that is harmless;
    otherwise the caller must find out what happened, as only the log shows whose commit exists.
    """

    deleted_at_once: int
    """How many objects one request deletes."""
    repeats: Backoff = Backoff(tries=3)
    """For repeatable requests, which the service's own package repeats as well."""

    def __init__(
        self,
        uri: str,
        storage_options: Mapping[str, Any],
        *,
        allowed_prefixes: Iterable[str] = (),
        reads: Backoff | None = None,
        creates: Backoff = _CREATES,
    ) -> None:
        """Nothing is requested yet.

        Args:
            uri: The table's root.
            storage_options: As fsspec's filesystem of the service takes them, and ``allow_unsafe``.
            allowed_prefixes: URIs outside of the root from which the table's files may be read.
            reads: Pauses between repeatable requests; ``repeats`` when None.
            creates: Pauses between creates that the service postpones.

        Raises:
            InvalidStatementError: The URI names no bucket.
            UnsupportedStorageError: The service's package is not installed, or does not accept the options.
        """
        location = ObjectLocation.from_uri(uri)
        if location is None:
            raise UnsupportedStorageError(uri=uri, detail="the URI does not name an object store")
        self._table_uri = uri.rstrip("/")
        self._location = location
        self._options = dict(storage_options)
        self._allowed_prefixes = tuple(allowed_prefixes)
        self._filesystem: AbstractFileSystem = object_filesystem(location, self._options)
        self._data_filesystems = TableFilesystems(self._table_uri, self._options)
        self._reads = reads or self.repeats
        self._creates = creates

    @property
    def table_uri(self) -> str:
        """The table's root as the user wrote it, without a trailing slash."""
        return self._table_uri

    # -- LogStore

    def read(self, path: str) -> bytes:
        """The whole content."""
        return self.fetch(path).content

    def open_input(self, path: str) -> BinaryIO:
        """The file for random reads; the first request also returns its last MiB."""
        end = self.fetch_end(path)

        def read_range(start: int, length: int) -> bytes:
            return self.fetch_range(path, start, length, end.version)

        return cast("BinaryIO", RangeReader(read_range, size=end.size, tail=end.content))

    def exists(self, path: str) -> bool:
        """Whether the object exists now."""
        try:
            self._read(path, self._head, self._key(path))
        except FileNotFoundError:
            return False
        return True

    def status(self, path: str) -> FileStatus | None:
        """The object as a listing shows it now; uses a listing, because other requests report times less precisely."""
        directory, _, name = path.rpartition("/")
        first = next(self.list_from(directory, name), None)
        return first if first and first.path == path else None

    def write_if_absent(self, path: str, content: bytes) -> None:
        """Create the object by one conditional request; of concurrent writers exactly one succeeds.

        Raises:
            FileExistsError: The object exists; perhaps this very call created it.
            OSError: It is unknown whether the object exists.
            StorageAccessError: The service denies access. Nothing was written, as far as its last answer shows.
            UnsupportedStorageError: The service ignores the condition. Nothing was written.
        """
        if self._options.get(ALLOW_UNSAFE):
            if self.exists(path):
                raise FileExistsError(path)
            self._ask(path, self._put, self._key(path), content)
            return
        self._prove_that_creates_exclude()
        self._create_or_wait(path, content)

    def write(self, path: str, content: bytes) -> None:
        """Create or replace the object."""
        self._ask(path, self._put, self._key(path), content)

    def open_output(self, path: str) -> BinaryIO:
        """A stream that is uploaded on close; until then its content is on the local disk."""
        return WholeUpload(partial(self._upload, path))

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStatus]:
        """The objects directly below ``directory``, from the name ``start`` on; the service is not asked for earlier ones."""
        for status, name in self._list(directory, start, nested=False):
            if "/" not in name and name >= start:
                yield status

    def list_all(self, directory: str = "", start: str = "") -> Iterator[FileStatus]:
        """Every object below ``directory`` from ``start`` on; the service is not asked for earlier ones."""
        return (status for status, name in self._list(directory, start, nested=True) if name >= start)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete the objects, many per request; missing ones are ignored."""
        keys = (self._key(path) for path in paths)
        while some := list(islice(keys, self.deleted_at_once)):
            self._read("", self._delete, some)

    @property
    def allowed_prefixes(self) -> tuple[str, ...]:
        """URIs outside of the root from which the table's files may be read."""
        return self._allowed_prefixes

    @property
    def storage_options(self) -> Mapping[str, Any]:
        """The options as given."""
        return self._options

    def data_filesystem(self, uri: str | None = None) -> tuple[pyarrow.fs.FileSystem, str]:
        """Arrow's filesystem of the table's data files, or of another file, and the path in it: see ``TableFilesystems``."""
        return self._data_filesystems(uri)

    # -- reads with versions

    @property
    def scope(self) -> tuple[str, ...]:
        """The installation of the service, and the root's place in it: equal only for the same table."""
        return self._location.service, self._endpoint, self._location.container, self._location.key

    def fetch(self, path: str) -> ObjectContent:
        """The whole object with its version."""
        return self._read(path, self._get, self._key(path))

    def fetch_end(self, path: str) -> ObjectContent:
        """The last ``END_BYTES`` bytes of the object with its version."""
        return self._read(path, self._end_of, self._key(path))

    def fetch_range(self, path: str, start: int, length: int, version: str) -> bytes:
        """A range of the object. Raises ``OSError`` if it has another version now."""
        return self._read(path, self._get_range, self._key(path), start, length, version)

    # -- implemented for each service; keys are complete, without the container's name

    @abstractmethod
    async def _get(self, key: str) -> ObjectContent:
        """The whole object."""

    @abstractmethod
    async def _get_tail(self, key: str, length: int) -> ObjectContent:
        """The last ``length`` bytes of the object."""

    @abstractmethod
    async def _get_range(self, key: str, start: int, length: int, version: str) -> bytes:
        """A range of the object, if it still has this version."""

    @abstractmethod
    async def _head(self, key: str) -> None:
        """Return if the object exists, else raise; one request."""

    @abstractmethod
    async def _put(self, key: str, content: bytes) -> None:
        """Create or replace the object."""

    @abstractmethod
    async def _put_file(self, key: str, file: Path) -> None:
        """Create or replace the object from a large local file, in parts; it appears with the last part."""

    @abstractmethod
    async def _create(self, key: str, content: bytes) -> None:
        """Create the object unless it exists, by one conditional request."""

    @abstractmethod
    async def _page(self, prefix: str, start: str, *, nested: bool, rest: Any) -> ObjectPage:
        """One page of a listing: objects whose keys begin with ``prefix``, from the name ``start`` on or a little before.

        Args:
            prefix: Ends in a slash, or is empty.
            start: The part after the prefix of the first key wanted.
            nested: Whether to include objects with a slash after the prefix.
            rest: Continuation of the previous page; None for the first.
        """

    @abstractmethod
    async def _delete(self, keys: list[str]) -> None:
        """Delete these objects, at most ``deleted_at_once``, together."""

    @property
    @abstractmethod
    def _endpoint(self) -> str:
        """Identifies the installation of the service."""

    # -- shared implementation

    async def _end_of(self, key: str) -> ObjectContent:
        try:
            return await self._get_tail(key, END_BYTES)
        except Exception as error:
            if meaning_of(error) is Meaning.EMPTY:  # an empty object has no last bytes
                return ObjectContent(content=b"", size=0, version="")
            raise

    def _list(self, directory: str, start: str, *, nested: bool) -> Iterator[tuple[FileStatus, str]]:
        """Each object, with its name below the directory."""
        root = f"{self._location.key}/" if self._location.key else ""
        below = f"{directory.strip('/')}/" if directory.strip("/") else ""
        rest: Any = None
        while True:
            page = self._read(directory, partial(self._page, nested=nested, rest=rest), root + below, start)
            for key, size, modification_time, version in page.objects:
                if not key.endswith("/"):  # some tools mark directories this way
                    yield FileStatus(key[len(root) :], size, modification_time, version), key[len(root + below) :]
            rest = page.rest
            if rest is None:
                return

    def _upload(self, path: str, file: Path) -> None:
        if file.stat().st_size <= _AT_ONCE:
            self._ask(path, self._put, self._key(path), file.read_bytes())
        else:
            self._ask(path, self._put_file, self._key(path), file)

    def _create_or_wait(self, path: str, content: bytes) -> None:
        """Create the object; if another request for the same name is in progress, wait until it ends."""
        for number in self._creates.numbers():
            try:
                self._ask(path, self._create, self._key(path), content)
            except BlockingIOError:
                if number == self._creates.tries - 1:
                    raise
            else:
                return

    def _prove_that_creates_exclude(self) -> None:
        """Return if creating an existing object fails here; verified once for each bucket and process."""
        place = (self._location.service, self._endpoint, self._location.container)
        with _proven_lock:
            proven = _proven.get(place)
        if proven is None:
            proven = self._second_create_fails()
            with _proven_lock:
                _proven[place] = proven
        if not proven:
            raise UnsupportedStorageError(
                uri=self._table_uri,
                detail="it ignores conditional creates, so a second writer could replace a commit",
                cure=f"use a newer release of the service; for a table with one writer, the storage option {ALLOW_UNSAFE}=True",
            )

    def _second_create_fails(self) -> bool:
        probe = f"_delta_log/.probe-{uuid.uuid4()}"
        try:
            self._create_or_wait(probe, b"probe")
            self._create_or_wait(probe, b"probe again")
        except FileExistsError:
            return True
        except UnsupportedStorageError:
            return False
        finally:
            try:
                self.delete([probe])
            except (OSError, StorageAccessError) as error:  # a leftover object does no harm
                _logger.warning("%s: could not delete %s: %s", self._table_uri, probe, error)
        return False

    def _key(self, path: str) -> str:
        """The key of the object; raises for a path outside of the table, which is a bug in the caller."""
        if path.startswith("/") or ".." in path.split("/"):
            raise ValueError(f"{path!r} is not a path below {self._table_uri}")
        return f"{self._location.key}/{path}" if self._location.key else path

    def _read(self, path: str, request: Callable[..., Awaitable[Answer]], *arguments: Any) -> Answer:
        """The answer to a repeatable request, which is repeated while there is no answer."""
        for number in self._reads.numbers():
            try:
                return self._ask(path, request, *arguments)
            except FileNotFoundError:
                raise
            except FileExistsError as error:
                raise OSError(f"{self._table_uri}/{path} was replaced while it was read") from error
            except OSError:
                if number == self._reads.tries - 1:
                    raise
        raise AssertionError("a backoff has at least one try")

    def _ask(self, path: str, request: Callable[..., Awaitable[Answer]], *arguments: Any) -> Answer:
        """The answer to one request.

        Raises:
            FileNotFoundError: The object does not exist.
            FileExistsError: The object was not created, because it exists.
            BlockingIOError: Nothing was done, because another writer is writing the object right now.
            OSError: No answer that shows what was done.
            StorageAccessError: The service denies access.
            UnsupportedStorageError: The service does not support a part of the request, or the options do not make a valid
                client.
        """
        try:
            return sync(self._filesystem.loop, request, *arguments)
        except UnsupportedStorageError:
            raise
        except Exception as error:  # noqa: BLE001 - each service has its own tree of errors
            raise self._translated(path, error) from None  # the original texts may contain secrets

    def _translated(self, path: str, error: Exception) -> Exception:
        secrets = secrets_of(self._options)
        detail = described(error, secrets)
        text = f"{self._table_uri}/{path}: {detail}"
        match meaning_of(error):
            case Meaning.ABSENT:
                return FileNotFoundError(text)
            case Meaning.TAKEN:
                return FileExistsError(text)
            case Meaning.BUSY:
                return BlockingIOError(text)
            case Meaning.UNSUPPORTED:
                return UnsupportedStorageError(uri=self._table_uri, detail=detail)
            case _ if isinstance(failure := storage_failure(error, self._table_uri, secrets), StorageAccessError):
                return failure
            case _:
                return StorageUnavailableError(uri=self._table_uri, detail=f"{path}: {detail}")
