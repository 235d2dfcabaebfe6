"""Bearer tokens: the header that carries one (RFC 6750), and the servers to which it may be sent."""

from __future__ import annotations

import re

from airflow_delta.core.server_uri import server_parts

_TOKEN = re.compile(r"[\x21-\x7e]+")
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def is_safe_server(uri: str, *, has_token: bool) -> bool:
    """Whether a URI is that of a server: over HTTPS or, without TLS, on this machine or without a token."""
    parts = server_parts(uri)
    if parts is None:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and (parts.hostname in _LOOPBACK or not has_token))


def authorization(token: str) -> str:
    """The value of the header ``Authorization``.

    Raises:
        ValueError: The token has invalid characters, such as a line end; the error does not show it.
    """
    if not _TOKEN.fullmatch(token):
        raise ValueError("expected a token of visible ASCII characters, found others, such as a line end at its end")
    return f"Bearer {token}"
