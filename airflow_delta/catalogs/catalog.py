"""The port: what is asked of a catalog."""

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
    """A place where tables have names. Every method raises the errors of ``catalogs.errors``, and no other."""

    @property
    def label(self) -> str:
        """What errors and results call it, such as ``glue``; never with credentials."""

    def find(self, name: TableName) -> CatalogEntry | None:
        """What the catalog has under the name; None for nothing."""

    def default_location(self, name: TableName) -> str | None:
        """Where a new table of the name goes, by the schema's own location; None where the catalog does not say."""

    def create(self, name: TableName, table: TableDescription) -> None:
        """Make an entry; the name must be free. Raises ``TableNameTakenError`` where another writer was faster."""

    def update(self, entry: CatalogEntry, table: TableDescription) -> None:
        """Make the entry say what the table is, whatever it said; what others have written beside is kept."""

    def drop(self, name: TableName) -> bool:
        """Remove the name, never a file; whether it was there."""


def resolve(catalog: Catalog, name: TableName) -> CatalogEntry:
    """The Delta table of the name.

    Raises:
        TableNameNotFoundError: There is none.
        NotADeltaTableError: The name is that of a view, or of a table of another format.
    """
    entry = catalog.find(name)
    if entry is None:
        raise _not_found(catalog, name)
    if entry.provider != DELTA:
        raise NotADeltaTableError(catalog=catalog.label, name=str(name), provider=entry.provider)
    return entry


def _not_found(catalog: Catalog, name: TableName) -> DeltaError:
    """Whether it is the table or its schema that is missing, as far as the catalog says."""
    with suppress(DeltaError):
        try:
            catalog.default_location(name)
        except TableNameNotFoundError as of_schema:
            return of_schema
    return TableNameNotFoundError(catalog=catalog.label, name=str(name), detail="the name is not there")


def drift(catalog: Catalog, name: TableName, table: TableDescription) -> tuple[Difference, ...]:
    """In what the catalog differs from the table that the name is to be of.

    Raises:
        NotADeltaTableError: The name is that of a view, or of a table of another format.
    """
    entry = catalog.find(name)
    if entry is not None and entry.provider != DELTA:
        raise NotADeltaTableError(catalog=catalog.label, name=str(name), provider=entry.provider)
    return differences(entry, table)


def check_droppable(catalog: Catalog, entry: CatalogEntry, *, with_files: bool) -> None:
    """Refuse a name whose table is not to be dropped from here.

    Args:
        catalog: Which has the entry.
        entry: Of the name.
        with_files: Whether the files of its table are to be deleted, too.

    Raises:
        NotADeltaTableError: It is that of a view, or of a table of another format.
        ManagedTableError: The catalog deletes the files of the table with its name.
        TableNotDeletedError: Whose files they are is not known.
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
    """What gives an entry that others have made the id of its table."""
    if catalog.label == "spark":  # which no worker can mend
        way = "by a connection that names the catalog behind the session, such as hive"
        return f"run DeltaMaintenanceOperator with mend_catalog=True once, {way}"
    return f"run DeltaMaintenanceOperator(table={name!r}, mend_catalog=True) once"


def publish(catalog: Catalog, name: TableName, table: TableDescription, *, relocate: bool = False) -> CatalogEntry:
    """Make the catalog say what the table is, and return what it says then. To publish again changes nothing.

    An entry of a later version of the same table stays: tasks end in another order than they committed.

    Args:
        catalog: Where.
        name: Under which name.
        table: The table as it was committed.
        relocate: Whether a name of a Delta table elsewhere becomes this one's; that of an older table here always does.

    Raises:
        TableNameTakenError: The name is another table's.
    """
    entry = catalog.find(name)
    if entry is None:
        try:
            catalog.create(name, table)
        except TableNameTakenError:
            entry = catalog.find(name)  # it may be of this very table, which another task has published meanwhile
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
    """Publish the table where the catalog says anything else of it; in what the entry differed.

    With ``relocate`` also where the entry does not say which table it is of, which is no difference. Raises as ``publish``.
    """
    found = drift(catalog, name, table)
    if found or (relocate and resolve(catalog, name).is_of_others):
        publish(catalog, name, table, relocate=relocate)
    return found
