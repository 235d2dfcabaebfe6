"""Metadata changes that do not conflict with a commit computed before them.

Delta Spark has a similar list (``ConflictChecker.attemptToResolveMetadataConflicts``): enabled features that do not invalidate
what was written without them. Every other metadata change is a conflict.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from airflow_delta.core.actions import Metadata, Protocol
from airflow_delta.core.schema import StructType, parse_schema
from airflow_delta.core.schema.column_mapping import MappingMode, mapping_mode, without_column_mapping
from airflow_delta.core.table_features.feature import writer_features
from airflow_delta.core.transaction.in_commit_timestamps import ENABLED as TIMESTAMPS_ENABLED
from airflow_delta.core.transaction.in_commit_timestamps import ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION
from airflow_delta.core.transaction.row_tracking import ENABLED_PROPERTY as ROW_TRACKING_ENABLED
from airflow_delta.core.transaction.table_properties import protected_before

_IDENTITY_MARK = "delta.identity.highWaterMark"
_CHECKPOINT_PROTECTION = "checkpointProtection"
_PROTECTED_BEFORE = "delta.requireCheckpointProtectionBeforeVersion"


def is_harmless(before: Metadata, after: Metadata, protocol: Protocol, *, to_rearranged_rows: bool) -> bool:
    """Whether a commit computed with the metadata ``before`` is still valid with ``after``.

    Args:
        before: The metadata that the commit was computed with.
        after: The metadata after the winner's change.
        protocol: The table's protocol after the winner's change.
        to_rearranged_rows: Whether the commit changes no row: then only features, schema and partitioning matter.
    """
    if replace(before, configuration=after.configuration, schema_string=after.schema_string) != after:
        return False
    ours, theirs = before.configuration, after.configuration
    changed = {key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)}
    if not all(_PASSES[key](before, after, protocol) if key in _PASSES else to_rearranged_rows for key in changed):
        return False
    return before.schema_string == after.schema_string or _without_marks(before, after) == _without_marks(after, before)


def moved(metadata: Metadata, *, lost_version: int) -> Metadata:
    """The metadata, in which references to the version that the commit lost name the next version instead.

    Protocol: PROTOCOL.md, "Type Widening" (of the preview: ``tableVersion``), "Checkpoint Protection".
    """
    configuration = dict(metadata.configuration)
    if configuration.get(_PROTECTED_BEFORE) == str(lost_version):
        configuration[_PROTECTED_BEFORE] = str(lost_version + 1)
    schema = metadata.schema_string
    if '"tableVersion"' in schema:
        schema = json.dumps(_with_moved_changes(json.loads(schema), lost_version), ensure_ascii=False, separators=(",", ":"))
    if schema == metadata.schema_string and configuration == metadata.configuration:
        return metadata
    return replace(metadata, schema_string=schema, configuration=configuration)


def with_versions_of_type_changes(metadata: Metadata, protocol: Protocol, version: int) -> Metadata:
    """The metadata, in which new type changes name the version that makes them, as the preview of type widening requires.

    RFC: delta-io/delta, protocol_rfcs/type-widening.md, ``tableVersion``.
    """
    if "typeWidening-preview" not in writer_features(protocol) or '"fromType"' not in metadata.schema_string:
        return metadata
    schema = _with_versions(json.loads(metadata.schema_string), version)
    return replace(metadata, schema_string=json.dumps(schema, ensure_ascii=False, separators=(",", ":")))


def still_protecting(metadata: Metadata, before: Metadata, protocol: Protocol) -> Metadata:
    """The metadata, with the checkpoint protection of ``before`` kept, as long as the table supports that feature.

    A restored version, or a table that replaces another, does not include it.

    Protocol: protocol_rfcs, "Checkpoint Protection".
    """
    version = before.configuration.get(_PROTECTED_BEFORE)
    if version is None or _CHECKPOINT_PROTECTION not in writer_features(protocol):
        return metadata
    if protected_before(metadata.configuration) >= protected_before(before.configuration):
        return metadata
    return replace(metadata, configuration={**metadata.configuration, _PROTECTED_BEFORE: version})


def _with_moved_changes(document: Any, lost_version: int) -> Any:
    if isinstance(document, list):
        return [_with_moved_changes(item, lost_version) for item in document]
    if not isinstance(document, dict):
        return document
    if document.get("tableVersion") == lost_version and "fromType" in document:
        return {**document, "tableVersion": lost_version + 1}
    return {key: _with_moved_changes(value, lost_version) for key, value in document.items()}


def _with_versions(document: Any, version: int) -> Any:
    if isinstance(document, list):
        return [_with_versions(item, version) for item in document]
    if not isinstance(document, dict):
        return document
    changes = document.get("delta.typeChanges")
    if isinstance(changes, list):
        named = [{"tableVersion": version, **change} if isinstance(change, dict) else change for change in changes]
        return {**document, "delta.typeChanges": named}
    return {key: _with_versions(value, version) for key, value in document.items()}


def _without_marks(metadata: Metadata, other: Metadata) -> StructType:
    """The schema without what may differ: identity high-water marks, and column mapping that only one of the two has."""
    schema = parse_schema(metadata.schema_string)
    if _gets_mapped(metadata, other) or _gets_mapped(other, metadata):
        schema = without_column_mapping(schema)
    fields = ({key: value for key, value in field.metadata.items() if key != _IDENTITY_MARK} for field in schema.fields)
    return StructType(tuple(replace(field, metadata=kept) for field, kept in zip(schema.fields, fields, strict=True)))


def _gets_mapped(before: Metadata, after: Metadata) -> bool:
    modes = mapping_mode(before.configuration), mapping_mode(after.configuration)
    return modes == (MappingMode.NONE, MappingMode.NAME)


def _is(after: Mapping[str, str], key: str, value: str) -> bool:
    return after.get(key, "").lower() == value


def _maps(before: Metadata, after: Metadata, protocol: Protocol) -> bool:
    return _gets_mapped(before, after) and "columnMapping" in writer_features(protocol)


def _tracks_rows(_before: Metadata, after: Metadata, protocol: Protocol) -> bool:
    return _is(after.configuration, ROW_TRACKING_ENABLED, "true") and "rowTracking" in writer_features(protocol)


def _keeps_timestamps(before: Metadata, after: Metadata, protocol: Protocol) -> bool:
    newly = not _is(before.configuration, TIMESTAMPS_ENABLED, "true") and _is(after.configuration, TIMESTAMPS_ENABLED, "true")
    return newly and "inCommitTimestamp" in writer_features(protocol)


_PASSES: Mapping[str, Callable[[Metadata, Metadata, Protocol], bool]] = {
    # Rows without row ids in their files get them from the log; the commit records that it did not preserve any.
    ROW_TRACKING_ENABLED: _tracks_rows,
    "delta.rowTracking.materializedRowIdColumnName": _tracks_rows,
    "delta.rowTracking.materializedRowCommitVersionColumnName": _tracks_rows,
    # Existing columns keep their names as physical names.
    "delta.columnMapping.mode": _maps,
    "delta.columnMapping.maxColumnId": _maps,
    # Deletion vectors are allowed then, but no writer is required to write them.
    "delta.enableDeletionVectors": lambda _before, after, protocol: (
        _is(after.configuration, "delta.enableDeletionVectors", "true") and "deletionVectors" in writer_features(protocol)
    ),
    "delta.checkpointPolicy": lambda _before, after, protocol: (
        _is(after.configuration, "delta.checkpointPolicy", "v2") and "v2Checkpoint" in writer_features(protocol)
    ),
    # The commit gets its timestamp when it takes its version.
    TIMESTAMPS_ENABLED: _keeps_timestamps,
    ENABLEMENT_VERSION: _keeps_timestamps,
    ENABLEMENT_TIMESTAMP: _keeps_timestamps,
}
"""Properties that another writer may change while a commit that changes rows is computed, each with its condition."""
