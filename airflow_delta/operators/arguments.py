"""How the arguments of operators become fields of statements."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from typing import get_args

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements import FileSource, Source, Statement, TableSource
from airflow_delta.core.statements.fields import is_template, shortened
from airflow_delta.core.statements.validation import one_of, require_type

_QUERY = re.compile(r"\s*(SELECT\s|WITH\s.*\bSELECT\s)", re.IGNORECASE | re.DOTALL)


def argument_names(statement_type: type[Statement], *, but: Collection[str] = ()) -> list[str]:
    """The fields of a statement that are arguments of its operator; without ``table``, which every operator takes."""
    return [field.name for field in fields(statement_type) if field.name not in {"table", *but}]


def source_of(source: str | Source, version: int | str | None) -> Source:
    """The source that an operator was given; a string is the URI of a Delta table."""
    value = _table_source("source", source) if isinstance(source, str) else source
    if not isinstance(value, Source):
        kinds = ("the URI of a Delta table", *(f"{kind.__name__}(...)" for kind in get_args(Source)))
        raise InvalidStatementError(statement="source", detail=f"it must be {one_of(kinds)}, found {shortened(value)}")
    if version is None:
        return value
    if not isinstance(value, TableSource):
        raise InvalidStatementError(statement=type(value).__name__, detail="source_version goes with a Delta table only")
    if value.version is not None or value.timestamp is not None:
        raise InvalidStatementError(
            statement="TableSource", detail="source_version excludes a version or a timestamp in source"
        )
    return replace(value, version=version)


def views_of(views: Mapping[str, str | TableSource | FileSource]) -> Mapping[str, TableSource | FileSource]:
    """The views of a query; a string among them is the URI of a Delta table."""
    if is_template(views):
        return views  # type: ignore[return-value]  # it is a mapping once it is rendered
    require_type("SqlSource", "views", views, Mapping)
    return {name: _table_source(f"the view {name}", view) if isinstance(view, str) else view for name, view in views.items()}


def _table_source(place: str, table: str) -> TableSource:
    """The Delta table at a URI. Raises ``InvalidStatementError`` for a SQL query, which would be taken for a relative path."""
    if _QUERY.match(table):
        detail = f"a text is the URI of a Delta table, found the query {shortened(table)}; write SqlSource({shortened(table)})"
        raise InvalidStatementError(statement=place, detail=detail)
    return TableSource(table)
