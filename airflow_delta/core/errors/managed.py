"""Errors of tables whose commits a catalog ratifies."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.errors.base import DeltaError
from airflow_delta.core.errors.unsupported import UnsupportedReaderFeatureError


@dataclass(kw_only=True, eq=False)
class CatalogRequiredError(UnsupportedReaderFeatureError):
    """A catalog-managed table was opened by its path: its newest commits are known to its catalog only."""

    code = "DELTA_CATALOG_REQUIRED"
    message = "{table} is managed by a catalog ({features}): its path alone does not show its newest commits"
    remedy = (
        "open it through the catalog that manages it: as catalog.schema.table, where a connection, AIRFLOW_DELTA_CATALOG or "
        "--catalog names the catalog; in Python also DeltaLog.for_table(uri, commits=UnityCommits(...)); see "
        "docs/catalog-managed-tables.md"
    )


@dataclass(kw_only=True, eq=False)
class NotCatalogManagedError(DeltaError):
    """A table was opened through a catalog's commits, but its protocol lacks the feature: others commit to its path."""

    code = "DELTA_NOT_CATALOG_MANAGED"
    message = "{table} was opened through the commits of {catalog}, but does not have the feature catalogManaged"
    remedy = "open it by its path; only tables that were created with the feature catalogManaged are committed to by a catalog"
    table: str
    catalog: str


@dataclass(kw_only=True, eq=False)
class AnotherManagedTableError(DeltaError):
    """The commits are those of another table than the one that lies there: it was dropped, or made anew.

    Attributes:
        catalog: The catalog whose table it is said to be.
        id_property: The property that holds the catalog's id of the table.
        expected: The id at the catalog.
        found: The id in the table's metadata.
    """

    code = "DELTA_ANOTHER_MANAGED_TABLE"
    message = "expected in the log of {table} the {id_property} {expected} by which {catalog} manages it, found {found!r}"
    remedy = "see at the catalog which table the name is of; nothing was changed, and no commit can change the id"
    table: str
    catalog: str
    id_property: str
    expected: str
    found: str


@dataclass(kw_only=True, eq=False)
class MaintenanceNotPermittedError(DeltaError):
    """The protocol leaves this work to the catalog unless the catalog permits it.

    Attributes:
        work: What was requested, such as ``VACUUM``.
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
    """A catalog answered what no catalog may say of a table's commits.

    Attributes:
        catalog: The catalog that manages the table.
        detail: What was expected, and found.
    """

    code = "DELTA_CATALOG_ANSWER"
    message = "{catalog} gave an invalid answer about the commits of {table}: {detail}"
    remedy = "report it to the operator of the catalog; nothing was changed"
    table: str
    catalog: str
    detail: str


@dataclass(kw_only=True, eq=False)
class CommitRefusedError(DeltaError):
    """The catalog refuses the commit itself, whatever version it takes: its content, or the right to make it.

    Attributes:
        catalog: The catalog that manages the table.
        detail: What the catalog said.
    """

    code = "DELTA_COMMIT_REFUSED"
    message = "{catalog} refused a commit to {table}: {detail}"
    remedy = "change what is committed as the catalog requires, or ask its operator for the permission"
    table: str
    catalog: str
    detail: str


@dataclass(kw_only=True, eq=False)
class PublishedCommitError(DeltaError):
    """In the place of a ratified commit lies a file with another content: a writer goes around the catalog.

    Attributes:
        file: Path of the file below the table's root.
        catalog: The catalog that manages the table, and keeps the commit.
    """

    code = "DELTA_PUBLISHED_COMMIT"
    message = "expected in {file} of {table} the commit that {catalog} ratified, found another one"
    remedy = "delete the file, and keep writers from the table's path; the next commit publishes the ratified one"
    table: str
    file: str
    catalog: str
