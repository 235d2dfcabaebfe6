"""The entry point: parses a text to a statement, or to a question about a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import Token

from airflow_delta.core.predicate.syntax import CLOSING, OPENING
from airflow_delta.core.sql_text.alter import read_alter, read_comment
from airflow_delta.core.sql_text.copy_into import read_copy_into
from airflow_delta.core.sql_text.create import read_create
from airflow_delta.core.sql_text.maintenance import (
    read_convert,
    read_generate,
    read_optimize,
    read_reorg,
    read_restore,
    read_vacuum,
)
from airflow_delta.core.sql_text.merge import read_merge
from airflow_delta.core.sql_text.names import TextContext
from airflow_delta.core.sql_text.queries import FindTable, QueriedTable, queried_tables
from airflow_delta.core.sql_text.questions import Question, read_describe, read_show
from airflow_delta.core.sql_text.rows import read_delete, read_insert, read_update
from airflow_delta.core.sql_text.words import CORRECT, QUERIES, Words, word_of
from airflow_delta.core.statements import TableStatement

Reader = Callable[[Words, TextContext], TableStatement | Question]

READERS: Mapping[str, Reader] = {
    "MERGE": read_merge,
    "DELETE": read_delete,
    "UPDATE": read_update,
    "INSERT": read_insert,
    "OPTIMIZE": read_optimize,
    "VACUUM": read_vacuum,
    "REORG": read_reorg,
    "RESTORE": read_restore,
    "GENERATE": read_generate,
    "CONVERT": read_convert,
    "CREATE": read_create,
    "ALTER": read_alter,
    "COMMENT": read_comment,
    "COPY": read_copy_into,
    "DESCRIBE": read_describe,
    "DESC": read_describe,
    "SHOW": read_show,
}
"""The parser of a statement, by the first word of the text."""

_AS_QUERY = "give a query whose rows are to be written as query= of DeltaSqlOperator; scripts ask it by airflow_delta.spark.sql"
_INSTEAD = {
    "SELECT": _AS_QUERY,
    "WITH": _AS_QUERY,
    "TRUNCATE": "write DELETE FROM without a condition",
    "LOAD": "write COPY INTO",
    "REPLACE": "write CREATE OR REPLACE TABLE",
}


_LATE_VERBS = {"INSERT": ("INTO", "OVERWRITE"), "MERGE": ("INTO",)}
"""Statements that may follow ``_IN_FRONT_OF_VERBS`` in Spark, each with the words that follow it, which no query allows."""

_IN_FRONT_OF_VERBS = {"WITH": "write WITH behind", "FROM": "write FROM behind the SELECT, both behind"}

_OF_SPARK = frozenset({"MERGE", "DELETE", "UPDATE", "INSERT", "CREATE", "ALTER", "COMMENT", "DESCRIBE", "DESC", "SHOW"})
"""Statements that Spark supports too, for tables of its catalog."""


def is_statement(text: str) -> bool:
    """Whether to parse a text here: it is not a query, and names a table by path, or Spark lacks such a statement.

    Raises:
        SqlTextError: The text cannot be tokenized, for example because of an unclosed quote.
    """
    words = Words(text, "SQL")
    if is_query(text):
        return False
    asks = any(words.next_is(verb, noun) for verb in ("DESCRIBE", "DESC") for noun in ("HISTORY", "DETAIL"))
    return asks or words.peek() in READERS.keys() - _OF_SPARK or bool(queried_tables(words.all, text))


def is_query(text: str) -> bool:
    """Whether a text is a query: it begins as one, and is not ``WITH x AS (…) INSERT INTO``. Raises as ``is_statement``."""
    words = Words(text, "SQL")
    return any(map(words.next_is, QUERIES)) and _late_verb(words) is None


def _late_verb(words: Words) -> Token | None:
    """The verb of a statement about a table that follows a WITH clause, or the FROM of its query; else None."""
    if not any(map(words.next_is, _IN_FRONT_OF_VERBS)):
        return None
    depth, tokens = 0, words.all
    for at, token in enumerate(tokens):
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
        behind = [word_of(after) for after in tokens[at + 1 : at + 3]]
        if depth == 0 and behind and behind[0] in _LATE_VERBS.get(word_of(token) or "", ()):
            target = at + 2 + (behind[-1] == "TABLE")
            if target < len(tokens) and tokens[target].start in [table.start for table in queried_tables(tokens, words.text)]:
                return token
    return None


def tables_of_text(text: str, find: FindTable | None = None) -> list[QueriedTable]:
    """The tables in a text, by path or by a name that ``find`` knows. Raises as ``is_statement`` and ``queried_tables``."""
    return queried_tables(Words(text, "SQL").all, text, find)


def parse_statement(text: str, context: TextContext = TextContext()) -> TableStatement | Question:  # noqa: B008 - it is frozen
    """The single statement in a text.

    Args:
        text: In the grammar of Delta's statements; expressions in it are Spark SQL, which only Spark analyzes.
        context: What the text does not determine.

    Raises:
        SqlTextError: The text is outside of the grammar, names an unknown table, or contains several statements.
        InvalidStatementError: The statement is invalid.
    """
    words = Words(text, "SQL")
    words.check_single()
    first, verb = words.peek(), _late_verb(words)
    if first in _IN_FRONT_OF_VERBS and verb is not None:
        detail = f"expected {verb.text.upper()} as the first word, found {first}"
        raise words.error(detail, f"{_IN_FRONT_OF_VERBS[first]} the table that is changed", at=verb.start)
    if first is None or first not in READERS:
        known = ", ".join(READERS)
        raise words.expected(f"one of {known}", _INSTEAD.get(first or "", CORRECT))
    words.statement = first
    return READERS[first](words, context)
