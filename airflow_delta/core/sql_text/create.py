"""Parses CREATE TABLE: with columns, from a query, and as a clone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_delta.core.sql_text.names import TableName, TextContext, optional_point, table_name
from airflow_delta.core.sql_text.queries import query_source
from airflow_delta.core.sql_text.words import Words
from airflow_delta.core.statements import (
    CloneStatement,
    CreateMode,
    CreateStatement,
    TableSource,
    WriteMode,
    WriteStatement,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clauses:
    """The clauses of a CREATE after the columns; missing ones are empty."""

    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    location: str | None = None


def read_create(words: Words, context: TextContext) -> CreateStatement | WriteStatement | CloneStatement:
    """CREATE [OR REPLACE] TABLE [IF NOT EXISTS] table, followed by one of these.

    * (columns) USING DELTA, clauses in any order;
    * USING DELTA, clauses in any order, AS query;
    * [SHALLOW | DEEP] CLONE table [VERSION | TIMESTAMP AS OF …] [TBLPROPERTIES (…)] [LOCATION '…'];
      deep if neither word is given, as in Databricks.

    Clauses are PARTITIONED BY, CLUSTER BY, TBLPROPERTIES, COMMENT and LOCATION.
    """
    words.expect("CREATE")
    replaces = words.skip("OR", "REPLACE")
    words.expect("TABLE")
    ignores = words.skip("IF", "NOT", "EXISTS")
    if replaces and ignores:
        raise words.error("OR REPLACE and IF NOT EXISTS exclude each other", "leave out one")
    mode: CreateMode = "replace" if replaces else "ignore" if ignores else "error"
    name = table_name(words)
    if words.next_is("LIKE"):
        raise words.expected("columns, USING DELTA or CLONE", "list the columns, or clone the table")
    if words.skip("SHALLOW", "CLONE"):
        return _clone(words, context, name, mode, deep=False)
    if words.skip("DEEP", "CLONE") or words.skip("CLONE"):
        return _clone(words, context, name, mode, deep=True)
    columns = words.slice(words.parenthesized()) if not words.next_is("USING") else ""
    words.expect("USING", "DELTA")
    clauses = _clauses(words)
    table = _place(words, context, name, clauses.location)
    if words.skip("AS"):
        if columns:
            raise words.error(
                "the columns of CREATE TABLE … AS are those of its query", "leave the list out, or cast in the query"
            )
        return _of_query(words, context, table, mode, clauses)
    words.end("a clause, AS or the end of the statement")
    if not columns:
        raise words.expected("AS and a query", "list the columns behind the table's name")
    return CreateStatement(
        table=table,
        columns=columns,
        partition_by=clauses.partition_by,
        cluster_by=clauses.cluster_by,
        properties=clauses.properties,
        comment=clauses.comment,
        mode=mode,
    )


def _of_query(words: Words, context: TextContext, table: str, mode: CreateMode, clauses: Clauses) -> WriteStatement:
    if mode == "ignore":
        raise words.error(
            "IF NOT EXISTS does not go with AS", "write CREATE OR REPLACE TABLE, or create the table and INSERT INTO"
        )
    if clauses.comment is not None:
        raise words.error("COMMENT does not go with AS", "write COMMENT ON TABLE afterwards")
    query = words.query()
    words.end()
    return WriteStatement(
        table=table,
        source=query_source(words, query, context),
        mode=WriteMode.CREATE_OR_REPLACE if mode == "replace" else WriteMode.CREATE,
        partition_by=clauses.partition_by,
        cluster_by=clauses.cluster_by,
        properties=clauses.properties,
    )


def _clone(words: Words, context: TextContext, name: TableName, mode: CreateMode, *, deep: bool) -> CloneStatement:
    source = table_name(words)
    version, time = optional_point(words, context)
    properties = words.properties() if words.skip("TBLPROPERTIES") else {}
    location = words.string() if words.skip("LOCATION") else None
    words.end()
    return CloneStatement(
        table=_place(words, context, name, location),
        source=TableSource(context.table_uri(words, source), version=version, timestamp=time),
        deep=deep,
        mode=mode,
        properties=properties,
    )


def _clauses(words: Words) -> Clauses:
    """The clauses that follow, each at most once."""
    found: dict[str, Any] = {}
    while True:
        position = words.position
        if words.skip("PARTITIONED", "BY"):
            clause: dict[str, Any] = {"partition_by": words.listed(lambda: words.name("a partition column"))}
        elif words.skip("CLUSTER", "BY"):
            clause = {"cluster_by": words.column_list()}
        elif words.skip("TBLPROPERTIES"):
            clause = {"properties": words.properties()}
        elif words.skip("COMMENT"):
            clause = {"comment": words.string()}
        elif words.skip("LOCATION"):
            clause = {"location": words.string()}
        else:
            return Clauses(**found)
        if clause.keys() & found.keys():
            raise words.error("a clause stands there twice", "write it once", at=position)
        found |= clause


def _place(words: Words, context: TextContext, name: TableName, location: str | None) -> str:
    """Where to make the table: as its name says. If the name is a path, LOCATION may only repeat it."""
    if name.path is None and context.table is None and context.place is not None:
        placed = context.place(name.parts, location)
        if placed is not None:
            return placed
    table = context.target_uri(words, name)
    if location is not None and location.rstrip("/") != table.rstrip("/"):
        raise words.error(f"LOCATION is {location}, and the name means {table}", "leave LOCATION out", at=name.position)
    return table
