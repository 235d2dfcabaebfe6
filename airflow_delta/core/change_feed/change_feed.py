"""Reads the change data feed in this process.

Protocol: PROTOCOL.md, "Change Data Files", "Reader Requirements for AddCDCFile".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.change_feed.changed_commits import changed_commits
from airflow_delta.core.change_feed.changed_range import ChangedRange
from airflow_delta.core.data_files.changed_rows import CHANGE_FIELDS, CHANGE_TYPE, DELETE, UPDATE_PREIMAGE, ChangedRows
from airflow_delta.core.data_files.file_rows import FileRows
from airflow_delta.core.errors import SchemaMismatchError
from airflow_delta.core.predicate import Expression, parse_predicate, referenced_columns, to_arrow_expression
from airflow_delta.core.schema import MappingMode, StructField, StructType, arrow_schema
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.storage.file_locator import FileLocator

_GOING = (DELETE, UPDATE_PREIMAGE, "update_pre")


def change_feed(
    snapshot: Snapshot,
    covered: ChangedRange,
    *,
    columns: Sequence[str] | None = None,
    where: str | Expression | None = None,
    going_first: bool = False,
) -> pa.RecordBatchReader:
    """The changed rows, version by version; commits and files are opened as the reader is consumed.

    The columns are those of the table at the last version of the range, then ``_change_type`` (string: ``insert``, ``delete``,
    ``update_preimage``, ``update_postimage``), ``_commit_version`` (int64) and ``_commit_timestamp`` (timestamp[us, UTC]).

    Args:
        snapshot: The table at the last version covered, whose schema is used for all rows.
        covered: The versions, which ``check_recorded`` has accepted.
        columns: Names of the table's columns to return, in this order; all when None. The three columns above always follow.
        where: Which changes to return; the condition may name any column of the feed.
        going_first: Whether in each version removed rows (``delete``, ``update_preimage``) come before added ones. Files are
            then read twice.

    Raises:
        InvalidPredicateError: The predicate cannot be evaluated exactly here.
        SchemaMismatchError: A column is not in the table.
        ChangeDataNotRecordedError: A removed file has no partition values. Raised while the reader is consumed, as are
            CorruptLogError and CorruptDataFileError.
    """
    feed = StructType((*snapshot.schema.fields, *CHANGE_FIELDS))
    predicate = parse_predicate(where, feed, snapshot.table_uri) if isinstance(where, str) else where
    exact = None if predicate is None else to_arrow_expression(predicate, table=snapshot.table_uri)
    wanted = snapshot.schema.fields if columns is None else tuple(_named(snapshot, name) for name in columns)
    needed = referenced_columns(predicate) if predicate else frozenset()
    read = wanted + tuple(field for field in snapshot.schema.fields if field.name in needed and field not in wanted)
    shown = arrow_schema(StructType((*wanted, *CHANGE_FIELDS)))

    reader = partial(
        FileRows,
        FileLocator.from_store(snapshot.store),
        partition_columns=snapshot.partition_columns,
        table=snapshot.table_uri,
        by_id=snapshot.column_mapping is MappingMode.ID,
        use_threads=True,
    )

    def batches() -> Iterator[pa.RecordBatch]:
        rows = ChangedRows(lambda schema: reader(schema=schema), StructType(read))
        for commit in changed_commits(snapshot, covered):
            for going in (True, False) if going_first else (None,):
                for file in commit.files.to_pylist():
                    for batch in rows.of(file, commit.version, commit.time):
                        found = batch if exact is None else batch.filter(exact)
                        yield (found if going is None else _only(found, going=going)).select(shown.names)

    return pa.RecordBatchReader.from_batches(shown, batches())


def _only(rows: pa.RecordBatch, *, going: bool) -> pa.RecordBatch:
    """Only the removed rows if ``going``, else only the added ones."""
    return rows.filter(pc.equal(pc.is_in(rows[CHANGE_TYPE], pa.array(_GOING)), going))


def _named(snapshot: Snapshot, name: str) -> StructField:
    field = snapshot.schema.find(name)
    if field is None:
        raise SchemaMismatchError(table=snapshot.table_uri, differences=(f"{name}: the column does not exist",))
    return field
