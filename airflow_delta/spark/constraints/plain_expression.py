"""The functions and names in an expression of a table, read from its text: Spark Connect offers no parser.

Only texts are accepted whose tokens every parser would read alike: without comments, raw strings, lambdas, parameters, and
words that begin a query. Then a function is a word before a parenthesis, and whatever is neither a known word nor a literal
must be a column. This refuses some expressions that Spark's own tree would show to be harmless.
Spark: ``SqlBaseLexer.g4``, ``SqlBaseParser.g4``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

MAX_TOKENS = 1_000
"""Most tokens; so few cannot nest deeper than Spark's analysis supports."""

_TOKEN = re.compile(
    r"""[ \t\r\n]+
    | (?P<refused>--|/\*|\*/|->|\|>|[rR]['"])
    | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    | `(?P<quoted>(?:[^`]|``)+)`
    | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:[lLsSyYdDfF]|[bB][dD])?(?!\w))
    | (?P<word>[A-Za-z_]\w*)
    | (?P<sign>::|\|\||[-+*/%<>=!(),.\[\]|&^~])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)

_KEYWORD_LIST = """
    all and any as between both case cast collate date day days div else end escape false hour hours ilike in interval is
    leading like millisecond milliseconds microsecond microseconds minute minutes month months not null or regexp rlike second
    seconds some then time timestamp timestamp_ltz timestamp_ntz to trailing true week weeks when x year years bigint binary
    boolean byte char character dec decimal double float int integer long numeric real short smallint string tinyint varchar
"""
_KEYWORDS = frozenset(_KEYWORD_LIST.split())
_BEFORE_PARENTHESES = frozenset({"and", "between", "case", "div", "else", "in", "not", "or", "then", "when"})
_NAMES_OF_FUNCTIONS = frozenset({"case", "else", "then"})
"""Those that may also be names of functions."""
_TYPES_WITH_LENGTHS = frozenset({"dec", "numeric", "varchar"})
"""Names of types after ``AS`` and ``::``; anywhere else they may be functions."""
_BEGINNINGS_OF_QUERIES = frozenset({"select", "from", "values", "table", "with", "map", "reduce", "using", "transform"})


class NotPlainError(ValueError):
    """The text contains something that cannot be checked here."""


@dataclass(frozen=True, slots=True)
class PlainExpression:
    """The functions and names in a text.

    Attributes:
        functions: Names of functions, in lower case.
        names: First parts of the names of columns and nested fields.
    """

    functions: frozenset[str]
    names: frozenset[str]


def plain_expression(text: str, permitted: Collection[str]) -> PlainExpression:
    """The functions and names in the text.

    Args:
        text: SQL of a table.
        permitted: Functions that it may call, in lower case.

    Raises:
        NotPlainError: It calls others, or its tokens could be read in different ways.
    """
    functions: set[str] = set()
    names: set[str] = set()
    tokens = _tokens(text)
    before = ""
    for (kind, word), (_, following) in zip(tokens, [*tokens[1:], ("", "")], strict=True):
        follows_dot, lower = before == ".", word.lower()
        is_call = following == "(" and not (before in {"as", "::"} and lower in _TYPES_WITH_LENGTHS)
        if kind == "quoted" and is_call:
            raise NotPlainError(f"the function {word}")
        if kind == "word" and is_call and (follows_dot or lower not in _BEFORE_PARENTHESES):
            if follows_dot or lower not in permitted:
                raise NotPlainError(f"the function {word}")
            functions.add(lower)
        elif kind == "word" and not follows_dot and lower in _BEGINNINGS_OF_QUERIES:
            raise NotPlainError(f"the word {word}")
        elif kind == "quoted" or (kind == "word" and lower not in _KEYWORDS and not is_call):
            names.update(() if follows_dot else (word,))
        before = lower if kind in {"sign", "word"} else ""
    return PlainExpression(frozenset(functions), frozenset(names))


def reads_one_row(texts: Iterable[str]) -> bool:
    """Whether these expressions are plain and call no function: then they read no table, as a subquery might."""
    try:
        for text in texts:
            plain_expression(text, ())
            if any(kind == "word" and word.lower() in _NAMES_OF_FUNCTIONS for kind, word in _tokens(text)):
                return False
    except NotPlainError:
        return False
    return True


def _tokens(text: str) -> list[tuple[str, str]]:
    """Kind and text of each token, without spaces."""
    found: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None or token.lastgroup == "refused" or len(found) == MAX_TOKENS:
            sign = text[position : position + 2] if token is None else token[0]
            raise NotPlainError("too many words" if len(found) == MAX_TOKENS else f"the sign {sign}")
        if token.lastgroup:
            found.append((token.lastgroup, token[token.lastgroup].replace("``", "`")))
        position = token.end()
    return found
