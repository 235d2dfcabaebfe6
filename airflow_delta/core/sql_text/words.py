"""A cursor over the tokens of a SQL text, from left to right.

A text is only cut between tokens, never rewritten: conditions and values remain the user's own SQL, which only Spark analyzes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from sqlglot import Token, TokenType
from sqlglot.errors import SqlglotError

from airflow_delta.core.errors import SqlTextError
from airflow_delta.core.predicate.syntax import CLOSING, OPENING, words_of
from airflow_delta.core.statements.validation import require_type
from airflow_delta.core.table_changes.column_path import ColumnPath, path_text
from airflow_delta.core.table_changes.ddl import string_value

Part = TypeVar("Part")

QUOTED = frozenset({TokenType.STRING, TokenType.RAW_STRING, TokenType.NUMBER, TokenType.IDENTIFIER})
"""Tokens that are never keywords, whatever their text."""

QUERIES = ("SELECT", "WITH", "FROM", "TABLE", "VALUES", "(")
"""Words with which a query begins."""

CORRECT = "correct the text"
"""The remedy if the error already says everything."""

_FLAGS = ("TRUE", "FALSE")
_STRINGS = (TokenType.STRING, TokenType.RAW_STRING)
_NAME = re.compile(r"\w+")
_SHOWN = 40


class Words:
    """A position in a text, which moves forward as tokens are taken.

    Every method that takes tokens raises ``SqlTextError`` if others follow; the error names the position.
    """

    def __init__(self, text: str, statement: str) -> None:
        """Tokenize a text.

        Args:
            text: The user's text.
            statement: Name of the statement, for errors.

        Raises:
            InvalidStatementError: The value is not a text.
            SqlTextError: The text cannot be tokenized, for example because of an unclosed quote.
        """
        require_type(statement, "its text", text, str)
        self.statement = statement
        self.text = text
        self._at = 0
        self._tokens: Sequence[Token] = ()
        try:
            tokens = words_of(text)
        except SqlglotError as error:
            raise self.error(f"its text is not valid SQL: {error!s:.200}") from error
        self._tokens = [word for token in tokens for word in _single(token, text)]

    @property
    def all(self) -> Sequence[Token]:
        """All tokens of the text."""
        return self._tokens

    def check_single(self) -> None:
        """Raise unless the text is a single statement."""
        ends = [token for token in self._tokens if token.token_type == TokenType.SEMICOLON]
        behind = [token for token in self._tokens if ends and token.start > ends[0].start and token not in ends]
        if behind:
            raise self.error("expected one statement, found another one", "run them one by one", at=behind[0].start)

    # -- looking ahead

    def next_is(self, *words: str) -> bool:
        """Whether these words come next."""
        found = [word_of(token) for token in self._tokens[self._at : self._at + len(words)]]
        return found == list(words)

    @property
    def position(self) -> int:
        """Position of the next token in the text."""
        return self._tokens[self._at].start if self._at < len(self._tokens) else len(self.text)

    def peek(self) -> str | None:
        """The next word, in the case that SQL compares; None at the end, or if it is quoted."""
        return word_of(self._tokens[self._at]) if self._at < len(self._tokens) else None

    def is_at(self, kind: TokenType) -> bool:
        """Whether a token of this kind comes next."""
        return self._at < len(self._tokens) and self._tokens[self._at].token_type == kind

    @property
    def is_at_string(self) -> bool:
        """Whether a quoted text comes next."""
        return any(map(self.is_at, _STRINGS))

    def is_behind(self, sign: TokenType, *words: str) -> bool:
        """Whether a token of this kind comes next, followed by one of these words."""
        after = self._tokens[self._at + 1 : self._at + 2]
        return self.is_at(sign) and bool(after) and word_of(after[0]) in words

    @property
    def is_at_end(self) -> bool:
        """Whether only semicolons are left."""
        return all(token.token_type == TokenType.SEMICOLON for token in self._tokens[self._at :])

    # -- taking tokens

    def skip(self, *words: str) -> bool:
        """Take these words if they come next; returns whether they did."""
        found = self.next_is(*words)
        self._at += len(words) if found else 0
        return found

    def skip_sign(self, kind: TokenType) -> bool:
        """Take a token of this kind if it comes next; returns whether it did."""
        found = self.is_at(kind)
        self._at += found
        return found

    def sign(self, kind: TokenType, shown: str) -> None:
        """Take a token of this kind, which must come next."""
        if not self.skip_sign(kind):
            raise self.expected(shown)

    def expect(self, *words: str) -> None:
        """Take these words, which must come next."""
        for word in words:
            if not self.skip(word):
                raise self.expected(word)

    def take(self, expected: str = "more") -> Token:
        """Take the next token."""
        if self._at >= len(self._tokens):
            raise self.expected(expected)
        self._at += 1
        return self._tokens[self._at - 1]

    def name(self, expected: str = "a name") -> str:
        """Take a name; returns it without backticks."""
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        is_plain = token is not None and token.token_type not in QUOTED and _NAME.fullmatch(self.slice([token]))
        if token is None or not (is_plain or token.token_type == TokenType.IDENTIFIER):
            raise self.expected(expected)
        self._at += 1
        return token.text

    def path(self, expected: str = "a column") -> ColumnPath:
        """Take a dotted name."""
        parts = [self.name(expected)]
        while self.skip_sign(TokenType.DOT):
            parts.append(self.name(expected))
        return tuple(parts)

    def string(self, expected: str = "a text in quotes") -> str:
        """Take a quoted text; returns its value by Spark's rules."""
        if not self.is_at_string:
            raise self.expected(expected)
        return string_value(self.slice([self.take()]))

    def number(self, expected: str = "a number") -> str:
        """Take a number; returns its text."""
        if not self.is_at(TokenType.NUMBER):
            raise self.expected(expected)
        return self.slice([self.take()])

    def whole_number(self, expected: str = "a number") -> int:
        """Take a number without sign and fraction."""
        if not self.is_at(TokenType.NUMBER) or not self._tokens[self._at].text.isdecimal():
            raise self.expected(expected)
        return int(self.take().text)

    def listed(self, read: Callable[[], Part]) -> tuple[Part, ...]:
        """Take a comma-separated list in parentheses; ``read`` takes each part."""
        self.sign(TokenType.L_PAREN, "a list in parentheses")
        found = [read()]
        while self.skip_sign(TokenType.COMMA):
            found.append(read())
        self.sign(TokenType.R_PAREN, "a comma or )")
        return tuple(found)

    def property_key(self) -> str:
        """Take the name of a table property: quoted, or words with dots."""
        if self.is_at_string:
            return self.string()
        return ".".join(self.path("the name of a property"))

    def properties(self) -> dict[str, str]:
        """Take table properties in parentheses; returns values by name."""
        pairs = self.listed(self._property)
        found = dict(pairs)
        if len(found) < len(pairs):
            raise self.error("a property is set twice")
        return found

    def _property(self) -> tuple[str, str]:
        key = self.property_key()
        self.sign(TokenType.EQ, "=")
        if self.is_at_string:
            return key, self.string()
        if self.is_at(TokenType.NUMBER):
            return key, self.number()
        if self.peek() not in _FLAGS:
            raise self.expected("a text in quotes, a number, true or false")
        return key, self.take().text.lower()

    def column_list(self) -> tuple[str, ...]:
        """Take column names in parentheses; returns them as statements name columns."""
        return self.listed(lambda: path_text(self.path()))

    def query(self) -> list[Token]:
        """Take a query, which extends to the end."""
        if not any(map(self.next_is, QUERIES)):
            raise self.expected(f"a query ({', '.join(QUERIES)})")
        return self.until()

    def until(self, *words: str) -> list[Token]:
        """Take the tokens up to one of these words, outside of parentheses and CASE, or up to the end.

        After a dot, such a word is a name.
        """
        start, depth, cases, before = self._at, 0, 0, None
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            kind = None if before == TokenType.DOT else token.token_type
            if depth == cases == 0 and (kind == TokenType.SEMICOLON or (kind and word_of(token) in words)):
                break
            depth += (kind in OPENING) - (kind in CLOSING)
            cases += (kind == TokenType.CASE) - (kind == TokenType.END and cases > 0)
            before = token.token_type
            self._at += 1
        return list(self._tokens[start : self._at])

    def rest(self) -> list[Token]:
        """Take the tokens up to the end."""
        return self.until()

    def parenthesized(self, expected: str = "(") -> list[Token]:
        """Take a group in parentheses; returns the tokens inside."""
        if not self.is_at(TokenType.L_PAREN):
            raise self.expected(expected)
        start, depth = self._at, 0
        while True:
            token = self.take(")")
            depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
            if depth == 0:
                return list(self._tokens[start + 1 : self._at - 1])

    def end(self, expected: str = "the end of the statement") -> None:
        """Raise unless only semicolons are left: a text is one statement."""
        while self.skip_sign(TokenType.SEMICOLON):
            pass
        if self._at < len(self._tokens):
            raise self.expected(expected)

    # -- the text

    def slice(self, tokens: Sequence[Token]) -> str:
        """The text from the first to the last of these tokens."""
        return self.text[tokens[0].start : tokens[-1].end + 1] if tokens else ""

    def replaced(self, tokens: Sequence[Token], pieces: Mapping[tuple[int, int], str]) -> str:
        """As ``slice``, with replacements for the given ranges of positions."""
        if not tokens:
            return ""
        text, last, end = "", tokens[0].start, tokens[-1].end + 1
        for (start, stop), piece in sorted(pieces.items()):
            text += self.text[last:start] + piece
            last = stop
        return text + self.text[last:end]

    # -- errors

    def expected(self, what: str, instead: str = CORRECT) -> SqlTextError:
        """The error for an unexpected next token."""
        return self.error(f"expected {what}, found {self._found()}", instead)

    def error(self, detail: str, instead: str = CORRECT, *, at: int | None = None) -> SqlTextError:
        """The error at a position in the text, by default that of the next token."""
        position = self.position if at is None else at
        return SqlTextError(
            statement=self.statement,
            detail=detail,
            line=self.text.count("\n", 0, position) + 1,
            column=position - self.text.rfind("\n", 0, position),
            instead=instead,
        )

    def _found(self) -> str:
        if self._at >= len(self._tokens):
            return "the end of the text"
        return repr(self.text[self.position :][:_SHOWN])


def word_of(token: Token) -> str | None:
    """The word in the case that SQL compares; None if it is quoted."""
    return None if token.token_type in QUOTED else token.text.upper()


def split(tokens: Sequence[Token], at: TokenType, *, most: int = -1) -> list[list[Token]]:
    """The parts between tokens of this kind outside of parentheses; at most ``most`` cuts."""
    pieces: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
        if token.token_type == at and depth == 0 and len(pieces) != most + 1:
            pieces.append([])
        else:
            pieces[-1].append(token)
    return pieces


def _single(token: Token, text: str) -> Iterator[Token]:
    """The single words of what the tokenizer combines into one token, such as CLUSTER BY."""
    written = text[token.start : token.end + 1]
    if token.token_type in QUOTED or not re.search(r"\s", written):
        yield token
        return
    for word in _NAME.finditer(written):
        start = token.start + word.start()
        yield Token(TokenType.VAR, word[0], start=start, end=start + len(word[0]) - 1)
