"""Names that only a job can resolve, in its session's catalog, when the connection's catalog is ``spark``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from pyspark.sql import SparkSession

from airflow_delta.catalogs.catalog import Catalog
from airflow_delta.catalogs.table_name import TableName, is_path
from airflow_delta.core.sql_text import with_named_views
from airflow_delta.core.statements import HealthStatement, PublishStatement, SequenceStatement
from airflow_delta.core.statements.created_tables import created_tables
from airflow_delta.core.statements.json_form import map_queries, map_tables
from airflow_delta.jobs.catalog_publication import (
    with_drift,
    with_publication,
    with_publications_of_handles,
    with_publications_of_statements,
)
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.spark.delta_table.named_tables import NamedTables, name_parts
from airflow_delta.spark.session_catalog import SessionCatalog

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class SessionNames:
    """The names of a session's catalog.

    Attributes:
        catalog: The catalog of the session.
        tables: The tables looked up so far.
    """

    catalog: Catalog
    tables: NamedTables = field(compare=False)

    @classmethod
    def of(cls, spark: SparkSession) -> Self:
        """The names of a session. Raises ``InvalidCatalogError`` over Spark Connect."""
        catalog = SessionCatalog(spark)
        return cls(catalog, NamedTables(catalog))

    @property
    def catalog_label(self) -> str:
        """The label of the catalog in results."""
        return self.catalog.label

    def table_name(self, text: str) -> TableName | None:
        """The text as a name; None for a path. Raises ``InvalidTableNameError`` if it is neither."""
        return None if is_path(text) else TableName.parse(text)

    def resolve(self, statement: Value) -> Value:
        """The statement with each name in it replaced by the table's URI; tables that it creates need not exist yet.

        Raises:
            TableNameNotFoundError: The session has no Delta table of a name. The other errors of ``catalogs.errors`` are
                raised, too.
        """
        statement = map_queries(statement, lambda source: with_named_views(source, self.tables.find))
        created = created_tables(statement)

        def uri(text: str) -> str:
            name = self.table_name(text)
            if name is None:
                return text
            parts = name_parts(name)
            found = self.tables.place(parts) if text in created else self.tables.resolve(parts)
            assert found is not None  # noqa: S101 - a name has two parts or three
            return found

        resolved: Value = map_tables(statement, uri)
        return resolved

    def publish(self, given: Any, document: ResultDocument) -> ResultDocument:
        """Publish the tables that a statement gives by name, and return the document. Never raises.

        Args:
            given: The statement before its names were resolved.
            document: The outcome of the statement.
        """
        match given:
            case SequenceStatement():
                return with_publications_of_statements(self, given, document)
            case PublishStatement():
                return with_publications_of_handles(self, given.handles, document)
            case HealthStatement():
                return with_drift(self, given.table, document)
            case _:
                return with_publication(self, given.table, document)
