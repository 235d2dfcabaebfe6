"""Footers of data files, and where that is wanted the files themselves, from this machine's disk.

Beside ``caching_log_store``: data files are read by Arrow's filesystems, on workers too. Which version a file is its store says
when the file is opened, so that each opening takes that one request. Filesystems that say nothing of versions are not cached.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from airflow_delta.core.storage.ambient_cache import ambient_cache
from airflow_delta.core.storage.cached_object import CachedObject, version_key
from airflow_delta.core.storage.disk_cache import DiskCache
from airflow_delta.core.storage.object_streams import RangeReader

_FOOTER_BYTES = 64 << 10  # what readers of Parquet request first, from the end
_OBJECT_STORES = (pafs.S3FileSystem, pafs.GcsFileSystem, pafs.AzureFileSystem)
_INSTALLATION = ("scheme", "endpoint_override", "account_name", "blob_storage_authority")


def footer_source(filesystem: pafs.FileSystem, path: str, source: pa.NativeFile) -> pa.NativeFile:
    """What to read the footer of an open file from: its end on disk, or the file itself where there is no cache for it."""
    return _from_disk(ambient_cache(), filesystem, path, source)


def cached_file(filesystem: pafs.FileSystem, path: str, source: pa.NativeFile) -> pa.NativeFile:
    """What to read an open file from: its parts on disk, or the file itself where data files are not cached."""
    cache = ambient_cache()
    return _from_disk(cache if cache is not None and cache.keeps_files else None, filesystem, path, source)


def _from_disk(cache: DiskCache | None, filesystem: pafs.FileSystem, path: str, source: pa.NativeFile) -> pa.NativeFile:
    if cache is None or not isinstance(filesystem, _OBJECT_STORES):
        return source
    said = {_text(name): _text(value) for name, value in (source.metadata() or {}).items()}
    if not said.get("ETag"):
        return source

    def fetch(start: int, length: int) -> bytes:
        content: bytes = source.read_at(length, start)
        return content

    # Arrow's reads do not name a version. So the time goes in too, as an ETag of S3 can come back, with what it stands for.
    version = f"{said['ETag']} {said.get('Last-Modified', '')}"
    size = source.size()
    key = version_key((filesystem.type_name, *_installation(filesystem), path), version, size)
    cached = CachedObject(cache=cache, key=key, size=size, end_size=_FOOTER_BYTES, fetch=fetch)
    return pa.PythonFile(RangeReader(cached.read_at, size=size, tail=b""), "r")


def _installation(filesystem: pafs.FileSystem) -> list[str]:
    """Which installation of the service it is: buckets of two may have one name. No credentials."""
    _, arguments = filesystem.__reduce__()
    options: dict[str, Any] = next((argument for argument in arguments if isinstance(argument, dict)), {})
    return [f"{name}={options[name]}" for name in _INSTALLATION if options.get(name)]


def _text(value: bytes | str) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
