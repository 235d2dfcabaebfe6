"""Expressions of a SQL text in the form that statements use: ``target`` and ``source`` instead of aliases."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from sqlglot import Token, TokenType

from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.sql_text.queries import queried_tables
from airflow_delta.core.sql_text.words import QUOTED, Words, split
from airflow_delta.core.table_changes.column_path import path_text

TARGET, SOURCE = "target", "source"


Qualifier = tuple[str, ...]


class Sides:
    """The names of the target, and in a MERGE of the source: an alias, or a table name, of which the last parts suffice."""

    def __init__(self, words: Words, target: Sequence[str], sources: Iterable[Sequence[str]] = ()) -> None:
        self._words = words
        self._target = _suffixes(target or (TARGET,))
        named = [_suffixes(source or (SOURCE,)) for source in sources]
        self._unclear = frozenset(self._target).intersection(suffix for suffixes in named for suffix in suffixes)
        if same := self._unclear.intersection([self._target[0], *(suffixes[0] for suffixes in named)]):
            raise words.error(f"target and source have the same alias {min(same)[-1]!r}", "give one an alias")
        self._names: Mapping[Qualifier, str] = {
            suffix: side
            for side, suffixes in ((TARGET, self._target), *((SOURCE, suffixes) for suffixes in named))
            for suffix in suffixes
            if suffix not in self._unclear
        }
        self._both = frozenset({TARGET, SOURCE} if named else ())

    @classmethod
    def of_target(cls, words: Words, names: Sequence[str]) -> Sides:
        """The names of the target, for a statement without a source."""
        return cls(words, names)

    def expression(self, tokens: Sequence[Token], behind: str) -> str:
        """The expression's text, with ``target`` and ``source`` instead of aliases."""
        if not tokens:
            raise self._words.expected(f"an expression behind {behind}")
        dotted = [_dotted(tokens, at) for at in _qualifiers(tokens)]
        found = [(names, _qualifier(list(map(_key, names)), self._names)) for names in dotted]
        renamed = {
            (names[0].start, names[len(qualifier) - 1].end + 1): self._names[qualifier]
            for names, qualifier in found
            if qualifier and qualifier != (self._names[qualifier],)
        }
        shown, at = self._words.slice(tokens), tokens[0].start
        if queried_tables(tokens, self._words.text):
            raise self._words.error(f"{shown!r} reads another table", "take MERGE, whose source may be any query", at=at)
        if foreign := sorted(self._both.intersection(_key(names[0]) for names, qualifier in found if not qualifier)):
            raise self._words.error(f"{foreign[0]!r} is neither the target's nor the source's alias in {shown!r}", at=at)
        if unclear := [names for names, qualifier in found if not qualifier and self._is_unclear(names)]:
            told = ".".join(token.text for token in unclear[0])
            raise self._words.error(f"{told!r} may be of the target or of the source", "begin with the table's schema", at=at)
        if renamed and _may_shadow(tokens, {qualifier[0] for qualifier in self._names}):
            raise self._words.error(f"an alias is ambiguous inside {shown!r}", "use the aliases target and source", at=at)
        return self._words.replaced(tokens, renamed)

    def _is_unclear(self, names: Sequence[Token]) -> bool:
        return bool(_qualifier(list(map(_key, names)), self._unclear))

    def column(self, tokens: Sequence[Token]) -> str:
        """The target column, or nested field, that these tokens name; parts that contain dots are put in backticks."""
        names, dots = tokens[::2], tokens[1::2]
        is_path = len(tokens) % 2 and all(token.token_type == TokenType.DOT for token in dots)
        if not is_path or any(token.token_type in QUOTED - {TokenType.IDENTIFIER} for token in names):
            raise self._words.error(f"expected a column, found {self._words.slice(tokens)!r}")
        parts = [token.text for token in names]
        if qualifier := _qualifier(list(map(name_key, parts)), self._target):
            parts = parts[len(qualifier) :]
            if len(parts) > 1 and name_key(parts[0]) == TARGET:  # a struct called target; in statements that is the table
                return f"`{parts[0]}`.{path_text(tuple(parts[1:]))}"
        return path_text(tuple(parts))

    def assignments(self, tokens: Sequence[Token]) -> dict[str, str]:
        """The assignments after SET: column to value."""
        assigned: dict[str, str] = {}
        for assignment in split(tokens, TokenType.COMMA):
            name, *values = split(assignment, TokenType.EQ, most=1)
            if not values:
                raise self._words.error(f"expected column = expression, found {self._words.slice(assignment)!r}")
            self.assign(assigned, name, values[0], "SET")
        return assigned

    def assign(self, assigned: dict[str, str], name: Sequence[Token], value: Sequence[Token], behind: str) -> None:
        """Add one assignment; raises if the column is assigned already."""
        column = self.column(name)
        if name_key(column) in map(name_key, assigned):
            raise self._words.error(f"{column} is assigned twice in one clause")
        assigned[column] = self.expression(value, behind)


def _suffixes(names: Sequence[str]) -> list[Qualifier]:
    """All qualifiers that may precede a column of a table with this name, the longest first."""
    parts = tuple(map(name_key, names))
    return [parts[start:] for start in range(len(parts))]


def _qualifier(parts: Sequence[str], qualifiers: Collection[Qualifier]) -> Qualifier:
    """The longest qualifier that the parts of a name begin with, without being the whole name; empty if no qualifier is."""
    lengths = range(len(parts) - 1, 0, -1)
    return next((found for length in lengths if (found := tuple(parts[:length])) in qualifiers), ())


def _key(token: Token) -> str:
    return name_key(token.text)


def _qualifiers(tokens: Sequence[Token]) -> Iterator[int]:
    """Positions at which dotted names begin."""
    for at, (before, token, after) in enumerate(zip([None, *tokens], tokens, [*tokens[1:], None], strict=False)):
        if (
            after is not None
            and after.token_type == TokenType.DOT
            and (before is None or before.token_type != TokenType.DOT)
            and token.token_type not in QUOTED - {TokenType.IDENTIFIER}
        ):
            yield at


def _dotted(tokens: Sequence[Token], at: int) -> list[Token]:
    """The parts of the dotted name that begins here."""
    names = [tokens[at]]
    while at + 2 < len(tokens) and tokens[at + 1].token_type == TokenType.DOT:
        at += 2
        names.append(tokens[at])
    return names


def _may_shadow(tokens: Sequence[Token], names: Iterable[str]) -> bool:
    """Whether a subquery or a lambda variable inside the expression may have one of these names."""
    if any(token.token_type == TokenType.SELECT for token in tokens):
        return True
    return any(_key(token) in names for token in _lambda_variables(tokens))


def _lambda_variables(tokens: Sequence[Token]) -> Iterator[Token]:
    """The variables of lambda functions: the word before each arrow, or those in parentheses before it."""
    for arrow in (at for at, token in enumerate(tokens) if token.token_type == TokenType.ARROW):
        before = arrow - 1
        if before >= 0 and tokens[before].token_type == TokenType.R_PAREN:
            while before >= 0 and tokens[before].token_type != TokenType.L_PAREN:
                before -= 1
        yield from tokens[max(before, 0) : arrow]
