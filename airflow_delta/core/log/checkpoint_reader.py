"""Reads checkpoints of every kind: only the columns needed, with file actions as columns.

Protocol: PROTOCOL.md, "Checkpoints", "V2 Checkpoint Table Feature", "Sidecar Files". If a checkpoint references sidecars, they
    hold its file actions, whatever its name; the other actions are in the checkpoint file itself, which is Parquet or JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from airflow_delta.core.actions import ADD_FILE, REMOVE_FILE, DomainMetadata, Metadata, Protocol, SetTransaction
from airflow_delta.core.log.checkpoint_parquet import CheckpointFile, FileFilter
from airflow_delta.core.log.corrupt_log_errors import corrupt_log_errors
from airflow_delta.core.log.file_names import referenced_sidecar
from airflow_delta.core.log.json_file_actions import file_actions
from airflow_delta.core.log.log_segment import Checkpoint
from airflow_delta.core.log.memory_pool import memory_pool
from airflow_delta.core.log.non_file_actions import (
    CHECKPOINT_METADATA,
    DOMAIN,
    METADATA,
    PROTOCOL,
    SIDECAR,
    TRANSACTION,
    LogText,
    NonFileActions,
)
from airflow_delta.core.log.record_counts import NUM_RECORDS, with_record_counts
from airflow_delta.core.storage.log_store import LogStore

_READERS = 4  # files of a checkpoint that are read at once; decoding each uses all cores
_HEADER = (PROTOCOL, METADATA, TRANSACTION, DOMAIN, CHECKPOINT_METADATA, SIDECAR)

BY_PARTITION = pa.schema([ADD_FILE.field("partition_values")])
BY_STATISTICS = pa.schema([ADD_FILE.field("partition_values"), ADD_FILE.field("stats")])
"""The columns needed to select files by predicate, before their other columns are read."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CheckpointHeader:
    """All content of a checkpoint except file actions.

    Attributes:
        transactions: The transaction of each application, by its id.
        domains: The metadata domains by name, without removed ones.
        sidecars: Paths of the sidecars below the table's root; empty if the checkpoint itself holds the file actions.
    """

    protocol: Protocol
    metadata: Metadata
    transactions: Mapping[str, SetTransaction]
    domains: Mapping[str, DomainMetadata]
    sidecars: tuple[str, ...] = ()


def read_header(store: LogStore, checkpoint: Checkpoint) -> CheckpointHeader:
    """All actions except file actions.

    Raises:
        CorruptLogError: A file is missing or has invalid content, an action violates the protocol, or there is not exactly one
            protocol and one metadata.
    """
    found = _documents(store, checkpoint, _HEADER)
    with corrupt_log_errors(store.table_uri, checkpoint.files[0].path):
        if checkpoint.is_manifest and [metadata["version"] for metadata in found[CHECKPOINT_METADATA]] != [checkpoint.version]:
            raise ValueError(f"it holds {len(found[CHECKPOINT_METADATA])} checkpointMetadata of version {checkpoint.version}")
        for action in (PROTOCOL, METADATA):
            if len(found[action]) != 1:
                raise ValueError(f"it holds {len(found[action])} {action} actions")
        transactions = map(SetTransaction.from_json, found[TRANSACTION])
        domains = map(DomainMetadata.from_json, found[DOMAIN])
        return CheckpointHeader(
            protocol=Protocol.from_json(found[PROTOCOL][0]),
            metadata=Metadata.from_json(found[METADATA][0]),
            transactions={transaction.app_id: transaction for transaction in transactions},
            domains={domain.domain: domain for domain in domains if not domain.removed},
            sidecars=tuple(referenced_sidecar(reference["path"]) for reference in found[SIDECAR]),
        )


def read_active_files(
    store: LogStore,
    checkpoint: Checkpoint,
    columns: Sequence[str] | None = None,
    file_filter: FileFilter | None = None,
) -> pa.Table:
    """The live files.

    Args:
        store: The table's log store.
        checkpoint: A checkpoint of any kind.
        columns: Names of columns of ``ADD_FILE``, and ``NUM_RECORDS``; all of ``ADD_FILE`` when None.
        file_filter: Which files; all when None.

    Raises:
        CorruptLogError: A file is missing or has invalid content, or an action violates the protocol.
    """
    known = pa.schema([*ADD_FILE, NUM_RECORDS])
    schema = ADD_FILE if columns is None else pa.schema([known.field(name) for name in columns])
    return _file_actions(store, checkpoint, "add", schema, file_filter)


def active_file_pieces(store: LogStore, checkpoint: Checkpoint) -> Iterator[pa.RecordBatch]:
    """The live files, columns ``ADD_FILE``, piece by piece; no piece is kept. Raises as ``read_active_files``."""
    for path in _paths(store, checkpoint):
        if _is_json(path):
            yield from _from_json(_manifest(store, checkpoint), store.table_uri, "add", ADD_FILE, None)
        else:
            with _open(store, path) as file:
                yield from file.files("add", ADD_FILE, None)


def read_tombstones(store: LogStore, checkpoint: Checkpoint) -> pa.Table:
    """The removed files, columns ``REMOVE_FILE``. Raises as ``read_active_files``."""
    return _file_actions(store, checkpoint, "remove", REMOVE_FILE, None)


def _file_actions(
    store: LogStore,
    checkpoint: Checkpoint,
    action: str,
    schema: pa.Schema,
    file_filter: FileFilter | None,
) -> pa.Table:
    """Returns pieces, because the texts of all files together may be too long for one array."""

    def of(path: str) -> list[pa.RecordBatch]:
        if _is_json(path):
            return _from_json(_manifest(store, checkpoint), store.table_uri, action, schema, file_filter)
        with _open(store, path) as file:
            return list(file.files(action, schema, file_filter))

    with memory_pool(), ThreadPoolExecutor(_READERS) as readers:
        paths = _paths(store, checkpoint)
        if len(paths) == 1:
            return pa.Table.from_batches(of(paths[0]), schema)
        return pa.Table.from_batches(chain.from_iterable(readers.map(of, paths)), schema)


def _paths(store: LogStore, checkpoint: Checkpoint) -> list[str]:
    """The files that may hold file actions: the checkpoint's own, and its sidecars."""
    with corrupt_log_errors(store.table_uri, checkpoint.files[0].path):
        sidecars = [referenced_sidecar(reference["path"]) for reference in _documents(store, checkpoint, [SIDECAR])[SIDECAR]]
        if len(set(sidecars)) < len(sidecars):
            raise ValueError("it names a sidecar twice")
    return [*(status.path for status in checkpoint.files), *sidecars]


def _from_json(
    text: LogText, table: str, action: str, schema: pa.Schema, file_filter: FileFilter | None
) -> list[pa.RecordBatch]:
    found = file_actions(table, [text])
    actions = found.adds if action == "add" else found.removes
    files = with_record_counts(actions, schema.names).cast(schema)
    if file_filter is None:
        return files.to_batches()
    pieces = actions.select(file_filter.columns.names).to_batches()
    masks = pa.chunked_array([file_filter.rows(piece) for piece in pieces], pa.bool_())
    return files.filter(masks).to_batches()


def _documents(store: LogStore, checkpoint: Checkpoint, actions: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """The actions of these kinds, which have few actions."""
    if _is_json(checkpoint.files[0].path):
        small = NonFileActions(store.table_uri, [_manifest(store, checkpoint)], actions)
        return {action: [document for _, document in small.all_of(action, dict)] for action in actions}
    found: dict[str, list[dict[str, Any]]] = {action: [] for action in actions}
    for status in checkpoint.files:
        with _open(store, status.path) as file:
            for action in actions:
                found[action] += file.documents(action)
    return found


def _is_json(path: str) -> bool:
    return path.endswith(".json")


def _manifest(store: LogStore, checkpoint: Checkpoint) -> LogText:
    path = checkpoint.files[0].path
    with corrupt_log_errors(store.table_uri, path):
        return LogText.from_content(path, checkpoint.version, store.read(path))


@contextmanager
def _open(store: LogStore, path: str) -> Iterator[CheckpointFile]:
    with corrupt_log_errors(store.table_uri, path), store.open_input(path) as stream:
        yield CheckpointFile(stream)
