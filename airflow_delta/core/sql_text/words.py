"""The words of an SQL text, taken from left to right.

A text is cut between its words, never written anew: conditions and values stay the user's own SQL, which only Spark analyzes.
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
"""What is no keyword, whatever it says."""

QUERIES = ("SELECT", "WITH", "FROM", "TABLE", "VALUES", "(")
"""What a query begins with."""

CORRECT = "correct the text"
"""The remedy where the error says all."""

_FLAGS = ("TRUE", "FALSE")
_STRINGS = (TokenType.STRING, TokenType.RAW_STRING)
_NAME = re.compile(r"\w+")
_SHOWN = 40


class Words:
    """A place in a text, which moves on as words are taken.

    Every method that takes something raises ``SqlTextError`` where something else comes; the error names the place.
    """

    def __init__(self, text: str, statement: str) -> None:
        """The words of a text.

        Args:
            text: What the user wrote.
            statement: Name of the statement, for errors.

        Raises:
            InvalidStatementError: It is no text, but a list of statements or the like.
            SqlTextError: It has unclosed quotes or the like.
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
        """Return if the text is one statement."""
        ends = [token for token in self._tokens if token.token_type == TokenType.SEMICOLON]
        behind = [token for token in self._tokens if ends and token.start > ends[0].start and token not in ends]
        if behind:
            raise self.error("expected one statement, found another one", "run them one by one", at=behind[0].start)

    # -- looking

    def next_is(self, *words: str) -> bool:
        """Whether these words come next."""
        found = [word_of(token) for token in self._tokens[self._at : self._at + len(words)]]
        return found == list(words)

    @property
    def position(self) -> int:
        """Where in the text the next word begins."""
        return self._tokens[self._at].start if self._at < len(self._tokens) else len(self.text)

    def peek(self) -> str | None:
        """The word that comes next, as SQL compares it; None where none does, or it is quoted."""
        return word_of(self._tokens[self._at]) if self._at < len(self._tokens) else None

    def is_at(self, kind: TokenType) -> bool:
        """Whether a token of this kind comes next."""
        return self._at < len(self._tokens) and self._tokens[self._at].token_type == kind

    @property
    def is_at_string(self) -> bool:
        """Whether a text in quotes comes next."""
        return any(map(self.is_at, _STRINGS))

    def is_behind(self, sign: TokenType, *words: str) -> bool:
        """Whether a token of this kind comes next, and one of these words behind it."""
        after = self._tokens[self._at + 1 : self._at + 2]
        return self.is_at(sign) and bool(after) and word_of(after[0]) in words

    @property
    def is_at_end(self) -> bool:
        """Whether nothing is left but semicolons."""
        return all(token.token_type == TokenType.SEMICOLON for token in self._tokens[self._at :])

    # -- taking

    def skip(self, *words: str) -> bool:
        """Take these words if they come next, and return whether they did."""
        found = self.next_is(*words)
        self._at += len(words) if found else 0
        return found

    def skip_sign(self, kind: TokenType) -> bool:
        """Take a token of this kind if it comes next, and return whether it did."""
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
        """The next token."""
        if self._at >= len(self._tokens):
            raise self.expected(expected)
        self._at += 1
        return self._tokens[self._at - 1]

    def name(self, expected: str = "a name") -> str:
        """A name, without its backticks."""
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        is_plain = token is not None and token.token_type not in QUOTED and _NAME.fullmatch(self.slice([token]))
        if token is None or not (is_plain or token.token_type == TokenType.IDENTIFIER):
            raise self.expected(expected)
        self._at += 1
        return token.text

    def path(self, expected: str = "a column") -> ColumnPath:
        """A name, or several with dots between them."""
        parts = [self.name(expected)]
        while self.skip_sign(TokenType.DOT):
            parts.append(self.name(expected))
        return tuple(parts)

    def string(self, expected: str = "a text in quotes") -> str:
        """What a text in quotes says, by Spark's rules."""
        if not self.is_at_string:
            raise self.expected(expected)
        return string_value(self.slice([self.take()]))

    def number(self, expected: str = "a number") -> str:
        """A number, as it is written."""
        if not self.is_at(TokenType.NUMBER):
            raise self.expected(expected)
        return self.slice([self.take()])

    def whole_number(self, expected: str = "a number") -> int:
        """A number without sign and fraction."""
        if not self.is_at(TokenType.NUMBER) or not self._tokens[self._at].text.isdecimal():
            raise self.expected(expected)
        return int(self.take().text)

    def listed(self, read: Callable[[], Part]) -> tuple[Part, ...]:
        """What ``read`` takes of each of the parts between commas, which stand in parentheses."""
        self.sign(TokenType.L_PAREN, "a list in parentheses")
        found = [read()]
        while self.skip_sign(TokenType.COMMA):
            found.append(read())
        self.sign(TokenType.R_PAREN, "a comma or )")
        return tuple(found)

    def property_key(self) -> str:
        """The name of a table property: in quotes, or words with dots between them."""
        if self.is_at_string:
            return self.string()
        return ".".join(self.path("the name of a property"))

    def properties(self) -> dict[str, str]:
        """Table properties in parentheses: names and values."""
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
        """Columns in parentheses, as statements name them."""
        return self.listed(lambda: path_text(self.path()))

    def query(self) -> list[Token]:
        """A query, which is all that is left."""
        if not any(map(self.next_is, QUERIES)):
            raise self.expected(f"a query ({', '.join(QUERIES)})")
        return self.until()

    def until(self, *words: str) -> list[Token]:
        """The tokens before one of these words, which stands outside of parentheses and CASE, or before the end.

        Behind a dot such a word is a name.
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
        """The tokens up to the end."""
        return self.until()

    def parenthesized(self, expected: str = "(") -> list[Token]:
        """The tokens inside the parentheses that must begin here."""
        if not self.is_at(TokenType.L_PAREN):
            raise self.expected(expected)
        start, depth = self._at, 0
        while True:
            token = self.take(")")
            depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
            if depth == 0:
                return list(self._tokens[start + 1 : self._at - 1])

    def end(self, expected: str = "the end of the statement") -> None:
        """Return if nothing is left but semicolons: a text is one statement."""
        while self.skip_sign(TokenType.SEMICOLON):
            pass
        if self._at < len(self._tokens):
            raise self.expected(expected)

    # -- the text itself

    def slice(self, tokens: Sequence[Token]) -> str:
        """The text from the first to the last of these."""
        return self.text[tokens[0].start : tokens[-1].end + 1] if tokens else ""

    def replaced(self, tokens: Sequence[Token], pieces: Mapping[tuple[int, int], str]) -> str:
        """Likewise, with other words in the place of what stands from one position of the text to another."""
        if not tokens:
            return ""
        text, last, end = "", tokens[0].start, tokens[-1].end + 1
        for (start, stop), piece in sorted(pieces.items()):
            text += self.text[last:start] + piece
            last = stop
        return text + self.text[last:end]

    # -- errors

    def expected(self, what: str, instead: str = CORRECT) -> SqlTextError:
        """The error that something else comes next."""
        return self.error(f"expected {what}, found {self._found()}", instead)

    def error(self, detail: str, instead: str = CORRECT, *, at: int | None = None) -> SqlTextError:
        """The error that names the place: a position in the text, or that of the next word."""
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
    """The word as SQL compares it; None for what is quoted."""
    return None if token.token_type in QUOTED else token.text.upper()


def split(tokens: Sequence[Token], at: TokenType, *, most: int = -1) -> list[list[Token]]:
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


def _single(token: Token, text: str) -> Iterator[Token]:
    """The words of what the tokenizer takes for one, such as CLUSTER BY."""
    written = text[token.start : token.end + 1]
    if token.token_type in QUOTED or not re.search(r"\s", written):
        yield token
        return
    for word in _NAME.finditer(written):
        start = token.start + word.start()
        yield Token(TokenType.VAR, word[0], start=start, end=start + len(word[0]) - 1)
