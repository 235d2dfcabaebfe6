"""Connections of type ``spark_connect``: where the server is, and who asks."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any
from urllib.parse import quote

from airflow.providers.common.compat.sdk import mask_secret

from airflow_delta.core.server_uri import server_parts
from airflow_delta.hooks.errors import SparkTargetError

CONN_TYPE = "spark_connect"

_CLIENT = ("pyspark", "pandas", "grpc", "grpc_status")
"""Modules that Spark Connect's client imports; pip's pyspark alone comes without the last two."""

_HEADER = "x-"
"""What the names of extras begin with that are sent to the server as headers, such as ``x-databricks-cluster-id``."""


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
    missing = [name for name in _CLIENT if find_spec(name) is None]
    if missing:
        raise SparkTargetError(
            conn_id=conn_id,
            detail=f"Spark Connect's client lacks {', '.join(missing)} on the Airflow worker",
            cure="pip install 'airflow-delta[connect]'; where pyspark is installed: pip install 'pyspark[connect]'",
        )
    return f"sc://{url.netloc}:{connection.port}" if connection.port else f"sc://{url.netloc}"


def server_url(connection: Any, address: str) -> str:
    """The address as ``SPARK_REMOTE`` takes it, with user, token, ``use_ssl`` and the extras that are headers: a secret.

    As ``SparkConnectHook`` makes it, which knows no headers, and whose URL a slash in user or token would end.

    Raises:
        SparkTargetError: A header, or ``use_ssl``, is neither a text nor a number or a flag.
    """
    extra = connection.extra_dejson
    headers = {name: value for name, value in extra.items() if name.startswith(_HEADER)}
    named = {"user_id": connection.login, "token": connection.password, "use_ssl": extra.get("use_ssl")} | headers
    given = {name: value for name, value in named.items() if value is not None and value != ""}
    if wrong := sorted(name for name, value in given.items() if not isinstance(value, str | int | float)):
        raise SparkTargetError(
            conn_id=connection.conn_id,
            detail=f"expected texts in its extra, found another value as {', '.join(wrong)}",
            cure="write the value as a text",
        )
    parameters = {name: quote(str(value), safe="") for name, value in given.items()}
    if "token" in parameters:
        mask_secret(parameters["token"])
    return ";".join([f"{address}/", *(f"{name}={value}" for name, value in parameters.items())])
