"""Secrets do not leave the process in a text."""

from __future__ import annotations

import re

_SECRETS = (
    re.compile(r"(?P<keep>\w+://)[^/\s@'\"]+:[^/\s@'\"]*(?=@)"),  # user:password@ in an URI
    re.compile(r"(?P<keep>\w+://[^\s?'\"]+\?)[^\s'\"]+"),  # the query of an URI may be a signature
    re.compile(
        r"(?P<keep>[\w.-]*(?:secret|password|passwd|token|credential|account.?key|access.?key|sas)[\w.-]*['\"]?\s*[=:]\s*['\"]?)"
        r"[^\s'\",;)}]+",
        re.IGNORECASE,
    ),
)


def redact(text: str) -> str:
    """The text with passwords, keys and signatures replaced by stars."""
    for secret in _SECRETS:
        text = secret.sub(r"\g<keep>***", text)
    return text
