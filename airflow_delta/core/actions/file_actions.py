"""The file actions as columns: one Arrow row per file, never a Python object.

Protocol: PROTOCOL.md, "Add File and Remove File", "Add CDC File". Names are snake_case here and camelCase in the log.

Units: ``size`` bytes, ``modification_time`` and ``deletion_timestamp`` milliseconds since the epoch. ``path`` is as in the log:
percent-encoded, relative to the table's root unless it has a scheme or starts with a slash. ``stats`` is the JSON text.
"""

from __future__ import annotations

import pyarrow as pa

DELETION_VECTOR = pa.struct(
    [
        ("storage_type", pa.string()),
        ("path_or_inline_dv", pa.string()),
        ("offset", pa.int32()),
        ("size_in_bytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)

STRING_MAP = pa.map_(pa.string(), pa.string())

ADD_FILE = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("partition_values", STRING_MAP, nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modification_time", pa.int64(), nullable=False),
        pa.field("data_change", pa.bool_(), nullable=False),
        pa.field("stats", pa.string()),
        pa.field("tags", STRING_MAP),
        pa.field("deletion_vector", DELETION_VECTOR),
        pa.field("base_row_id", pa.int64()),
        pa.field("default_row_commit_version", pa.int64()),
        pa.field("clustering_provider", pa.string()),
    ]
)
"""Columns of added files, and of live files."""

REMOVE_FILE = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("deletion_timestamp", pa.int64()),
        pa.field("data_change", pa.bool_(), nullable=False),
        pa.field("extended_file_metadata", pa.bool_()),
        pa.field("partition_values", STRING_MAP),
        pa.field("size", pa.int64()),
        pa.field("stats", pa.string()),
        pa.field("tags", STRING_MAP),
        pa.field("deletion_vector", DELETION_VECTOR),
        pa.field("base_row_id", pa.int64()),
        pa.field("default_row_commit_version", pa.int64()),
    ]
)
"""Columns of removed files (tombstones)."""

CHANGE_FILE = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("partition_values", STRING_MAP, nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("data_change", pa.bool_(), nullable=False),
        pa.field("tags", STRING_MAP),
    ]
)
"""Columns of change data files (``cdc`` in the log)."""

# Not ``empty_table``, which checks whether its arrays are pandas objects: DAG files would have to import pandas.
NO_ADDS, NO_REMOVES, NO_CHANGES = (pa.Table.from_batches([], schema) for schema in (ADD_FILE, REMOVE_FILE, CHANGE_FILE))


def removes_of(files: pa.Table, *, deletion_timestamp: int, data_change: bool) -> pa.Table:
    """The tombstones (``REMOVE_FILE``) of these live files (``ADD_FILE``; columns optional in a tombstone may be missing)."""
    rows = len(files)
    columns = {
        "deletion_timestamp": pa.repeat(pa.scalar(deletion_timestamp, pa.int64()), rows),
        "data_change": pa.repeat(pa.scalar(data_change), rows),
        "extended_file_metadata": pa.repeat(pa.scalar(True), rows),
    }
    return pa.table(
        [
            columns.get(field.name, files[field.name] if field.name in files.column_names else pa.nulls(rows, field.type))
            for field in REMOVE_FILE
        ],
        schema=REMOVE_FILE,
    )
