"""Maps a table's URI to the store that holds its log."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from airflow_delta.core.errors import InvalidStatementError, UnsupportedStorageError
from airflow_delta.core.storage.ambient_cache import ambient_cache
from airflow_delta.core.storage.ambient_options import ambient_options, ambient_prefixes
from airflow_delta.core.storage.azure_log_store import AzureLogStore
from airflow_delta.core.storage.caching_log_store import CachingLogStore
from airflow_delta.core.storage.fsspec_log_store import FsspecLogStore
from airflow_delta.core.storage.gcs_log_store import GcsLogStore
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.object_location import ObjectLocation, ObjectService
from airflow_delta.core.storage.renewed_log_store import RenewedLogStore
from airflow_delta.core.storage.renewed_options import RenewedOptions
from airflow_delta.core.storage.s3_log_store import S3LogStore
from airflow_delta.core.storage.table_uri import scheme_of

_OBJECT_STORES: dict[ObjectService, type[FsspecLogStore]] = {
    ObjectService.S3: S3LogStore,
    ObjectService.GCS: GcsLogStore,
    ObjectService.AZURE: AzureLogStore,
}

_memory_tables: dict[str, InMemoryLogStore] = {}
_memory_lock = threading.Lock()


def log_store_for(uri: str, storage_options: Mapping[str, Any] | None = None, allowed_prefixes: Iterable[str] = ()) -> LogStore:
    """The store for the table at ``uri``, cached if the environment configures it (``ambient_cache``); nothing is read yet.

    Args:
        uri: A local path (a relative one is relative to the process's working directory), ``file:``, ``memory://`` (tables of
            this process), ``s3://``, ``gs://``, ``abfss://`` or ``az://``.
        storage_options: Credentials and endpoint of an object store, as its fsspec filesystem takes them, and ``allow_unsafe``
            (see ``object_filesystem``). Without any, those of the environment (``ambient_options``), else the ambient
            credentials. Local tables take none. With ``RenewedOptions`` the store always uses the current ones.
        allowed_prefixes: URIs outside of the root from which the table's files may be read (``FileLocator``); those of the
            environment (``ambient_prefixes``) are added.

    Raises:
        InvalidStatementError: The URI is not a text, is blank (for example, from a template without a value; never taken as the
            filesystem's root), contains a NUL character, or names no bucket.
        UnsupportedStorageError: This filesystem has no known atomic create, or its package is not installed.
    """
    if not isinstance(uri, str):
        raise InvalidStatementError(statement="the URI of a table", detail=f"it must be a text, found {uri!r:.100}")
    if not uri.strip():
        raise InvalidStatementError(statement="the URI of a table", detail="it is blank")
    if "\0" in uri:
        raise InvalidStatementError(statement="the URI of a table", detail=f"{uri!r} holds a NUL character")
    if isinstance(storage_options, RenewedOptions):
        return RenewedLogStore.of(partial(log_store_for, uri, allowed_prefixes=tuple(allowed_prefixes)), storage_options)
    scheme = scheme_of(uri)
    allowed = (*allowed_prefixes, *ambient_prefixes())
    if scheme == "file":
        if storage_options:
            detail = f"a local table has no storage options, found {', '.join(sorted(storage_options))}"
            raise UnsupportedStorageError(
                uri=uri, detail=detail, cure="leave the storage options out, or name a table in a store"
            )
        return LocalLogStore(uri, allowed_prefixes=allowed)
    if scheme == "memory":
        with _memory_lock:
            return _memory_tables.setdefault(uri.rstrip("/"), InMemoryLogStore(uri, allowed_prefixes=allowed))
    location = ObjectLocation.from_uri(uri)
    if location:
        store = _OBJECT_STORES[location.service](uri, storage_options or ambient_options(location), allowed_prefixes=allowed)
        cache = ambient_cache()
        return store if cache is None else CachingLogStore(store, cache)
    known = "tables lie on local disks, s3://, gs://, az:// and abfss://, for Spark jobs on hdfs:// too"
    raise UnsupportedStorageError(uri=uri, detail=f"no atomic create is available for {scheme}://; {known}")
