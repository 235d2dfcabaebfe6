"""The content of a checkpoint, in pieces: the whole state is never held as Python objects, and only one piece is rendered.

Protocol: PROTOCOL.md, "Checkpoints", "Action Reconciliation".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import ADD_FILE, SetTransaction
from airflow_delta.core.data_files.compression import codec_for_arrow
from airflow_delta.core.log.file_columns import log_name
from airflow_delta.core.operations.checkpoints.columns import TOMBSTONE, checkpoint_columns, file_columns_of
from airflow_delta.core.operations.checkpoints.parsed_columns import PARTITION_VALUES, STATISTICS, ParsedColumns
from airflow_delta.core.schema.partition_values import partition_keys, with_exact_keys
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.transaction.table_properties import deleted_file_retention, transaction_retention

ROWS_OF_GROUP = 1 << 16
"""Actions in a row group: few, so that a reader of one file decodes little, and a piece takes about 30 MB of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointContent:
    """The actions of one version, without expired tombstones and application transactions.

    Attributes:
        now: Milliseconds since the epoch.
        parsed: The typed columns (``stats_parsed`` and others).
        is_streamed: Whether files that are not cached are read piece by piece and not kept; a checkpoint that turns out to be
            broken is then not replaced by an older one.
    """

    snapshot: Snapshot
    now: int
    parsed: ParsedColumns
    is_streamed: bool = True

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, now: int) -> CheckpointContent:
        """The content of the checkpoint of this version."""
        return cls(snapshot=snapshot, now=now, parsed=ParsedColumns.from_snapshot(snapshot))

    @property
    def codec(self) -> str:
        """The compression codec of its files, as Arrow names it."""
        return codec_for_arrow(self.snapshot.metadata.configuration)

    @property
    def file_columns(self) -> pa.Schema:
        """The columns of file actions."""
        return file_columns_of(self.snapshot.metadata, self.parsed)

    @property
    def all_columns(self) -> pa.Schema:
        """The columns of a checkpoint that contains all actions itself."""
        return checkpoint_columns(self.file_columns)

    @property
    def rows(self) -> int:
        """Number of file actions; counts expired tombstones, too, although they are left out."""
        return len(self.snapshot.files(columns=["path"])) + len(self.snapshot.tombstones())

    def non_file_actions(self) -> list[dict[str, Any]]:
        """All actions except file actions, as objects with one member, like a line of a commit file."""
        snapshot = self.snapshot
        return [
            {"protocol": snapshot.protocol.to_json()},
            {"metaData": snapshot.metadata.to_json()},
            *({"txn": transaction.to_json()} for transaction in self._kept_transactions()),
            *({"domainMetadata": domain.to_json()} for domain in snapshot.domains.values()),
        ]

    def file_actions(self) -> Iterator[pa.Table]:
        """The file actions in pieces of one row group, columns ``file_columns``: first live files, then tombstones."""
        yield from _ahead(_regrouped(self._adds()))
        yield from _regrouped(self._removes())

    @property
    def _keys(self) -> list[str]:
        return partition_keys(self.snapshot.schema, self.snapshot.partition_columns)

    def _kept_transactions(self) -> Iterator[SetTransaction]:
        retention = transaction_retention(self.snapshot.metadata.configuration)
        for transaction in self.snapshot.transactions.values():
            if retention is None or (transaction.last_updated is not None and transaction.last_updated > self.now - retention):
                yield transaction

    def _adds(self) -> Iterator[pa.RecordBatch]:
        for piece in self.snapshot.replay.file_pieces() if self.is_streamed else [self.snapshot.files()]:
            for batch in piece.to_batches(max_chunksize=ROWS_OF_GROUP):
                yield self._rows("add", batch, ADD_FILE)

    def _removes(self) -> Iterator[pa.RecordBatch]:
        oldest = self.now - deleted_file_retention(self.snapshot.metadata.configuration)
        for batch in self.snapshot.tombstones().to_batches(max_chunksize=ROWS_OF_GROUP):
            kept = batch.filter(pc.greater(batch["deletion_timestamp"], oldest))
            yield self._rows("remove", kept, TOMBSTONE)

    def _rows(self, action: str, files: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
        members = {log_name(name): files[name] for name in columns.names}
        if action == "add":
            members["partitionValues"] = with_exact_keys(pa.chunked_array([files["partition_values"]]), self._keys).chunk(0)
        members["dataChange"] = pa.repeat(pa.scalar(False), files.num_rows)  # file actions in a checkpoint never change data
        schema = self.file_columns
        kind = schema.field(action).type
        if kind.get_field_index(PARTITION_VALUES) >= 0:
            members[PARTITION_VALUES] = self.parsed.parsed_partitions(files["partition_values"])
        if kind.get_field_index(STATISTICS) >= 0:
            members[STATISTICS] = self.parsed.parsed_statistics(files["stats"])
        actions = _struct([members[field.name] for field in kind], kind)
        rows = [actions if field.name == action else pa.nulls(len(actions), field.type) for field in schema]
        return pa.RecordBatch.from_arrays(rows, schema=schema)


def _struct(columns: list[pa.Array], kind: pa.StructType, mask: pa.Array | None = None) -> pa.StructArray:
    children = [
        _struct(column.flatten(), field.type, column.is_null())
        if pa.types.is_struct(field.type) and column.type != field.type
        else column
        for column, field in zip(columns, kind, strict=True)
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)


def _regrouped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The same rows in pieces of ``ROWS_OF_GROUP`` rows; the last piece may be smaller."""
    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        pending.append(batch)
        rows += batch.num_rows
        if rows >= ROWS_OF_GROUP:
            table = pa.Table.from_batches(pending)
            yield table.slice(0, ROWS_OF_GROUP)
            pending = table.slice(ROWS_OF_GROUP).to_batches()
            rows -= ROWS_OF_GROUP
    if rows:
        yield pa.Table.from_batches(pending)


def _ahead(pieces: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same pieces, each computed by another thread while the previous one is in use."""
    with ThreadPoolExecutor(1) as maker:
        upcoming = maker.submit(next, pieces, None)
        while piece := upcoming.result():
            upcoming = maker.submit(next, pieces, None)
            yield piece


def rows_of(actions: Iterable[dict[str, Any]], columns: pa.Schema) -> pa.Table:
    """Actions, each as an object with one member, as rows of these columns."""
    return pa.Table.from_pylist(
        [{name: _with_map_items(value) for name, value in action.items()} for action in actions], columns
    )


def _with_map_items(document: dict[str, Any]) -> dict[str, Any]:
    """The object, with its maps in the form that Arrow accepts."""
    document = dict(document)
    if "format" in document:
        document["format"] = {**document["format"], "options": list(document["format"]["options"].items())}
    for key in ("configuration", "tags"):
        if isinstance(document.get(key), dict):  # the configuration of a domain is text, not a map
            document[key] = list(document[key].items())
    return document
