"""Airflow connections of object stores as the storage options that fsspec's filesystems take.

``airflow.sdk.io.get_fs`` is not used: its filesystems cache listings, the one for S3 holds a live session instead of
credentials, and they can be passed neither to Arrow nor to a Spark job. The fields are those of the providers' own forms.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from airflow_delta.core.storage.object_location import ObjectService
from airflow_delta.hooks.errors import DeltaConnectionError


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """A type of connection.

    Attributes:
        service: The object store.
        fields: For each option, the fields that may hold it; the first non-empty one counts, and a slash descends into an
            object.
        refused: Fields for which there is no option, with what to do instead.
    """

    service: ObjectService
    fields: Mapping[str, tuple[str, ...]]
    refused: Mapping[str, str]


_ROLE = "let a profile of the AWS configuration assume the role (profile_name), or the identity of the machines"
_AWS = _Kind(
    service=ObjectService.S3,
    fields={
        "key": ("login", "extra/aws_access_key_id"),
        "secret": ("password", "extra/aws_secret_access_key"),
        "token": ("extra/aws_session_token",),
        "profile": ("extra/profile_name",),
        "endpoint_url": ("extra/service_config/s3/endpoint_url", "extra/endpoint_url"),
        "client_kwargs/region_name": ("extra/region_name",),
        "client_kwargs/verify": ("extra/service_config/s3/verify", "extra/verify"),
        "config_kwargs": ("extra/config_kwargs",),
    },
    refused={"role_arn": _ROLE, "assume_role_method": _ROLE},
)
_KEY_FILE = "give the key itself (keyfile_dict) or its path (key_path), or use the identity of the machines"
_GOOGLE = _Kind(
    service=ObjectService.GCS,
    fields={
        "token": ("extra/key_path", "extra/keyfile_dict"),
        "project": ("extra/project",),
        "endpoint_url": ("extra/gcs.endpoint",),
    },
    refused={"impersonation_chain": _KEY_FILE, "key_secret_name": _KEY_FILE, "credential_config_file": _KEY_FILE},
)
_MANAGED = "name the identity by AZURE_CLIENT_ID in the environment of workers, triggerer and Spark, and leave the field out"
_OTHER_AZURE_IDENTITIES = {"managed_identity_client_id": _MANAGED, "workload_identity_tenant_id": _MANAGED}
_AZURE = _Kind(
    service=ObjectService.AZURE,
    fields={
        "connection_string": ("extra/connection_string",),
        "account_name": ("extra/account_name", "host", "login"),
        "account_key": ("extra/account_key", "extra/shared_access_key", "password"),
        "sas_token": ("extra/sas_token",),
        "account_host": ("extra/account_host",),
    },
    refused=_OTHER_AZURE_IDENTITIES,
)
_AZURE_IDENTITY = _Kind(
    service=ObjectService.AZURE,
    fields={
        "account_name": ("extra/account_name", "host"),
        "client_id": ("login",),
        "client_secret": ("password",),
        "tenant_id": ("extra/tenant_id", "extra/tenant"),
        "account_host": ("extra/account_host",),
    },
    refused=_OTHER_AZURE_IDENTITIES,
)
_KINDS = {
    "aws": _AWS,
    "google_cloud_platform": _GOOGLE,
    **dict.fromkeys(("wasb", "adls", "azure_data_lake"), _AZURE),
}


_TEXT = (str, "a text")
_TYPES: Mapping[str, tuple[Any, str]] = {
    "config_kwargs": (Mapping, "an object"),
    "client_kwargs/verify": (bool | str, "true, false or a text"),
    "token": (str | Mapping, "a text or an object"),
}
"""Types of the options that are not always strings, and what an error calls them."""


def options_of_connection(connection: Any) -> tuple[ObjectService, Mapping[str, Any]]:
    """The service of a storage connection, and its fields as storage options.

    Raises:
        DeltaConnectionError: The connection's type is not supported, it uses a field that is not supported, or a value is
            invalid.
    """
    kind = _KINDS.get(connection.conn_type)
    if kind is None:
        raise DeltaConnectionError(
            conn_id=connection.conn_id,
            detail=f"expected the type of an object store ({', '.join(_KINDS)}), found {connection.conn_type!r}",
            cure="use a connection of one of these types",
        )
    prefix = f"extra__{connection.conn_type}__"  # older releases of Airflow prefixed the fields of forms
    extra = {name.removeprefix(prefix): value for name, value in extra_of(connection).items()}
    if kind is _AZURE and (extra.get("tenant_id") or extra.get("tenant")):
        kind = _AZURE_IDENTITY
    for name, instead in kind.refused.items():
        if extra.get(name):
            raise DeltaConnectionError(conn_id=connection.conn_id, detail=f"the field {name} is not supported", cure=instead)
    fields = {"login": connection.login, "password": connection.password, "host": _account(connection), "extra": extra}
    options: dict[str, Any] = {}
    for option, places in kind.fields.items():
        for place in places:
            value = member_at(fields, place)
            if value not in (None, ""):
                _check(connection, option, place, value)
                _put(options, option, value)
                break
    try:
        return kind.service, _as_the_service_takes_them(kind.service, options, extra)
    except ValueError:  # raised without the text or the cause, which hold the whole key
        raise DeltaConnectionError(
            conn_id=connection.conn_id,
            detail="the field keyfile_dict is not a JSON object",
            cure="give the key file's content as it is, or its path (key_path)",
        ) from None


def extra_of(connection: Any) -> Mapping[str, Any]:
    """The members of a connection's extra. Raises ``DeltaConnectionError`` for an extra that is not a JSON object."""
    extra = connection.extra_dejson
    if not isinstance(extra, Mapping):
        raise DeltaConnectionError(
            conn_id=connection.conn_id,
            detail=f"expected the extra to be a JSON object, found a {type(extra).__name__}",
            cure='write it as {"name": value}',
        )
    return extra


def _check(connection: Any, option: str, place: str, value: Any) -> None:
    """Raise ``DeltaConnectionError`` for a value of the wrong type; the value may be a secret and is not shown."""
    types, wanted = _TYPES.get(option, _TEXT)
    if not isinstance(value, types):
        raise DeltaConnectionError(
            conn_id=connection.conn_id,
            detail=f"expected {wanted} in the field {place.removeprefix('extra/')}, found a {type(value).__name__}",
            cure="correct the field" if isinstance(value, str) else "write it in quotes if it is a text",
        )


def _account(connection: Any) -> str | None:
    """The Azure account in the host; None for ``wasb`` without a dot in the host, which then is the id of a directory."""
    host = connection.host or ""
    if "." in host or connection.conn_type == "adls":
        return (urlsplit(host if "://" in host else f"//{host}").hostname or "").partition(".")[0]
    return None


def member_at(fields: Any, place: str) -> Any:
    """The value at a path such as ``a/b`` in nested objects; None if there is no such path."""
    for name in place.split("/"):
        fields = fields.get(name) if isinstance(fields, Mapping) else None
    return fields


def _put(options: dict[str, Any], option: str, value: Any) -> None:
    group, _, name = option.rpartition("/")
    (options.setdefault(group, {}) if group else options)[name] = value


def _as_the_service_takes_them(service: ObjectService, options: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    match service:
        case ObjectService.GCS if extra.get("is_anonymous"):
            options["token"] = "anon"  # noqa: S105 - fsspec's word for anonymous access
        case ObjectService.GCS if isinstance(token := options.get("token"), str) and token.lstrip().startswith("{"):
            options["token"] = json.loads(token)  # Airflow's form stores it as text
        case ObjectService.AZURE if "sas_token" in options:
            options["sas_token"] = options["sas_token"].rpartition("?")[2]  # it may be a whole URL
    return options
