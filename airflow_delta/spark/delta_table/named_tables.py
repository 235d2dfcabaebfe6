"""Tables given by catalog names: finds them in the catalog that the environment names, and publishes them there."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from pyspark.sql import SparkSession

from airflow_delta.catalogs.catalog import Catalog, publish_changes
from airflow_delta.catalogs.entry import DELTA, CatalogEntry, TableDescription, same_location, without_file_scheme
from airflow_delta.catalogs.errors import (
    CatalogRequestError,
    InvalidTableNameError,
    NotADeltaTableError,
    TableNameNotFoundError,
    TableNameTakenError,
)
from airflow_delta.catalogs.managed_tables import remember_entry
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import DeltaError, InvalidStatementError
from airflow_delta.core.statements import OperationResult
from airflow_delta.spark.session_catalog import catalog_of_environment

DETAIL = "catalog"
"""Key in a result's details, as in those of tasks: ``catalog``, ``name`` and ``published``, or ``error``."""

_PARTS = (2, 3)


class NotPublishedWarning(UserWarning):
    """A commit was made, but publishing the table in the catalog failed; the next commit by name publishes it.

    Attributes:
        name: Name of the table.
        error: The cause, a ``DeltaError``.
    """

    def __init__(self, name: str, error: DeltaError) -> None:
        super().__init__(name, error)
        self.name = name
        self.error = error

    def __str__(self) -> str:
        return f"publishing {self.name} in the catalog failed: {self.error}; the next commit by the name does it"


@dataclass(frozen=True, slots=True)
class NamedTables:
    """The catalog names in one text or call; each name is looked up once.

    Attributes:
        catalog: The catalog that the environment names.
        entries: Its entries for the names looked up.
        names: Names of the tables found or to be created, by location.
    """

    catalog: Catalog
    entries: dict[TableName, CatalogEntry | None] = field(default_factory=dict)
    names: dict[str, TableName] = field(default_factory=dict)

    @classmethod
    def of_environment(cls, spark: SparkSession) -> Self | None:
        """The names in the catalog named by ``AIRFLOW_DELTA_CATALOG``; None without one. Raises ``InvalidCatalogError``."""
        catalog = catalog_of_environment(spark)
        return None if catalog is None else cls(catalog)

    def find(self, parts: Sequence[str]) -> str | None:
        """The location of the Delta table with this name; None if the catalog has none, so that the name is Spark's."""
        try:
            return self._found(parts)
        except InvalidTableNameError:  # a name in another catalog of the session
            return None

    def _found(self, parts: Sequence[str]) -> str | None:
        if len(parts) not in _PARTS:
            return None
        name = _name(parts)
        entry = self._entry(name)
        if entry is None or entry.provider != DELTA:
            return None
        return self._noted(name, entry.location)

    def resolve(self, parts: Sequence[str]) -> str | None:
        """As ``find``, where only a table of the catalog can be meant; None for a name of one part.

        Raises:
            TableNameNotFoundError: The catalog has no table of this name.
            NotADeltaTableError: The name belongs to a view, or to a table of another format.
            InvalidTableNameError: The name is in another catalog.
        """
        found = self._found(parts)
        if found is None and len(parts) > 1:
            entry = self._entry(_name(parts)) if len(parts) in _PARTS else None
            if entry is not None:
                raise NotADeltaTableError(catalog=self.catalog.label, name=str(entry.name), provider=entry.provider)
            detail = "the name is not there"
            raise TableNameNotFoundError(catalog=self.catalog.label, name=".".join(parts)[:255], detail=detail)
        return found

    def place(self, parts: Sequence[str], location: str | None = None) -> str | None:
        """The location of a new or existing table with this name; None for a name without two or three parts.

        Args:
            parts: Parts of the name.
            location: The location requested; by default that of the existing table, else a new one below that of its schema.

        Raises:
            TableNameTakenError: The name belongs to a table elsewhere.
            InvalidStatementError: No location is known.
        """
        if len(parts) not in _PARTS:
            return None
        name = _name(parts)
        entry = self._entry(name)
        if entry is not None and (entry.provider != DELTA or not same_location(location or entry.location, entry.location)):
            table = location or "the new table"
            raise TableNameTakenError(catalog=self.catalog.label, name=str(name), table=table, location=entry.location)
        found = location or (entry.location if entry else self.catalog.default_location(name))
        if found is None:
            detail = f"the catalog {self.catalog.label} allots no place to {name}"
            cure = 'say where it is to lie: option("path", …), location(…), or LOCATION in the text'
            raise InvalidStatementError(statement="CREATE", detail=f"{detail}; {cure}")
        return self._noted(name, without_file_scheme(found))

    def publish(self, log: DeltaLog, result: OperationResult | None = None) -> OperationResult | None:
        """Publish the table in the catalog. Never raises, as the commit has been made; a failure is a warning.

        Args:
            log: The log of a table that was found or placed here; other tables are not published.
            result: The result of the commit.

        Returns:
            The result, with ``details["catalog"]``.
        """
        name = self.names.get(log.table_uri.rstrip("/"))
        if name is None:
            return result
        entry: dict[str, object] = {DETAIL: self.catalog.label, "name": str(name)}
        more: tuple[str, ...] = ()
        try:
            entry["published"] = list(publish_changes(self.catalog, name, TableDescription.of(log.refresh())))
        except Exception as failure:  # noqa: BLE001 - the commit stands
            error = failure if isinstance(failure, DeltaError) else self._unexpected(name, failure)
            warning = NotPublishedWarning(str(name), error)
            warnings.warn(warning, stacklevel=3)
            entry["error"], more = error.to_json(), (str(warning),)
        if result is None:
            return None
        return replace(result, details={**result.details, DETAIL: entry}, warnings=(*result.warnings, *more))

    def _entry(self, name: TableName) -> CatalogEntry | None:
        if name not in self.entries:
            entry = self.entries[name] = self.catalog.find(name)
            if entry is not None:
                remember_entry(entry)
        return self.entries[name]

    def _noted(self, name: TableName, location: str) -> str:
        self.names[location.rstrip("/")] = name
        return location

    def _unexpected(self, name: TableName, failure: Exception) -> DeltaError:
        detail = f"{type(failure).__name__}: {failure}"[:1_000]
        return CatalogRequestError(catalog=self.catalog.label, name=str(name), detail=detail)


def name_parts(name: TableName) -> tuple[str, ...]:
    """The parts of a name, starting with the catalog."""
    return tuple(part for part in (name.catalog, name.schema, name.table) if part is not None)


def _name(parts: Sequence[str]) -> TableName:
    return TableName(parts[-1], parts[-2], parts[0] if len(parts) == max(_PARTS) else None)
