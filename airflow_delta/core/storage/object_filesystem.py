"""The fsspec filesystem of an object store, without its listing cache."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any
from urllib.parse import unquote

from fsspec import AbstractFileSystem

from airflow_delta.core.errors import UnsupportedStorageError
from airflow_delta.core.storage.object_location import ObjectLocation, ObjectService
from airflow_delta.core.storage.s3_options import wrong_s3_options

ALLOW_UNSAFE = "allow_unsafe"
"""This package's own storage option: allow writing although the store ignores create conditions; for tables with one writer."""

# gcsfs.GCSFileSystem would first request the layout of each bucket by gRPC, which the log does not need.
_CLASSES = {
    ObjectService.S3: ("s3fs", "S3FileSystem"),
    ObjectService.GCS: ("gcsfs.core", "GCSFileSystem"),
    ObjectService.AZURE: ("adlfs", "AzureBlobFileSystem"),
}
OPTION_CURES = {
    ObjectService.S3: "correct the storage options, which are those of s3fs, such as key, secret, endpoint_url; a region is "
    'client_kwargs={"region_name": "eu-west-1"}',
    ObjectService.GCS: "correct the storage options, which are those of gcsfs, such as token",
    ObjectService.AZURE: "name the account, in abfss://container@account.dfs.core.windows.net/path or as the storage option "
    "account_name, and correct the others, which are those of adlfs",
}
"""What to do if a service does not accept the storage options."""
_SECRETS = frozenset(
    {"key", "secret", "token", "username", "password", "account_key", "sas_token", "client_secret", "connection_string"}
    | {"aws_access_key_id", "aws_secret_access_key", "aws_session_token", "private_key", "private_key_id", "refresh_token"}
)
_WORDS = frozenset({"anon", "browser", "cache", "cloud", "google_default"})  # words that gcsfs accepts as a token
_PART = re.compile(r"(?:AccountKey|SharedAccessSignature|sig)=([^;&]+)")
_AZURE_REQUESTS = "azure.core.pipeline.policies.http_logging_policy"
"""A logger that writes twenty lines for each request at INFO, Airflow's default level."""
_REMEMBER_NOTHING = {"use_listings_cache": False, "skip_instance_cache": True}


def object_filesystem(location: ObjectLocation, storage_options: Mapping[str, Any]) -> AbstractFileSystem:
    """A new filesystem for this place, so that tables with different options share nothing.

    Raises:
        UnsupportedStorageError: Its package is not installed, or does not accept these options.
        OSError: The service that issues or checks the credentials does not answer.
    """
    module, name = _CLASSES[location.service]
    uri = f"{location.service}://{location.path}"
    try:
        filesystem = getattr(import_module(module), name)
    except ImportError as error:
        package = module.partition(".")[0]
        cure = f"pip install 'airflow-delta[{location.service}]' where this runs"
        raise UnsupportedStorageError(uri=uri, detail=f"the package {package} is not installed", cure=cure) from error
    options = {name: value for name, value in storage_options.items() if name != ALLOW_UNSAFE}
    try:
        made: AbstractFileSystem = filesystem(**{**_account(location), **options, **_REMEMBER_NOTHING})
    # The error text may contain a secret.
    except OSError as error:
        raise OSError(f"{uri}: no answer about the credentials ({type(error).__name__})") from None
    except Exception as error:  # noqa: BLE001 - each service has its own tree of errors
        detail = f"{name} does not take the storage options {sorted(options)} ({type(error).__name__})"
        raise UnsupportedStorageError(uri=uri, detail=detail, cure=OPTION_CURES[location.service]) from None
    if location.service is ObjectService.S3 and (wrong := wrong_s3_options(made.kwargs, options)) is not None:
        raise UnsupportedStorageError(uri=uri, detail=wrong[0], cure=wrong[1] or OPTION_CURES[location.service])
    requests = logging.getLogger(_AZURE_REQUESTS)
    if location.service is ObjectService.AZURE and requests.level == logging.NOTSET:  # unless the user has set a level
        requests.setLevel(logging.WARNING)
    return made


def secrets_of(storage_options: Mapping[str, Any]) -> set[str]:
    """The secrets among storage options, including nested ones, in every form in which a text may contain them."""
    found: set[str] = set()
    for name, value in storage_options.items():
        if isinstance(value, Mapping):
            found |= secrets_of(value)
        elif name in _SECRETS and isinstance(value, str) and value and value not in _WORDS:
            parts = _PART.findall(value)
            found |= {value, *parts, *map(unquote, parts)}
    return found


def _account(location: ObjectLocation) -> dict[str, str]:
    """The Azure account in the URI; options provide the rest."""
    if location.host is None or location.account is None:
        return {}
    return {"account_name": location.account, "account_host": location.host.replace(".dfs.", ".blob.", 1)}
