"""Uploads this package's code for clusters, once per version instead of with each submit."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any
from uuid import uuid4

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs

from airflow_delta.core.errors import InvalidStatementError, StorageAccessError, UnsupportedStorageError
from airflow_delta.core.storage.object_location import ObjectLocation
from airflow_delta.shipping.archive import archive_name, build_archive
from airflow_delta.shipping.scripts import job_script, job_scripts, shipped_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedCode:
    """The files with which a job is submitted.

    Attributes:
        application: Path or URI of the job's script.
        archive: Path or URI of the archive for ``--py-files``.
    """

    application: str
    archive: str


def local_code(private: Path, name: str) -> ShippedCode:
    """The code of the job ``name`` on this machine.

    Args:
        private: Directory for the archive. Only this user must be able to write there: replacing the archive means running code
            on the cluster.
        name: Name of the job.
    """
    return ShippedCode(application=str(job_script(name)), archive=str(build_archive(private)))


def shipped_code(code_uri: str, name: str) -> ShippedCode:
    """The code of the job ``name`` below the URI to which ``ship`` has uploaded this version; its existence is not checked."""
    base = code_uri.rstrip("/")
    return ShippedCode(application=f"{base}/{shipped_name(job_script(name))}", archive=f"{base}/{archive_name()}")


def ship(destination: str, storage_options: Mapping[str, Any] | None = None) -> list[str]:
    """Upload the archive and the scripts to a folder on any filesystem that fsspec supports.

    Existing files with the same content stay, as jobs may be reading them; other files of the same names are replaced.

    Args:
        destination: URI of the folder. Write access to it means running code on the cluster.
        storage_options: Options of the fsspec filesystem.

    Returns:
        The URIs of all files of this version, the archive first.

    Raises:
        InvalidStatementError: The destination is not a folder, or Spark would split its name.
        UnsupportedStorageError: There is no filesystem for the URI, or its package is missing.
        StorageAccessError: The storage denied access, or the bucket does not exist.
        StorageUnavailableError: The storage did not answer.
    """
    with TemporaryDirectory(prefix="airflow-delta-") as private:
        archive = build_archive(Path(private))
        files = {archive.name: archive} | {shipped_name(script): script for script in job_scripts()}
        return upload(destination, files, storage_options)


def check_destination(destination: str) -> None:
    """Refuse a folder whose name Spark would split: at commas, between files, or at ``#``, before an alias.

    Raises:
        InvalidStatementError: The name contains one of these, or is not a folder.
    """
    if not destination.rstrip("/") or destination.rstrip("/").endswith(":"):
        detail = f"it must be the URI of a folder that Spark's drivers can read, found {destination!r}"
        raise InvalidStatementError(statement="the destination of the code", detail=detail)
    if found := [repr(sign) for sign in ",#" if sign in destination]:
        detail = f"expected a folder without {' and '.join(found)}, where Spark would split its name; name another one"
        raise InvalidStatementError(statement=f"the folder {destination!r:.200}", detail=detail)


def upload(destination: str, files: Mapping[str, Path], storage_options: Mapping[str, Any] | None = None) -> list[str]:
    """Upload files to a folder and return their URIs; arguments, errors and existing files as for ``ship``."""
    check_destination(destination)
    base = destination.rstrip("/")
    try:
        filesystem, root = _filesystem(base, storage_options)
        is_store = ObjectLocation.from_uri(base) is not None
        if not is_store:  # object stores have no folders, and fsspec would create the bucket
            filesystem.makedirs(root, exist_ok=True)
        for name, path in files.items():
            if not _is_there(filesystem, f"{root}/{name}", path):
                _put(filesystem, f"{root}/{name}", path, appears_whole=is_store)
    except (AttributeError, TypeError) as error:  # an unknown option of the filesystem or its client
        raise UnsupportedStorageError(uri=base, detail=str(error)) from error
    except FileNotFoundError as error:
        raise StorageAccessError(uri=base, detail=f"not there: {error}") from error
    except Exception as error:
        from airflow_delta.core.storage.storage_failures import storage_failure  # noqa: PLC0415 - imports Arrow

        failure = storage_failure(error, base)
        if failure is None:
            raise
        raise failure from error
    return [f"{base}/{name}" for name in files]


def _is_there(filesystem: AbstractFileSystem, place: str, path: Path) -> bool:
    """Whether a file with the same content exists; of archives, which may be large, only the end is read.

    An archive ends with the list of its members and their checksums; its other bytes depend on the version of zlib.
    """
    if not filesystem.exists(place):
        return False
    if path.suffix != ".zip":
        return bool(filesystem.cat_file(place) == path.read_bytes())
    # NotImplementedError: the archive needs a newer version of the zip format, so this package has not written it.
    with filesystem.open(place) as there, path.open("rb") as here, suppress(zipfile.BadZipFile, NotImplementedError):
        return _members(there) == _members(here)
    return False


def _members(file: IO[bytes]) -> set[tuple[str, int, int]]:
    with zipfile.ZipFile(file) as archive:
        return {(member.filename, member.file_size, member.CRC) for member in archive.infolist()}


def _put(filesystem: AbstractFileSystem, place: str, path: Path, *, appears_whole: bool) -> None:
    """Write a file so that it is only visible when complete; by renaming it, unless the storage guarantees that."""
    folder, _, name = place.rpartition("/")
    written = place if appears_whole else f"{folder}/.{uuid4().hex}-{name}"
    try:
        filesystem.pipe_file(written, path.read_bytes())
        if written != place:
            filesystem.mv(written, place)
    except BaseException:
        if written != place:
            with suppress(Exception):
                filesystem.rm_file(written)
        raise


def _filesystem(base: str, storage_options: Mapping[str, Any] | None) -> tuple[AbstractFileSystem, str]:
    try:
        filesystem, root = url_to_fs(base, **(storage_options or {}))
    except (ValueError, ImportError) as error:
        raise UnsupportedStorageError(uri=base, detail=str(error)) from error
    return filesystem, root
