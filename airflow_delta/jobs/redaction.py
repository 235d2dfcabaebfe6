"""Secrets do not leave the process in a text."""

from __future__ import annotations

import re

from airflow_delta.core.storage.ambient_options import ambient_secrets

_NAME = (
    r"[\w.-]*(?:secret|password|passwd|token|credential|signature|(?:account|access|private|encryption|shared).?key"
    r"|(?<![A-Za-z])sas(?![a-z]))[\w.-]*"
)
_SECRETS = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"(?P<keep>\w+://)[^/\s@'\"]+:[^/\s@'\"]*(?=@)"),  # user:password@ in an URI
    re.compile(r"(?P<keep>\w+://[^\s?'\"]+\?)[^\s'\"]+"),  # the query of an URI may be a signature
    re.compile(r"(?P<keep>\b(?:bearer|basic|sharedkey|sharedaccesssignature)\s+)[\w.=:+/-]{8,}", re.IGNORECASE),
    re.compile(
        rf"(?P<keep>(?:{_NAME}['\"]?\s*[=:]|\({_NAME},|['\"](?:key|sig)['\"]\s*:|\bsig=)\s*)"
        r"(?:'[^']*'|\"[^\"]*\"|[^\s'\",;)}]+)",
        re.IGNORECASE,
    ),
)


def redact(text: str) -> str:
    """The text with passwords, keys and signatures replaced by stars: those that this process has, and what looks like one."""
    for known in sorted(ambient_secrets(), key=len, reverse=True):
        text = text.replace(known, "***")
    for secret in _SECRETS:
        text = secret.sub(lambda match: f"{match.groupdict().get('keep', '')}***", text)
    return text
