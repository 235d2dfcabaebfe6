"""What a SQL text does not determine: which table a name refers to, and which time a text.

A table is named by its path, as delta.`uri`. A catalog name is resolved if the caller provides a resolver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlglot import TokenType

from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.sql_text.words import Words
from airflow_delta.core.statements import FileSource, TableSource

View = TableSource | FileSource

PATH_FORMAT = "delta"
_BY_PATH = "name the table by its path: delta.`<uri>`"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableName:
    """A table's name in a SQL text.

    Attributes:
        parts: The parts between dots, without backticks.
        path: The table's root, if the name is delta.`uri`.
        position: Where the name begins in the text.
    """

    parts: tuple[str, ...]
    path: str | None = None
    position: int = field(default=0, compare=False)

    @property
    def quoted(self) -> str:
        """The name as SQL."""
        return ".".join(f"`{part.replace('`', '``')}`" for part in self.parts)

    def called(self, alias: str | None = None) -> tuple[str, ...]:
        """The name by which expressions refer to the table: its alias, else its name; empty if it has neither."""
        if alias is not None:
            return (alias,)
        return () if self.path else self.parts


@dataclass(frozen=True, slots=True, kw_only=True)
class TextContext:
    """What is known in addition to the text.

    Attributes:
        table: URI of the table that the statement is about; the text's name for it then only serves as an alias. None if the
            text names the table.
        views: Views that queries in the text may use, by name.
        resolve: Gives the location that a catalog name (by its parts) has in a statement; None without a catalog.
        find: Gives the location that a name has in a query; returns None for a name that is not in the catalog, and may be
            Spark's.
        place: Gives where a new table is made, from the parts of its name and its LOCATION, if any; returns None for a name
            outside of the catalog. If not set, ``resolve`` decides.
        time: Converts the text of a time to the form that statements use.
    """

    table: str | None = None
    views: Mapping[str, View] = field(default_factory=dict)
    resolve: Callable[[tuple[str, ...]], str | None] | None = None
    find: Callable[[tuple[str, ...]], str | None] | None = None
    place: Callable[[tuple[str, ...], str | None], str | None] | None = None
    time: Callable[[str], int | str] = str

    def target_uri(self, words: Words, name: TableName) -> str:
        """URI of the table that the statement is about. Raises ``SqlTextError`` if the name refers to no table."""
        if self.table is None:
            return self.table_uri(words, name)
        if name.path is not None and name.path != self.table:
            detail = f"the text is about {name.path}, and the table that was given is {self.table}"
            raise words.error(detail, "leave out one", at=name.position)
        return self.table

    def table_uri(self, words: Words, name: TableName) -> str:
        """URI of a table; all names are resolved here. Raises ``SqlTextError`` if the name refers to no table."""
        found = self.known(name)
        if found is None:
            detail = f"the table's URI is not known: {name.quoted} is the name of a catalog, and there is none"
            raise words.error(detail, _BY_PATH, at=name.position)
        return found

    def known(self, name: TableName) -> str | None:
        """As ``table_uri``, but None if the name refers to no table here."""
        if name.path is not None:
            return name.path
        return None if self.resolve is None else self.resolve(name.parts)


def table_name(words: Words, format_name: str = PATH_FORMAT) -> TableName:
    """Take a table name."""
    position, parts = words.position, [words.name("a table")]
    is_quoted = False
    while words.skip_sign(TokenType.DOT):
        is_quoted = words.is_at(TokenType.IDENTIFIER)
        parts.append(words.name("a table"))
    is_path = len(parts) == 2 and name_key(parts[0]) == format_name and is_quoted and "/" in parts[1]  # noqa: PLR2004
    return TableName(parts=tuple(parts), path=parts[1] if is_path else None, position=position)


def table_or_path(words: Words) -> TableName:
    """As ``table_name``; also accepts a quoted path where Delta's grammar does: VACUUM '/lake/events'."""
    if not words.is_at_string:
        return table_name(words)
    position, path = words.position, words.string()
    if "/" not in path:
        raise words.error(f"expected a path in quotes, found {path[:100]!r}", _BY_PATH, at=position)
    return TableName(parts=(PATH_FORMAT, path), path=path, position=position)


def table_alias(words: Words, *ends: str) -> str | None:
    """The alias after a name, if the next word is neither one of ``ends`` nor the end of the text."""
    if words.skip("AS"):
        return words.name("an alias")
    if words.is_at_end or any(words.next_is(end) for end in ends):
        return None
    return words.name(" or ".join((*ends, "an alias")))


def point_in_time(words: Words, context: TextContext) -> tuple[int | None, int | str | None]:
    """The version or the time in VERSION AS OF 3, TIMESTAMP AS OF '2026-01-01'; None for the other one."""
    if words.skip("VERSION", "AS", "OF"):
        return words.whole_number("a version"), None
    if words.skip("TIMESTAMP", "AS", "OF"):
        if not words.skip("TIMESTAMP"):
            words.skip("DATE")
        return None, context.time(words.string("a time as text"))
    raise words.expected("VERSION AS OF or TIMESTAMP AS OF")


def optional_point(words: Words, context: TextContext) -> tuple[int | None, int | str | None]:
    """As ``point_in_time``, but optional; both are None for the latest version."""
    is_there = words.next_is("VERSION", "AS", "OF") or words.next_is("TIMESTAMP", "AS", "OF")
    return point_in_time(words, context) if is_there else (None, None)
