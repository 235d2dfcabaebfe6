"""``MERGE INTO … USING … ON … WHEN …`` as one text, split into the parts of a ``MergeStatement``.

The text is cut between its words, never written anew: conditions and values stay the user's own SQL, which only Spark analyzes.
Only the aliases of the two sides become ``target`` and ``source``, which is what statements call them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlglot import Token, TokenType
from sqlglot.errors import SqlglotError

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.predicate.syntax import CLOSING, OPENING, tokens_of
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.statements import (
    Clause,
    Expectation,
    FileSource,
    MatchedDelete,
    MatchedUpdate,
    MergeStatement,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    Source,
    SqlSource,
    TableSource,
)
from airflow_delta.core.table_changes.column_path import path_text

_TEXTS = {TokenType.STRING, TokenType.RAW_STRING, TokenType.NUMBER, TokenType.IDENTIFIER}
_TARGET, _SOURCE = "target", "source"
_PATH_FORMAT = "delta"

View = TableSource | FileSource


def merge_statement(
    text: str,
    *,
    table: str | None = None,
    source: Source | None = None,
    views: Mapping[str, View] | None = None,
    expect: Iterable[Expectation | str] | Expectation | str = (),
    dry_run: bool = False,
) -> MergeStatement:
    """The statement that a ``MERGE INTO`` text says.

    Args:
        text: One statement. Its target is a name, or ``delta.`uri```; its source a name, ``delta.`uri```, or a query in
            parentheses.
        table: URI of the target; the text's name for it then only serves as its alias. None where the text names the URI.
        source: What the name behind USING stands for; None where it is a view, or a table that Spark knows.
        views: Names that the source may use.
        expect: As of the statement.
        dry_run: As of the statement.

    Raises:
        InvalidStatementError: The text cannot be split, or the statement is invalid.
    """
    words = _Words.from_text(text)
    words.expect("MERGE")
    evolves = words.skip("WITH", "SCHEMA", "EVOLUTION")
    words.expect("INTO")
    target_name = words.name("USING")
    words.expect("USING")
    origin, source_name = _source(words, source, dict(views or {}))
    words.expect("ON")
    sides = _Sides(words, target_name.alias, source_name)
    on = sides.expression(words.until("WHEN"), "ON")
    clauses: list[Clause] = []
    while words.skip("WHEN"):
        clauses.append(_clause(words, sides))
    words.end()
    table = table or target_name.uri
    if table is None:
        raise words.error("the table's URI is not known: catalog names cannot be resolved; use delta.`<uri>`")
    return MergeStatement(
        table=table,
        source=origin,
        on=on,
        clauses=tuple(clauses),
        schema_evolution=evolves,
        expect=expect,  # type: ignore[arg-type]  # texts become expectations
        dry_run=dry_run,
    )


def _source(words: _Words, source: Source | None, views: dict[str, View]) -> tuple[Source, str | None]:
    """What stands behind USING, and what expressions call it."""
    if words.is_at(TokenType.L_PAREN):
        query = words.parenthesized()
        words.skip("AS")
        if isinstance(source, View):
            views.setdefault(_SOURCE, source)
        alias = None if words.next_is("ON") else words.take().text
        return SqlSource(words.slice(query), views=views), alias
    name = words.name("ON")
    if source is not None:
        return source, name.alias
    if name.uri is not None:
        return TableSource(name.uri), name.alias
    view = views.get(name.parts[-1]) if len(name.parts) == 1 else None
    if view is not None:
        return view, name.alias
    quoted = ".".join(f"`{part.replace('`', '``')}`" for part in name.parts)
    return SqlSource(f"SELECT * FROM {quoted}", views=views), name.alias  # noqa: S608 - a name of the user's own SQL


def _clause(words: _Words, sides: _Sides) -> Clause:
    """One clause, behind its WHEN."""
    is_matched, by_source = not words.skip("NOT"), False
    words.expect("MATCHED")
    if not is_matched and words.skip("BY"):
        by_source = words.skip("SOURCE")
        if not by_source:
            words.expect("TARGET")
    condition = sides.expression(words.until("THEN"), "AND") if words.skip("AND") else None
    words.expect("THEN")
    if is_matched or by_source:
        if words.skip("DELETE"):
            return MatchedDelete(condition=condition) if is_matched else NotMatchedBySourceDelete(condition=condition)
        words.expect("UPDATE")
        words.expect("SET")
        assigned = _assignments(words, sides)
        if is_matched:
            return MatchedUpdate(condition=condition, assignments=assigned)
        if assigned is None:
            raise words.error("NOT MATCHED BY SOURCE has no source row, so UPDATE SET * is not possible")
        return NotMatchedBySourceUpdate(condition=condition, assignments=assigned)
    words.expect("INSERT")
    return NotMatchedInsert(condition=condition, assignments=_inserted(words, sides))


def _assignments(words: _Words, sides: _Sides) -> dict[str, str] | None:
    """What stands behind SET; None for all columns."""
    listed = words.until("WHEN")
    if [token.token_type for token in listed] == [TokenType.STAR]:
        return None
    assigned: dict[str, str] = {}
    for assignment in _split(listed, TokenType.COMMA):
        name, *values = _split(assignment, TokenType.EQ, most=1)
        if not values:
            raise words.error(f"{words.slice(assignment)!r} is not an assignment (column = expression)")
        _add(assigned, sides.column(name), sides.expression(values[0], "SET"), words)
    return assigned


def _inserted(words: _Words, sides: _Sides) -> dict[str, str] | None:
    """What stands behind INSERT; None for all columns."""
    if words.is_at(TokenType.STAR):
        words.take()
        return None
    if not words.is_at(TokenType.L_PAREN):
        raise words.error("INSERT needs a column list, or *")
    columns = _split(words.parenthesized(), TokenType.COMMA)
    words.expect("VALUES")
    if not words.is_at(TokenType.L_PAREN):
        raise words.error("VALUES needs a list in parentheses")
    values = _split(words.parenthesized(), TokenType.COMMA)
    if len(columns) != len(values):
        raise words.error(f"INSERT has {len(columns)} columns and {len(values)} values")
    assigned: dict[str, str] = {}
    for name, value in zip(columns, values, strict=True):
        _add(assigned, sides.column(name), sides.expression(value, "VALUES"), words)
    return assigned


def _add(assigned: dict[str, str], column: str, value: str, words: _Words) -> None:
    if name_key(column) in {name_key(target) for target in assigned}:
        raise words.error(f"{column} is assigned twice in one clause")
    assigned[column] = value


class _Name:
    """A table's name in the text.

    Attributes:
        parts: What stands between the dots, unquoted.
        alias: What expressions call it.
        uri: The table's root, for ``delta.`uri```.
    """

    def __init__(self, parts: Sequence[str], alias: str | None) -> None:
        self.parts = tuple(parts)
        is_path = len(parts) == 2 and name_key(parts[0]) == _PATH_FORMAT  # noqa: PLR2004 - a format and a path
        self.uri = parts[1] if is_path and "/" in parts[1] else None
        self.alias = alias or (None if self.uri else parts[-1])


class _Words:
    """The words of the text, taken from left to right."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._at = 0

    @classmethod
    def from_text(cls, text: str) -> _Words:
        """The words of a text. Raises ``InvalidStatementError`` for unclosed quotes and the like."""
        try:
            return cls(text, tokens_of(text))
        except SqlglotError as error:
            raise InvalidStatementError(statement="MERGE", detail=f"its text is not valid SQL: {error!s:.200}") from error

    def next_is(self, *words: str) -> bool:
        """Whether these words come next."""
        found = [_word(token) for token in self._tokens[self._at : self._at + len(words)]]
        return found == list(words)

    def is_at(self, kind: TokenType) -> bool:
        """Whether a token of this kind comes next."""
        return self._at < len(self._tokens) and self._tokens[self._at].token_type == kind

    def skip(self, *words: str) -> bool:
        """Take these words if they come next, and return whether they did."""
        found = self.next_is(*words)
        self._at += len(words) if found else 0
        return found

    def expect(self, word: str) -> None:
        """Take this word, which must come next."""
        if not self.skip(word):
            raise self.error(f"{word} is missing")

    def take(self) -> Token:
        """The next token."""
        if self._at >= len(self._tokens):
            raise self.error("it ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def until(self, word: str) -> list[Token]:
        """The tokens before this word, which stands outside of parentheses and CASE, or before the end."""
        start, depth, cases = self._at, 0, 0
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            if depth == cases == 0 and (_word(token) == word or token.token_type == TokenType.SEMICOLON):
                break
            depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
            cases += (token.token_type == TokenType.CASE) - (token.token_type == TokenType.END and cases > 0)
            self._at += 1
        return list(self._tokens[start : self._at])

    def parenthesized(self) -> list[Token]:
        """The tokens inside the parentheses that begin here."""
        start, depth = self._at, 0
        while True:
            token = self.take()
            depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
            if depth == 0:
                return list(self._tokens[start + 1 : self._at - 1])

    def name(self, before: str) -> _Name:
        """A table's name and its alias, in front of this word."""
        parts = [self.take().text]
        while self.is_at(TokenType.DOT):
            self.take()
            parts.append(self.take().text)
        self.skip("AS")
        alias = None if self.next_is(before) else self.take().text
        if not self.next_is(before):
            raise self.error(f"{before} is missing behind the name {'.'.join(parts)!r}")
        return _Name(parts, alias)

    def end(self) -> None:
        """Raise unless nothing is left but a semicolon."""
        while self.is_at(TokenType.SEMICOLON):
            self.take()
        if self._at < len(self._tokens):
            raise self.error("WHEN is missing")

    def slice(self, tokens: Sequence[Token]) -> str:
        """The text from the first to the last of these."""
        return self._text[tokens[0].start : tokens[-1].end + 1] if tokens else ""

    def renamed(self, tokens: Sequence[Token], names: Mapping[int, str]) -> str:
        """Likewise, with other words in the place of those at these positions in the text."""
        text, last = "", tokens[0].start
        for token in tokens:
            if token.start in names:
                text += self._text[last : token.start] + names[token.start]
                last = token.end + 1
        return text + self._text[last : tokens[-1].end + 1]

    def error(self, detail: str) -> InvalidStatementError:
        """The error that names the place."""
        if self._at < len(self._tokens):
            rest = self._text[self._tokens[self._at].start :]
            detail = f"{detail}, at {rest[:40]!r}"
        return InvalidStatementError(statement="MERGE", detail=detail)


class _Sides:
    """What the text calls the target and the source, said as statements say it."""

    def __init__(self, words: _Words, target: str | None, source: str | None) -> None:
        self._words = words
        self._target = name_key(target or _TARGET)
        self._names = {self._target: _TARGET, name_key(source or _SOURCE): _SOURCE}
        if len(self._names) == 1:
            raise words.error(f"target and source have the same alias {self._target!r}: give one an alias")

    def expression(self, tokens: Sequence[Token], behind: str) -> str:
        """The expression's own text, with ``target`` and ``source`` in the place of aliases."""
        if not tokens:
            raise self._words.error(f"an expression is missing after {behind}")
        qualifiers = {token.start: name_key(token.text) for token in _qualifiers(tokens)}
        renamed = {
            start: self._names[name] for start, name in qualifiers.items() if name in self._names and name != self._names[name]
        }
        if foreign := {_TARGET, _SOURCE}.intersection(qualifiers.values()) - self._names.keys():
            raise self._words.error(
                f"{foreign.pop()!r} is neither the target's nor the source's alias in {self._words.slice(tokens)!r}"
            )
        if renamed and _may_shadow(tokens, self._names.keys()):
            detail = f"an alias is ambiguous inside {self._words.slice(tokens)!r}: use the aliases target and source"
            raise self._words.error(detail)
        return self._words.renamed(tokens, renamed)

    def column(self, tokens: Sequence[Token]) -> str:
        """The target's column that these words name, or the member of a struct, parts with dots in backticks."""
        parts = [token.text for token in tokens if token.token_type != TokenType.DOT]
        if len(parts) > 1 and name_key(parts[0]) == self._target:
            parts = parts[1:]
        if not parts:
            raise self._words.error("a column is missing")
        return path_text(tuple(parts))


def _qualifiers(tokens: Sequence[Token]) -> Iterator[Token]:
    """The first words of dotted names."""
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        if (
            after is not None
            and after.token_type == TokenType.DOT
            and (before is None or before.token_type != TokenType.DOT)
            and token.token_type not in _TEXTS - {TokenType.IDENTIFIER}
        ):
            yield token


def _may_shadow(tokens: Sequence[Token], names: Iterable[str]) -> bool:
    """Whether a query or the variable of a lambda function inside the expression may bear one of these names."""
    if any(token.token_type == TokenType.SELECT for token in tokens):
        return True
    is_lambda = any(token.token_type == TokenType.ARROW for token in tokens)
    dotted = {qualifier.start for qualifier in _qualifiers(tokens)}
    return is_lambda and any(name_key(token.text) in names and token.start not in dotted for token in tokens)


def _split(tokens: Sequence[Token], at: TokenType, *, most: int = -1) -> list[list[Token]]:
    """The pieces between tokens of this kind that stand outside parentheses, cut at most so often."""
    pieces: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
        if token.token_type == at and depth == 0 and len(pieces) != most + 1:
            pieces.append([])
        else:
            pieces[-1].append(token)
    return pieces


def _word(token: Token) -> str | None:
    """The word as SQL compares it; None for what is quoted."""
    return None if token.token_type in _TEXTS else token.text.upper()
