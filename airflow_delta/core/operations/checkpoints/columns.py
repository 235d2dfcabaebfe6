"""The columns of a checkpoint: one struct for each kind of action, with the field names of the log.

All columns are nullable: a row holds one action, and NULL in the other columns.

Protocol: PROTOCOL.md, "Checkpoints", "Checkpoint Schema".
"""

from __future__ import annotations

import pyarrow as pa

from airflow_delta.core.actions import ADD_FILE, REMOVE_FILE, Metadata
from airflow_delta.core.actions.file_actions import STRING_MAP
from airflow_delta.core.log.file_columns import log_name
from airflow_delta.core.operations.checkpoints.parsed_columns import PARTITION_VALUES, STATISTICS, ParsedColumns, writes_json

_NAMES = pa.list_(pa.string())

TRANSACTION = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])
METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", STRING_MAP)])),
        ("schemaString", pa.string()),
        ("partitionColumns", _NAMES),
        ("configuration", STRING_MAP),
        ("createdTime", pa.int64()),
    ]
)
PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", _NAMES),
        ("writerFeatures", _NAMES),
    ]
)
DOMAIN = pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())])
CHECKPOINT_METADATA = pa.struct([("version", pa.int64()), ("tags", STRING_MAP)])
SIDECAR = pa.struct(
    [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64()), ("tags", STRING_MAP)]
)

TOMBSTONE = pa.schema([field for field in REMOVE_FILE if field.name not in {"stats", "tags"}])
"""Columns of tombstones in a checkpoint."""


def log_type(fields: pa.Schema | pa.StructType) -> pa.StructType:
    """The file columns as a struct with the field names of the log."""
    return pa.struct(
        [(log_name(field.name), log_type(field.type) if pa.types.is_struct(field.type) else field.type) for field in fields]
    )


def file_columns_of(metadata: Metadata, parsed: ParsedColumns) -> pa.Schema:
    """Columns of ``add`` and ``remove``; statistics as JSON, as typed columns, or both, as the table's properties say."""
    add = [field for field in log_type(ADD_FILE) if field.name != "stats" or writes_json(metadata.configuration)]
    add += [
        pa.field(name, kind)
        for name, kind in ((PARTITION_VALUES, parsed.partition_values), (STATISTICS, parsed.statistics))
        if kind is not None
    ]
    return pa.schema([("add", pa.struct(add)), ("remove", log_type(TOMBSTONE))])


def checkpoint_columns(files: pa.Schema) -> pa.Schema:
    """The columns of a checkpoint that contains its file actions, in Delta Spark's order."""
    return pa.schema([("txn", TRANSACTION), *files, ("metaData", METADATA), ("protocol", PROTOCOL), ("domainMetadata", DOMAIN)])


def manifest_columns() -> pa.Schema:
    """The columns of a v2 checkpoint with sidecars: those of every action, as Delta Spark expects each of them."""
    files = pa.schema([("add", log_type(ADD_FILE)), ("remove", log_type(REMOVE_FILE))])
    return pa.schema([*checkpoint_columns(files), ("checkpointMetadata", CHECKPOINT_METADATA), ("sidecar", SIDECAR)])
