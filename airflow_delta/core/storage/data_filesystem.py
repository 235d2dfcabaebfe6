"""Maps a URI to the filesystem of data files; the only place that translates schemes, and fsspec's options to Arrow's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.fs

from airflow_delta.core.errors import UnsupportedStorageError
from airflow_delta.core.storage.ambient_options import ambient_options
from airflow_delta.core.storage.object_filesystem import ALLOW_UNSAFE, object_filesystem
from airflow_delta.core.storage.object_location import ObjectLocation, ObjectService
from airflow_delta.core.storage.table_uri import local_path, scheme_of

_HADOOP = ("hdfs", "viewfs")

# fsspec's names of storage options, and Arrow's.
_S3 = {
    "key": "access_key",
    "username": "access_key",
    "secret": "secret_key",
    "password": "secret_key",
    "token": "session_token",
}
_S3_CLIENT = {"aws_access_key_id": "access_key", "aws_secret_access_key": "secret_key", "aws_session_token": "session_token"}
_AZURE = ("account_name", "account_key", "sas_token", "client_id", "client_secret", "tenant_id")
# Options that only fsspec needs.
_NOT_FOR_ARROW = frozenset(
    {ALLOW_UNSAFE, "asynchronous", "blocksize", "block_size", "cache_regions", "cache_timeout", "consistency"}
    | {"default_block_size", "default_cache_type", "default_fill_cache", "fixed_upload_size", "listings_expiry_time"}
    | {"assume_container_exists", "max_concurrency", "max_paths", "skip_instance_cache", "use_listings_cache"}
)
_GOOGLE_PATIENCE = timedelta(seconds=20)  # by default Arrow retries for 15 minutes, even without credentials
_AMBIENT_GOOGLE = (None, "google_default", "cache", "cloud")
_NEVER = datetime(9999, 1, 1, tzinfo=UTC)  # Arrow requires an expiry of the token; the service enforces the real one


class _ArrowCannotError(Exception):
    """Arrow's own filesystem does not support these options; fsspec's does."""


def data_filesystem(uri: str, storage_options: Mapping[str, Any] | None = None) -> tuple[pyarrow.fs.FileSystem, str]:
    """The filesystem of the file or table at ``uri``, and the path in it; nothing in the URI is percent-decoded.

    Arrow's own filesystem if it supports the options, as every worker has it with pyarrow; otherwise fsspec's.

    Args:
        uri: A local path, or a URI of ``file``, ``s3``/``s3a``/``s3n``, ``gs``/``gcs``, ``abfs``/``abfss``/``az`` or ``hdfs``.
        storage_options: As fsspec's filesystem of that service takes them. Without any, those of the environment
            (``ambient_options``), else the ambient credentials.

    Raises:
        UnsupportedStorageError: There is no filesystem for the scheme, or it cannot be used here or with these options.
        InvalidStatementError: The URI names no bucket.
    """
    scheme = scheme_of(uri)
    if scheme == "file":
        return pyarrow.fs.LocalFileSystem(), str(local_path(uri))
    location = ObjectLocation.from_uri(uri)
    try:
        if location:
            return _object_filesystem(location, dict(storage_options or ambient_options(location))), location.path
        if scheme in _HADOOP:
            authority, slash, path = uri[len(scheme) + 1 :].removeprefix("//").partition("/")
            return pyarrow.fs.FileSystem.from_uri(f"{scheme}://{authority}/")[0], slash + path
    except (OSError, pa.ArrowException) as error:
        raise UnsupportedStorageError(uri=uri, detail=str(error)) from error
    raise UnsupportedStorageError(uri=uri, detail=f"data files cannot be read from {scheme}:// URIs")


def _object_filesystem(location: ObjectLocation, options: dict[str, Any]) -> pyarrow.fs.FileSystem:
    try:
        match location.service:
            case ObjectService.S3:
                return pyarrow.fs.S3FileSystem(**_s3_arguments(location, options))
            case ObjectService.GCS:
                return pyarrow.fs.GcsFileSystem(**_gcs_arguments(options))
            case ObjectService.AZURE:
                return pyarrow.fs.AzureFileSystem(**_azure_arguments(location, options))
    except _ArrowCannotError:
        return pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(object_filesystem(location, options)))


def _s3_arguments(location: ObjectLocation, options: Mapping[str, Any]) -> dict[str, Any]:
    client = dict(options.get("client_kwargs") or {})
    _only(options, ("client_kwargs", "endpoint_url", "anon", "use_ssl", *_S3))
    _only(client, ("endpoint_url", "region_name", "verify", "use_ssl", *_S3_CLIENT))
    names = {**_renamed(client, _S3_CLIENT), **_renamed(options, _S3)}
    endpoint = (
        options.get("endpoint_url") or client.get("endpoint_url") or _environment("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    )
    region = client.get("region_name") or _environment("AWS_REGION", "AWS_DEFAULT_REGION")
    if endpoint:
        names |= _endpoint(endpoint)
    elif not region and not options.get("anon"):
        region = pyarrow.fs.resolve_s3_region(location.container)
    verify = client.get("verify")
    if verify is False:
        raise _ArrowCannotError
    if isinstance(verify, str):
        names["tls_ca_file_path"] = verify
    return {**names, "anonymous": bool(options.get("anon")), "region": region or ("us-east-1" if endpoint else None)}


def _gcs_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    _only(options, ("project", "token", "endpoint_url", "access"))
    token, endpoint = options.get("token"), options.get("endpoint_url") or _environment("STORAGE_EMULATOR_HOST")
    names: dict[str, Any] = {"retry_time_limit": _GOOGLE_PATIENCE}
    if options.get("project"):
        names["project_id"] = options["project"]
    if endpoint and endpoint != "default":
        names |= _endpoint(endpoint)
    if token == "anon":  # noqa: S105 - a word, not a secret
        return {**names, "anonymous": True}
    if token in _AMBIENT_GOOGLE:
        return names
    if isinstance(token, str) and token.startswith("ya29."):  # Google's access tokens begin like this
        return {**names, "access_token": token, "credential_token_expiration": _NEVER}
    raise _ArrowCannotError


def _azure_arguments(location: ObjectLocation, options: Mapping[str, Any]) -> dict[str, Any]:
    _only(options, ("connection_string", "account_host", "anon", *_AZURE))
    settings = {name: options.get(name) or _environment(f"AZURE_STORAGE_{name.upper()}") for name in _AZURE}
    names = {name: value for name, value in settings.items() if value}
    host = options.get("account_host")
    if connection := options.get("connection_string") or _environment("AZURE_STORAGE_CONNECTION_STRING"):
        names, host = _connected(connection)
    elif location.host:
        names.setdefault("account_name", location.account or "")
        host = host or location.host.replace(".dfs.", ".blob.", 1)
    if "account_name" not in names or (options.get("anon") and not names.keys() & {"account_key", "sas_token"}):
        raise _ArrowCannotError
    return names | _azure_authority(host, names["account_name"])


def _connected(connection_string: str) -> tuple[dict[str, str], str | None]:
    """The account, its credentials and the URL of its blob service, from an Azure connection string."""
    parts = dict(part.partition("=")[::2] for part in connection_string.split(";") if part.strip())
    known = {"AccountName": "account_name", "AccountKey": "account_key", "SharedAccessSignature": "sas_token"}
    names = {known[name]: value for name, value in parts.items() if name in known}
    host = parts.get("BlobEndpoint")
    if host is None and "EndpointSuffix" in parts:
        host = f"{parts.get('AccountName')}.blob.{parts['EndpointSuffix']}"
    return names, host


def _azure_authority(host: str | None, account: str) -> dict[str, str]:
    """Arrow's options for the hosts of the blob and dfs services; emulators serve both, under a path named like the account."""
    if not host:
        return {}
    scheme, _, authority = host.rpartition("://")
    authority = authority.strip("/").removesuffix(f"/{account}").removeprefix(account)
    places = {"blob_storage_authority": authority, "dfs_storage_authority": authority.replace(".blob.", ".dfs.", 1)}
    return {**places, "blob_storage_scheme": scheme or "https", "dfs_storage_scheme": scheme or "https"}


def _endpoint(url: str) -> dict[str, str]:
    scheme, _, authority = url.rpartition("://")
    return {"endpoint_override": authority.rstrip("/"), "scheme": scheme or "https"}


def _renamed(options: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {new: options[old] for old, new in names.items() if options.get(old) is not None}


def _only(options: Mapping[str, Any], known: Iterable[str]) -> None:
    if options.keys() - _NOT_FOR_ARROW - set(known):
        raise _ArrowCannotError


def _environment(*names: str) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)
