"""Parses column definitions in Spark SQL: ``id BIGINT NOT NULL, day DATE GENERATED ALWAYS AS (CAST(at AS DATE))``.

Expressions (of defaults and generated columns) are kept as written: other engines read them in the log.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.schema import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructField, StructType
from airflow_delta.core.schema.char_columns import as_logged, without_lengths
from airflow_delta.core.schema.collations import declared_string, with_collations, without_collations
from airflow_delta.core.table_changes.column_path import ColumnPath, path_text
from airflow_delta.core.table_changes.columns import COMMENT, generated, identity, with_default
from airflow_delta.core.table_changes.expressions import columns_in

Part = TypeVar("Part")

_NAMES = {
    "tinyint": "byte",
    "smallint": "short",
    "int": "integer",
    "bigint": "long",
    "real": "float",
    "timestamp_ltz": "timestamp",
    **{name: name for name in ("byte", "short", "integer", "long", "float", "double", "boolean", "string", "binary", "date")},
    **{name: name for name in ("timestamp", "timestamp_ntz", "variant")},
}
_DECIMAL = ("decimal", "dec", "numeric")
_MAX_PRECISION = 38
_CLAUSES = ("COMMENT", "GENERATED", "DEFAULT")
_SEQUENCE = (("START", "WITH"), ("INCREMENT", "BY"))

_TOKEN = re.compile(
    r"""(?>\s|--(?:[^\r\n\\]|\\(?!\n))*|/\*.*?\*/)*+(?:
        (?P<quoted>`(?:[^`]|``)+`)
      | (?P<text>[rR]?'(?:[^'\\]|\\.|'')*'|[rR]?"(?:[^"\\]|\\.|"")*")
      | (?P<word>\w+)
      | (?P<sign>\S)
      | \Z
    )""",
    re.VERBOSE | re.DOTALL,
)

_ESCAPE = re.compile(
    r"\\(?:u(?P<code>[0-9A-Fa-f]{4})|U(?P<long>00(?:0[0-9A-Fa-f]|10)[0-9A-Fa-f]{4})|(?P<octal>[01][0-7]{2})|(?P<sign>.))",
    re.DOTALL,
)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
"""The meaning of a character after a backslash in Spark SQL; all others stand for themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnText:
    """One column definition.

    Attributes:
        path: Its name, or the path of a nested field.
        field: The column; its name is the last part of the path.
    """

    path: ColumnPath
    field: StructField


def parse_columns(text: str) -> tuple[ColumnText, ...]:
    """The columns in the text, in order.

    Raises:
        InvalidStatementError: The text is invalid; the error names the position.
    """
    parser = _Parser(text)
    return parser.all(lambda: parser.separated(parser.column))


def parse_struct(text: str) -> StructType:
    """The columns of a new table.

    Raises:
        InvalidStatementError: The text is invalid, or names a nested field.
    """
    columns = parse_columns(text)
    for column in columns:
        if len(column.path) > 1:
            raise InvalidStatementError(
                statement="columns", detail=f"{path_text(column.path)} is a nested field, not a top-level column"
            )
    return StructType(tuple(column.field for column in columns))


def parse_type(text: str) -> DataType:
    """The type with this name.

    Raises:
        InvalidStatementError: There is no such type.
    """
    parser = _Parser(text)
    declared = parser.all(parser.type)
    if without_collations(declared) != declared:
        raise InvalidStatementError(
            statement="columns", detail=f"{text.strip()}: only a column that is declared has a collation"
        )
    return without_lengths(declared)


class _Parser:
    """Parses a text from left to right; names and keywords are case-insensitive."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [match for match in _TOKEN.finditer(text) if match.lastgroup]
        self._next = 0

    def all(self, read: Callable[[], Part]) -> Part:
        """Parse the whole text with ``read``."""
        try:
            found = read()
        except RecursionError:
            raise InvalidStatementError(statement="columns", detail="types are nested too deeply") from None
        if self._next < len(self._tokens):
            raise self._unexpected("the end")
        return found

    def separated(self, read: Callable[[], Part]) -> tuple[Part, ...]:
        """Parse a comma-separated list, each part with ``read``."""
        found = [read()]
        while self._take(","):
            found.append(read())
        return tuple(found)

    def column(self) -> ColumnText:
        path = [self._name()]
        while self._take("."):
            path.append(self._name())
        collated = with_collations(StructField(path[-1], self.type()))
        field = as_logged(collated)
        while more := self._clause(field):
            field = more
        return ColumnText(path=tuple(path), field=field)

    def type(self) -> DataType:
        """Parse a type; strings of limited length keep their own name, such as ``char(5)``."""
        word = self._word("a type").lower()
        match word:
            case "array":
                return self._within("<", ">", lambda: ArrayType(self.type()))
            case "map":
                return self._within("<", ">", self._map)
            case "struct":
                return self._within("<", ">", lambda: StructType(self.separated(self._member)))
            case "char" | "varchar" | "character" if self._take("("):
                length = self._number()
                self._expect(")")
                if length < 1:
                    raise InvalidStatementError(statement="columns", detail=f"{word}({length}) is not a valid type")
                return PrimitiveType(f"{'varchar' if word == 'varchar' else 'char'}({length})")
            case "string" if self._take("COLLATE"):
                return declared_string(self._name())
            case _ if word in _DECIMAL:
                return self._decimal()
            case _ if word in _NAMES:
                return PrimitiveType(_NAMES[word])
        self._next -= 1
        raise self._unexpected("a type")

    def _map(self) -> MapType:
        key = self.type()
        self._expect(",")
        return MapType(key, self.type())

    def _member(self) -> StructField:
        name = self._name()
        self._take(":")
        field = with_collations(StructField(name, self.type()))
        if self._take("NOT", "NULL"):
            field = replace(field, nullable=False)
        return self._commented(field) or field

    def _decimal(self) -> DecimalType:
        precision, scale = 10, 0
        if self._take("("):
            precision = self._number()
            scale = self._number() if self._take(",") else 0
            self._expect(")")
        if not 0 < precision <= _MAX_PRECISION or not 0 <= scale <= precision:
            raise InvalidStatementError(statement="columns", detail=f"decimal({precision},{scale}) is not a valid type")
        return DecimalType(precision, scale)

    def _clause(self, field: StructField) -> StructField | None:
        """Parse the next clause of a column; returns the changed column, or None without a clause."""
        if self._take("NOT", "NULL"):
            return replace(field, nullable=False)
        if self._take("DEFAULT"):
            return with_default(field, self._checked(self._expression()))
        if self._take("GENERATED", "ALWAYS", "AS", "("):
            start = self._next
            self._skip_to_closing()
            return generated(field, self._checked(self._between(start, self._next - 1)))
        if self._take("GENERATED", "ALWAYS", "AS", "IDENTITY"):
            return self._identity(field, allow_explicit_insert=False)
        if self._take("GENERATED", "BY", "DEFAULT", "AS", "IDENTITY"):
            return self._identity(field, allow_explicit_insert=True)
        return self._commented(field)

    def _identity(self, field: StructField, *, allow_explicit_insert: bool) -> StructField:
        given: dict[tuple[str, str], int] = {}
        if self._take("("):
            while not self._take(")"):
                option = next((words for words in _SEQUENCE if words not in given and self._take(*words)), None)
                if option is None:
                    raise self._unexpected("START WITH and INCREMENT BY, each at most once, or )")
                given[option] = self._number()
        start, step = (given.get(words, 1) for words in _SEQUENCE)
        return identity(field, start=start, step=step, allow_explicit_insert=allow_explicit_insert)

    def _commented(self, field: StructField) -> StructField | None:
        if not self._take("COMMENT"):
            return None
        token = self._peek()
        if token is None or token.lastgroup != "text":
            raise self._unexpected("a text in quotes")
        self._next += 1
        return replace(field, metadata={**field.metadata, COMMENT: string_value(token["text"])})

    def _expression(self) -> str:
        """The text of an expression, up to the next clause or column."""
        start, depth = self._next, 0
        while (token := self._peek()) is not None:
            sign = token[token.lastgroup or 0]
            ends = sign in ",)" or (token.lastgroup == "word" and sign.upper() in _CLAUSES) or self._is("NOT", "NULL")
            if depth == 0 and ends and self._next > start:
                break
            depth += (sign in "([") - (sign in ")]")
            self._next += 1
        return self._between(start, self._next)

    def _skip_to_closing(self) -> None:
        depth = 1
        while depth:
            token = self._peek()
            if token is None:
                raise self._unexpected(")")
            depth += (token["sign"] == "(") - (token["sign"] == ")")
            self._next += 1

    def _checked(self, sql: str) -> str:
        if not sql or columns_in(sql) is None:
            raise InvalidStatementError(statement="columns", detail=f"{sql!r} is not a SQL expression")
        return sql

    # -- tokens

    def _between(self, start: int, end: int) -> str:
        """The text of these tokens."""
        if start >= end:
            return ""
        return self._text[_start(self._tokens[start]) : self._tokens[end - 1].end()]

    def _peek(self) -> re.Match[str] | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _is(self, *words: str) -> bool:
        """Whether these words or symbols come next."""
        coming = self._tokens[self._next : self._next + len(words)]
        return [word[word.lastgroup or 0].upper() for word in coming] == [word.upper() for word in words]

    def _take(self, *words: str) -> bool:
        found = self._is(*words)
        self._next += len(words) * found
        return found

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise self._unexpected(sign)

    def _within(self, opening: str, closing: str, read: Callable[[], Part]) -> Part:
        self._expect(opening)
        found = read()
        self._expect(closing)
        return found

    def _word(self, wanted: str) -> str:
        token = self._peek()
        if token is None or token.lastgroup != "word":
            raise self._unexpected(wanted)
        self._next += 1
        return token["word"]

    def _name(self) -> str:
        token = self._peek()
        if token is not None and token.lastgroup == "quoted":
            self._next += 1
            return token["quoted"][1:-1].replace("``", "`")
        return self._word("a column's name")

    def _number(self) -> int:
        sign = -1 if self._take("-") else 1
        word = self._word("a number")
        if not word.isdecimal():
            self._next -= 1
            raise self._unexpected("a number")
        return sign * int(word)

    def _unexpected(self, wanted: str) -> InvalidStatementError:
        token = self._peek()
        found = "the end of the text" if token is None else f"{self._text[_start(token) :].strip()[:40]!r}"
        return InvalidStatementError(statement="columns", detail=f"expected {wanted}, found {found}, in {self._text!r}")


def _start(token: re.Match[str]) -> int:
    """Position of the token itself, after spaces and comments."""
    return token.start(token.lastgroup or 0)


def string_value(text: str) -> str:
    """The value of a quoted text in Spark SQL (``SparkParserUtils.unescapeSQLString``).

    Raises:
        InvalidStatementError: The value contains a lone surrogate.
    """
    if text[0] in "rR":
        return text[2:-1]
    quote = text[0]
    units = _ESCAPE.sub(_escaped, text[1:-1].replace(quote * 2, quote)).encode("utf-16-le", "surrogatepass")
    try:
        return units.decode("utf-16-le")
    except UnicodeDecodeError as error:
        raise InvalidStatementError(statement=f"the text {text:.40}", detail="it holds half of a character") from error


def _escaped(match: re.Match[str]) -> str:
    if match["sign"] is not None:
        return _ESCAPED.get(match["sign"], match["sign"])
    return chr(int(match["octal"], 8) if match["octal"] else int(match["code"] or match["long"], 16))
