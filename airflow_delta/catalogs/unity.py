"""Unity Catalog, through its REST API for Delta tables: "UC Delta API" 1.0, ``api/delta.yaml`` of unitycatalog."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlsplit

import urllib3

from airflow_delta.catalogs.bearer_token import authorization, is_safe_server
from airflow_delta.catalogs.bounded_call import within
from airflow_delta.catalogs.entry import DELTA, CatalogEntry, TableDescription, same_location, schema_or_none
from airflow_delta.catalogs.errors import (
    CatalogAccessDeniedError,
    CatalogRequestError,
    CatalogUnavailableError,
    InvalidCatalogError,
    NotADeltaTableError,
    TableNameNotFoundError,
    TableNameTakenError,
)
from airflow_delta.catalogs.spark_form import TABLE_ID
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.catalogs.vended_credentials import StorageCredential, credential_for
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.foreign_values import natural_number, text_members
from airflow_delta.core.schema import StructType, schema_json
from airflow_delta.core.table_features.feature import (
    CATALOG_MANAGED,
    FEATURES,
    FEATURES_READER_VERSION,
    FEATURES_WRITER_VERSION,
)

_ROOT = "/api/2.1/unity-catalog/delta/v1"
_WITHOUT_SCHEMA = {"NoSuchCatalogException", "NoSuchSchemaException"}
_PASSING = {HTTPStatus.TOO_MANY_REQUESTS, *range(500, 600)}
_MOST_BYTES = 64 * 1024 * 1024
_FEATURE = "delta.feature."
_DERIVED = (_FEATURE, "delta.rowTracking.rowIdHighWaterMark", "delta.clusteringColumns")
_TYPES = {"elementType": "element-type", "containsNull": "contains-null", "keyType": "key-type", "valueType": "value-type"}
_TYPES |= {"valueContainsNull": "value-contains-null"}
_NAMES_IN_DELTA = {theirs: ours for ours, theirs in _TYPES.items()}


class UnityCatalog:
    """Unity Catalog as a catalog of external tables.

    Args:
        host: ``https://host``; with a token, ``http`` is only accepted for this machine.
        token: Bearer token; None for a server without authentication.
        catalog: The catalog of names that have two parts.
        principal: Owner of the token, for errors.
        timeout: Most seconds for a complete answer, including repeated requests.
    """

    label = "unity"

    def __init__(
        self,
        host: str,
        *,
        token: str | None = None,
        catalog: str | None = None,
        principal: str | None = None,
        timeout: float = 120.0,
    ) -> None:
        if not is_safe_server(host, has_token=bool(token)):  # never shown: it may hold a secret
            raise InvalidCatalogError(detail="expected the host of Unity Catalog as https://host; http for this machine alone")
        parts = urlsplit(host)
        self._host, self._catalog = f"{parts.scheme}://{parts.netloc}", catalog
        self._principal, self._timeout = principal or "the owner of the token", timeout
        try:
            self._headers = {"Accept": "application/json", **({"Authorization": authorization(token)} if token else {})}
        except ValueError as error:
            raise InvalidCatalogError(detail=str(error)) from None
        retry = urllib3.Retry(total=4, backoff_factor=0.3, status_forcelist=[429, 503], raise_on_status=False, redirect=0)
        self._pool = urllib3.PoolManager(timeout=urllib3.Timeout(connect=10, read=60), retries=retry)

    def find(self, name: TableName) -> CatalogEntry | None:
        """Unity Catalog's entry for a name."""
        found = self._loaded(name)
        if found is None:
            return None
        properties = text_members(found.get("properties"))
        columns = found.get("columns")
        partitioning = found.get("partition-columns") or []
        return CatalogEntry(
            name=name,
            location=str(found.get("location") or ""),
            provider=DELTA,
            table_id=properties.get(TABLE_ID),
            schema=_schema(columns),
            version=natural_number(found.get("last-commit-version")),
            partition_columns=tuple(map(str, partitioning)) if isinstance(partitioning, list) else (),
            properties={key: value for key, value in properties.items() if not _is_apart(key)},
            comment=properties.get("comment") or found.get("comment"),
            is_managed=found.get("table-type") == "MANAGED",
            managed_id=_managed_id(found, properties),
        )

    def credential(self, name: TableName, location: str) -> StorageCredential:
        """A temporary credential for the table's storage: for reading and writing or, if that is denied, for reading."""
        try:
            return self._credential(name, location, "READ_WRITE")
        except CatalogAccessDeniedError:
            return self._credential(name, location, "READ")

    def _credential(self, name: TableName, location: str, operation: str) -> StorageCredential:
        path = f"{self._path(name)}/credentials?operation={operation}"
        privilege = "SELECT" if operation == "READ" else "MODIFY"
        answer = self._request("GET", name, path, privilege=privilege)
        if answer is None:
            raise TableNameNotFoundError(catalog=self.label, name=str(name), detail="there are no credentials of it")
        try:
            return credential_for(location, answer.get("storage-credentials"))
        except ValueError as error:
            raise CatalogRequestError(catalog=self.label, name=str(name), detail=str(error)) from None

    def default_location(self, name: TableName) -> str | None:
        """None: Unity Catalog does not assign locations to external tables.

        Raises:
            TableNameNotFoundError: The schema does not exist.
        """
        self._request("GET", name, self._path(name), privilege="SELECT")
        return None

    def create(self, name: TableName, table: TableDescription) -> None:
        """Register the table as an external table."""
        body = {
            "location": table.location_uri,
            "columns": _columns(table),
            "partition-columns": list(table.partition_columns),
            "protocol": _protocol(table),
            "properties": {**table.properties, TABLE_ID: table.table_id},
            "last-commit-timestamp-ms": table.timestamp,
            **({"comment": table.comment} if table.comment else {}),
        }
        self._set_version(name, self._register(name, body), table)

    def _register(self, name: TableName, body: Mapping[str, Any]) -> Mapping[str, Any]:
        external = {"name": name.table, "table-type": "EXTERNAL", **body}
        answer = self._request("POST", name, self._schema_path(name), external, privilege="CREATE TABLE")
        return self._metadata(name, answer or {})

    def update(self, entry: CatalogEntry, table: TableDescription) -> None:
        """Update the table in Unity Catalog; if the location differs, the table is dropped and registered again."""
        name, found = entry.name, self._loaded(entry.name)
        if found is None:
            raise TableNameNotFoundError(catalog=self.label, name=str(name), detail="it was dropped meanwhile")
        if not same_location(entry.location, table.location):
            if found.get("table-type") != "EXTERNAL":
                raise TableNameTakenError(catalog=self.label, name=str(name), table=table.location, location=entry.location)
            self.drop(name)
            try:
                self.create(name, table)
            except DeltaError:
                with suppress(DeltaError):  # the error of the registration matters more
                    self._register(name, _registration(found))
                raise
            return
        self._set_version(name, found, table, *_updates(text_members(found.get("properties")), table))

    def drop(self, name: TableName) -> bool:
        """Remove the name. Unity Catalog deletes the files of a managed table with its name; those of other tables stay."""
        with suppress(TableNameNotFoundError):
            return self._request("DELETE", name, self._path(name), privilege="MANAGE") is not None
        return False

    def _set_version(self, name: TableName, loaded: Mapping[str, Any], table: TableDescription, *updates: Any) -> None:
        version = {
            "action": "update-metadata-snapshot-version",
            "last-commit-version": table.version,
            "last-commit-timestamp-ms": table.timestamp,
        }
        requirement = {"type": "assert-table-uuid", "uuid": loaded.get("table-uuid")}
        body = {"requirements": [requirement], "updates": [*updates, version]}
        if self._request("POST", name, self._path(name), body, privilege="MODIFY") is None:
            raise TableNameNotFoundError(catalog=self.label, name=str(name), detail="it was dropped meanwhile")

    def _loaded(self, name: TableName) -> Mapping[str, Any] | None:
        with suppress(TableNameNotFoundError):
            answer = self._request("GET", name, self._path(name), privilege="SELECT")
            return None if answer is None else self._metadata(name, answer)
        return None

    def _metadata(self, name: TableName, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        found = answer.get("metadata")
        if not isinstance(found, Mapping):
            raise CatalogRequestError(catalog=self.label, name=str(name), detail="its answer has no metadata")
        return found

    def _without_schema(self, name: TableName) -> TableNameNotFoundError:
        return TableNameNotFoundError.without_schema(self.label, str(name), f"{name.catalog or self._catalog}.{name.schema}")

    def _schema_path(self, name: TableName) -> str:
        catalog = name.catalog or self._catalog
        if catalog is None:
            detail = f"{name} names no catalog; write catalog.schema.table, or set name in the catalog's settings"
            raise InvalidCatalogError(detail=detail)
        return f"{_ROOT}/catalogs/{quote(catalog, safe='')}/schemas/{quote(name.schema, safe='')}/tables"

    def _path(self, name: TableName) -> str:
        return f"{self._schema_path(name)}/{quote(name.table, safe='')}"

    def _request(
        self, method: str, name: TableName, path: str, body: Mapping[str, Any] | None = None, *, privilege: str
    ) -> dict[str, Any] | None:
        """The answer as JSON; None if there is no such table. Raises ``TableNameNotFoundError`` if there is no such schema."""
        headers = self._headers | ({"Content-Type": "application/json"} if body is not None else {})
        content = None if body is None else json.dumps(body).encode()

        def exchange() -> tuple[int, bytes]:
            response = self._pool.request(
                method, self._host + path, headers=headers, body=content, redirect=False, preload_content=False
            )
            data = response.read(_MOST_BYTES + 1)
            response.release_conn()
            return response.status, data

        try:
            status, data = within(self._timeout, exchange)
        except (TimeoutError, urllib3.exceptions.HTTPError) as error:
            detail = f"{type(error).__name__} at {self._host}"  # without the error's text, which may repeat headers
            raise CatalogUnavailableError(catalog=self.label, name=str(name), detail=detail) from None
        document = _document(data) if len(data) <= _MOST_BYTES else None
        if status in {HTTPStatus.OK, HTTPStatus.NO_CONTENT}:
            return self._served(name, document)
        kind, message = _error(document or {})
        detail = message[:1_000] or f"status {status}"
        if status == HTTPStatus.NOT_FOUND and kind == "NoSuchTableException":
            return None
        if status == HTTPStatus.NOT_FOUND and kind in _WITHOUT_SCHEMA:
            raise self._without_schema(name)
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise CatalogAccessDeniedError(
                catalog=self.label, table=str(name), principal=self._principal, privilege=privilege, detail=detail
            )
        if kind == "AlreadyExistsException":
            raise TableNameTakenError(
                catalog=self.label, name=str(name), table=str((body or {}).get("location")), location="a place it did not say"
            )
        if kind == "UnsupportedTableFormatException":
            raise NotADeltaTableError(catalog=self.label, name=str(name), provider="another format")
        is_of_others = status == HTTPStatus.NOT_FOUND and not kind
        if is_of_others:
            detail = f"{detail} at {self._host} without an error of Unity Catalog, as of a proxy that has no server behind it"
        unavailable = status in _PASSING or is_of_others or kind == "UpdateRequirementConflictException"
        failure = CatalogUnavailableError if unavailable else CatalogRequestError
        raise failure(catalog=self.label, name=str(name), detail=f"{kind} {detail}".strip())

    def _served(self, name: TableName, document: dict[str, Any] | None) -> dict[str, Any]:
        if document is None:
            detail = f"its answer is not a JSON object of at most {_MOST_BYTES} bytes; it may be the page of a proxy"
            raise CatalogRequestError(catalog=self.label, name=str(name), detail=detail)
        return document


def _error(document: Mapping[str, Any]) -> tuple[str, str]:
    """The kind and the message of an error, in the form of this API or of Unity Catalog's other APIs; empty if missing.

    A server without this API answers in the form of the others.
    """
    found = document.get("error")
    said, kind = (found, "type") if isinstance(found, dict) else (document, "error_code")
    return str(said.get(kind) or ""), str(said.get("message") or "")


def _managed_id(found: Mapping[str, Any], properties: Mapping[str, str]) -> str | None:
    """The catalog's id of a table whose features say that it is committed to through the catalog; None for other tables."""
    is_managed = found.get("table-type") == "MANAGED" and any(f"delta.feature.{name}" in properties for name in CATALOG_MANAGED)
    table_id = found.get("table-uuid")
    return table_id if is_managed and isinstance(table_id, str) and table_id.strip() else None


def _updates(existing: Mapping[str, str], table: TableDescription) -> list[Mapping[str, Any]]:
    wanted = {**table.properties, TABLE_ID: table.table_id}
    removed = sorted(key for key in existing if key not in wanted and not _is_apart(key))
    return [
        {"action": "set-columns", "columns": _columns(table)},
        {"action": "set-partition-columns", "partition-columns": list(table.partition_columns)},
        {"action": "set-protocol", "protocol": _protocol(table)},
        {"action": "set-properties", "updates": wanted},
        *([{"action": "remove-properties", "removals": removed}] if removed else []),
        {"action": "set-table-comment", "comment": table.comment or ""},
    ]


def _registration(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """The request that registers a table again as it was found, except for the version that was published last."""
    properties = text_members(found.get("properties"))
    comment = properties.get("comment") or found.get("comment")
    readers, writers = (natural_number(properties.get(f"delta.min{kind}Version")) for kind in ("Reader", "Writer"))
    features = sorted(key.removeprefix(_FEATURE) for key in properties if key.startswith(_FEATURE))
    for_readers = [name for name in features if name in FEATURES and FEATURES[name].for_readers]
    return {
        "location": found.get("location"),
        "columns": found.get("columns"),
        "partition-columns": found.get("partition-columns") or [],
        "protocol": {
            "min-reader-version": readers or 1,
            "min-writer-version": writers or 2,
            **({"reader-features": for_readers} if readers == FEATURES_READER_VERSION else {}),
            **({"writer-features": features} if writers == FEATURES_WRITER_VERSION else {}),
        },
        "properties": {key: text for key, text in properties.items() if key != "comment" and not _is_derived(key)},
        "last-commit-timestamp-ms": natural_number(found.get("last-commit-timestamp-ms")) or 0,
        **({"comment": comment} if comment else {}),
    }


def _protocol(table: TableDescription) -> Mapping[str, Any]:
    return {
        "min-reader-version": table.min_reader_version,
        "min-writer-version": table.min_writer_version,
        **({"reader-features": list(table.reader_features)} if table.reader_features else {}),
        **({"writer-features": list(table.writer_features)} if table.writer_features else {}),
    }


def _columns(table: TableDescription) -> Any:
    return _renamed(json.loads(schema_json(table.schema)), _TYPES)


def _schema(columns: Any) -> StructType | None:
    """The schema from the columns of an answer; None if there are no columns, or they cannot be read."""
    try:
        return schema_or_none(json.dumps(_renamed(columns, _NAMES_IN_DELTA))) if columns else None
    except RecursionError:  # types nested too deeply
        return None


def _renamed(schema: Any, names: Mapping[str, str]) -> Any:
    """A schema's JSON with the members of types renamed; the metadata of columns is not changed."""
    match schema:
        case {"name": _, "type": kind}:
            return {**schema, "type": _renamed(kind, names)}
        case {"type": _}:
            return {names.get(key, key): _renamed(value, names) for key, value in schema.items()}
        case list():
            return [_renamed(member, names) for member in schema]
        case _:
            return schema


def _is_apart(key: str) -> bool:
    """Whether a key is not a property of the table itself."""
    return key in {TABLE_ID, "comment"} or _is_derived(key)


def _is_derived(key: str) -> bool:
    keys = {"delta.minReaderVersion", "delta.minWriterVersion", "delta.lastUpdateVersion", "delta.lastCommitTimestamp"}
    return key in keys or key.startswith(_DERIVED)


def _document(data: bytes) -> dict[str, Any] | None:
    """Parse a JSON object; empty for no content, None for anything else."""
    try:
        document = json.loads(data) if data.strip() else {}
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
