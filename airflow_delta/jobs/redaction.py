"""Removes secrets from texts that leave the process."""

from __future__ import annotations

import re

from airflow_delta.core.storage.ambient_options import ambient_secrets
from airflow_delta.jobs.secret_forms import named_secrets_in, secrets_in

_QUERY = re.compile(r"://(?:(?!://)[^\s?'\"])*+\?(?P<value>[^\s'\"]{1,8000})")
"""The query of a URI, which may hold a signature under any name."""

_LONGEST = 200_000  # characters of the beginning and of the end of a text

_KEY = re.compile(r"['\"]key['\"]\s{0,5}:\s{0,5}['\"](?P<value>[^'\"]{1,8000})")
"""The id of an access key, by s3fs's name for it."""


def redact(text: str) -> str:
    """The text with secrets replaced by stars: those that this process knows, and whatever looks like one."""
    from airflow_delta.catalogs.settings import catalog_secrets
    from airflow_delta.catalogs.vended_credentials import vended_secrets

    if len(text) > 2 * _LONGEST:
        text = "\n".join([text[:_LONGEST], "...", text[-_LONGEST:].partition("\n")[2]])
    for known in sorted(ambient_secrets() | catalog_secrets() | vended_secrets(), key=len, reverse=True):
        text = text.replace(known, "***")
    found = [*secrets_in(text), *named_secrets_in(text)]
    found += [match.span("value") for pattern in (_QUERY, _KEY) for match in pattern.finditer(text)]
    parts, position = [], 0
    for start, end in sorted(found):
        if end > position:
            parts += [text[position : max(start, position)], "***" if start >= position else ""]
            position = end
    return "".join([*parts, text[position:]])
