"""Connections of type ``spark_connect``: the server's address, and the user, token and headers sent to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote

from airflow.providers.common.compat.sdk import mask_secret

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.server_uri import server_parts
from airflow_delta.core.statements.fields import converted_value
from airflow_delta.hooks.errors import SparkTargetError
from airflow_delta.hooks.storage_connection import extra_of

CONN_TYPE = "spark_connect"

_CLIENT = ("pyspark", "pandas", "grpc", "grpc_status")
"""Modules that Spark Connect's client imports; ``pip install pyspark`` alone does not install all of them."""

_HEADER = "x-"
"""Prefix of the extras that are sent to the server as headers, such as ``x-databricks-cluster-id``."""

_HEADER_NAME = re.compile(r"x-[a-z0-9._-]+(?<!-bin)")
"""Names that gRPC accepts for a header whose value is text."""

_PRINTABLE = re.compile(r"[ -~]*")
"""Values that gRPC accepts for such a header."""


def server_address(conn_id: str, connection: Any) -> str:
    """The server's address without secrets, such as ``sc://host:15002``.

    Raises:
        SparkTargetError: The connection names no server, or the worker lacks Spark Connect's client.
    """
    given = connection.host or ""
    url = server_parts(given if "://" in given else f"sc://{given}")
    if url is None or url.scheme != "sc" or ";" in url.netloc or url.path.strip("/") or url.query or url.fragment:
        raise SparkTargetError(
            conn_id=conn_id,
            detail=f"expected a host such as spark.example.com, found {'another text' if given else 'none'}",
            cure="name host and port alone; the token is the connection's password, the user its login",
        )
    if connection.port and url.port is not None:
        raise SparkTargetError(
            conn_id=conn_id,
            detail=f"expected the port once, found {url.port} in its host and {connection.port} as its port",
            cure="leave it out of the host",
        )
    missing = [name for name in _CLIENT if find_spec(name) is None]
    if missing:
        raise SparkTargetError(
            conn_id=conn_id,
            detail=f"Spark Connect's client lacks {', '.join(missing)} on the Airflow worker",
            cure="pip install 'airflow-delta[connect]'; where pyspark is installed: pip install 'pyspark[connect]'",
        )
    return f"sc://{url.netloc}:{connection.port}" if connection.port else f"sc://{url.netloc}"


def server_url(connection: Any, address: str) -> str:
    """The URL for ``SPARK_REMOTE``: the address with user, token, ``use_ssl`` and the extras that are headers; a secret.

    ``SparkConnectHook`` builds the same URL, but without headers, and a slash in its user or token would end the URL.

    Raises:
        SparkTargetError: A header, the token, or ``use_ssl`` is not what the server's client can send.
    """
    extra = extra_of(connection)
    headers = {name: value for name, value in extra.items() if name.lower().startswith(_HEADER)}
    named = {"user_id": connection.login, "token": connection.password, "use_ssl": extra.get("use_ssl")} | headers
    given = {name: value for name, value in named.items() if value is not None and value != ""}
    if wrong := sorted(name for name, value in given.items() if not isinstance(value, str | int | float)):
        raise SparkTargetError(
            conn_id=connection.conn_id,
            detail=f"expected texts in its extra, found another value as {', '.join(wrong)}",
            cure="write the value as a text",
        )
    _check_headers(connection.conn_id, {name: str(value) for name, value in given.items() if name in {"token", *headers}})
    if "use_ssl" in given:
        given["use_ssl"] = str(_flag(connection.conn_id, "use_ssl", given["use_ssl"])).lower()
    parameters = {name: quote(str(value), safe="") for name, value in given.items()}
    if "token" in parameters:
        mask_secret(parameters["token"])
    return ";".join([f"{address}/", *(f"{name}={value}" for name, value in parameters.items())])


def _check_headers(conn_id: str, texts: Mapping[str, str]) -> None:
    """Refuse headers that gRPC would refuse only at the first request, with an error that looks like an unreachable server."""
    names = [name for name in texts if name != "token" and _HEADER_NAME.fullmatch(name) is None]
    if names:
        raise SparkTargetError(
            conn_id=conn_id,
            detail="expected the names of headers to be x- and lower case letters, digits, dots, dashes and underscores, "
            f"not ending in -bin, found {', '.join(map(repr, sorted(names)))} in its extra",
            cure="correct the names",
        )
    if unprintable := sorted(name for name, text in texts.items() if _PRINTABLE.fullmatch(text) is None):
        places = ", ".join("its password (the token)" if name == "token" else name for name in unprintable)
        raise SparkTargetError(
            conn_id=conn_id,
            detail=f"expected printable ASCII characters in headers, found others, such as the end of a line, in {places}",
            cure="write the value without them",
        )


def _flag(conn_id: str, name: str, value: Any) -> bool:
    try:
        return bool(converted_value(CONN_TYPE, name, value, bool))
    except InvalidStatementError as error:
        raise SparkTargetError(conn_id=conn_id, detail=error.detail, cure="write it as true or false") from None
