"""Access to the SQL parser: only texts with bounded parsing cost are parsed.

sqlglot parses a function that is named like a type, such as ``date(x)``, twice: as a type and as a call. Nested ones double the
work at every level, however short the text: 22 levels take more than 25 seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, ClassVar

from sqlglot import Dialect, Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError, TokenError

SPARK = Dialect.get_or_raise("spark")

OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})

MAX_WORK = 1_000_000
"""Most tokens that the parser may visit for a text of a DAG author, repetitions included: about ten seconds."""

MAX_WORK_OF_TABLE = 10_000
"""Likewise for an expression in a table: less than half a second."""

_CHARACTERS_A_TOKEN = 32
_REPEATING_ANGLES = 50  # measured
_TYPES = SPARK.parser_class.TYPE_TOKENS
_NESTED_TYPES = SPARK.parser_class.NESTED_TYPE_TOKENS

UNPARSABLE = (SqlglotError, RecursionError, ValueError, ArithmeticError)
"""What parsing, and rendering a syntax tree, may raise; the last two for a number that cannot be read."""

_CONTINUATION = "\\\n"
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)|(?P<continued>--[^\r\n]*\\\n)|--[^\r\n]*", re.DOTALL)


class _StatementTexts(Spark):
    """Spark SQL with all statements tokenized; the original dialect turns OPTIMIZE, SHOW and the like into a single text."""

    class Tokenizer(Spark.Tokenizer):
        """Without commands, which end the tokenization."""

        COMMANDS: ClassVar[set[TokenType]] = set()


_STATEMENT_TEXTS = _StatementTexts()


def tokens_of(sql: str, *, max_work: int = MAX_WORK) -> list[Token]:
    """The tokens of a SQL text.

    Raises:
        TokenError: The text cannot be tokenized (an unclosed quote), is too long, contains a lone surrogate, or a comment that
            continues on the next line.
    """
    return _tokens(SPARK, sql, max_work)


def words_of(sql: str) -> list[Token]:
    """The tokens of any statement. Raises as ``tokens_of``."""
    return _tokens(_STATEMENT_TEXTS, sql, MAX_WORK)


def _tokens(dialect: Dialect, sql: str, max_work: int) -> list[Token]:
    _check_length(sql, max_work)
    tokens: list[Token] = dialect.tokenize(sql)
    # Spark's lexer (SIMPLE_COMMENT) continues such a comment on the next line, sqlglot does not.
    if _CONTINUATION in sql and any(_has_continued_comment(gap) for gap in _gaps(tokens, sql)):
        raise TokenError("a comment ends with a backslash, behind which Spark takes the next line for a part of it")
    return tokens


def _gaps(tokens: Sequence[Token], sql: str) -> Iterator[str]:
    """The text between tokens: spaces and comments."""
    starts, ends = [token.start for token in tokens], [token.end + 1 for token in tokens]
    for end, start in zip([0, *ends], [*starts, len(sql)], strict=True):
        yield sql[end:start]


def _has_continued_comment(gap: str) -> bool:
    return any(comment["continued"] for comment in _COMMENT.finditer(gap))


def _check_length(sql: str, max_work: int) -> None:
    if not sql.isascii() and any("\ud800" <= character <= "\udfff" for character in sql):
        raise TokenError("it holds a lone surrogate, which is not a character")
    if len(sql) > max_work * _CHARACTERS_A_TOKEN:
        raise TokenError(f"its {len(sql):,} characters are too many")


def parsed(sql: str, into: Any = None, *, max_work: int = MAX_WORK) -> Any:
    """The syntax tree of a SQL text.

    Args:
        sql: The text.
        into: sqlglot's class that the result must have; any statement or expression when None.
        max_work: Most tokens that the parser may visit.

    Raises:
        SqlglotError: It is not valid SQL, or too long or too deeply nested to be parsed.
        RecursionError: It is too deeply nested.
    """
    tokens = tokens_of(sql, max_work=max_work)
    if parsing_work(tokens) > max_work:
        raise ParseError("it is too long, or nested too deeply")
    parser = SPARK.parser()
    tree = next(iter(parser.parse(tokens, sql) if into is None else parser.parse_into(into, tokens, sql)), None)
    if tree is None:
        raise ParseError("it is empty")
    return tree


def may_lack_plus(tree: Any, sql: str) -> bool:
    """Whether sqlglot may have dropped a significant plus: one before a string, which it converts to a number."""
    if "+" not in sql:
        return False
    kinds = [token.token_type for token in tokens_of(sql)]
    behind = [following for kind, following in pairwise(kinds) if kind == TokenType.PLUS]
    return any(kind != TokenType.NUMBER for kind in behind) and len(behind) > len([*tree.find_all(exp.Add)])


def parsing_work(tokens: Sequence[Token]) -> int:
    """How many tokens sqlglot visits, repetitions included.

    Twice as many inside of each call that is named like a type; inside of types with fields, more with each level.
    """
    work, weight, angles = 0, 1, 0
    opened: list[tuple[bool, bool]] = []
    before = None
    for token in tokens:
        kind = token.token_type
        is_angle = kind == TokenType.LT and before in _NESTED_TYPES
        if is_angle or kind in OPENING:
            doubles = not is_angle and (before in _TYPES or before in (TokenType.IDENTIFIER, TokenType.GT))
            opened.append((is_angle, doubles))
            weight <<= doubles
            angles += is_angle
        elif opened and (kind in CLOSING or (kind == TokenType.GT and opened[-1][0])):
            was_angle, doubled = opened.pop()
            weight >>= doubled
            angles -= was_angle
        work += weight * (1 + angles * angles // _REPEATING_ANGLES)
        before = kind
        if work > MAX_WORK:
            break
    return work
