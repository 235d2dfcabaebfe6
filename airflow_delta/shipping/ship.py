"""Uploads the code to where clusters find it, once per version instead of with each submit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs

from airflow_delta.core.errors import InvalidStatementError, StorageAccessError, UnsupportedStorageError
from airflow_delta.core.storage.object_location import ObjectLocation
from airflow_delta.shipping.archive import archive_name, build_archive
from airflow_delta.shipping.scripts import job_script, job_scripts, shipped_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedCode:
    """What a job is submitted with.

    Attributes:
        application: The job's script.
        archive: For ``--py-files``.
    """

    application: str
    archive: str


def local_code(private: Path, name: str) -> ShippedCode:
    """The code of the job ``name`` on this machine.

    Args:
        private: Where the archive goes: a directory of this user alone, because who can replace it runs code on the cluster.
        name: The job.
    """
    return ShippedCode(application=str(job_script(name)), archive=str(build_archive(private)))


def shipped_code(code_uri: str, name: str) -> ShippedCode:
    """The code of the job ``name`` below the place where ``ship`` has put this very version; nothing is looked at."""
    base = code_uri.rstrip("/")
    return ShippedCode(application=f"{base}/{shipped_name(job_script(name))}", archive=f"{base}/{archive_name()}")


def ship(destination: str, storage_options: Mapping[str, Any] | None = None) -> list[str]:
    """Put the archive and the scripts into a folder on any filesystem that fsspec knows.

    What is there with the same content stays; anything else under these names is replaced.

    Args:
        destination: URI of the folder. Who can write there runs code on the cluster.
        storage_options: As the filesystem takes them.

    Returns:
        The URIs of all files of this version, the archive first.

    Raises:
        InvalidStatementError: The destination names no folder, or one whose name Spark would split.
        UnsupportedStorageError: No filesystem for the URI, or its package is missing.
        StorageAccessError: The storage refused, or has no such bucket.
        StorageUnavailableError: It did not answer.
    """
    with TemporaryDirectory(prefix="airflow-delta-") as private:
        archive = build_archive(Path(private))
        files = {archive.name: archive} | {shipped_name(script): script for script in job_scripts()}
        return upload(destination, files, storage_options)


def check_destination(destination: str) -> None:
    """Refuse a folder that Spark would take for something else: it splits lists of files at commas, and names aliases behind #.

    Raises:
        InvalidStatementError: There is one of these in it, or it is no folder.
    """
    if not destination.rstrip("/") or destination.rstrip("/").endswith(":"):
        detail = f"it must be the URI of a folder that Spark's drivers can read, found {destination!r}"
        raise InvalidStatementError(statement="the destination of the code", detail=detail)
    if found := [repr(sign) for sign in ",#" if sign in destination]:
        detail = f"expected a folder without {' and '.join(found)}, where Spark would split its name; name another one"
        raise InvalidStatementError(statement=f"the folder {destination!r:.200}", detail=detail)


def upload(destination: str, files: Mapping[str, Path], storage_options: Mapping[str, Any] | None = None) -> list[str]:
    """Put files into a folder and return their URIs; arguments, errors and what stays are those of ``ship``."""
    check_destination(destination)
    base = destination.rstrip("/")
    try:
        filesystem, root = _filesystem(base, storage_options)
        if ObjectLocation.from_uri(base) is None:  # an object store has no folders: fsspec would make the bucket
            filesystem.makedirs(root, exist_ok=True)
        for name, path in files.items():
            place, content = f"{root}/{name}", path.read_bytes()
            if not (filesystem.exists(place) and filesystem.cat_file(place) == content):
                filesystem.pipe_file(place, content)
    except (AttributeError, TypeError) as error:  # an option that the filesystem, or its client, does not know
        raise UnsupportedStorageError(uri=base, detail=str(error)) from error
    except FileNotFoundError as error:
        raise StorageAccessError(uri=base, detail=f"not there: {error}") from error
    except Exception as error:
        from airflow_delta.core.storage.storage_failures import storage_failure  # noqa: PLC0415 - it loads Arrow

        failure = storage_failure(error, base)
        if failure is None:
            raise
        raise failure from error
    return [f"{base}/{name}" for name in files]


def _filesystem(base: str, storage_options: Mapping[str, Any] | None) -> tuple[AbstractFileSystem, str]:
    try:
        filesystem, root = url_to_fs(base, **(storage_options or {}))
    except (ValueError, ImportError) as error:
        raise UnsupportedStorageError(uri=base, detail=str(error)) from error
    return filesystem, root
