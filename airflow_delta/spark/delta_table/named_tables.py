"""The tables of scripts that have names: found in the catalog that the environment names, and published there."""

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
"""Of a result's details, as tasks have it: ``catalog``, ``name`` and ``published``, or ``error``."""

_PARTS = (2, 3)


class NotPublishedWarning(UserWarning):
    """A commit stands, but the catalog does not say of the table what it is; the next commit by the name publishes it.

    Attributes:
        name: Of the table.
        error: Why; a ``DeltaError``.
    """

    def __init__(self, name: str, error: DeltaError) -> None:
        super().__init__(name, error)
        self.name = name
        self.error = error

    def __str__(self) -> str:
        return f"publishing {self.name} in the catalog failed: {self.error}; the next commit by the name does it"


@dataclass(frozen=True, slots=True)
class NamedTables:
    """The names of one text or call; each is looked up once.

    Attributes:
        catalog: Which the environment names.
        entries: What it has under the names that were looked up.
        names: Of the tables that were found or are to be made, by their locations.
    """

    catalog: Catalog
    entries: dict[TableName, CatalogEntry | None] = field(default_factory=dict)
    names: dict[str, TableName] = field(default_factory=dict)

    @classmethod
    def of_environment(cls, spark: SparkSession) -> Self | None:
        """Those of the catalog that ``AIRFLOW_DELTA_CATALOG`` names; None for none. Raises ``InvalidCatalogError``."""
        catalog = catalog_of_environment(spark)
        return None if catalog is None else cls(catalog)

    def find(self, parts: Sequence[str]) -> str | None:
        """Where the Delta table of this name lies; None where the catalog has none, so that the name is Spark's."""
        try:
            return self._found(parts)
        except InvalidTableNameError:  # of another catalog of the session
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
        """Likewise, where no other table can be meant; None for a name of one part.

        Raises:
            TableNameNotFoundError: The catalog has no table of the name.
            NotADeltaTableError: The name is that of a view, or of a table of another format.
            InvalidTableNameError: It is the name of another catalog.
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
        """Where the table of this name is made, or lies already; None for a name of one part.

        Args:
            parts: Of the name.
            location: Where it is to lie. Default: where it lies already, else below the location of its schema.

        Raises:
            TableNameTakenError: The name is that of a table elsewhere.
            InvalidStatementError: Neither is known.
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
        """Make the catalog say what the table is. Never raises: the commit stands, and a failure is a warning.

        Args:
            log: Of a table that was found or placed here; others are published nowhere.
            result: Of the commit.

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
    """The parts of a name, the catalog first."""
    return tuple(part for part in (name.catalog, name.schema, name.table) if part is not None)


def _name(parts: Sequence[str]) -> TableName:
    return TableName(parts[-1], parts[-2], parts[0] if len(parts) == max(_PARTS) else None)
