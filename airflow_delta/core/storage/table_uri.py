"""What a table's URI says about where the table is."""

from __future__ import annotations

import re
from pathlib import Path

from airflow_delta.core.errors import RelativePathError
from airflow_delta.core.errors.statement import NOTHING_RENDERED

ABSOLUTE = r"^/|^[A-Za-z][A-Za-z0-9+.-]+:/"
"""Matches paths of the log that are not relative to the table's root; for Arrow, which cannot call ``is_relative``."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def scheme_of(uri: str) -> str:
    """The scheme in lower case; ``file`` for a path without one."""
    match = _SCHEME.match(uri)
    return match[1].lower() if match else "file"


def local_path(uri: str) -> Path:
    """The absolute path of a local table: ``file:/x``, ``file:///x``, ``file://localhost/x`` and ``/x`` are the same.

    Nothing is percent-decoded, as in Hadoop's ``Path``: what the user wrote is the directory's name.
    """
    path = re.sub(r"^file:(//(localhost)?(?=/))?", "", uri, flags=re.IGNORECASE)
    return Path(path).absolute()


def without_dots(path: str) -> str:
    """A relative or local path without ``.`` segments, which object stores would take for folder names."""
    kept = "/".join(part for part in path.split("/") if part != ".")
    return kept or path[:1].replace(".", "")


def is_relative(path: str) -> bool:
    """Whether a path of the log is relative to the table's root."""
    return not path.startswith("/") and not _SCHEME.match(path)


def absolute(uri: str, detail: str) -> str:
    """The URI of a table or another place, unchanged if absolute: only a shell or script may use relative paths.

    Args:
        uri: A URI or a local path; blank values are refused elsewhere.
        detail: Why it cannot be resolved, for the error.

    Raises:
        RelativePathError: The URI is relative.
    """
    if uri.strip() and is_relative(uri):
        if uri == "None":  # a template without a value renders to this text
            detail += NOTHING_RENDERED
        raise RelativePathError(path=uri, detail=detail)
    return uri
