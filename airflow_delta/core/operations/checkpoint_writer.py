"""A version of the table as one Parquet file: columns in, columns out, one row per action.

Protocol: PROTOCOL.md, "Checkpoints", "Checkpoint Schema", "Last Checkpoint File".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_delta.core.actions import ADD_FILE, REMOVE_FILE, SetTransaction
from airflow_delta.core.actions.file_actions import STRING_MAP
from airflow_delta.core.log.file_columns import log_name
from airflow_delta.core.log.file_names import LAST_CHECKPOINT, checkpoint_path
from airflow_delta.core.log.last_checkpoint import hinted_version
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.table_features.support import check_writable
from airflow_delta.core.transaction.table_properties import deleted_file_retention, transaction_retention

_ROWS_AT_ONCE = 1 << 17  # one row group: some 50 MB of paths and statistics

_NAMES = pa.list_(pa.string())
_SMALL_ACTIONS = {
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", _NAMES),
            ("writerFeatures", _NAMES),
        ]
    ),
    "metaData": pa.struct(
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
    ),
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
    "domainMetadata": pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
}


def _log_type(fields: pa.Schema | pa.StructType) -> pa.StructType:
    """The columns under the names of the log; all nullable, as a row holds one action and null for the others."""
    return pa.struct(
        [(log_name(each.name), _log_type(each.type) if pa.types.is_struct(each.type) else each.type) for each in fields]
    )


_TOMBSTONE = pa.schema([each for each in REMOVE_FILE if each.name not in {"stats", "tags"}])  # never in checkpoints
_SCHEMA = pa.schema({**_SMALL_ACTIONS, "add": _log_type(ADD_FILE), "remove": _log_type(_TOMBSTONE)})


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointResult:
    """What was written.

    Attributes:
        path: Path below the table's root.
        actions: Rows of the checkpoint.
        files: Active files among them.
        bytes: Length of the file.
    """

    version: int
    path: str
    actions: int
    files: int
    bytes: int


def write_checkpoint(snapshot: Snapshot, *, now: int) -> CheckpointResult:
    """Write the classic checkpoint of ``snapshot`` and point ``_last_checkpoint`` to it.

    Removed files and the progress of applications are left out when the table's properties no longer ask for them. Writers
    that do the same at the same time do no harm: either file says the same.

    Args:
        snapshot: The version to write.
        now: Milliseconds since the epoch.

    Raises:
        UnsupportedWriterFeatureError: The table needs writers that know more.
    """
    check_writable(snapshot.table_uri, snapshot.protocol, snapshot.metadata)
    path, files = checkpoint_path(snapshot.version), snapshot.files()
    actions = 0
    with snapshot.store.open_output(path) as stream:
        with pq.ParquetWriter(stream, _SCHEMA, store_schema=False) as writer:
            for batch in _batches(snapshot, files, now):
                writer.write_batch(batch)
                actions += batch.num_rows
        size = stream.tell()
    result = CheckpointResult(version=snapshot.version, path=path, actions=actions, files=len(files), bytes=size)
    _point_to(snapshot.store, result)
    return result


def _batches(snapshot: Snapshot, files: pa.Table, now: int) -> Iterator[pa.RecordBatch]:
    configuration = snapshot.metadata.configuration
    small = [
        _small("protocol", [snapshot.protocol.to_json()]),
        _small("metaData", [snapshot.metadata.to_json()]),
        _small("txn", [each.to_json() for each in _kept_transactions(snapshot.transactions, configuration, now)]),
        _small("domainMetadata", [each.to_json() for each in snapshot.domains.values()]),
    ]
    yield pa.concat_batches(small)
    for batch in files.to_batches(max_chunksize=_ROWS_AT_ONCE):
        yield _files("add", batch, ADD_FILE)
    tombstones = snapshot.tombstones()
    kept = tombstones.filter(pc.greater(tombstones["deletion_timestamp"], now - deleted_file_retention(configuration)))
    for batch in kept.to_batches(max_chunksize=_ROWS_AT_ONCE):
        yield _files("remove", batch, _TOMBSTONE)


def _kept_transactions(
    transactions: Mapping[str, SetTransaction], configuration: Mapping[str, str], now: int
) -> Iterator[SetTransaction]:
    retention = transaction_retention(configuration)
    for each in transactions.values():
        if retention is None or (each.last_updated is not None and each.last_updated > now - retention):
            yield each


def _small(action: str, documents: list[dict[str, Any]]) -> pa.RecordBatch:
    return _rows(action, pa.array([_with_map_items(each) for each in documents], _SMALL_ACTIONS[action]))


def _with_map_items(document: dict[str, Any]) -> dict[str, Any]:
    """The document with its free-keyed members as Arrow takes them."""
    if "configuration" in document and isinstance(document["configuration"], dict):
        document["configuration"] = list(document["configuration"].items())
    if "format" in document:
        document["format"] = {**document["format"], "options": list(document["format"]["options"].items())}
    return document


def _files(action: str, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    no_change = pa.repeat(pa.scalar(False), batch.num_rows)  # a checkpoint states, it changes nothing
    columns = [no_change if each.name == "data_change" else batch[each.name] for each in schema]
    return _rows(action, _struct(columns, _SCHEMA.field(action).type))


def _struct(columns: list[pa.Array], log_type: pa.StructType, mask: pa.Array | None = None) -> pa.StructArray:
    children = [
        _struct(column.flatten(), each.type, column.is_null()) if pa.types.is_struct(each.type) else column
        for column, each in zip(columns, log_type, strict=True)
    ]
    return pa.StructArray.from_arrays(children, fields=list(log_type), mask=mask)


def _rows(action: str, values: pa.StructArray) -> pa.RecordBatch:
    columns = [values if each.name == action else pa.nulls(len(values), each.type) for each in _SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _point_to(store: LogStore, checkpoint: CheckpointResult) -> None:
    """Tell readers where to begin, unless they are told of a newer checkpoint already."""
    if (hinted_version(store) or 0) <= checkpoint.version:
        hint = {
            "version": checkpoint.version,
            "size": checkpoint.actions,
            "sizeInBytes": checkpoint.bytes,
            "numOfAddFiles": checkpoint.files,
        }
        store.write(LAST_CHECKPOINT, json.dumps(hint, separators=(",", ":")).encode())
