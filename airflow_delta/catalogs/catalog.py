"""The interface of catalogs, and what is done through it."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from airflow_delta.catalogs.entry import (
    DELTA,
    CatalogEntry,
    Difference,
    TableDescription,
    differences,
    same_location,
)
from airflow_delta.catalogs.errors import (
    ManagedTableError,
    NotADeltaTableError,
    TableNameNotFoundError,
    TableNameTakenError,
)
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.errors import DeltaError, TableNotDeletedError


class Catalog(Protocol):
    """A catalog of named tables. Every method raises only the errors of ``catalogs.errors``."""

    @property
    def label(self) -> str:
        """The catalog's label in errors and results, such as ``glue``; without credentials."""

    def find(self, name: TableName) -> CatalogEntry | None:
        """The catalog's entry for a name; None if there is no entry."""

    def default_location(self, name: TableName) -> str | None:
        """The location of a new table, from its schema's location; None if the catalog has no location."""

    def create(self, name: TableName, table: TableDescription) -> None:
        """Create an entry for a free name. Raises ``TableNameTakenError`` if another writer was faster."""

    def update(self, entry: CatalogEntry, table: TableDescription) -> None:
        """Make an entry agree with the table; properties that others have added to the entry are kept."""

    def drop(self, name: TableName) -> bool:
        """Remove the name, but no files; return whether the name existed."""


def resolve(catalog: Catalog, name: TableName) -> CatalogEntry:
    """The entry of the Delta table with a name.

    Raises:
        TableNameNotFoundError: The catalog does not have the name.
        NotADeltaTableError: The name is that of a view, or of a table of another format.
    """
    entry = catalog.find(name)
    if entry is None:
        raise _not_found(catalog, name)
    if entry.provider != DELTA:
        raise NotADeltaTableError(catalog=catalog.label, name=str(name), provider=entry.provider)
    return entry


def _not_found(catalog: Catalog, name: TableName) -> DeltaError:
    """The error for a missing name: of the schema if that is missing, else of the table."""
    with suppress(DeltaError):
        try:
            catalog.default_location(name)
        except TableNameNotFoundError as of_schema:
            return of_schema
    return TableNameNotFoundError(catalog=catalog.label, name=str(name), detail="the name is not there")


def drift(catalog: Catalog, name: TableName, table: TableDescription) -> tuple[Difference, ...]:
    """What differs between the catalog's entry for a name and the table.

    Raises:
        NotADeltaTableError: The name is that of a view, or of a table of another format.
    """
    entry = catalog.find(name)
    if entry is not None and entry.provider != DELTA:
        raise NotADeltaTableError(catalog=catalog.label, name=str(name), provider=entry.provider)
    return differences(entry, table)


def check_droppable(catalog: Catalog, entry: CatalogEntry, *, with_files: bool) -> None:
    """Refuse to drop a name if that is not possible or not safe.

    Args:
        catalog: The catalog with the entry.
        entry: The entry of the name.
        with_files: Whether the table's files are to be deleted, too.

    Raises:
        NotADeltaTableError: The entry is that of a view, or of a table of another format.
        ManagedTableError: The catalog owns the table's files and deletes them with the name.
        TableNotDeletedError: Files are to be deleted, but the entry does not hold the table's id.
    """
    name = str(entry.name)
    if entry.provider != DELTA:
        raise NotADeltaTableError(catalog=catalog.label, name=name, provider=entry.provider)
    if entry.is_managed:
        raise ManagedTableError(catalog=catalog.label, name=name)
    if with_files and entry.table_id is None:
        raise TableNotDeletedError(
            table=entry.location,
            detail=f"what the catalog {catalog.label} has as {name} does not hold the id of its table",
            cure=f"{_cure_of_others(catalog, name)}, or drop the name alone with delete_files=False",
        )


def _cure_of_others(catalog: Catalog, name: str) -> str:
    """The remedy for an entry without the table's id, as other engines create it."""
    if catalog.label == "spark":  # workers cannot mend its entries
        way = "by a connection that names the catalog behind the session, such as hive"
        return f"run DeltaMaintenanceOperator with mend_catalog=True once, {way}"
    return f"run DeltaMaintenanceOperator(table={name!r}, mend_catalog=True) once"


def publish(catalog: Catalog, name: TableName, table: TableDescription, *, relocate: bool = False) -> CatalogEntry:
    """Make the catalog's entry agree with the table, and return the entry. Idempotent.

    An entry with a later version of the same table is kept, as tasks may publish in another order than they committed.

    Args:
        catalog: The catalog.
        name: The table's name.
        table: The table as it was committed.
        relocate: Whether to take over the name of a Delta table with another location; the name of an earlier table at the same
            location is always taken over.

    Raises:
        TableNameTakenError: The name belongs to another table.
    """
    entry = catalog.find(name)
    if entry is None:
        try:
            catalog.create(name, table)
        except TableNameTakenError:
            entry = catalog.find(name)  # another task may have published this table meanwhile
            if entry is None:
                raise
        else:
            return resolve(catalog, name)
    is_delta, is_here = entry.provider == DELTA, same_location(entry.location, table.location)
    if not is_delta or not (is_here or relocate):
        raise TableNameTakenError(catalog=catalog.label, name=str(name), table=table.location, location=entry.location)
    if is_here and entry.table_id == table.table_id and entry.version is not None and entry.version > table.version:
        return entry
    catalog.update(entry, table)
    return resolve(catalog, name)


def publish_changes(
    catalog: Catalog, name: TableName, table: TableDescription, *, relocate: bool = False
) -> tuple[Difference, ...]:
    """Publish the table if the catalog's entry differs, and return what differed.

    With ``relocate``, also if the entry lacks the table's id, which does not count as a difference. Raises as ``publish``.
    """
    found = drift(catalog, name, table)
    if found or (relocate and resolve(catalog, name).is_of_others):
        publish(catalog, name, table, relocate=relocate)
    return found
