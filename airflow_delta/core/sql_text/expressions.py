"""Expressions of a text, said as statements say them: ``target`` and ``source`` in the place of aliases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlglot import Token, TokenType

from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.sql_text.queries import queried_tables
from airflow_delta.core.sql_text.words import QUOTED, Words, split
from airflow_delta.core.table_changes.column_path import path_text

TARGET, SOURCE = "target", "source"


class Sides:
    """What the text calls the target, and in a MERGE the source."""

    def __init__(self, words: Words, target: str | None, sources: Iterable[str | None] = ()) -> None:
        self._words = words
        self._target = name_key(target or TARGET)
        self._names: Mapping[str, str] = {self._target: TARGET} | {name_key(name or SOURCE): SOURCE for name in sources}
        self._both = frozenset({TARGET, SOURCE} if SOURCE in self._names.values() else ())
        if len(self._names) < len(self._both):
            raise words.error(f"target and source have the same alias {self._target!r}", "give one an alias")

    @classmethod
    def of_target(cls, words: Words, alias: str | None) -> Sides:
        """Where there is no source."""
        return cls(words, alias)

    def expression(self, tokens: Sequence[Token], behind: str) -> str:
        """The expression's own text, with ``target`` and ``source`` in the place of aliases."""
        if not tokens:
            raise self._words.expected(f"an expression behind {behind}")
        qualifiers = {(token.start, token.end + 1): name_key(token.text) for token in _qualifiers(tokens)}
        renamed = {
            place: self._names[name] for place, name in qualifiers.items() if name in self._names and name != self._names[name]
        }
        shown, at = self._words.slice(tokens), tokens[0].start
        if queried_tables(tokens, self._words.text):
            raise self._words.error(f"{shown!r} reads another table", "take MERGE, whose source may be any query", at=at)
        if foreign := sorted(self._both.intersection(qualifiers.values()) - self._names.keys()):
            raise self._words.error(f"{foreign[0]!r} is neither the target's nor the source's alias in {shown!r}", at=at)
        if renamed and _may_shadow(tokens, self._names.keys()):
            raise self._words.error(f"an alias is ambiguous inside {shown!r}", "use the aliases target and source", at=at)
        return self._words.replaced(tokens, renamed)

    def column(self, tokens: Sequence[Token]) -> str:
        """The target's column that these words name, or the member of a struct, parts with dots in backticks."""
        names, dots = tokens[::2], tokens[1::2]
        is_path = len(tokens) % 2 and all(token.token_type == TokenType.DOT for token in dots)
        if not is_path or any(token.token_type in QUOTED - {TokenType.IDENTIFIER} for token in names):
            raise self._words.error(f"expected a column, found {self._words.slice(tokens)!r}")
        parts = [token.text for token in names]
        if len(parts) > 1 and name_key(parts[0]) == self._target:
            parts = parts[1:]
        return path_text(tuple(parts))

    def assignments(self, tokens: Sequence[Token]) -> dict[str, str]:
        """What stands behind SET: columns and their values."""
        assigned: dict[str, str] = {}
        for assignment in split(tokens, TokenType.COMMA):
            name, *values = split(assignment, TokenType.EQ, most=1)
            if not values:
                raise self._words.error(f"expected column = expression, found {self._words.slice(assignment)!r}")
            self.assign(assigned, name, values[0], "SET")
        return assigned

    def assign(self, assigned: dict[str, str], name: Sequence[Token], value: Sequence[Token], behind: str) -> None:
        """Add one value; a column is assigned once."""
        column = self.column(name)
        if name_key(column) in map(name_key, assigned):
            raise self._words.error(f"{column} is assigned twice in one clause")
        assigned[column] = self.expression(value, behind)


def _qualifiers(tokens: Sequence[Token]) -> Iterator[Token]:
    """The first words of dotted names."""
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        if (
            after is not None
            and after.token_type == TokenType.DOT
            and (before is None or before.token_type != TokenType.DOT)
            and token.token_type not in QUOTED - {TokenType.IDENTIFIER}
        ):
            yield token


def _may_shadow(tokens: Sequence[Token], names: Iterable[str]) -> bool:
    """Whether a query or the variable of a lambda function inside the expression may bear one of these names."""
    if any(token.token_type == TokenType.SELECT for token in tokens):
        return True
    is_lambda = any(token.token_type == TokenType.ARROW for token in tokens)
    dotted = {qualifier.start for qualifier in _qualifiers(tokens)}
    return is_lambda and any(name_key(token.text) in names and token.start not in dotted for token in tokens)
