"""Managed tables, whose commits a catalog ratifies: which ones this process knows, and how their logs are opened.

Operators, scripts and the command line learn that a table is managed when they resolve its name; a job gets it from its spec.
The catalog and its token come from the connection or from the environment, because a spec must not hold secrets.
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
"""Vended credentials of the most recently used tables, by catalog URI, token and table."""
_vended_lock = threading.Lock()
_known: dict[str, ManagedTable] = {}
"""The managed tables that this process knows, by ``plain_location``."""


def _hide_nothing(_secret: str) -> None:
    """The default for ``hide``: only Airflow's workers mask secrets in their logs."""


def _others_do_not_ask(_table: ManagedTable) -> bool:
    """The default for ``others_ask``: only Spark has other processes."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedTable:
    """A table that is committed to through its catalog. Holds no secrets.

    Attributes:
        name: The table's name in the catalog.
        location: URI of the table's root, as the catalog has registered it.
        table_id: The catalog's id of the table.
    """

    name: str
    location: str
    table_id: str

    @classmethod
    def of(cls, entry: CatalogEntry) -> ManagedTable | None:
        """The managed table of an entry; None if the table is not managed."""
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
        """The table's log store, including the commits that the catalog has ratified.

        Args:
            open_files: Opens the table's files, given the options that the catalog vends, or None (see ``vended_with``).
            settings: Settings of the catalog that has the table.
            hide: As for ``VendedCredentials``.
            others_ask: Whether the processes to which this one sends work request credentials themselves, so that no
                credentials are sent to them.

        Raises:
            InvalidCatalogError: There is no catalog, or it does not manage tables.
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
        """The storage options that the catalog vends for the table, or None. The arguments are those of ``log_store``."""
        credentials = self.credentials(settings, hide=hide)
        if credentials is None:
            return None
        return VendedOptions(table=self, credentials=credentials, others_ask=others_ask(self))

    def credentials(
        self, settings: CatalogSettings | None, *, hide: Callable[[str], Any] = _hide_nothing
    ) -> VendedCredentials | None:
        """The table's vended credentials, shared within the process; None if the catalog vends no credentials."""
        if settings is None or settings.type != "unity" or not settings.vends_credentials:
            return None
        key = (settings.uri, settings.credentials.get("token"), self)
        with _vended_lock:
            found = _vended.pop(key, None) or VendedCredentials(partial(_credential, self, settings), hide=hide)
            _vended[key] = found  # most recently used
            for unused in list(_vended)[: len(_vended) - _MOST_TABLES]:
                del _vended[unused]
        return found


def _credential(table: ManagedTable, settings: CatalogSettings) -> StorageCredential:
    return open_unity(settings).credential(TableName.parse(table.name), table.location)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VendedOptions:
    """The storage options that a catalog vends for a table; can be pickled for other processes.

    In the process that made them, they come from its catalog. In another process, they are requested from the catalog in its
    environment; without one, the options that were sent along are used, and not renewed.

    Attributes:
        table: The table.
        credentials: The credentials in the process that made them; None in another process.
        others_ask: Whether other processes request credentials themselves; then no credentials are sent to them.
        sent: The options that were sent along; None if there are none.
    """

    table: ManagedTable
    credentials: VendedCredentials | None = field(default=None, repr=False)
    others_ask: bool = False
    sent: Options | None = field(default=None, repr=False)

    def __call__(self) -> Options:
        """The options that are valid now.

        Raises:
            InvalidCatalogError: No options were sent along, and the environment names no catalog that vends credentials.
            As ``VendedCredentials`` raises it.
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
    """Returns the token that it was made with. Can be pickled for this package's processes; not shown by ``repr``."""

    token: str = field(repr=False)

    def __call__(self) -> str:
        return self.token


def remember_managed(tables: Iterable[ManagedTable]) -> None:
    """From now on, open these tables through their catalog when this process opens them by location."""
    _known.update({plain_location(table.location): table for table in tables})


def remember_entry(entry: CatalogEntry) -> None:
    """From now on, open an entry's location as the entry says: through the catalog if the table is managed, else by files."""
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
    """The log store of a table: through the environment's catalog if this process knows it as managed, else its files.

    Args:
        uri: URI of the table's root.
        open_files: As for ``ManagedTable.log_store``.
        others_ask: As for ``ManagedTable.log_store``.

    Raises:
        InvalidCatalogError: As ``ManagedTable.log_store`` raises it, or the settings are invalid.
    """
    table = _remembered(uri)
    if table is None:
        return open_files(None)
    return table.log_store(open_files, settings_of_environment(), others_ask=others_ask)


def _remembered(uri: str) -> ManagedTable | None:
    return _known.get(plain_location(uri)) if _known else None


def vended_options(uri: str) -> VendedOptions | None:
    """The options that the environment's catalog vends for the root of a table; None if it vends no credentials."""
    table = _remembered(uri)
    return None if table is None else table.vended_options(settings_of_environment())


def vended_with(uri: str, options: Options | None, vended: Callable[[], Options] | None) -> Options | None:
    """Storage options with vended credentials instead of their keys; the options themselves if nothing is vended.

    Args:
        uri: URI that the options are for.
        options: The given options; None for those of the environment, which may name the endpoint of the storage.
        vended: Returns the options that the catalog vends, valid at the time of the call; None if nothing is vended.
    """
    if vended is None:
        return options
    location = ObjectLocation.from_uri(uri)
    given = current_options(options) if options is not None else {}
    given = given or (ambient_options(location) if location else {})
    return RenewedOptions(vended, {name: value for name, value in given.items() if name not in VENDED_NAMES})


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
