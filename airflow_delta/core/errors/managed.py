"""Errors of catalog-managed tables, whose commits a catalog ratifies."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.errors.base import DeltaError
from airflow_delta.core.errors.unsupported import UnsupportedReaderFeatureError


@dataclass(kw_only=True, eq=False)
class CatalogRequiredError(UnsupportedReaderFeatureError):
    """A catalog-managed table was opened by its path; only the catalog knows its newest commits."""

    code = "DELTA_CATALOG_REQUIRED"
    message = "{table} is managed by a catalog ({features}): its path alone does not show its newest commits"
    remedy = (
        "open it through the catalog that manages it: as catalog.schema.table, where a connection, AIRFLOW_DELTA_CATALOG or "
        "--catalog names the catalog; in Python also DeltaLog.for_table(uri, commits=UnityCommits(...)); see "
        "docs/catalog-managed-tables.md"
    )


@dataclass(kw_only=True, eq=False)
class NotCatalogManagedError(DeltaError):
    """A table was opened through a catalog, but its protocol lacks the feature: other writers commit directly to its path."""

    code = "DELTA_NOT_CATALOG_MANAGED"
    message = "{table} was opened through the commits of {catalog}, but does not have the feature catalogManaged"
    remedy = "open it by its path; only tables that were created with the feature catalogManaged are committed to by a catalog"
    table: str
    catalog: str


@dataclass(kw_only=True, eq=False)
class AnotherManagedTableError(DeltaError):
    """The catalog's commits are those of another table than the one at this path: it was dropped, or replaced.

    Attributes:
        catalog: The catalog that is said to manage the table.
        id_property: The table property that holds the catalog's id of the table.
        expected: The id in the catalog.
        found: The id in the table's metadata.
    """

    code = "DELTA_ANOTHER_MANAGED_TABLE"
    message = "expected in the log of {table} the {id_property} {expected} by which {catalog} manages it, found {found!r}"
    remedy = "look up in the catalog which table has the name; nothing was changed, and no commit can change the id"
    table: str
    catalog: str
    id_property: str
    expected: str
    found: str


@dataclass(kw_only=True, eq=False)
class MaintenanceNotPermittedError(DeltaError):
    """Maintenance that the protocol reserves to the catalog, and that the catalog has not permitted to clients.

    Attributes:
        work: The maintenance requested, such as ``VACUUM``.
        catalog: The catalog that manages the table.
    """

    code = "DELTA_MAINTENANCE_NOT_PERMITTED"
    message = "{work} of {table} was refused: {catalog} manages the table and does not permit it to its clients"
    remedy = (
        "leave it to the catalog, which maintains its tables itself; if its operator has permitted it to you, name it in "
        "permits= of the catalog's commits"
    )
    table: str
    work: str
    catalog: str


@dataclass(kw_only=True, eq=False)
class CatalogAnswerError(DeltaError):
    """The catalog gave an answer about a table's commits that the protocol does not allow.

    Attributes:
        catalog: The catalog that manages the table.
        detail: What was expected, and what the answer was.
    """

    code = "DELTA_CATALOG_ANSWER"
    message = "{catalog} gave an invalid answer about the commits of {table}: {detail}"
    remedy = "report it to the operator of the catalog; nothing was changed"
    table: str
    catalog: str
    detail: str


@dataclass(kw_only=True, eq=False)
class CommitRefusedError(DeltaError):
    """The catalog rejects the commit for good: because of its content, or because the client may not commit.

    Attributes:
        catalog: The catalog that manages the table.
        detail: The catalog's message.
    """

    code = "DELTA_COMMIT_REFUSED"
    message = "{catalog} refused a commit to {table}: {detail}"
    remedy = "change what is committed as the catalog requires, or ask its operator for the permission"
    table: str
    catalog: str
    detail: str


@dataclass(kw_only=True, eq=False)
class PublishedCommitError(DeltaError):
    """The place of a ratified commit holds a file with other content: some writer bypasses the catalog.

    Attributes:
        file: Path of the file below the table's root.
        catalog: The catalog that manages the table, and still holds the commit.
    """

    code = "DELTA_PUBLISHED_COMMIT"
    message = "expected in {file} of {table} the commit that {catalog} ratified, found another one"
    remedy = "delete the file, and keep writers from the table's path; the next commit publishes the ratified one"
    table: str
    file: str
    catalog: str
