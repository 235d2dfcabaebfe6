"""The part of a distributed checkpoint that runs in Spark's Python workers.

File actions are sent to buckets by a hash of their path, so that one worker gets everything that the log says about a file,
reconciles it by the core's own rules, and writes it as the core would.

Workers import this module, so it does not import the predicate parser.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_delta.core.actions import Metadata, Protocol
from airflow_delta.core.errors import CorruptLogError
from airflow_delta.core.log.action_reconciliation import (
    FileChanges,
    canonical_paths,
    file_changes,
    path_with_two_deletion_vectors,
)
from airflow_delta.core.log.commit_reader import CommitBatch
from airflow_delta.core.log.file_names import LOG_DIRECTORY, checkpoint_part_path, sidecar_path
from airflow_delta.core.log.json_file_actions import VERSION
from airflow_delta.core.log.log_replay import LogReplay
from airflow_delta.core.log.log_segment import Checkpoint, LogSegment
from airflow_delta.core.operations.checkpoints.content import CheckpointContent, rows_of
from airflow_delta.core.operations.checkpoints.spark_hash import part_numbers
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.resolve import log_store_for
from airflow_delta.spark.distributed.log_pieces import ADDS, REMOVES, pieces_of
from airflow_delta.spark.io.worker_values import from_ipc, to_ipc, with_typed_errors

MESSAGES_DDL = "bucket int, position bigint, is_add boolean, content binary"
"""File actions on the way to their bucket; those of one commit are sent by one worker, in the order of ``position``."""
MESSAGES = pa.schema([("bucket", pa.int32()), ("position", pa.int64()), ("is_add", pa.bool_()), ("content", pa.binary())])

WRITTEN_DDL = "bucket int, path string, actions bigint, files bigint, table_size bigint, size bigint"
WRITTEN = pa.schema(
    [
        ("bucket", pa.int32()),
        ("path", pa.string()),
        *((name, pa.int64()) for name in ("actions", "files", "table_size", "size")),
    ]
)
"""A file of the checkpoint: path below the table's root, rows, live files among them and their bytes, size of the file."""

LINES_DDL = "version bigint, lines binary"
LINES = pa.schema([("version", pa.int64()), ("lines", pa.binary())])

_MOST_ROWS, _MOST_BYTES = 1 << 16, 64 << 20  # actions that are collected before sending them
# As in the core's writer: no dictionary for texts that hardly repeat.
_WITH_DICTIONARY = [
    *(f"add.{name}.key_value.{part}" for name in ("partitionValues", "tags") for part in ("key", "value")),
    "add.clusteringProvider",
    "remove.partitionValues.key_value.key",
]

BucketsOf = Callable[[pa.Table], pa.Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointedTable:
    """What a worker must know of the version to be checkpointed.

    Attributes:
        now: Milliseconds since the epoch; determines which tombstones have expired.
    """

    table_uri: str
    storage_options: Mapping[str, Any] = field(repr=False)
    version: int
    protocol: Protocol
    metadata: Metadata
    now: int

    def store(self) -> LogStore:
        """The table's log store. Raises ``UnsupportedStorageError`` if a package is missing."""
        return log_store_for(self.table_uri, self.storage_options)

    def content(self, changes: FileChanges) -> CheckpointContent:
        """The content of the checkpoint for these files."""
        store = self.store()
        replay = _BucketReplay(store, self, changes)
        return CheckpointContent.from_snapshot(Snapshot(store, replay), self.now)


class _BucketReplay(LogReplay):
    """A replay of the version as if its log only contained the files of one bucket."""

    def __init__(self, store: LogStore, table: CheckpointedTable, changes: FileChanges) -> None:
        segment = LogSegment(
            table=table.table_uri,
            version=table.version,
            checkpoint=Checkpoint(version=table.version, files=()),  # the one to be written
            commits={},
            commit_of_version=None,
        )
        super().__init__(store, segment, None, CommitBatch(protocol=table.protocol, metadata=table.metadata))
        self._changes = changes

    def file_pieces(self) -> Iterator[pa.Table]:
        yield self._changes.added

    @cached_property
    def tombstones(self) -> pa.Table:
        return self._changes.removed


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallLinesReader:
    """Reads the non-file actions of commits: one row of lines for each commit."""

    table_uri: str
    storage_options: Mapping[str, Any] = field(repr=False)

    def __call__(self, pieces: pa.Table) -> Iterator[pa.RecordBatch]:
        """The lines in these pieces, as ``LINES``."""
        store = log_store_for(self.table_uri, self.storage_options)
        for piece in pieces_of(pieces):
            yield pa.record_batch([[piece.version], [piece.small_lines(store)]], schema=LINES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionShuffler:
    """Reads pieces of the log and sends each action to the bucket of its file's path, whatever its deletion vector."""

    table: CheckpointedTable
    buckets: int

    def __call__(self, pieces: pa.Table) -> Iterator[pa.RecordBatch]:
        """The actions in these pieces, as ``MESSAGES``."""
        store = self.table.store()
        return messages((actions for piece in pieces_of(pieces) for actions in piece.actions(store)), self._buckets)

    def _buckets(self, actions: pa.Table) -> pa.Array:
        paths = canonical_paths(actions["path"]).combine_chunks()
        return part_numbers(paths, pa.nulls(len(paths), pa.string()), self.buckets)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartShuffler:
    """Reconciles a bucket and sends the rest to the parts that the protocol requires: by path and deletion vector."""

    table: CheckpointedTable
    parts: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function that Spark maps over each partition."""
        return with_typed_errors(self._messages(batches))

    def _messages(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _, changes = reconciled(self.table, batches)
        rows = (changes.added, changes.removed)
        versions = (pa.repeat(pa.scalar(self.table.version, pa.int64()), len(batch)) for batch in rows)
        actions = (batch.append_column(VERSION, version) for batch, version in zip(rows, versions, strict=True))
        yield from messages(actions, self._parts)

    def _parts(self, actions: pa.Table) -> pa.Array:
        return part_numbers(actions["path"].combine_chunks(), deletion_vector_ids(actions), self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWriter:
    """Writes the actions of a bucket as a sidecar, or as a part of a checkpoint.

    Attributes:
        parts: Number of parts; None for sidecars.
        small: All non-file actions, which one of the parts contains.
    """

    table: CheckpointedTable
    parts: int | None = None
    small: tuple[dict[str, Any], ...] = ()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function that Spark maps over each partition."""
        return with_typed_errors(self._written(batches))

    def _written(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bucket, changes = reconciled(self.table, batches)
        if bucket is None:
            return
        content = self.table.content(changes)
        pieces = content.file_actions()
        if self.parts is None:
            first = next(pieces, None)
            if first is not None:
                path = sidecar_path(f"{uuid.uuid4()}.parquet")
                yield _written_row(bucket, write_parquet(content, path, content.file_columns, chain([first], pieces)))
            return
        columns = content.all_columns
        rows: Iterator[pa.Table] = (_widened(piece, columns) for piece in pieces)
        if bucket == _part_of_non_file_actions(self.parts):
            rows = chain([rows_of(self.small, columns)], rows)
        path = checkpoint_part_path(self.table.version, bucket + 1, self.parts)
        yield _written_row(bucket, write_parquet(content, path, columns, rows))


def messages(actions: Iterable[pa.Table], buckets_of: BucketsOf) -> Iterator[pa.RecordBatch]:
    """The actions (``ADDS`` or ``REMOVES``) as ``MESSAGES``, in order within each bucket."""
    position = 0
    pending: dict[bool, list[pa.Table]] = {False: [], True: []}
    for piece in actions:
        is_add = piece.schema.names == ADDS.names
        waiting = pending[is_add]
        waiting.append(piece)
        if sum(map(len, waiting)) >= _MOST_ROWS or sum(batch.nbytes for batch in waiting) >= _MOST_BYTES:
            yield from _sent(waiting, buckets_of, position, is_add=is_add)
            position += 1
            pending[is_add] = []
    for is_add, waiting in pending.items():
        if waiting:
            yield from _sent(waiting, buckets_of, position, is_add=is_add)


def _sent(pieces: list[pa.Table], buckets_of: BucketsOf, position: int, *, is_add: bool) -> Iterator[pa.RecordBatch]:
    actions = pa.concat_tables(pieces)
    if not len(actions):
        return
    buckets = buckets_of(actions)
    order = pc.array_sort_indices(buckets)  # stable, so that the order within a bucket is kept
    runs = pc.run_end_encode(buckets.take(order))
    actions, start = actions.take(order), 0
    for bucket, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        content = to_ipc(actions.slice(start, end - start).combine_chunks())
        yield pa.record_batch([[bucket], [position], [is_add], [content]], schema=MESSAGES)
        start = end


def reconciled(table: CheckpointedTable, batches: Iterable[pa.RecordBatch]) -> tuple[int | None, FileChanges]:
    """The bucket of these messages, and the reconciled actions; no bucket if there is no message.

    Raises:
        CorruptLogError: Two live files share a path.
    """
    found: dict[bool, list[tuple[int, pa.Table]]] = {False: [], True: []}
    bucket: int | None = None
    for batch in batches:
        for message in batch.to_pylist():
            bucket = message["bucket"]
            if message["content"] is not None:
                found[message["is_add"]].append((message["position"], from_ipc(message["content"])))
    removes, adds = (
        pa.concat_tables(
            [pa.Table.from_batches([], schema), *(actions for _, actions in sorted(some, key=lambda numbered: numbered[0]))]
        )
        for schema, some in ((REMOVES, found[False]), (ADDS, found[True]))
    )
    changes = file_changes(adds, removes)
    if shared := path_with_two_deletion_vectors(changes.added):
        detail = f"two live files of version {table.version} have the path {shared!r}"
        raise CorruptLogError(table=table.table_uri, file=LOG_DIRECTORY, detail=detail)
    return bucket, changes


def deletion_vector_ids(files: pa.Table) -> pa.Array:
    """Unique ids of the deletion vectors; null for a file without one. Protocol: PROTOCOL.md, "Derived Fields"."""
    descriptors = files["deletion_vector"].combine_chunks()
    storage, place, offset = (pc.struct_field(descriptors, name) for name in ("storage_type", "path_or_inline_dv", "offset"))
    at = pc.fill_null(pc.binary_join_element_wise("@", offset.cast(pa.string()), ""), "")
    return pc.binary_join_element_wise(storage, place, at, "")


def write_parquet(content: CheckpointContent, path: str, columns: pa.Schema, pieces: Iterable[pa.Table]) -> dict[str, Any]:
    """Write a file of a checkpoint atomically, with a row group for each piece; returns its columns of ``WRITTEN``."""
    actions = files = table_size = 0
    options = {"store_schema": False, "use_dictionary": _WITH_DICTIONARY, "compression": content.codec}
    with content.snapshot.store.open_output(path) as stream:
        with pq.ParquetWriter(stream, columns, **options) as writer:
            for piece in pieces:
                if len(piece):
                    writer.write_table(piece, row_group_size=len(piece))
                    actions += len(piece)
                    files += len(piece) - piece["add"].null_count
                    table_size += pc.sum(pc.struct_field(piece["add"], "size"), min_count=0).as_py()
        size = stream.tell()
    return {"path": path, "actions": actions, "files": files, "table_size": table_size, "size": size}


def _written_row(bucket: int, written: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"bucket": bucket, **written}], schema=WRITTEN)


def _widened(piece: pa.Table, columns: pa.Schema) -> pa.Table:
    there = set(piece.column_names)
    return pa.table(
        [piece[field.name] if field.name in there else pa.nulls(len(piece), field.type) for field in columns], schema=columns
    )


def _part_of_non_file_actions(parts: int) -> int:
    """The part that gets the non-file actions by Spark's hash, as in the core."""
    nothing = pa.nulls(1, pa.string())
    return int(part_numbers(nothing, nothing, parts)[0].as_py())
