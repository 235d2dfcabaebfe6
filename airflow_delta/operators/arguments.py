"""The arguments of operators, and what of a statement they become."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields, replace

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements import FileSource, Source, Statement, TableSource
from airflow_delta.core.statements.fields import is_template


def argument_names(statement_type: type[Statement], *, but: Collection[str] = ()) -> list[str]:
    """The fields of a statement, which are arguments of its operator; not ``table``, which every operator takes."""
    return [field.name for field in fields(statement_type) if field.name not in {"table", *but}]


def source_of(source: str | Source, version: int | str | None) -> Source:
    """The source that an operator was given; a text is the URI of a Delta table."""
    value = TableSource(source) if isinstance(source, str) else source
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
    """The views of a query; a text among them is the URI of a Delta table."""
    if is_template(views):
        return views  # type: ignore[return-value]  # it is one, once it is rendered
    return {name: TableSource(view) if isinstance(view, str) else view for name, view in views.items()}
