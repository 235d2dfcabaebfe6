"""The table state that a change is computed from, and the change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_delta.core.actions import DomainMetadata, Metadata, Protocol
from airflow_delta.core.schema import StructType, schema_json
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.table_changes.clustering import clustering_columns
from airflow_delta.core.table_changes.column_path import ColumnPath
from airflow_delta.core.table_changes.properties import RequestedProperties
from airflow_delta.core.table_features.feature import columns_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """The table before a change.

    Attributes:
        uri: URI of the table, for errors.
        schema: The columns; ids and physical names only if column mapping is on.
        domains: The metadata domains, by name.
    """

    uri: str
    metadata: Metadata
    protocol: Protocol
    schema: StructType
    domains: Mapping[str, DomainMetadata]

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot) -> TableState:
        """The table state of a snapshot."""
        return cls(
            uri=snapshot.table_uri,
            metadata=snapshot.metadata,
            protocol=snapshot.protocol,
            schema=columns_of(snapshot.metadata, snapshot.protocol),
            domains=snapshot.domains,
        )

    @property
    def configuration(self) -> Mapping[str, str]:
        """The table properties."""
        return self.metadata.configuration

    def is_on(self, name: str) -> bool:
        """Whether a property of the table is ``true``."""
        return self.configuration.get(name, "").lower() == "true"

    def clustering(self) -> tuple[ColumnPath, ...]:
        """The table's clustering columns. Raises ``CorruptLogError`` if the log cannot be read."""
        return clustering_columns(self.uri, self.schema, self.domains)

    def with_schema(self, schema: StructType) -> Metadata:
        """The table's metadata with these columns."""
        return replace(self.metadata, schema_string=schema_json(schema))

    def with_configuration(self, configuration: Mapping[str, str]) -> Metadata:
        """The table's metadata with these properties."""
        return replace(self.metadata, configuration=dict(configuration))


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The result of a change.

    Attributes:
        parameters: Parameters of the operation, as in Delta's history.
        metadata: The table's metadata after the change.
        wanted: What properties require in addition to the metadata.
        features: Other features that the table needs from now on.
        domains: Metadata domains to set.
    """

    metadata: Metadata
    parameters: Mapping[str, Any] = field(default_factory=dict)
    wanted: RequestedProperties = field(default_factory=RequestedProperties)
    features: Iterable[str] = ()
    domains: tuple[DomainMetadata, ...] = ()


Decision = Callable[[TableState], Change]
"""Computes a change, without I/O; raises ``Refusal`` if the table cannot be changed like that."""
