"""The catalog of a Spark session, as configured: in-memory or a Hive metastore.

The session's external catalog is accessed directly, because SQL cannot create a table ``USING delta`` without Delta's JAR.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_delta.catalogs.catalog import Catalog
from airflow_delta.catalogs.entry import DELTA, CatalogEntry, TableDescription
from airflow_delta.catalogs.errors import (
    CatalogAccessDeniedError,
    CatalogRequestError,
    CatalogUnavailableError,
    InvalidCatalogError,
    TableNameNotFoundError,
    TableNameTakenError,
)
from airflow_delta.catalogs.metastore_errors import is_denied, passes
from airflow_delta.catalogs.settings import open_catalog, settings_of_environment
from airflow_delta.catalogs.spark_form import PROVIDER, SCHEMA, VIEW, entry_of, parameters_of, partition_parameters
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.schema import schema_json
from airflow_delta.spark.jvm import active_jvm, is_connect, session_state

_NAMES = ("spark_catalog",)
_NO_SCHEMA = re.compile(r"SCHEMA_NOT_FOUND|DATABASE_NOT_FOUND")
_EXISTS = re.compile(r"TABLE_OR_VIEW_ALREADY_EXISTS|TableAlreadyExists")
_SPARKS = re.compile(r"spark\.sql\.sources\.|EXTERNAL$|comment$")
_PARTITIONING = "airflow_delta.partitionColumns"
"""Table parameter with the partition columns: Spark requires its own to be last in the schema, Delta does not."""

_CATALYST = "org.apache.spark.sql.catalyst"
_Answer = TypeVar("_Answer")


class SessionCatalog:
    """The session's own catalog, ``spark_catalog``.

    Args:
        spark: The session.

    Raises:
        InvalidCatalogError: It is a Spark Connect session, whose catalog cannot be written from here.
    """

    label = "spark"

    def __init__(self, spark: SparkSession) -> None:
        if is_connect(spark):
            detail = "the catalog of a session cannot be used over Spark Connect; name the one behind it, such as hive"
            raise InvalidCatalogError(detail=detail)
        self._jvm = active_jvm()
        self._catalog = session_state(spark).catalog().externalCatalog()
        self._uris = self._jvm.org.apache.spark.sql.catalyst.catalog.CatalogUtils

    def find(self, name: TableName) -> CatalogEntry | None:
        """The session's entry of this name."""
        table = self._table(name)
        if table is None:
            return None
        provider, location = table.provider(), table.storage().locationUri()
        parameters = dict(self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(table.properties()))
        parameters[PROVIDER] = provider.get() if provider.isDefined() else "hive"
        if table.schema().length():
            parameters[SCHEMA] = table.schema().json()
        comment = table.comment().get() if table.comment().isDefined() else None
        is_view = table.tableType().name() == "VIEW"
        return entry_of(
            name,
            self._uris.URIToString(location.get()) if location.isDefined() else "",
            parameters | partition_parameters(_partitioning(parameters)) | ({PROVIDER: VIEW} if is_view else {}),
            comment=comment,
        )

    def default_location(self, name: TableName) -> str | None:
        """The location of a new table: below that of the session's schema."""

        def look() -> str:
            root = str(self._uris.URIToString(self._catalog.getDatabase(name.schema).locationUri()))
            return f"{root.rstrip('/')}/{name.table.lower()}"

        return self._request(name, "USAGE", look)

    def create(self, name: TableName, table: TableDescription) -> None:
        """Create the table in the session's catalog, as an external table."""

        def create() -> None:
            described = self._described(self._new(name), table)
            self._catalog.createTable(_copy(described, schema=self._schema(table)), False)

        try:
            self._request(name, "CREATE", create)
        except _TakenError:
            taken = self.find(name)
            raise TableNameTakenError(
                catalog=self.label, name=str(name), table=table.location, location=taken.location if taken else "unknown"
            ) from None

    def update(self, entry: CatalogEntry, table: TableDescription) -> None:
        """Update the session's entry to describe the table as it is."""
        name, found = entry.name, self._table(entry.name)
        if found is None:
            raise TableNameNotFoundError(catalog=self.label, name=str(name), detail="it was dropped meanwhile")

        def alter() -> None:
            self._catalog.alterTable(self._described(found, table))
            self._catalog.alterTableDataSchema(name.schema, name.table, self._schema(table))

        self._request(name, "ALTER", alter)

    def drop(self, name: TableName) -> bool:
        """Remove the name; refused for a managed table, whose files would be deleted with it."""
        found = self._table(name)
        if found is None:
            return False
        if found.tableType().name() == "MANAGED":
            detail = (
                "it is a managed table of the session, whose files Spark deletes with the name: DROP TABLE does it in Spark"
            )
            raise CatalogRequestError(catalog=self.label, name=str(name), detail=detail)
        self._request(name, "DROP", lambda: self._catalog.dropTable(name.schema, name.table, True, False))
        return True

    def _table(self, name: TableName) -> Any:
        """The session's ``CatalogTable``; None if there is no such table."""

        def look() -> Any:
            return (
                self._catalog.getTable(name.schema, name.table) if self._catalog.tableExists(name.schema, name.table) else None
            )

        return self._request(name, "SELECT", look)

    def _new(self, name: TableName) -> Any:
        """An empty external table entry."""
        package = self._jvm.org.apache.spark.sql.catalyst
        kind = package.catalog.CatalogTable
        identifier = package.TableIdentifier(name.table, self._jvm.scala.Some(name.schema))
        storage = package.catalog.CatalogStorageFormat.empty()
        schema = self._jvm.org.apache.spark.sql.types.StructType()
        count = self._jvm.java.lang.Class.forName(f"{_CATALYST}.catalog.CatalogTable").getConstructors()[0].getParameterCount()
        defaults = [getattr(kind, f"apply$default${number}")() for number in range(5, count + 1)]
        return kind(identifier, package.catalog.CatalogTableType.EXTERNAL(), storage, schema, *defaults)

    def _described(self, found: Any, table: TableDescription) -> Any:
        """The ``CatalogTable`` with the table's description; Spark itself stores provider and schema in parameters."""
        some, python = self._jvm.scala.Some, self._jvm.org.apache.spark.api.python.PythonUtils
        existing = dict(self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(found.properties()))
        parameters = parameters_of(table, existing) | {_PARTITIONING: json.dumps(table.partition_columns)}
        kept = {key: text for key, text in parameters.items() if not _SPARKS.match(key)}
        return _copy(
            found,
            storage=_copy(found.storage(), locationUri=some(self._uris.stringToURI(table.location_uri))),
            provider=some(DELTA),
            properties=python.toScalaMap(kept),
            comment=some(table.comment) if table.comment else self._jvm.scala.Option.empty(),
        )

    def _schema(self, table: TableDescription) -> Any:
        return self._jvm.org.apache.spark.sql.types.DataType.fromJson(schema_json(table.schema))

    def _request(self, name: TableName, privilege: str, send: Callable[[], _Answer]) -> _Answer:
        name.check_in(*_NAMES)
        try:
            return send()
        except PySparkException as error:
            text = str(error)[:1_000]
            if _EXISTS.search(text):
                raise _TakenError from None
            if _NO_SCHEMA.search(text):
                raise TableNameNotFoundError.without_schema(self.label, str(name), name.schema) from None
            if is_denied(text):
                raise CatalogAccessDeniedError(
                    catalog=self.label, table=str(name), principal="the user of the job", privilege=privilege, detail=text
                ) from None
            kind = CatalogUnavailableError if passes(text) else CatalogRequestError
            raise kind(catalog=self.label, name=str(name), detail=text) from None


def catalog_of_environment(spark: SparkSession) -> Catalog | None:
    """The catalog named by ``AIRFLOW_DELTA_CATALOG`` (``spark`` is the session's own); None if it is not set.

    Raises:
        InvalidCatalogError: The variable names an unknown catalog.
    """
    settings = settings_of_environment()
    if settings is None:
        return None
    return SessionCatalog(spark) if settings.is_of_session else open_catalog(settings)


def _partitioning(parameters: Mapping[str, str]) -> tuple[str, ...]:
    try:
        columns = json.loads(parameters.get(_PARTITIONING, "[]"))
    except (ValueError, RecursionError):
        columns = None
    return tuple(map(str, columns)) if isinstance(columns, list) else ()


class _TakenError(Exception):
    """Another table has the name."""


def _copy(value: Any, **changes: Any) -> Any:
    """A copy of a Scala case class with some members changed."""
    names = [value.productElementName(number) for number in range(value.productArity())]
    return value.copy(*[changes.get(name, value.productElement(number)) for number, name in enumerate(names)])
