"""A table's metadata and protocol after a change: column ids given, features listed, everything checked."""

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
"""Where rewritten files keep the ids and versions of their rows: names that no column of a user has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What a table is, and what readers and writers must know for it."""

    metadata: Metadata
    protocol: Protocol

    @property
    def schema(self) -> StructType:
        """The columns as the log has them."""
        return parse_schema(self.metadata.schema_string)

    @property
    def columns(self) -> StructType:
        """The columns; ids and physical names only where column mapping is on."""
        return columns_of(self.metadata, self.protocol)


def new_definition(
    table: str,
    metadata: Metadata,
    wanted: RequestedProperties,
    *,
    features: Iterable[str] = (),
    replaced: Definition | None = None,
) -> Definition:
    """A table that is made as ``metadata`` says.

    Args:
        table: URI of the table, for the errors.
        metadata: The columns as the user gives them; ids from another table are ignored.
        wanted: What the properties require beside ``metadata.configuration``.
        features: What else the table needs.
        replaced: The table at this place before; its protocol only grows, and its column ids are not used again.

    Raises:
        InvalidTableDefinitionError: No table can be like this.
        IcebergCompatError: It cannot be read as an Iceberg table, as a property says.
        UnsupportedWriterFeatureError: It needs what is not known here.
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
    """The table ``before`` with other metadata.

    Raises:
        Refusal: Column mapping cannot change like this.
        InvalidTableDefinitionError: No table can be like this.
        IcebergCompatError: It could not be read as an Iceberg table, as a property says.
        UnsupportedWriterFeatureError: It needs what is not known here.
    """
    metadata = _mapped(before, metadata)
    check_definition(table, metadata, before.metadata)
    protocol = _protocol(table, before.protocol, metadata, wanted or RequestedProperties(), features)
    check_iceberg_change(table, metadata, before.metadata)
    check_iceberg_compat(table, metadata, protocol, before.metadata)
    return Definition(metadata=metadata, protocol=protocol)


def with_row_tracking_columns(configuration: Mapping[str, str]) -> dict[str, str]:
    """The properties, with names for the hidden columns of row tracking where it is enabled.

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
    """The metadata, in which new columns have ids and physical names if the table maps columns.

    Where the mapping is switched on, the columns that are there keep their names as physical names: data files have them,
    whatever ids and physical names another table has left in the schema.
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
    """What Iceberg compatibility asks of ids and physical names, as ``with_column_mapping`` takes it."""
    return {"number_names": numbers_physical_names(configuration), "nested": needs_nested_ids(configuration)}
