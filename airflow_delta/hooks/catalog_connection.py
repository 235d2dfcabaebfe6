"""The catalog of a ``delta`` connection, with the credentials of the connection that the catalog's ``conn_id`` names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow_delta.catalogs.errors import InvalidCatalogError
from airflow_delta.catalogs.settings import CatalogSettings
from airflow_delta.core.storage.object_location import ObjectService
from airflow_delta.hooks.storage_connection import member_at, options_of_connection

CONNECTION = "conn_id"

_KEYS = {"key": "aws_access_key_id", "secret": "aws_secret_access_key", "token": "aws_session_token", "profile": "profile_name"}


def catalog_settings(value: Any, connection: Callable[[str], Any], storage_conn_id: str | None) -> CatalogSettings:
    """The settings that the extra of a connection holds under ``catalog``.

    Args:
        value: The type as a string, a JSON object, or a JSON object as text; its ``conn_id`` names the connection with the
            credentials.
        connection: Returns Airflow's connection of an id.
        storage_conn_id: The connection whose keys Glue gets if there is no ``conn_id``.

    Raises:
        InvalidCatalogError: The settings are invalid, or hold credentials themselves.
    """
    document = CatalogSettings.document(value)
    if "credentials" in document:
        raise InvalidCatalogError(detail="credentials stand in a connection of their own, which conn_id names")
    conn_id = document.pop(CONNECTION, None)
    if not isinstance(conn_id, str | None):
        raise InvalidCatalogError(detail=f"expected the name of a connection as {CONNECTION}")
    if document.get("type") == "glue":
        document |= _aws(connection(found)) if (found := conn_id or storage_conn_id) else {}
        document |= {name: text for name, text in CatalogSettings.document(value).items() if name in {"region", "endpoint_url"}}
    elif conn_id:
        document = _of_server(connection(conn_id), document)
    return CatalogSettings.parse(document)


def _aws(connection: Any) -> Mapping[str, Any]:
    service, options = options_of_connection(connection)
    if service is not ObjectService.S3:
        return {}
    credentials = {theirs: options[ours] for ours, theirs in _KEYS.items() if options.get(ours)}
    region = member_at(options, "client_kwargs/region_name")
    endpoint = member_at(connection.extra_dejson, "service_config/glue/endpoint_url")
    found = {"region": region, "endpoint_url": endpoint, "credentials": credentials}
    return {name: member for name, member in found.items() if member}


def _of_server(connection: Any, document: Mapping[str, Any]) -> dict[str, Any]:
    """The settings plus the connection's host and port (``uri``), login (``principal``) and password (``token``)."""
    scheme = "thrift" if document.get("type") == "hive" else connection.schema or "https"
    host = (connection.host or "").rstrip("/")
    uri = host if "://" in host else f"{scheme}://{host}"
    found = {"uri": f"{uri}:{connection.port}" if connection.port else uri, "principal": connection.login}
    credentials = {"token": connection.password} if connection.password else {}
    known = {name: text for name, text in found.items() if text and host}
    return {**known, **document, **({"credentials": credentials} if credentials else {})}
