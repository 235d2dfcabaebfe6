"""Recomputes statistics of files that have none, or not those that the table's properties now require.

Follows ``StatisticsCollection.recompute`` of Delta Spark, but reads footers, and rows only of columns that a footer does not
cover (INT96, floats that may be NaN, lists, maps, columns stored as another type). For files with a deletion vector the bounds
include deleted rows, and are marked as not tight (``tightBounds``).

Protocol: PROTOCOL.md, "Per-file Statistics".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs

from airflow_delta.core.actions import Origin
from airflow_delta.core.data_files import RowObserver, StatisticsSelection, footer_statistics, open_data_file
from airflow_delta.core.data_files.column_lists import Path
from airflow_delta.core.data_files.legacy_calendar import is_in_legacy_calendar
from airflow_delta.core.data_files.reader import read_footer
from airflow_delta.core.errors import (
    CommitAttemptsExhaustedError,
    ConcurrentWriteError,
)
from airflow_delta.core.json_text import parse_json
from airflow_delta.core.log.action_reconciliation import file_keys
from airflow_delta.core.operations.table_log import TableLog
from airflow_delta.core.schema import DataType, DecimalType, PrimitiveType, StructType
from airflow_delta.core.schema.column_mapping import MappingMode, mapping_mode, physical_schema
from airflow_delta.core.schema.data_types import BINARY, BOOLEAN, VARIANT, VOID
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.storage.file_locator import FileLocator
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.storage_failures import read_data
from airflow_delta.core.table_features.feature import DELETION_VECTORS, writer_features
from airflow_delta.core.table_features.support import check_writable
from airflow_delta.core.transaction.commit_result import CommitResult
from airflow_delta.core.transaction.operation import Operation

_THREADS = 8
_READ_AT_ONCE = 1024  # files; only the statistics of each are kept
_ATTEMPTS = 100
_WITHOUT_BOUNDS = (BOOLEAN, BINARY, VARIANT, VOID)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsResult:
    """The outcome.

    Attributes:
        version: Version of the commit; if there was nothing to commit, of the table.
        read: Number of files read.
        changed: Number of files with new statistics.
        skipped: Number of files left unchanged, as they may hold dates in the Julian calendar.
        commit: The commit with the results of its hooks; None if no commit was made.
    """

    version: int
    read: int
    changed: int
    skipped: int
    commit: CommitResult | None = field(default=None, compare=False, repr=False)


def recompute_statistics(
    log: TableLog, *, where: str | None, missing_only: bool, dry_run: bool = False, origin: Origin
) -> StatisticsResult:
    """Give live files the statistics that the table's properties require, in one commit that changes no data.

    Files that another writer removes, or gives another deletion vector, while their footers are read stay unchanged.

    Args:
        log: The table.
        where: Only files that can hold rows for which this is true.
        missing_only: Only files without statistics; no other footer is read.
        dry_run: Only report what would be done.
        origin: The task run that requests it; its token is not recorded, as a repeated call finds nothing to do.

    Raises:
        InvalidPredicateError: ``where`` is not a predicate on this table.
        CorruptDataFileError: A file is missing or is not Parquet.
        CommitAttemptsExhaustedError: Other commits won every attempt.
        UnsupportedWriterFeatureError: The table requires an unsupported writer feature.
    """
    snapshot = log.refresh()
    check_writable(log.table_uri, snapshot.protocol, snapshot.metadata)
    files = snapshot.files(where)
    if missing_only:
        files = files.filter(without_statistics(files))
    stats = _Reader.from_snapshot(snapshot).statistics(files)
    changed = pa.array([_differ(*pair) for pair in zip(files["stats"].to_pylist(), stats.to_pylist(), strict=True)], pa.bool_())
    if dry_run:
        would = sum(changed.to_pylist())
        return StatisticsResult(version=snapshot.version, read=len(files), changed=would, skipped=stats.null_count)
    keys, texts = file_keys(files).filter(changed), stats.filter(changed)
    operation = Operation(name="COMPUTE STATS", parameters={"predicate": [where] if where else []}, changes_data=False)
    origin = Origin(job=origin.job, record=origin.record, user_metadata=origin.user_metadata)
    for _ in range(_ATTEMPTS):
        transaction = log.start_transaction()
        # Adding back a file that was removed meanwhile would duplicate its rows, so no other commit may come in between.
        adds = _with_statistics(transaction.snapshot.files(), keys, texts)
        transaction.record_read_files(adds["path"])
        try:
            committed = transaction.commit(adds=adds, operation=operation, origin=origin, resolve_conflicts=False)
        except ConcurrentWriteError:
            continue
        return StatisticsResult(
            version=committed.version, read=len(files), changed=len(adds), skipped=stats.null_count, commit=committed
        )
    raise CommitAttemptsExhaustedError(table=log.table_uri, read_version=snapshot.version, attempts=_ATTEMPTS)


def without_statistics(files: pa.Table) -> pa.ChunkedArray:
    """For each file, whether its statistics lack even the number of rows, so that no predicate on data columns can skip it."""
    return pc.invert(pc.match_substring(pc.fill_null(files["stats"], ""), '"numRecords"'))


def _differ(old: str | None, new: str | None) -> bool:
    """Whether the new statistics differ; None keeps the old ones."""
    if new is None or old == new:
        return False
    try:
        return bool(parse_json(old or "null") != json.loads(new))
    except ValueError:
        return True


def _with_statistics(live: pa.Table, keys: pa.ChunkedArray, stats: pa.ChunkedArray) -> pa.Table:
    """The live files (``ADD_FILE``) with one of the keys, with the statistics given for that key."""
    position = pc.index_in(file_keys(live), keys.combine_chunks())
    files = live.filter(pc.is_valid(position))
    columns = {
        "stats": stats.take(position.drop_null()),
        "data_change": pa.repeat(pa.scalar(False), len(files)),
    }
    return pa.table([columns.get(field.name, files[field.name]) for field in files.schema], schema=files.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Reads the statistics of a table's files, several at once.

    Attributes:
        schema: The columns in the files, with physical names.
        tells_tightness: Whether the table may have deletion vectors, so that each file records whether its bounds are tight.
    """

    store: LogStore
    locate: FileLocator
    schema: StructType
    selection: StatisticsSelection
    by_id: bool
    tells_tightness: bool

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot) -> _Reader:
        properties = snapshot.metadata.configuration
        return cls(
            store=snapshot.store,
            locate=FileLocator.from_store(snapshot.store),
            schema=physical_schema(snapshot.schema.without(snapshot.partition_columns)),
            selection=StatisticsSelection.from_properties(properties),
            by_id=mapping_mode(properties) is MappingMode.ID,
            tells_tightness=DELETION_VECTORS in writer_features(snapshot.protocol),
        )

    def statistics(self, files: pa.Table) -> pa.ChunkedArray:
        """The statistics of each file as JSON text; None for a file whose statistics stay unchanged."""
        return pa.chunked_array(list(self._pieces(files)), pa.string())

    def _pieces(self, files: pa.Table) -> Iterator[pa.Array]:
        with ThreadPoolExecutor(_THREADS) as pool:
            for start in range(0, len(files), _READ_AT_ONCE):
                piece = files.slice(start, _READ_AT_ONCE)
                paths, has_deletion_vector = piece["path"].to_pylist(), pc.is_valid(piece["deletion_vector"]).to_pylist()
                texts = pool.map(
                    lambda path, has: self._statistics_of(path, has_deletion_vector=has), paths, has_deletion_vector
                )
                yield pa.array(list(texts), pa.string())

    def _statistics_of(self, path: str, *, has_deletion_vector: bool) -> str | None:
        filesystem, place = self.locate(path)
        footer = read_data(lambda: read_footer(filesystem, place), table=self.store.table_uri, file=path)
        if is_in_legacy_calendar(footer.metadata.metadata or {}):
            return None
        text = footer_statistics(footer.metadata, self.schema, self.selection, unreadable=footer.unreadable)
        unbounded = set(unknown_leaves(json.loads(text), self.selection.physical_leaves(self.schema)))
        if unbounded and footer.metadata.num_rows:
            observer = self._observed(filesystem, place, unbounded)
            text = footer_statistics(footer.metadata, self.schema, self.selection, observer, unreadable=footer.unreadable)
        return f'{text[:-1]},"tightBounds":{"false" if has_deletion_vector else "true"}}}' if self.tells_tightness else text

    def _observed(self, filesystem: pyarrow.fs.FileSystem, place: str, leaves: set[Path]) -> RowObserver:
        """Read the rows' values of these leaf columns."""
        wanted = {path[0] for path in leaves}
        columns = StructType(tuple(field for field in self.schema.fields if field.name in wanted))
        everything = StatisticsSelection(indexed_columns=-1)
        single = {
            path
            for path, kind in everything.physical_leaves(columns)
            if path in leaves and isinstance(kind, DecimalType | PrimitiveType) and kind not in (VARIANT, VOID)
        }
        observer = RowObserver(columns, everything, single)
        table = self.store.table_uri
        for batch in open_data_file(filesystem, place, columns, {}, by_id=self.by_id, table=table):
            observer.observe(batch)
        return observer


def unknown_leaves(stats: Mapping[str, Any], leaves: tuple[tuple[Path, DataType], ...]) -> Iterator[Path]:
    """The leaf columns with incomplete statistics (parsed): no NULL count, or no bounds although there are values."""
    for path, kind in leaves:
        null_count = _leaf(stats["nullCount"], path)
        without_bounds = has_bounds(kind) and null_count != stats["numRecords"] and _leaf(stats["minValues"], path) is None
        if null_count is None or without_bounds:
            yield path


def has_bounds(kind: DataType) -> bool:
    """Whether Delta statistics include bounds for values of this type."""
    return isinstance(kind, DecimalType) or (isinstance(kind, PrimitiveType) and kind not in _WITHOUT_BOUNDS)


def _leaf(tree: Any, path: Path) -> Any:
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree
