"""Parses ``MERGE INTO … USING … ON … WHEN …`` to a ``MergeStatement``.

In expressions only the aliases of the two sides are replaced, by ``target`` and ``source``, the names that statements use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import TokenType

from airflow_delta.core.sql_text.expressions import SOURCE, Sides
from airflow_delta.core.sql_text.names import TextContext, View, optional_point, table_alias, table_name
from airflow_delta.core.sql_text.queries import query_source
from airflow_delta.core.sql_text.words import Words, split
from airflow_delta.core.statements import (
    Clause,
    Expectation,
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


def merge_statement(
    text: str,
    *,
    table: str | None = None,
    source: Source | None = None,
    views: Mapping[str, View] | None = None,
    expect: Iterable[Expectation | str] | Expectation | str = (),
    dry_run: bool = False,
) -> MergeStatement:
    """The statement in a ``MERGE INTO`` text.

    Args:
        text: One statement. Its target is a name, or ``delta.`uri```; its source is a name, ``delta.`uri```, or a query in
            parentheses.
        table: URI of the target; the text's name for it then only serves as an alias. None if the text contains the URI.
        source: What the name after USING stands for; None if it is a view, or a table that Spark knows.
        views: Views that the source may use, by name.
        expect: As in the statement.
        dry_run: As in the statement.

    Raises:
        SqlTextError: The text cannot be parsed.
        InvalidStatementError: The statement is invalid.
    """
    context = TextContext(table=table, views=dict(views or {}))
    return read_merge(Words(text, "MERGE"), context, source=source, expect=expect, dry_run=dry_run)


def read_merge(
    words: Words,
    context: TextContext,
    *,
    source: Source | None = None,
    expect: Iterable[Expectation | str] | Expectation | str = (),
    dry_run: bool = False,
) -> MergeStatement:
    """MERGE [WITH SCHEMA EVOLUTION] INTO table [alias] USING source [alias] ON condition, and one WHEN or more."""
    words.expect("MERGE")
    evolves = words.skip("WITH", "SCHEMA", "EVOLUTION")
    words.expect("INTO")
    target = table_name(words)
    called = target.called(table_alias(words, "USING"))
    words.expect("USING")
    origin, source_called = _source(words, source, context)
    words.expect("ON")
    sides = Sides(words, called, (source_called,))
    on = sides.expression(words.until("WHEN"), "ON")
    clauses: list[Clause] = []
    while words.skip("WHEN"):
        clauses.append(_clause(words, sides))
    words.end("WHEN")
    return MergeStatement(
        table=context.target_uri(words, target),
        source=origin,
        on=on,
        clauses=tuple(clauses),
        schema_evolution=evolves,
        expect=expect,  # type: ignore[arg-type]  # texts become expectations
        dry_run=dry_run,
    )


def _source(words: Words, source: Source | None, context: TextContext) -> tuple[Source, tuple[str, ...]]:
    """The source after USING, and the names by which expressions refer to it."""
    if words.is_at(TokenType.L_PAREN):
        query = words.parenthesized()
        more = {SOURCE: source} if isinstance(source, View) else {}
        alias = table_alias(words, "ON")
        return query_source(words, query, context, more=more), () if alias is None else (alias,)
    name = table_name(words)
    version, time = optional_point(words, context)
    called = name.called(table_alias(words, "ON"))
    is_pinned = version is not None or time is not None
    if source is None and name.path is not None:
        return TableSource(context.table_uri(words, name), version=version, timestamp=time), called
    view = context.views.get(name.parts[-1]) if len(name.parts) == 1 else None
    if is_pinned:
        raise words.error("a version or time stands behind delta.`<uri>` only", "give the source its version where it is named")
    if source is not None:
        return source, called
    if view is not None:
        return view, called
    if (table := context.known(name)) is not None:
        return TableSource(table), called
    return SqlSource(f"SELECT * FROM {name.quoted}", views=context.views), called  # noqa: S608 - a name of the user's own SQL


def _clause(words: Words, sides: Sides) -> Clause:
    """One clause, after its WHEN."""
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
        words.expect("UPDATE", "SET")
        if is_matched:
            return MatchedUpdate(condition=condition, assignments=_assignments(words, sides))
        if words.is_at(TokenType.STAR):
            raise words.error("NOT MATCHED BY SOURCE has no source row, so UPDATE SET * is not possible", "name the columns")
        return NotMatchedBySourceUpdate(condition=condition, assignments=sides.assignments(words.until("WHEN")))
    words.expect("INSERT")
    return NotMatchedInsert(condition=condition, assignments=_inserted(words, sides))


def _assignments(words: Words, sides: Sides) -> dict[str, str] | None:
    """The assignments after SET; None for all columns."""
    listed = words.until("WHEN")
    if [token.token_type for token in listed] == [TokenType.STAR]:
        return None
    return sides.assignments(listed)


def _inserted(words: Words, sides: Sides) -> dict[str, str] | None:
    """The assignments after INSERT; None for all columns."""
    if words.skip_sign(TokenType.STAR):
        return None
    columns = split(words.parenthesized("a column list, or *"), TokenType.COMMA)
    words.expect("VALUES")
    values = split(words.parenthesized("a list of values"), TokenType.COMMA)
    if len(columns) != len(values):
        raise words.error(f"INSERT has {len(columns)} columns and {len(values)} values")
    assigned: dict[str, str] = {}
    for name, value in zip(columns, values, strict=True):
        sides.assign(assigned, name, value, "VALUES")
    return assigned
