"""The time of a statement: ``current_date()`` and the like become literals, so that all of its queries use the same time.

Spark reads the clock for each query, and a statement runs several: around midnight, one could write the rows of a day, and
another delete those of the next. Literals also let the core skip files.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from sqlglot import TokenType

from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.statements import Clause
from airflow_delta.spark.constraints.column_references import tokens_of
from airflow_delta.spark.io.predicates import is_built_in

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DATE, _INSTANT, _LOCAL, _SECONDS = "date", "instant", "local", "seconds"
_WORDS = {"current_date": _DATE, "current_timestamp": _INSTANT}
"""Functions that can be called without parentheses, unless a column has that name."""
_CALLS = {**_WORDS, "curdate": _DATE, "now": _INSTANT, "localtimestamp": _LOCAL, "unix_timestamp": _SECONDS}
_EMPTY = [TokenType.L_PAREN, TokenType.R_PAREN]


class StatementTime:
    """The time at which a statement runs; the clock is read when the first text needs it."""

    def __init__(self, spark: SparkSession, columns: Callable[[], Collection[str]]) -> None:
        """Nothing is read yet; ``columns`` returns the names of all columns that the texts may reference."""
        self._spark = spark
        self._columns = columns

    def fixed(self, text: str) -> str:
        """The condition or value with time functions replaced by literals; the rest is unchanged."""
        for start, end, kind in reversed(list(self._found(text))):
            text = text[:start] + self._literals[kind] + text[end:]
        return text

    def in_clauses(self, clauses: Iterable[Clause]) -> tuple[Clause, ...]:
        """The clauses of a MERGE, with ``fixed`` conditions and values."""
        return tuple(map(self._in_clause, clauses))

    def _in_clause(self, clause: Clause) -> Clause:
        changes: dict[str, Any] = {}
        if clause.condition is not None:
            changes["condition"] = self.fixed(clause.condition)
        if assignments := getattr(clause, "assignments", None):
            changes["assignments"] = {name: self.fixed(text) for name, text in assignments.items()}
        return replace(clause, **changes) if changes else clause

    def _found(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Start, end and kind of each time function in the text."""
        tokens = tokens_of(text) or []
        has_query = any(token.token_type == TokenType.SELECT for token in tokens)
        for position, token in enumerate(tokens):
            name = text[token.start : token.end + 1].lower()  # includes quotes, if any
            before, after = tokens[max(position - 1, 0) : position], tokens[position + 1 : position + 3]
            if name not in _CALLS or [dot.token_type for dot in before] == [TokenType.DOT]:
                continue
            if [sign.token_type for sign in after] == _EMPTY:
                if is_built_in(self._spark, name):
                    yield token.start, after[1].end + 1, _CALLS[name]
            elif name in _WORDS and not has_query and name not in map(name_key, self._columns()):
                yield token.start, token.end + 1, _WORDS[name]

    @cached_property
    def _literals(self) -> Mapping[str, str]:
        """SQL of each kind of literal, independent of the session's settings."""
        clock = F.current_date().cast("string"), F.unix_micros(F.current_timestamp()), F.localtimestamp().cast("string")
        [(day, micros, local)] = self._spark.range(1).select(*clock).collect()
        instant = _EPOCH + dt.timedelta(microseconds=micros)
        return {
            _DATE: f"DATE'{day}'",
            _INSTANT: f"TIMESTAMP_LTZ'{instant:%Y-%m-%d %H:%M:%S.%f}+00:00'",
            _LOCAL: f"TIMESTAMP_NTZ'{local}'",
            _SECONDS: f"{micros // 1_000_000}L",
        }
