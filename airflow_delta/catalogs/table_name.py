"""A table's name in a catalog, and how to tell it from a path."""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_delta.catalogs.errors import InvalidTableNameError
from airflow_delta.core.storage.table_uri import is_relative

_LONGEST = 255  # characters of a part, as in Glue and Unity
_MOST_PARTS = 3
_PART = re.compile(r"`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^`.\s]+)")
_PLAIN = re.compile(r"\w+", re.ASCII)
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f/\\]|^\s*\.{1,2}\s*$")
"""The last alternative is a step in a path: names become parts of paths, in locations and in requests."""


@dataclass(frozen=True, slots=True)
class TableName:
    """``catalog.schema.table``; the catalog may be left out.

    Raises:
        InvalidTableNameError: A part is empty, too long, ``.`` or ``..``, or holds a slash or a control character.
    """

    table: str
    schema: str
    catalog: str | None = None

    def __post_init__(self) -> None:
        for part in (self.table, self.schema, *([] if self.catalog is None else [self.catalog])):
            if not part.strip() or len(part) > _LONGEST or _FORBIDDEN.search(part):
                detail = f"a part must have 1 to {_LONGEST} characters, no slash or control character, and not be . or .."
                raise InvalidTableNameError(name=part[:_LONGEST], detail=detail)

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Parse a name, each part of which is plain or in backticks (doubled inside).

        Raises:
            InvalidTableNameError: The text is not a name of two or three parts.
        """
        parts, end = [], 0
        while found := _PART.match(text.strip(), end):
            parts.append(found["plain"] or found["quoted"].replace("``", "`"))
            end = found.end() + 1
            if text.strip()[found.end() : end] != ".":
                break
        if not 1 < len(parts) <= _MOST_PARTS or end != len(text.strip()) + 1:
            raise InvalidTableNameError(name=text[:_LONGEST], detail="it has to have two or three parts")
        return cls(parts[-1], parts[-2], parts[0] if len(parts) == _MOST_PARTS else None)

    def check_in(self, *catalogs: str) -> None:
        """Refuse a name in another catalog, which would be confused with a table of the same schema and name in this one.

        Args:
            catalogs: Names of the catalog in use, in lower case.

        Raises:
            InvalidTableNameError: The name begins with another catalog.
        """
        if self.catalog is not None and self.catalog.lower() not in catalogs:
            detail = f"the catalog of the connection is not {self.catalog}; it is called {' or '.join(catalogs)}, or left out"
            raise InvalidTableNameError(name=str(self), detail=detail)

    def __str__(self) -> str:
        parts = (self.catalog, self.schema, self.table)
        return ".".join(part if _PLAIN.fullmatch(part) else f"`{part.replace('`', '``')}`" for part in parts if part)


def is_path(text: str) -> bool:
    """Whether a text is a path or URI rather than a name: with a slash, a scheme, only dots, or no dot outside of backticks."""
    return "/" in text or not is_relative(text) or text in {".", ".."} or "." not in re.sub(r"`(?:[^`]|``)*`", "", text)
