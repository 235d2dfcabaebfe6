"""What a catalog holds about a table, what it should hold, and how the two differ."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from airflow_delta.catalogs.errors import InvalidTableNameError
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.foreign_values import json_value
from airflow_delta.core.schema import StructType, parse_schema, without_column_mapping
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.storage.table_uri import is_relative, local_path, scheme_of
from airflow_delta.core.table_features.feature import reader_features, writer_features

DELTA = "delta"
_LONGEST_LOCATION = 4_096
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LOCAL = re.compile(r"file:/", re.IGNORECASE)
_RESERVED = re.compile(
    r"(spark\.sql|airflow_delta)\..*|delta\.(lastUpdateVersion|lastCommitTimestamp|minReaderVersion|minWriterVersion|feature\..*)"
    r"|comment|path|owner|table_type|classification|transient_lastDdlTime|EXTERNAL"
)
"""Properties that would have a meaning in a catalog; if a table has them itself, they are not published."""

Difference = Literal["missing", "location", "table", "schema", "partitioning", "properties", "comment"]
"""What differs between an entry and its table; ``table`` means that the entry has another table's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDescription:
    """The description of a table that is published in a catalog.

    Attributes:
        location: URI of its root.
        table_id: The table's id in its Delta metadata.
        schema: The table's columns, without the ids and physical names of column mapping.
        version: The described version; it does not replace a later version of the same table in a catalog.
        timestamp: When the version was committed, in milliseconds since the epoch.
        properties: The table's properties, without those that would have another meaning in a catalog.
    """

    location: str
    table_id: str
    schema: StructType
    version: int
    timestamp: int = 0
    partition_columns: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    min_reader_version: int = 1
    min_writer_version: int = 2
    reader_features: tuple[str, ...] = ()
    writer_features: tuple[str, ...] = ()

    @classmethod
    def of(cls, snapshot: Snapshot) -> TableDescription:
        """The description of a version."""
        metadata, protocol = snapshot.metadata, snapshot.protocol
        return cls(
            location=snapshot.table_uri,
            table_id=metadata.id,
            schema=without_column_mapping(snapshot.schema),
            version=snapshot.version,
            timestamp=snapshot.timestamp,
            partition_columns=metadata.partition_columns,
            properties={key: value for key, value in metadata.configuration.items() if not _RESERVED.fullmatch(key)},
            comment=metadata.description,
            min_reader_version=protocol.min_reader_version,
            min_writer_version=protocol.min_writer_version,
            reader_features=tuple(sorted(reader_features(protocol))) if protocol.reader_features is not None else (),
            writer_features=tuple(sorted(writer_features(protocol))) if protocol.writer_features is not None else (),
        )

    @property
    def location_uri(self) -> str:
        """The location with a scheme; without one, other engines would look in their default filesystem."""
        return f"file://{self.location}" if self.location.startswith("/") else self.location

    def to_json(self) -> dict[str, Any]:
        """The description without its schema, which a job's result holds separately."""
        return {member.name: json_value(getattr(self, member.name)) for member in fields(self) if member.name != "schema"}

    @classmethod
    def from_json(cls, document: Mapping[str, Any], schema_string: str | None) -> TableDescription:
        """The description that ``to_json`` wrote.

        Raises:
            ValueError: The document is not a description.
            InvalidSchemaError: The schema cannot be read.
        """
        known = {member.name for member in fields(cls)}
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in document.items() if name in known
        }
        if schema_string is None or not {"location", "table_id", "version"} <= given.keys():
            raise ValueError("the result does not describe its table")
        return cls(**given, schema=without_column_mapping(parse_schema(schema_string)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """A table as a catalog has it.

    Attributes:
        location: URI of the table's root, or path of a local one; for a table whose commits the catalog ratifies, exactly as
            the catalog has it. Empty for entries without a location, such as views.
        provider: ``delta`` for a Delta table.
        table_id: Id of the Delta table that was published; None if the publisher did not write it.
        schema: The published schema; None if the catalog does not hold it, as other engines leave it to the log.
        version: The version that was published; None if unknown.
        is_managed: Whether the catalog owns the files, and deletes them with the name.
        managed_id: The catalog's id of a table whose commits it ratifies; None if commits are made in the table's log alone.

    Raises:
        InvalidTableNameError: The location of a Delta table is not an absolute URI.
    """

    name: TableName
    location: str
    provider: str
    table_id: str | None = None
    schema: StructType | None = None
    version: int | None = None
    partition_columns: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    is_managed: bool = False
    managed_id: str | None = None

    def __post_init__(self) -> None:
        is_bad = len(self.location) > _LONGEST_LOCATION or _CONTROL.search(self.location)
        if self.provider == DELTA and (is_bad or not self.location or is_relative(self.location)):
            detail = f"the catalog says it lies at {self.location[:100]!r}, which is no absolute URI"
            raise InvalidTableNameError(name=str(self.name), detail=detail)
        if self.managed_id is None:
            object.__setattr__(self, "location", without_file_scheme(self.location))

    @property
    def is_of_others(self) -> bool:
        """Whether another engine made the entry, so that it lacks the table's id; False for tables that the catalog owns."""
        return self.table_id is None and self.managed_id is None and not self.is_managed


def differences(entry: CatalogEntry | None, table: TableDescription) -> tuple[Difference, ...]:
    """What differs between an entry and its table; members that the catalog does not hold do not count."""
    if entry is None:
        return ("missing",)
    if entry.managed_id is not None:  # the catalog gets everything else from the commits that it ratifies
        return () if same_location(entry.location, table.location) else ("location",)
    found: dict[Difference, bool] = {
        "location": not same_location(entry.location, table.location),
        "table": entry.table_id not in {None, table.table_id},
        "schema": entry.schema is not None and entry.schema != table.schema,
        "partitioning": entry.schema is not None and entry.partition_columns != table.partition_columns,
        "properties": entry.table_id is not None and dict(entry.properties) != dict(table.properties),
        "comment": entry.table_id is not None and (entry.comment or None) != (table.comment or None),
    }
    return tuple(name for name, differs in found.items() if differs)


def same_location(one: str, other: str) -> bool:
    """Whether two URIs name the same location, regardless of the spelling of their schemes and of local paths."""
    return plain_location(one) == plain_location(other)


def without_file_scheme(location: str) -> str:
    """A local location as a path, so that a table is spelled the same before and after it is published, also in a retry."""
    return plain_location(location) if _LOCAL.match(location) else location


def plain_location(uri: str) -> str:
    """A normal form of a location, for comparisons only."""
    scheme = scheme_of(uri)
    if scheme == "file":
        return str(local_path(uri))
    spelled = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss"}.get(scheme, scheme)
    return f"{spelled}:{uri.partition(':')[2].rstrip('/')}"


def schema_or_none(text: str | None) -> StructType | None:
    """The schema that a catalog holds as text; None if it cannot be read, as any engine may have written it."""
    try:
        return without_column_mapping(parse_schema(text)) if text else None
    except (DeltaError, ValueError, RecursionError):
        return None
