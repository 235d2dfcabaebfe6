"""The hook of a ``delta`` connection: where tables are, and how they are accessed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook, conf, mask_secret

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements.created_tables import created_tables
from airflow_delta.core.statements.fields import converted_value, shortened
from airflow_delta.core.statements.json_form import map_queries, map_tables
from airflow_delta.core.statements.validation import require_type
from airflow_delta.core.storage.ambient_options import account_of, are_for, parsed_prefixes
from airflow_delta.core.storage.object_filesystem import secrets_of
from airflow_delta.core.storage.object_location import ObjectLocation, ObjectService
from airflow_delta.core.storage.table_uri import absolute, is_relative, scheme_of, without_dots
from airflow_delta.hooks.errors import DeltaConnectionError, TablesNotVisibleError
from airflow_delta.hooks.named_place import checked_place
from airflow_delta.hooks.storage_connection import extra_of, options_of_connection

if TYPE_CHECKING:
    from airflow_delta.catalogs.catalog import Catalog
    from airflow_delta.catalogs.managed_tables import ManagedTable, VendedOptions
    from airflow_delta.catalogs.settings import CatalogSettings
    from airflow_delta.catalogs.table_name import TableName
    from airflow_delta.core.delta_log import DeltaLog
    from airflow_delta.core.storage.log_store import LogStore

Value = TypeVar("Value")

_QUOTED_PATH = re.compile(r"delta\.`([^`]*/[^`]*)`", re.IGNORECASE)


class DeltaHook(BaseHook):
    """The tables of one ``delta`` connection.

    The connection's host is the table root, below which tables with relative paths lie. Its extra may hold:

    * ``storage_conn_id``: the connection of the object store, of the type ``aws``, ``google_cloud_platform``, ``wasb``,
      ``adls`` or ``azure_data_lake``; without it the identity of the machine is used.
    * ``storage_options``: more options of the store's fsspec filesystem, as an object. No secrets.
    * ``allowed_prefixes``: a list of locations outside of a table's root from which it may read files, as shallow clones made
      by other engines need.
    * ``scratch_uri``: where jobs leave their results.
    * ``catalog``: the catalog in which tables have names: ``glue``, or an object with ``type``, ``uri`` and so on. With a
      catalog, ``schema.table`` is a name wherever a table is given; without one, it is a relative path.
    * ``workers_see_tables``: false where only Spark has access to the tables. Then only jobs read tables, ``scratch_uri`` is
      required, and everything that reads a table in the worker (sensors, ``engine="worker"``) is refused.

    Args:
        delta_conn_id: The connection. If ``delta_default`` does not exist, tables are given by full URIs and read with ambient
            credentials.
    """

    conn_name_attr = "delta_conn_id"
    default_conn_name = "delta_default"
    conn_type = "delta"
    hook_name = "Delta Lake"

    def __init__(self, delta_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.delta_conn_id = delta_conn_id
        self._managed: dict[str, ManagedTable] = {}
        self._resolved: dict[str, str] = {}

    @cached_property
    def _connection(self) -> Any:
        try:
            found = self.get_connection(self.delta_conn_id)
        except AirflowNotFoundException:
            if self.delta_conn_id != self.default_conn_name:
                raise self._error(
                    "expected a connection of this name in Airflow, found none",
                    f"create it, for example: airflow connections add {self.delta_conn_id} --conn-json "
                    '\'{"conn_type": "delta", "host": "s3://lake", "extra": {"storage_conn_id": "aws_default"}}\'',
                ) from None
            return None
        if found.conn_type not in {None, "", self.conn_type}:  # the keys of an object store would silently go unused
            raise self._error(
                f"expected the type {self.conn_type}, found {found.conn_type}",
                f"create one of that type; {self.delta_conn_id} is its storage_conn_id where it has the keys of a store",
            )
        return found

    @cached_property
    def _extra(self) -> Mapping[str, Any]:
        return {} if self._connection is None else extra_of(self._connection)

    @cached_property
    def table_root(self) -> str | None:
        """URI below which tables with relative paths lie; None if the connection has no host."""
        root = checked_place(self.delta_conn_id, "the host (table root)", self._connection.host if self._connection else None)
        return root.rstrip("/") if root else None

    def table_uri(self, table: str) -> str:
        """The URI of a table: as given, as the catalog has it, or below the table root for a relative path.

        Raises:
            InvalidStatementError: The table is not a string, or is a path written as in SQL, with ``delta.`` and backquotes.
            RelativePathError: The path is relative, and the connection has no table root; or it is ``None``, which a template
                without a value renders to, and which would be taken for a table of that name.
            DeltaConnectionError: The connection is missing, or its table root is a relative path.
            TableNameNotFoundError: The catalog does not have the name. The other errors of ``catalogs.errors`` are raised, too.
        """
        require_type("the URI of a table", "table", table, str)
        if (quoted := _QUOTED_PATH.fullmatch(table)) is not None:  # would be taken for a relative path
            detail = f"{shortened(table)} is how SQL texts name a path; write {quoted[1]}"
            raise InvalidStatementError(statement="the URI of a table", detail=detail)
        name = self.table_name(table)
        if name is not None:
            return self._location(name, may_be_new=False)
        if table == "None":
            return absolute(table, "no table has that name")
        if self.table_root and table.strip() and is_relative(table):
            return "/".join(filter(None, (self.table_root, without_dots(table))))
        uri = absolute(table, f"the connection {self.delta_conn_id!r} has no table root")
        return without_dots(uri) if scheme_of(uri) == "file" else uri

    def resolve_table_uris(self, statement: Value, known: Mapping[str, str] | None = None) -> Value:
        """The statement with each table name in it replaced by its URI; tables that it creates need not be in the catalog yet.

        Names of the catalog ``spark`` stay: only the job can resolve them. Tables that a query names become views of the query.

        Args:
            statement: The statement.
            known: URIs by name, from when the statement's job was started: these names keep their URIs, and names in queries
                are not looked up again, because the job already has its views.
        """
        if known is None:
            statement = self._with_named_views(statement)
        new = created_tables(statement)

        def uri(table: str) -> str:
            name = self.table_name(table)
            if name is not None and self.has_session_catalog:
                return str(name)
            return self.table_uri(table) if name is None else self._location(name, may_be_new=table in new)

        def noted(table: str) -> str:
            self._resolved[table] = known[table] if known and table in known else uri(table)
            return self._resolved[table]

        resolved: Value = map_tables(statement, noted)
        return resolved

    @property
    def resolved_tables(self) -> Mapping[str, str]:
        """URIs by the names that they replaced in statements, including names in queries."""
        return dict(self._resolved)

    @cached_property
    def catalog(self) -> Catalog | None:
        """The catalog of the connection; None without one. Raises ``InvalidCatalogError``."""
        from airflow_delta.catalogs.settings import open_catalog

        return None if self.catalog_settings is None else open_catalog(self.catalog_settings)

    @cached_property
    def catalog_settings(self) -> CatalogSettings | None:
        """How the catalog is reached, with credentials: never show or send it. Raises ``InvalidCatalogError``."""
        from airflow_delta.hooks.catalog_connection import catalog_settings

        configured = self._extra.get("catalog")
        if not configured:
            return None
        try:
            settings = catalog_settings(configured, self.get_connection, self._extra.get("storage_conn_id"))
        except AirflowNotFoundException as error:
            raise self._error(f"catalog names a connection: {error}", "create it, or correct conn_id in catalog") from None
        for secret in settings.credentials.values():
            mask_secret(secret)
        return settings

    @property
    def catalog_label(self) -> str:
        """The label of the catalog in results; empty without a catalog."""
        if self.has_session_catalog:
            return "spark"
        return "" if self.catalog is None else self.catalog.label

    @property
    def has_session_catalog(self) -> bool:
        """Whether the catalog is ``spark``: only the Spark session of a job can then resolve names and publish under them."""
        from airflow_delta.catalogs.settings import CatalogSettings

        configured = self._extra.get("catalog")
        return bool(configured) and CatalogSettings.document(configured).get("type") == "spark"

    def table_name(self, table: str) -> TableName | None:
        """The text as a name in the connection's catalog; None for a path, or without a catalog.

        Raises:
            InvalidTableNameError: The text is neither a path nor a name.
        """
        from airflow_delta.catalogs.table_name import TableName, is_path

        return TableName.parse(table) if self._extra.get("catalog") and not is_path(table) else None

    def is_session_name(self, table: str) -> bool:
        """Whether a text is a name that only a job can resolve. Raises ``InvalidTableNameError``."""
        return self.has_session_catalog and self.table_name(table) is not None

    def delta_table_named(self, parts: tuple[str, ...]) -> str | None:
        """The name of a table in a query, joined from its parts; None if the catalog has no Delta table of that name.

        Names without a Delta table are left to Spark. Raises the errors of ``catalogs.errors`` if the catalog cannot be asked.
        """
        from airflow_delta.catalogs.entry import DELTA
        from airflow_delta.catalogs.errors import InvalidTableNameError
        from airflow_delta.catalogs.table_name import TableName

        if self.has_session_catalog or self.catalog is None:
            return None
        try:
            name = TableName(*reversed(parts))
            entry = self.catalog.find(name)
        except InvalidTableNameError:  # a name in another of Spark's catalogs
            return None
        return str(name) if entry is not None and entry.provider == DELTA else None

    def _with_named_views(self, statement: Value) -> Value:
        if not self._extra.get("catalog") or self.has_session_catalog:
            return statement
        from airflow_delta.core.sql_text import with_named_views

        found: Value = map_queries(statement, lambda source: with_named_views(source, self.delta_table_named))
        return found

    def name_in_catalog(self, text: str) -> TableName:
        """The text as a name in the connection's catalog; anything else is an error.

        Raises:
            DeltaConnectionError: The text is a path, the connection has no catalog, or only jobs can resolve its names.
            InvalidTableNameError: The text is neither a path nor a name.
        """
        if self.is_session_name(text):
            detail = f"only jobs know {text[:100]}, a name of the catalog spark, and this task needs it in the worker"
            raise self._error(detail, "use a connection that names the catalog behind the session, such as hive")
        name = self.table_name(text)
        if name is None and not self._extra.get("catalog"):
            detail = f"expected a catalog that has the name {text[:100]!r}, found none"
            raise self._error(detail, "name the catalog in the connection's extra")
        if name is None:
            raise self._error(f"expected the name of a table in a catalog, found {text[:100]!r}", "write it as schema.table")
        return name

    def _location(self, name: TableName, *, may_be_new: bool) -> str:
        """The location of a name's table; a new table goes below its schema's location, or else below the table root."""
        from airflow_delta.catalogs.catalog import resolve
        from airflow_delta.catalogs.entry import plain_location, without_file_scheme
        from airflow_delta.catalogs.errors import TableNameNotFoundError
        from airflow_delta.catalogs.managed_tables import ManagedTable

        assert self.catalog is not None  # noqa: S101 - or there would be no names
        try:
            entry = resolve(self.catalog, name)
        except TableNameNotFoundError:
            if not may_be_new:
                raise
        else:
            self._managed.pop(plain_location(entry.location), None)  # another table may have been there before
            self.remember_managed(filter(None, [ManagedTable.of(entry)]))
            return entry.location
        below_root = None if self.table_root is None else f"{self.table_root}/{self._folder(name)}/{name.table}"
        location = self.catalog.default_location(name) or below_root
        if location is None:
            detail = f"the schema of the new table {name} has no location"
            raise self._error(detail, "set the table root (the host) of the connection, below which it is created")
        return without_file_scheme(location)

    def _folder(self, name: TableName) -> str:
        """The folder of a schema below the table root; schemas of the same name in two Unity catalogs get different folders."""
        settings = self.catalog_settings
        own = settings.name if settings is not None and settings.type == "unity" else name.catalog
        is_own = name.catalog is None or name.catalog.lower() == (own or "").lower()
        return name.schema if is_own else f"{name.catalog}.{name.schema}"

    @property
    def managed_tables(self) -> tuple[ManagedTable, ...]:
        """Tables, among those that this hook has resolved, whose commits their catalog ratifies; they are opened through it."""
        return tuple(self._managed.values())

    def remember_managed(self, tables: Iterable[ManagedTable]) -> None:
        """From now on, open these tables through their catalog, too, if they are given by their locations."""
        from airflow_delta.catalogs.entry import plain_location

        self._managed |= {plain_location(table.location): table for table in tables}

    @property
    def scratch_uri(self) -> str | None:
        """URI of the location for job results; None if the connection has none."""
        return checked_place(self.delta_conn_id, "scratch_uri", self._extra.get("scratch_uri"))

    @cached_property
    def allowed_prefixes(self) -> tuple[str, ...]:
        """URIs of locations outside of a table's root from which it may read files."""
        try:
            return parsed_prefixes(self._extra.get("allowed_prefixes") or [], "allowed_prefixes")
        except InvalidStatementError:
            raise self._error("allowed_prefixes is not a list of URIs", 'write it as ["s3://lake/flights/"]') from None

    @property
    def workers_see_tables(self) -> bool:
        """Whether Airflow's workers have access to the tables: as set by the connection, or else by ``[delta]``."""
        configured = self._extra.get("workers_see_tables")
        if configured in (None, ""):
            return conf.getboolean("delta", "workers_see_tables", fallback=True)
        try:
            return bool(converted_value("delta", "workers_see_tables", configured, bool))
        except InvalidStatementError as error:
            raise self._error(error.detail, "write it as true or false") from None

    @cached_property
    def _storage(self) -> tuple[ObjectService | None, Mapping[str, Any]]:
        """The service that the options are for (None: any), and the options."""
        root = ObjectLocation.from_uri(self.table_root) if self.table_root else None
        service, options = self._storage_connection or (root.service if root else None, {})
        options = _merged(options, self._own_options)
        if options and root and root.account and account_of(options) is None:
            options["account_name"] = root.account  # or they would be sent to any account
        for secret in secrets_of(options):
            mask_secret(secret)
        return service, options

    @property
    def _storage_connection(self) -> tuple[ObjectService, Mapping[str, Any]] | None:
        conn_id = self._extra.get("storage_conn_id")
        try:
            return options_of_connection(self.get_connection(conn_id)) if conn_id else None
        except AirflowNotFoundException:
            raise self._error(
                f"storage_conn_id names the connection {conn_id!r}, which does not exist",
                f"create the connection {conn_id}, or correct storage_conn_id",
            ) from None

    @property
    def _own_options(self) -> Mapping[str, Any]:
        own = self._extra.get("storage_options") or {}
        try:
            own = json.loads(own) if isinstance(own, str) else own
        except ValueError:
            own = None
        if not isinstance(own, Mapping):  # never shown: it may hold a secret
            raise self._error("storage_options is not a JSON object", 'write it as {"endpoint_url": "https://..."}')
        return own

    def storage_options(self, uri: str) -> Mapping[str, Any] | None:
        """Credentials and endpoint of the store of a table or file, as fsspec takes them; None for the ambient ones.

        For the root of a table whose catalog vends credentials, these are the vended ones, renewed before they expire. The
        options hold secrets: never show or send them.
        """
        own, table = self._own_storage_options(uri), self._managed_at(uri)
        if table is None:
            return own
        from airflow_delta.catalogs.managed_tables import vended_with

        return vended_with(uri, own, table.vended_options(self.catalog_settings, hide=mask_secret))

    def _own_storage_options(self, uri: str) -> Mapping[str, Any] | None:
        """The storage options of the connection; None if they are for another location."""
        location = ObjectLocation.from_uri(uri)
        service, options = self._storage
        is_ours = location is not None and service in {None, location.service} and are_for(options, location)
        return options if is_ours and options else None

    @property
    def storage_options_by_service(self) -> Mapping[ObjectService, Mapping[str, Any]]:
        """All storage options by the service they are for; empty when the ambient ones are used. They hold secrets."""
        service, options = self._storage
        return dict.fromkeys(ObjectService if service is None else [service], options) if options else {}

    def log_store(self, table: str) -> LogStore:
        """The files of a table; for one that a catalog manages, also the commits that the catalog has ratified.

        Raises as ``log_store_for``, and ``TablesNotVisibleError``.
        """
        from airflow_delta.core.storage.resolve import log_store_for

        uri = self.table_uri(table)
        if not self.workers_see_tables:
            raise TablesNotVisibleError(conn_id=self.delta_conn_id, table=uri)
        managed = self._managed_at(uri)
        if managed is None:
            return log_store_for(uri, self.storage_options(uri), self.allowed_prefixes)
        from airflow_delta.catalogs.managed_tables import vended_with

        def open_files(vended: VendedOptions | None) -> LogStore:
            return log_store_for(uri, vended_with(uri, self._own_storage_options(uri), vended), self.allowed_prefixes)

        return managed.log_store(open_files, self.catalog_settings, hide=mask_secret)

    def _managed_at(self, uri: str) -> ManagedTable | None:
        """The managed table with this root; None if this hook has resolved no such table."""
        from airflow_delta.catalogs.entry import plain_location

        return self._managed.get(plain_location(uri)) if self._managed else None

    def delta_log(self, table: str) -> DeltaLog:
        """The log of a table. Raises as ``DeltaLog.for_table``, and ``TablesNotVisibleError``."""
        from airflow_delta.core.delta_log import DeltaLog

        return DeltaLog(self.log_store(table))

    def test_connection(self) -> tuple[bool, str]:
        """List the locations that the connection names; nothing is written."""
        places = {"table root": self.table_root if self.workers_see_tables else None, "scratch location": self.scratch_uri}
        reached = [f"the {name} {uri} can be listed" for name, uri in places.items() if uri and self._answers(uri)]
        return True, ", ".join(reached) or "nothing to test: workers have no access to tables"

    def _answers(self, uri: str) -> bool:
        from airflow_delta.core.storage.resolve import log_store_for

        next(log_store_for(uri, self.storage_options(uri)).list_from(""), None)
        return True

    def _error(self, detail: str, cure: str) -> DeltaConnectionError:
        return DeltaConnectionError(conn_id=self.delta_conn_id, detail=detail, cure=cure)


def _merged(options: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Both mappings merged; ``more`` wins, also inside objects such as ``client_kwargs``."""
    both = {
        name: {**options[name], **value} if isinstance(value, Mapping) and isinstance(options.get(name), Mapping) else value
        for name, value in more.items()
    }
    return {**options, **both}
