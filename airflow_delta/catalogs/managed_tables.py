"""Tables whose commits a catalog ratifies: which ones this process knows, and how their logs are opened.

A connection, a script or the command line learns that a table is managed when it resolves the table's name; a job is told by
its spec. The catalog with its token is the connection's, or the one that the environment names: a spec holds no secret.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from typing import Any

from airflow_delta.catalogs.entry import CatalogEntry, plain_location
from airflow_delta.catalogs.errors import InvalidCatalogError
from airflow_delta.catalogs.settings import VARIABLE, CatalogSettings, open_unity, settings_of_environment
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.catalogs.unity_commits import UnityCommits
from airflow_delta.catalogs.vended_credentials import VENDED_NAMES, StorageCredential, VendedCredentials
from airflow_delta.core.log.managed_log_store import ManagedLogStore
from airflow_delta.core.storage.ambient_options import ambient_options
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.object_location import ObjectLocation
from airflow_delta.core.storage.renewed_options import Options, RenewedOptions, current_options

_MOST_TABLES = 1_000
_vended: dict[tuple[str | None, str | None, ManagedTable], VendedCredentials] = {}
"""Of the tables that were used last, by catalog, token and table: a new token, name or place has keys of its own."""
_vended_lock = threading.Lock()
_known: dict[str, ManagedTable] = {}
"""The tables that this process opens by their locations, by ``plain_location``."""


def _hide_nothing(_secret: str) -> None:
    """Airflow's workers alone mask what they log."""


def _others_do_not_ask(_table: ManagedTable) -> bool:
    """Spark alone has other processes."""
    return False


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
        self,
        open_files: OpenFiles,
        settings: CatalogSettings | None,
        *,
        hide: Callable[[str], Any] = _hide_nothing,
        others_ask: OthersAsk = _others_do_not_ask,
    ) -> LogStore:
        """The table's log, as its catalog ratifies it.

        Args:
            open_files: Opens the table's files, with what the catalog vends in the place of its keys (``vended_with``).
            settings: The catalog that has the table.
            hide: As of ``VendedCredentials``.
            others_ask: Whether the processes that this one sends work to ask for keys themselves, so that none are sent.

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
        return ManagedLogStore(open_files(self.vended_options(settings, hide=hide, others_ask=others_ask)), commits)

    def vended_options(
        self,
        settings: CatalogSettings | None,
        *,
        hide: Callable[[str], Any] = _hide_nothing,
        others_ask: OthersAsk = _others_do_not_ask,
    ) -> VendedOptions | None:
        """What the catalog vends for the table; None where it vends nothing. Arguments as of ``log_store``."""
        credentials = self.credentials(settings, hide=hide)
        if credentials is None:
            return None
        return VendedOptions(table=self, credentials=credentials, others_ask=others_ask(self))

    def credentials(
        self, settings: CatalogSettings | None, *, hide: Callable[[str], Any] = _hide_nothing
    ) -> VendedCredentials | None:
        """The storage options that the catalog gives for the table, one for the process; None where it gives none."""
        if settings is None or settings.type != "unity" or not settings.vends_credentials:
            return None
        key = (settings.uri, settings.credentials.get("token"), self)
        with _vended_lock:
            found = _vended.pop(key, None) or VendedCredentials(partial(_credential, self, settings), hide=hide)
            _vended[key] = found  # as the last one
            for unused in list(_vended)[: len(_vended) - _MOST_TABLES]:
                del _vended[unused]
        return found


def _credential(table: ManagedTable, settings: CatalogSettings) -> StorageCredential:
    return open_unity(settings).credential(TableName.parse(table.name), table.location)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VendedOptions:
    """The storage options that a catalog vends for a table, in whatever process they are called for.

    In the process that made them they are those of its catalog. In another one they are requested from the catalog that the
    environment names there; where it names none, they are those that were sent along, which nobody renews.

    Attributes:
        table: The table.
        credentials: Of this process; None in another one.
        others_ask: Whether other processes can ask: no key is sent to them then.
        sent: What was sent along.
    """

    table: ManagedTable
    credentials: VendedCredentials | None = field(default=None, repr=False)
    others_ask: bool = False
    sent: Options | None = field(default=None, repr=False)

    def __call__(self) -> Options:
        """Those that hold now.

        Raises:
            InvalidCatalogError: None were sent along, and the environment names no catalog that vends any.
            As ``VendedCredentials``.
        """
        credentials = self.credentials or self.table.credentials(settings_of_environment())
        if credentials is not None:
            return credentials()
        if self.sent is None:
            detail = (
                f"the keys of {self.table.name} are vended by Unity Catalog, which this process of Spark is to find in the "
                f"variable {VARIABLE}; set it for every executor as for the driver"
            )
            raise InvalidCatalogError(detail=detail)
        return self.sent

    def __reduce__(self) -> tuple[Callable[[ManagedTable, Options | None], VendedOptions], tuple[Any, ...]]:
        return _sent_along, (self.table, None if self.others_ask else dict(self()))


def _sent_along(table: ManagedTable, sent: Options | None) -> VendedOptions:
    return VendedOptions(table=table, others_ask=sent is None, sent=sent)


OpenFiles = Callable[[VendedOptions | None], LogStore]
OthersAsk = Callable[[ManagedTable], bool]


@dataclass(frozen=True, slots=True)
class _HeldToken:
    """Gives the token that it was made with; it can be pickled for a process of our own, and is not shown."""

    token: str = field(repr=False)

    def __call__(self) -> str:
        return self.token


def remember_managed(tables: Iterable[ManagedTable]) -> None:
    """Open these tables through their catalog from now on, wherever this process names them by their location."""
    _known.update({plain_location(table.location): table for table in tables})


def remember_entry(entry: CatalogEntry) -> None:
    """Open what a catalog has just said to be at a location as it says: through the catalog, or by its files again."""
    table = ManagedTable.of(entry)
    if table is None:
        _known.pop(plain_location(entry.location), None)
    else:
        remember_managed([table])


def opened_through_catalog(
    uri: str,
    open_files: OpenFiles,
    *,
    others_ask: OthersAsk = _others_do_not_ask,
) -> LogStore:
    """The log of a table through the catalog of the environment, where this process knows it as managed; else its files.

    Args:
        uri: Of the table's root.
        open_files: As of ``ManagedTable.log_store``.
        others_ask: As of it.

    Raises:
        InvalidCatalogError: As ``ManagedTable.log_store``, or the settings are wrong.
    """
    table = _remembered(uri)
    if table is None:
        return open_files(None)
    return table.log_store(open_files, settings_of_environment(), others_ask=others_ask)


def _remembered(uri: str) -> ManagedTable | None:
    return _known.get(plain_location(uri)) if _known else None


def vended_options(uri: str) -> VendedOptions | None:
    """What the catalog of the environment vends for the root of a table; None where it vends nothing."""
    table = _remembered(uri)
    return None if table is None else table.vended_options(settings_of_environment())


def vended_with(uri: str, options: Options | None, vended: Callable[[], Options] | None) -> Options | None:
    """Storage options with what a catalog vends in the place of their keys; the options themselves where it vends nothing.

    Args:
        uri: Where they are for.
        options: Those that were given; without any, those of the environment, which may say where the storage is.
        vended: What the catalog vends, at each moment.
    """
    if vended is None:
        return options
    location = ObjectLocation.from_uri(uri)
    given = current_options(options) if options is not None else {}
    given = given or (ambient_options(location) if location else {})
    return RenewedOptions(vended, {name: value for name, value in given.items() if name not in VENDED_NAMES})


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
