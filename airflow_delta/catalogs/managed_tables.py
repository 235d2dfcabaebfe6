"""Tables whose commits a catalog ratifies: which ones this process knows, and how their logs are opened.

A connection, a script or the command line learns that a table is managed when it resolves the table's name; a job is told by
its spec. The catalog with its token is the connection's, or the one that the environment names: a spec holds no secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from airflow_delta.catalogs.entry import CatalogEntry, plain_location
from airflow_delta.catalogs.errors import InvalidCatalogError
from airflow_delta.catalogs.settings import VARIABLE, CatalogSettings, settings_of_environment
from airflow_delta.catalogs.unity_commits import UnityCommits
from airflow_delta.core.log.managed_log_store import ManagedLogStore
from airflow_delta.core.storage.log_store import LogStore

_known: dict[str, ManagedTable] = {}
"""The tables that this process opens by their locations, by ``plain_location``."""


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

    def log_store(self, files: LogStore, settings: CatalogSettings | None) -> LogStore:
        """The table's log, as its catalog ratifies it.

        Args:
            files: The table's files.
            settings: The catalog that has the table.

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
        return ManagedLogStore(files, commits)


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
    files: LogStore,
    known: Mapping[str, ManagedTable] = _known,
    settings: Callable[[], CatalogSettings | None] = settings_of_environment,
) -> LogStore:
    """The log of a table through its catalog, where one is known to manage it; else the files as they are.

    Args:
        files: The table's files.
        known: The managed tables, by ``plain_location``: those that the process remembers.
        settings: Gives the catalog that has them: the one that the environment names.

    Raises:
        InvalidCatalogError: As ``ManagedTable.log_store``, or the settings are wrong.
    """
    table = known.get(plain_location(files.table_uri)) if known else None
    return files if table is None else table.log_store(files, settings())


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
