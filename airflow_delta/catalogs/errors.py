"""Errors of catalogs.

::

    DeltaError
    ├── InvalidTableNameError        the text is neither a path nor a name
    ├── InvalidCatalogError          the settings of a catalog are wrong
    ├── TableNameNotFoundError       the catalog has no such table, or no such schema
    ├── NotADeltaTableError          the name is that of another kind of table
    ├── TableNameTakenError          the name belongs to another table
    ├── ManagedTableError            the catalog owns the table's files
    ├── CatalogAccessDeniedError     the catalog refused (an AccessDeniedError)
    ├── CatalogRequestError          the catalog rejected a request
    └── CatalogUnavailableError      the catalog does not answer                  (retryable)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from airflow_delta.core.errors import AccessDeniedError, DeltaError


@dataclass(kw_only=True, eq=False)
class InvalidTableNameError(DeltaError):
    """A text that should be a table's name in a catalog is not a valid name."""

    code = "DELTA_INVALID_TABLE_NAME"
    message = "expected a table as schema.table or catalog.schema.table, found {name!r}: {detail}"
    remedy = "{cure}"
    name: str
    detail: str
    cure: str = "write parts with other characters than letters, digits and _ in backticks; a path has a slash or a scheme"


@dataclass(kw_only=True, eq=False)
class InvalidCatalogError(DeltaError):
    """The settings of a catalog are wrong, or a package that it needs is missing."""

    code = "DELTA_INVALID_CATALOG"
    message = "invalid settings of the catalog: {detail}"
    remedy = "correct catalog in the extra of the delta connection, or --catalog, as docs/catalogs.md shows"
    detail: str


@dataclass(kw_only=True, eq=False)
class TableNameNotFoundError(DeltaError):
    """The catalog has no table of the name."""

    code = "DELTA_TABLE_NAME_NOT_FOUND"
    message = "the catalog {catalog} has no table {name}: {detail}"
    remedy = "{cure}"
    catalog: str
    name: str
    detail: str
    cure: str = "check the name; create the table with DeltaCreateOperator or a write, or name it by its path"

    @classmethod
    def without_schema(cls, catalog: str, name: str, schema: str) -> Self:
        """The error for a name whose schema does not exist; this package creates tables, but no schemas."""
        return cls(
            catalog=catalog,
            name=name,
            detail=f"there is no schema (database) {schema}",
            cure=f"check the name; a new schema is made in the catalog itself, such as by CREATE SCHEMA {schema} in Spark SQL",
        )


@dataclass(kw_only=True, eq=False)
class NotADeltaTableError(DeltaError):
    """The catalog knows the name, but not as a Delta table."""

    code = "DELTA_NOT_A_DELTA_TABLE"
    message = "{name} of the catalog {catalog} is not a Delta table: the catalog has it as {provider!r}"
    remedy = "name a Delta table; tables of other formats are read by Spark, such as with FileSource"
    catalog: str
    name: str
    provider: str


@dataclass(kw_only=True, eq=False)
class TableNameTakenError(DeltaError):
    """The name cannot be published, because it belongs to another table. The catalog was not changed.

    Attributes:
        location: Location of the table that has the name.
    """

    code = "DELTA_TABLE_NAME_TAKEN"
    message = "{table} cannot be published as {name}: in the catalog {catalog} the name belongs to another table, at {location}"
    remedy = "drop the name from the catalog, or publish under another one"
    catalog: str
    name: str
    table: str
    location: str


@dataclass(kw_only=True, eq=False)
class ManagedTableError(DeltaError):
    """The name cannot be dropped here: the catalog owns the files of the table, and deletes them with the name."""

    code = "DELTA_MANAGED_TABLE"
    message = "{name} of the catalog {catalog} is a managed table: its files go with its name"
    remedy = "drop it by the catalog's own client, such as DROP TABLE {name} there, which may be able to bring it back"
    catalog: str
    name: str


@dataclass(kw_only=True, eq=False)
class CatalogAccessDeniedError(AccessDeniedError):
    """The catalog refused a request.

    Attributes:
        table: The table's name in the catalog.
        principal: Who was refused, according to the catalog, or "unknown".
        privilege: The missing privilege.
        detail: The catalog's error text.
    """

    code = "DELTA_CATALOG_ACCESS_DENIED"
    message = "the catalog {catalog} denied {principal} the privilege {privilege} on {table}: {detail}"
    remedy = "grant {privilege} on {table} to {principal}, or use a connection whose identity has it"
    catalog: str
    principal: str
    privilege: str


@dataclass(kw_only=True, eq=False)
class CatalogRequestError(DeltaError):
    """The catalog rejected the request."""

    code = "DELTA_CATALOG_REQUEST"
    message = "the catalog {catalog} did not take the request for {name}: {detail}"
    remedy = "do what the message of the catalog asks for; the table itself stays as it was committed"
    catalog: str
    name: str
    detail: str


@dataclass(kw_only=True, eq=False)
class CatalogUnavailableError(DeltaError):
    """The catalog did not answer, or was too busy."""

    code = "DELTA_CATALOG_UNAVAILABLE"
    retryable = True
    message = "the catalog {catalog} did not serve the request for {name}: {detail}"
    remedy = "run it again later; check that the catalog runs, and that this machine reaches it"
    catalog: str
    name: str
    detail: str
