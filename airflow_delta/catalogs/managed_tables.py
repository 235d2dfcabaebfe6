"""Tables whose commits a catalog ratifies: which ones this process knows, and how their logs are opened.

A connection, a script or the command line learns that a table is managed when it resolves the table's name; a job is told by
its spec. The catalog with its token is the connection's, or the one that the environment names: a spec holds no secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from typing import Any

from airflow_delta.catalogs.entry import CatalogEntry, plain_location
from airflow_delta.catalogs.errors import InvalidCatalogError
from airflow_delta.catalogs.settings import VARIABLE, CatalogSettings, open_unity, settings_of_environment
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.catalogs.unity_commits import UnityCommits
from airflow_delta.catalogs.vended_credentials import StorageCredential, VendedCredentials
from airflow_delta.core.log.managed_log_store import ManagedLogStore
from airflow_delta.core.storage.ambient_options import ambient_options
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.object_location import ObjectLocation
from airflow_delta.core.storage.renewed_log_store import RenewedLogStore

OpenFiles = Callable[[Mapping[str, Any]], LogStore]

_vended: dict[tuple[str | None, str | None, str], VendedCredentials] = {}
_known: dict[str, ManagedTable] = {}
"""The tables that this process opens by their locations, by ``plain_location``."""


def _hide_nothing(_secret: str) -> None:
    """Airflow's workers alone mask what they log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedTable:
    """A table that is committed to through its catalog; it holds no secret.

    Attributes:
        name: Its name in the catalog.
        location: URI of its root, as the catalog has registered it.
        table_id: The catalog's id of it.
    """

    name: str
    location: str
    table_id: str

    @classmethod
    def of(cls, entry: CatalogEntry) -> ManagedTable | None:
        """The table of an entry; None where its files alone decide."""
        if entry.managed_id is None:
            return None
        return cls(name=str(entry.name), location=entry.location, table_id=entry.managed_id)

    @classmethod
    def from_json(cls, document: object) -> ManagedTable:
        """The table that ``to_json`` wrote. Raises ``ValueError`` for anything else."""
        names = {member.name for member in fields(cls)}
        if not isinstance(document, Mapping) or document.keys() != names or not all(map(_is_text, document.values())):
            raise ValueError(f"expected a managed table as an object with the texts {', '.join(sorted(names))}")
        return cls(**document)

    def to_json(self) -> dict[str, str]:
        """The table as a JSON object."""
        return asdict(self)

    def log_store(
        self, open_files: OpenFiles, settings: CatalogSettings | None, *, hide: Callable[[str], Any] = _hide_nothing
    ) -> LogStore:
        """The table's log, as its catalog ratifies it.

        Args:
            open_files: Opens the table's files, with these storage options beside those that it has for them.
            settings: The catalog that has the table.
            hide: As of ``VendedCredentials``.

        Raises:
            InvalidCatalogError: It is no catalog that manages tables, or there is none.
        """
        if settings is None or settings.type != "unity" or settings.uri is None:
            found = "none" if settings is None else settings.type
            detail = (
                f"{self.name} is managed by Unity Catalog, and found {found}; a driver on a cluster finds it in the variable "
                f"{VARIABLE}"
            )
            raise InvalidCatalogError(detail=detail)
        commits = UnityCommits(
            uri=settings.uri,
            table_id=self.table_id,
            table_uri=self.location,
            token=_HeldToken(token) if (token := settings.credentials.get("token")) else None,
            permits=settings.maintenance,
        )
        credentials = self.credentials(settings, hide=hide)
        files = open_files({}) if credentials is None else RenewedLogStore.of(open_files, credentials)
        return ManagedLogStore(files, commits)

    def credentials(
        self, settings: CatalogSettings | None, *, hide: Callable[[str], Any] = _hide_nothing
    ) -> VendedCredentials | None:
        """The storage options that the catalog gives for the table, one for the process; None where it gives none."""
        if settings is None or not settings.vends_credentials:
            return None
        key = (settings.uri, settings.credentials.get("token"), self.table_id)
        return _vended.setdefault(key, VendedCredentials(partial(_credential, self, settings), hide=hide))


def _credential(table: ManagedTable, settings: CatalogSettings) -> StorageCredential:
    return open_unity(settings).credential(TableName.parse(table.name), table.location)


@dataclass(frozen=True, slots=True)
class _HeldToken:
    """Gives the token that it was made with; it can be pickled for a process of our own, and is not shown."""

    token: str = field(repr=False)

    def __call__(self) -> str:
        return self.token


def remember_managed(tables: Iterable[ManagedTable]) -> None:
    """Open these tables through their catalog from now on, wherever this process names them by their location."""
    _known.update({plain_location(table.location): table for table in tables})


def opened_through_catalog(
    uri: str,
    open_files: OpenFiles,
) -> LogStore:
    """The log of a table through the catalog of the environment, where this process knows it as managed; else its files.

    Args:
        uri: Of the table's root.
        open_files: As of ``ManagedTable.log_store``.

    Raises:
        InvalidCatalogError: As ``ManagedTable.log_store``, or the settings are wrong.
    """
    table = _remembered(uri)
    return open_files({}) if table is None else table.log_store(open_files, settings_of_environment())


def _remembered(uri: str) -> ManagedTable | None:
    return _known.get(plain_location(uri)) if _known else None


def vended_options(uri: str) -> Mapping[str, str]:
    """The storage options that the catalog of the environment gives for the root of a table; empty where it gives none."""
    table = _remembered(uri)
    credentials = None if table is None else table.credentials(settings_of_environment())
    return {} if credentials is None else credentials()


def vended_with(uri: str, options: Mapping[str, Any] | None, vended: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Storage options with what a catalog vends in the place of their keys; the options themselves where it vends nothing.

    Args:
        uri: Where they are for.
        options: Those that were given; without any, those of the environment, which may say where the storage is.
        vended: What the catalog vends.
    """
    if not vended:
        return options
    location = ObjectLocation.from_uri(uri)
    return {**(options or (ambient_options(location) if location else {})), **vended}


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
