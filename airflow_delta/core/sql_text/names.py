"""What a text leaves open: which table a name means, and which time a text.

A table is named by its path, as delta.`uri`; a name of a catalog is resolved where the reader of the text gives a resolver.
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
    """A table's name in a text.

    Attributes:
        parts: What stands between the dots, without backticks.
        path: The table's root, where the name is delta.`uri`.
        position: Where in the text it begins.
    """

    parts: tuple[str, ...]
    path: str | None = None
    position: int = field(default=0, compare=False)

    @property
    def quoted(self) -> str:
        """The name as SQL."""
        return ".".join(f"`{part.replace('`', '``')}`" for part in self.parts)

    def called(self, alias: str | None = None) -> tuple[str, ...]:
        """What expressions call the table: its alias, else its name; nothing where only its columns have names."""
        if alias is not None:
            return (alias,)
        return () if self.path else self.parts


@dataclass(frozen=True, slots=True, kw_only=True)
class TextContext:
    """What is known beside the text.

    Attributes:
        table: URI of the table that the statement is about; the text's name for it then only serves as its alias. None where
            the text names it.
        views: Names that queries in the text may use.
        resolve: What a name of a catalog, given by its parts, stands for in a statement; None where there is no catalog.
        find: What a name in a query stands for; None for a name that the catalog does not have, and may be Spark's.
        place: Where a table is made, by the parts of its name and its LOCATION, if any; None for a name that is no catalog's.
            Without it a table is made where ``resolve`` says.
        time: What the text of a time means, as statements take it.
    """

    table: str | None = None
    views: Mapping[str, View] = field(default_factory=dict)
    resolve: Callable[[tuple[str, ...]], str | None] | None = None
    find: Callable[[tuple[str, ...]], str | None] | None = None
    place: Callable[[tuple[str, ...], str | None], str | None] | None = None
    time: Callable[[str], int | str] = str

    def target_uri(self, words: Words, name: TableName) -> str:
        """URI of the table that a statement is about. Raises ``SqlTextError`` for a name that means no table."""
        if self.table is None:
            return self.table_uri(words, name)
        if name.path is not None and name.path != self.table:
            detail = f"the text is about {name.path}, and the table that was given is {self.table}"
            raise words.error(detail, "leave out one", at=name.position)
        return self.table

    def table_uri(self, words: Words, name: TableName) -> str:
        """URI of a table: the one place where a name is resolved. Raises ``SqlTextError`` for one that means no table."""
        found = self.known(name)
        if found is None:
            detail = f"the table's URI is not known: {name.quoted} is the name of a catalog, and there is none"
            raise words.error(detail, _BY_PATH, at=name.position)
        return found

    def known(self, name: TableName) -> str | None:
        """Likewise; None for a name that means no table here."""
        if name.path is not None:
            return name.path
        return None if self.resolve is None else self.resolve(name.parts)


def table_name(words: Words, format_name: str = PATH_FORMAT) -> TableName:
    """The name that comes next."""
    position, parts = words.position, [words.name("a table")]
    is_quoted = False
    while words.skip_sign(TokenType.DOT):
        is_quoted = words.is_at(TokenType.IDENTIFIER)
        parts.append(words.name("a table"))
    is_path = len(parts) == 2 and name_key(parts[0]) == format_name and is_quoted and "/" in parts[1]  # noqa: PLR2004
    return TableName(parts=tuple(parts), path=parts[1] if is_path else None, position=position)


def table_or_path(words: Words) -> TableName:
    """Likewise; a text in quotes is the table's path, where Delta's grammar takes one: VACUUM '/lake/events'."""
    if not words.is_at_string:
        return table_name(words)
    position, path = words.position, words.string()
    if "/" not in path:
        raise words.error(f"expected a path in quotes, found {path[:100]!r}", _BY_PATH, at=position)
    return TableName(parts=(PATH_FORMAT, path), path=path, position=position)


def table_alias(words: Words, *ends: str) -> str | None:
    """The alias behind a name, in front of one of these words or the end."""
    if words.skip("AS"):
        return words.name("an alias")
    if words.is_at_end or any(words.next_is(end) for end in ends):
        return None
    return words.name(" or ".join((*ends, "an alias")))


def point_in_time(words: Words, context: TextContext) -> tuple[int | None, int | str | None]:
    """The version or the time in VERSION AS OF 3, TIMESTAMP AS OF '2026-01-01'; one of them is None."""
    if words.skip("VERSION", "AS", "OF"):
        return words.whole_number("a version"), None
    if words.skip("TIMESTAMP", "AS", "OF"):
        if not words.skip("TIMESTAMP"):
            words.skip("DATE")
        return None, context.time(words.string("a time as text"))
    raise words.expected("VERSION AS OF or TIMESTAMP AS OF")


def optional_point(words: Words, context: TextContext) -> tuple[int | None, int | str | None]:
    """Likewise, where there may be none: the latest version, for which both are None."""
    is_there = words.next_is("VERSION", "AS", "OF") or words.next_is("TIMESTAMP", "AS", "OF")
    return point_in_time(words, context) if is_there else (None, None)
