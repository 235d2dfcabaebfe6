"""Lists of columns in table properties, in Spark's syntax: ``a, b.c, `d.e```."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

Path: TypeAlias = tuple[str, ...]
"""The parts of a column's path, outermost first."""

_NAME_PART = re.compile(r"`((?:[^`]|``)*)`|([^`.,]+)|([.,])")


def parse_names(text: str) -> Iterator[Path]:
    """The column names in a list such as ``a, b.c, `d.e```."""
    path: list[str] = []
    for quoted, plain, mark in _NAME_PART.findall(text):
        if mark == ",":
            yield tuple(path)
            path = []
        elif not mark and (quoted or plain.strip()):
            path.append(quoted.replace("``", "`") or plain.strip())
    if path:
        yield tuple(path)
