"""Places that a ``delta`` connection names: its table root, and where jobs leave their results."""

from __future__ import annotations

import re
from typing import Any

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.storage.object_location import ObjectLocation
from airflow_delta.core.storage.table_uri import is_relative
from airflow_delta.hooks.errors import DeltaConnectionError

_SCHEME_ALONE = re.compile(r"[^/]+:/*")


def checked_place(conn_id: str, name: str, uri: Any) -> str | None:
    """The URI, unchanged; None if the connection does not name the place.

    Args:
        conn_id: The connection.
        name: What the connection calls the place, for the error.
        uri: What the connection holds for it.

    Raises:
        DeltaConnectionError: The URI is not a string, is a relative path, or names an object store without a bucket.
    """
    if uri in (None, ""):
        return None
    if not isinstance(uri, str):
        detail = f"expected {name} to be a text, found a {type(uri).__name__}"
        raise DeltaConnectionError(conn_id=conn_id, detail=detail, cure="write a URI or an absolute path, in quotes")
    if is_relative(uri):
        detail = f"{name} {uri!r} is a relative path"
        raise DeltaConnectionError(conn_id=conn_id, detail=detail, cure="write a URI or an absolute path")
    try:
        if _SCHEME_ALONE.fullmatch(uri):
            ObjectLocation.from_uri(uri)
    except InvalidStatementError:
        detail = f"{name} {uri!r} does not name a bucket or container"
        raise DeltaConnectionError(conn_id=conn_id, detail=detail, cure=f"write it as {uri.rstrip('/')}//bucket") from None
    return uri
