"""The rows that changed from version to version, in this process.

Protocol: PROTOCOL.md, "Change Data Files", "Reader Requirements for AddCDCFile".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.change_feed.changed_files import DELETE, changed_files
from airflow_delta.core.change_feed.changed_range import ChangedRange
from airflow_delta.core.errors import ChangeDataNotRecordedError, CorruptLogError, SchemaMismatchError
from airflow_delta.core.log.commit_reader import read_commit
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.log.history import InCommitTimestamps, commit_timestamp, monotonised
from airflow_delta.core.log.log_segment import list_log
from airflow_delta.core.predicate import Expression, parse_predicate, referenced_columns, to_arrow_expression
from airflow_delta.core.schema import MappingMode, StructField, StructType, arrow_schema
from airflow_delta.core.schema.data_types import LONG, STRING, TIMESTAMP
from airflow_delta.core.snapshot.rows import FileRows
from airflow_delta.core.snapshot.snapshot import Snapshot

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"

_CHANGE_TYPE = StructField(CHANGE_TYPE, STRING)
_CHANGE_FIELDS = (_CHANGE_TYPE, StructField(COMMIT_VERSION, LONG), StructField(COMMIT_TIMESTAMP, TIMESTAMP))
_GOING = pa.array([DELETE, "update_preimage", "update_pre"])


def change_feed(
    snapshot: Snapshot,
    covered: ChangedRange,
    *,
    columns: Sequence[str] | None = None,
    where: str | Expression | None = None,
    going_first: bool = False,
) -> pa.RecordBatchReader:
    """The changed rows, version by version; commits and files are opened while the reader is consumed.

    The columns are those of the table at the last version, then ``_change_type`` (string: ``insert``, ``delete``,
    ``update_preimage``, ``update_postimage``), ``_commit_version`` (int64) and ``_commit_timestamp`` (timestamp[us, UTC]).

    Args:
        snapshot: The table at the last version covered: its schema shows the rows.
        covered: The versions; ``check_recorded`` has allowed them.
        columns: Names of the table's columns wanted, in this order; all when None. The three columns above always follow.
        where: Which changes; it may name any column of the feed.
        going_first: Whether in each version the rows that go (``delete``, ``update_preimage``) come before those that come.
            Files are then read twice.

    Raises:
        InvalidPredicateError: The predicate cannot be decided exactly here.
        SchemaMismatchError: A column is not in the table.
        ChangeDataNotRecordedError: A removed file does not tell its partition. Raised while the reader is consumed, as are
            CorruptLogError and CorruptDataFileError.
    """
    feed = StructType((*snapshot.schema.fields, *_CHANGE_FIELDS))
    predicate = parse_predicate(where, feed, snapshot.table_uri) if isinstance(where, str) else where
    exact = None if predicate is None else to_arrow_expression(predicate, table=snapshot.table_uri)
    wanted = snapshot.schema.fields if columns is None else tuple(_named(snapshot, name) for name in columns)
    needed = referenced_columns(predicate) if predicate else frozenset()
    read = wanted + tuple(each for each in snapshot.schema.fields if each.name in needed and each not in wanted)
    shown = arrow_schema(StructType((*wanted, *_CHANGE_FIELDS)))

    def batches() -> Iterator[pa.RecordBatch]:
        rows = _ChangedRows(snapshot, StructType(read))
        file_times = monotonised(list_log(snapshot.store).commits)
        in_commit = InCommitTimestamps.of(snapshot.metadata)
        for version in covered:
            actions = read_commit(snapshot.store, version)
            time = commit_timestamp(version, file_times[version], actions.commit_info, in_commit)
            for going in (True, False) if going_first else (None,):
                for batch in rows.of(version, time, changed_files(actions), going=going):
                    yield (batch if exact is None else batch.filter(exact)).select(shown.names)

    return pa.RecordBatchReader.from_batches(shown, batches())


def _named(snapshot: Snapshot, name: str) -> StructField:
    field = snapshot.schema.find(name)
    if field is None:
        raise SchemaMismatchError(table=snapshot.table_uri, differences=(f"{name}: there is no such column",))
    return field


class _ChangedRows:
    """The changed rows of one commit after the other."""

    def __init__(self, snapshot: Snapshot, schema: StructType) -> None:
        self._table = snapshot.table_uri
        self._is_partitioned = bool(snapshot.partition_columns)
        self._names = schema.names
        self._schema = arrow_schema(StructType((*schema.fields, *_CHANGE_FIELDS)))
        by_id = snapshot.column_mapping is MappingMode.ID
        typed = StructType((*schema.fields, _CHANGE_TYPE))
        self._plain = FileRows(snapshot.store, schema, snapshot.partition_columns, by_id=by_id)
        self._typed = FileRows(snapshot.store, typed, snapshot.partition_columns, by_id=by_id)

    def of(self, version: int, time: int, files: pa.Table, *, going: bool | None) -> Iterator[pa.RecordBatch]:
        """The rows of these files (``CHANGED_FILE``): those that go, those that come, or all of them."""
        moment = self._moment(version, time)
        for file in files.to_pylist():
            for batch in self._read(version, file):
                rows, kinds = len(batch), pa.scalar(file["change_type"], pa.string())
                columns = [
                    *(batch[name] for name in self._names),
                    pa.repeat(kinds, rows) if kinds.is_valid else batch[CHANGE_TYPE],
                    pa.repeat(pa.scalar(version, pa.int64()), rows),
                    pa.repeat(moment, rows),
                ]
                changed = pa.RecordBatch.from_arrays(columns, schema=self._schema)
                yield changed if going is None else changed.filter(pc.equal(pc.is_in(changed[CHANGE_TYPE], _GOING), going))

    def _moment(self, version: int, time: int) -> pa.TimestampScalar:
        try:
            return pa.scalar(time * 1000, pa.timestamp("us", "UTC"))
        except (pa.ArrowException, OverflowError) as error:
            detail = f"its time {time} ms is none"
            raise CorruptLogError(table=self._table, file=commit_path(version), detail=detail) from error

    def _read(self, version: int, file: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        if file["partition_values"] is None and self._is_partitioned:
            detail = f"the removed file {file['path']} does not tell its partition"
            raise ChangeDataNotRecordedError(table=self._table, version=version, detail=detail)
        rows = self._plain if file["change_type"] else self._typed
        values = dict(file["partition_values"] or ())
        return rows.of(file["path"], values, shown_by=file["shown_by"], hidden_by=file["hidden_by"])
