"""A bearer token: as a header carries it (RFC 6750), and to which servers."""

from __future__ import annotations

import re

from airflow_delta.core.server_uri import server_parts

_TOKEN = re.compile(r"[\x21-\x7e]+")
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def is_safe_server(uri: str, *, has_token: bool) -> bool:
    """Whether it is the URI of a server to which a token may go: ``https://host``, and without TLS only this machine."""
    parts = server_parts(uri)
    if parts is None:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and (parts.hostname in _LOOPBACK or not has_token))


def authorization(token: str) -> str:
    """Value of the header ``Authorization``.

    Raises:
        ValueError: The token has characters that no token has, such as a line end; it is not shown.
    """
    if not _TOKEN.fullmatch(token):
        raise ValueError("expected a token of visible ASCII characters, found others, such as a line end at its end")
    return f"Bearer {token}"
