"""Caches footers of data files, and optionally whole data files, on this machine's disk.

Complements ``caching_log_store``: data files are read through Arrow's filesystems, also on workers. When a file is opened, the
store reports its version, so each opening costs that one request. Filesystems that report no version are not cached.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from airflow_delta.core.storage.ambient_cache import ambient_cache
from airflow_delta.core.storage.cached_object import CachedObject, version_key
from airflow_delta.core.storage.disk_cache import DiskCache
from airflow_delta.core.storage.object_streams import RangeReader

_FOOTER_BYTES = 64 << 10  # what Parquet readers request first, from the end
_OBJECT_STORES = (pafs.S3FileSystem, pafs.GcsFileSystem, pafs.AzureFileSystem)
_INSTALLATION = ("scheme", "endpoint_override", "account_name", "blob_storage_authority")


def footer_source(filesystem: pafs.FileSystem, path: str, source: pa.NativeFile) -> pa.NativeFile:
    """The source to read an open file's footer from: its end on disk, or the file itself if it is not cached."""
    return _from_disk(ambient_cache(), filesystem, path, source)


def cached_file(filesystem: pafs.FileSystem, path: str, source: pa.NativeFile) -> pa.NativeFile:
    """The source to read an open file from: its parts on disk, or the file itself if data files are not cached."""
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

    # Arrow's reads cannot name a version. The time is included because an ETag of S3 recurs with the same content.
    version = f"{said['ETag']} {said.get('Last-Modified', '')}"
    size = source.size()
    key = version_key((filesystem.type_name, *_installation(filesystem), path), version, size)
    cached = CachedObject(cache=cache, key=key, size=size, end_size=_FOOTER_BYTES, fetch=fetch)
    return pa.PythonFile(RangeReader(cached.read_at, size=size, tail=b""), "r")


def _installation(filesystem: pafs.FileSystem) -> list[str]:
    """Identifies the installation of the service, as two may have buckets of the same name. Without credentials."""
    _, arguments = filesystem.__reduce__()
    options: dict[str, Any] = next((argument for argument in arguments if isinstance(argument, dict)), {})
    return [f"{name}={options[name]}" for name in _INSTALLATION if options.get(name)]


def _text(value: bytes | str) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
