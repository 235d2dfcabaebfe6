"""A bearer token as a header carries it (RFC 6750)."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"[\x21-\x7e]+")


def authorization(token: str) -> str:
    """Value of the header ``Authorization``.

    Raises:
        ValueError: The token has characters that no token has, such as a line end; it is not shown.
    """
    if not _TOKEN.fullmatch(token):
        raise ValueError("expected a token of visible ASCII characters, found others, such as a line end at its end")
    return f"Bearer {token}"
