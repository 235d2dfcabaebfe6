"""A table's metadata and protocol after a change: assigns column ids, lists features, and checks everything."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from airflow_delta.core.actions import Metadata, Protocol
from airflow_delta.core.errors import UnsupportedWriterFeatureError
from airflow_delta.core.schema import MappingMode, StructType, mapping_mode, parse_schema, schema_json, with_column_mapping
from airflow_delta.core.schema.column_mapping import MAX_ID_PROPERTY, greatest_id, without_column_mapping
from airflow_delta.core.table_changes.definition_rules import check_definition
from airflow_delta.core.table_changes.properties import RequestedProperties
from airflow_delta.core.table_changes.refusal import Refusal
from airflow_delta.core.table_features.feature import column_mapping_of, columns_of, writer_features
from airflow_delta.core.table_features.iceberg_compat import (
    needs_nested_ids,
    numbers_physical_names,
    with_implied_properties,
)
from airflow_delta.core.table_features.iceberg_rules import check_iceberg_change, check_iceberg_compat
from airflow_delta.core.table_features.protocol import NEW_TABLE, at_least, needed_features, upgraded, with_required
from airflow_delta.core.table_features.support import WRITABLE

ROW_TRACKING = "delta.enableRowTracking"
_MATERIALIZED = {
    "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-",
}
"""Prefixes of the hidden columns in which rewritten files keep row ids and versions; no user's column has such a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A table's metadata and protocol."""

    metadata: Metadata
    protocol: Protocol

    @property
    def schema(self) -> StructType:
        """The columns as in the log."""
        return parse_schema(self.metadata.schema_string)

    @property
    def columns(self) -> StructType:
        """The columns as readers see them; ids and physical names only if column mapping is on."""
        return columns_of(self.metadata, self.protocol)


def new_definition(
    table: str,
    metadata: Metadata,
    wanted: RequestedProperties,
    *,
    features: Iterable[str] = (),
    replaced: Definition | None = None,
) -> Definition:
    """The definition of a new table.

    Args:
        table: URI of the table, for errors.
        metadata: The metadata as the user gives it; column ids of another table are ignored.
        wanted: What the properties require in addition to ``metadata.configuration``.
        features: Other features that the table needs.
        replaced: The former table at this place; its protocol is never lowered, and its column ids are not reused.

    Raises:
        InvalidTableDefinitionError: The definition is invalid.
        IcebergCompatError: The table would violate the Iceberg compatibility that a property requires.
        UnsupportedWriterFeatureError: The table would need a feature that is not supported here.
    """
    schema = without_column_mapping(parse_schema(metadata.schema_string))
    configuration = with_implied_properties(metadata.configuration)
    if mapping_mode(configuration) is not MappingMode.NONE:
        schema, last = with_column_mapping(
            schema, max_id=greatest_id(replaced.metadata.configuration) if replaced else 0, **_ids_wanted(configuration)
        )
        configuration[MAX_ID_PROPERTY] = str(last)
    metadata = replace(metadata, schema_string=schema_json(schema), configuration=with_row_tracking_columns(configuration))
    basis = replaced.protocol if replaced else NEW_TABLE
    check_definition(table, metadata)
    protocol = _protocol(table, basis, metadata, wanted, features)
    check_iceberg_compat(table, metadata, protocol, replaced.metadata if replaced else None)
    return Definition(metadata=metadata, protocol=protocol)


def changed_definition(
    table: str,
    before: Definition,
    metadata: Metadata,
    wanted: RequestedProperties | None = None,
    *,
    features: Iterable[str] = (),
) -> Definition:
    """The definition ``before`` with other metadata.

    Raises:
        Refusal: Column mapping cannot be changed like this.
        InvalidTableDefinitionError: The definition is invalid.
        IcebergCompatError: The table would violate the Iceberg compatibility that a property requires.
        UnsupportedWriterFeatureError: The table would need a feature that is not supported here.
    """
    metadata = _mapped(before, metadata)
    check_definition(table, metadata, before.metadata)
    protocol = _protocol(table, before.protocol, metadata, wanted or RequestedProperties(), features)
    check_iceberg_change(table, metadata, before.metadata)
    check_iceberg_compat(table, metadata, protocol, before.metadata)
    return Definition(metadata=metadata, protocol=protocol)


def with_row_tracking_columns(configuration: Mapping[str, str]) -> dict[str, str]:
    """The properties, with names for the hidden columns of row tracking if it is enabled.

    Protocol: PROTOCOL.md, "Row Tracking", "Writer Requirements for Row Tracking".
    """
    if configuration.get(ROW_TRACKING, "").lower() != "true":
        return dict(configuration)
    names = {key: f"{prefix}{uuid.uuid4()}" for key, prefix in _MATERIALIZED.items() if key not in configuration}
    return {**configuration, **names}


def _protocol(
    table: str, protocol: Protocol, metadata: Metadata, wanted: RequestedProperties, features: Iterable[str]
) -> Protocol:
    supported = writer_features(protocol) | wanted.features
    by_metadata = (name for name in needed_features(metadata) if f"{name}-preview" not in supported)
    needed = with_required({*by_metadata, *wanted.features, *features})
    if unknown := needed - writer_features(protocol) - WRITABLE:
        raise UnsupportedWriterFeatureError(table=table, features=tuple(sorted(unknown)))
    return at_least(upgraded(protocol, needed), reader_version=wanted.reader_version, writer_version=wanted.writer_version)


def _mapped(definition: Definition, metadata: Metadata) -> Metadata:
    """The metadata, with ids and physical names for new columns if column mapping is on.

    When mapping is enabled, existing columns keep their names as physical names, as in the data files, whatever ids and
    physical names of another table are still in the schema.
    """
    before = definition.metadata
    old, new = column_mapping_of(before, definition.protocol), mapping_mode(metadata.configuration)
    if old is not new and (old, new) != (MappingMode.NONE, MappingMode.NAME):
        raise Refusal(
            f"delta.columnMapping.mode cannot change from {old} to {new}",
            "use none -> name on a table that exists; any mode when the table is created or replaced",
        )
    gets_nested_ids = needs_nested_ids(metadata.configuration) and not needs_nested_ids(before.configuration)
    is_same = old is new and metadata.schema_string == before.schema_string and not gets_nested_ids
    if new is MappingMode.NONE or is_same:
        return metadata
    schema = parse_schema(metadata.schema_string)
    schema, last = with_column_mapping(
        without_column_mapping(schema) if old is MappingMode.NONE else schema,
        max_id=greatest_id(before.configuration),
        keep_names=old is MappingMode.NONE,
        **_ids_wanted(metadata.configuration),
    )
    configuration = {**metadata.configuration, MAX_ID_PROPERTY: str(last)}
    return replace(metadata, schema_string=schema_json(schema), configuration=configuration)


def _ids_wanted(configuration: Mapping[str, str]) -> dict[str, bool]:
    """What Iceberg compatibility requires of ids and physical names, as arguments of ``with_column_mapping``."""
    return {"number_names": numbers_physical_names(configuration), "nested": needs_nested_ids(configuration)}
