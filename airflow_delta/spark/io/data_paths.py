"""Paths of files in the log, as Spark and Arrow name them.

Protocol: PROTOCOL.md, "Add File and Remove File": a path in the log is a URI, percent-encoded once, relative to the root
unless it has a scheme or starts with a slash.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from airflow_delta.core.storage.table_uri import is_relative, local_path, scheme_of

# Characters that Hadoop's Path leaves unencoded in a URI, so that logs of Delta Spark and ours spell paths alike.
_LITERAL = "/-_.!~*'():@&=+$,;"
_PATTERN_SIGN = re.compile(r"[\\*?\[\]{}]")


def log_path(relative: str) -> str:
    """A file below the table's root, as a path of the log."""
    return quote(relative, safe=_LITERAL)


def file_uri(table_uri: str, path: str) -> str:
    """The file of a path in the log: absolute, not percent-encoded, as ``data_filesystem`` and Hadoop take it."""
    return hadoop_uri(f"{table_uri.rstrip('/')}/{unquote(path)}" if is_relative(path) else unquote(path))


def literal_pattern(uri: str) -> str:
    """The Hadoop path pattern that matches only this URI, whatever characters it contains."""
    return _PATTERN_SIGN.sub(r"\\\g<0>", uri)


def hadoop_uri(uri: str) -> str:
    """The URI in Hadoop's form: local paths absolute and with scheme, ``s3`` as ``s3a``."""
    scheme = scheme_of(uri)
    if scheme == "file":
        path = local_path(uri)
        # Hadoop would remove "x/.." textually, which leads elsewhere if x is a link.
        return f"file:{path.resolve() if '..' in path.parts else path}"
    return f"s3a{uri[len(scheme) :]}" if scheme in ("s3", "s3n") else uri
