"""URIs of servers, as users and connections give them."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit


def server_parts(uri: str) -> SplitResult | None:
    """The parts of the URI of a server, whose ``hostname`` and ``port`` can be read.

    None where it names no host, where the port or the brackets are invalid, and where it holds a user: it may be shown.
    """
    try:
        parts = urlsplit(uri)
        host, _ = parts.hostname, parts.port
    except ValueError:  # of a port, or of brackets
        return None
    return parts if host and "@" not in parts.netloc else None
