"""From a classic checkpoint to actions: only the columns that are needed, file actions as columns.

Protocol: PROTOCOL.md, "Checkpoints", "Checkpoint Schema". Any column may be missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_delta.core.actions import ADD_FILE, REMOVE_FILE, DomainMetadata, Metadata, Protocol, SetTransaction
from airflow_delta.core.errors import CorruptLogError
from airflow_delta.core.log.file_columns import file_columns, log_name
from airflow_delta.core.log.log_segment import Checkpoint
from airflow_delta.core.log.parsed_statistics import statistics_json
from airflow_delta.core.storage.log_store import FileStatus, LogStore

_PARSED = "stats_parsed"
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CheckpointHeader:
    """What a checkpoint says apart from files.

    Attributes:
        transactions: By application.
        domains: By name; none of them removed.
    """

    protocol: Protocol | None
    metadata: Metadata | None
    transactions: Mapping[str, SetTransaction]
    domains: Mapping[str, DomainMetadata]


def read_header(store: LogStore, checkpoint: Checkpoint) -> CheckpointHeader:
    """All but the file actions.

    Raises:
        CorruptLogError: A file is missing or no Parquet, or an action is not what the protocol says.
    """
    found: dict[str, list[dict[str, Any]]] = {"protocol": [], "metaData": [], "txn": [], "domainMetadata": []}
    for status in checkpoint.files:
        with _parquet(store, status) as file:
            names = [name for name in found if name in file.schema_arrow.names]
            rows = file.read(columns=names) if names else pa.table({})
            for name in names:
                found[name] += rows[name].filter(pc.is_valid(rows[name])).to_pylist()
    with _blamed_on(store, checkpoint.files[0].path):
        transactions = map(SetTransaction.from_json, found["txn"])
        domains = map(DomainMetadata.from_json, found["domainMetadata"])
        return CheckpointHeader(
            protocol=Protocol.from_json(found["protocol"][-1]) if found["protocol"] else None,
            metadata=Metadata.from_json(found["metaData"][-1]) if found["metaData"] else None,
            transactions={each.app_id: each for each in transactions},
            domains={each.domain: each for each in domains if not each.removed},
        )


def read_active_files(store: LogStore, checkpoint: Checkpoint) -> pa.Table:
    """The live files, columns ``ADD_FILE``.

    Raises:
        CorruptLogError: A file is missing or no Parquet, or an action is not what the protocol says.
    """
    return _file_actions(store, checkpoint, "add", ADD_FILE)


def read_tombstones(store: LogStore, checkpoint: Checkpoint) -> pa.Table:
    """The removed files, columns ``REMOVE_FILE``.

    Raises:
        CorruptLogError: A file is missing or no Parquet, or an action is not what the protocol says.
    """
    return _file_actions(store, checkpoint, "remove", REMOVE_FILE)


def _file_actions(store: LogStore, checkpoint: Checkpoint, action: str, schema: pa.Schema) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    for status in checkpoint.files:
        with _parquet(store, status) as file:
            batches += _file_batches(file, action, schema)
    return pa.Table.from_batches(batches, schema)


def _file_batches(file: pq.ParquetFile, action: str, schema: pa.Schema) -> list[pa.RecordBatch]:
    if action not in file.schema_arrow.names:
        return []
    there = {each.name for each in file.schema_arrow.field(action).type}
    wanted = [f"{action}.{log_name(name)}" for name in schema.names if log_name(name) in there]
    batches = [file_columns(actions, schema) for actions in _present(file, action, wanted)]
    if _PARSED in there and any(each["stats"].null_count for each in batches):
        instants = _int96_leaves(file, f"{action}.{_PARSED}.")
        parsed = _present(file, action, [f"{action}.{_PARSED}"])
        batches = [_with_statistics(each, more, instants) for each, more in zip(batches, parsed, strict=True)]
    return batches


def _present(file: pq.ParquetFile, action: str, columns: list[str]) -> Iterator[pa.StructArray]:
    """These columns of the actions in equal pieces, whatever the columns are."""
    for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=columns):
        actions = batch[action]
        yield actions.filter(actions.is_valid()) if actions.null_count else actions


def _with_statistics(files: pa.RecordBatch, parsed: pa.StructArray, instants: Collection[str]) -> pa.RecordBatch:
    text = pc.coalesce(files["stats"], statistics_json(pc.struct_field(parsed, _PARSED), instants))
    return files.set_column(files.schema.get_field_index("stats"), files.schema.field("stats"), text)


def _int96_leaves(file: pq.ParquetFile, prefix: str) -> frozenset[str]:
    leaves = (file.schema.column(index) for index in range(len(file.schema)))
    return frozenset(leaf.path.removeprefix(prefix) for leaf in leaves if leaf.physical_type == "INT96")


@contextmanager
def _parquet(store: LogStore, status: FileStatus) -> Iterator[pq.ParquetFile]:
    with _blamed_on(store, status.path), store.open_input(status.path) as stream:
        yield pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")


@contextmanager
def _blamed_on(store: LogStore, path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, LookupError, TypeError, ValueError) as error:  # Arrow's errors are ValueErrors and OSErrors
        raise CorruptLogError(table=store.table_uri, file=path, detail=f"{type(error).__name__}: {error}") from error
