"""URIs of servers, as users and connections give them."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit


def server_parts(uri: str) -> SplitResult | None:
    """The parts of a server's URI, with a readable ``hostname`` and ``port``.

    None if the URI names no host, if its port or brackets are invalid, or if it contains user info, as the URI may be shown to
    others.
    """
    try:
        parts = urlsplit(uri)
        host, _ = parts.hostname, parts.port
    except ValueError:  # invalid port or brackets
        return None
    return parts if host and "@" not in parts.netloc else None
