"""The table at one version: what every reader starts from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from warnings import warn

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import ADD_FILE, NO_ADDS, CommitInfo, DomainMetadata, Metadata, Protocol, SetTransaction
from airflow_delta.core.data_files.indexed_columns import IndexedColumns
from airflow_delta.core.data_files.row_ids import RowIds
from airflow_delta.core.errors import CorruptLogError, SchemaMismatchError
from airflow_delta.core.log.file_names import LOG_DIRECTORY
from airflow_delta.core.log.history import CommitTimes, InCommitTimestamps, commit_timestamp
from airflow_delta.core.log.log_replay import LogReplay
from airflow_delta.core.log.log_segment import LogSegment
from airflow_delta.core.log.managed_commits import check_access, check_identity
from airflow_delta.core.log.version_checksum import VersionChecksum, differences, read_checksum
from airflow_delta.core.predicate import (
    NO,
    TRUE,
    Expression,
    evaluate_files,
    filter_files,
    is_partition_only,
    parse_predicate,
    partition_part,
)
from airflow_delta.core.schema import MappingMode, StructType, parse_schema, without_column_mapping
from airflow_delta.core.schema.unknown_types import columns_of_unknown_types
from airflow_delta.core.snapshot.bloom_filter_pruning import without_skippable
from airflow_delta.core.snapshot.lookups import lookups_of
from airflow_delta.core.snapshot.rows import READ_COLUMNS, read_rows, refuse_deletion_vectors
from airflow_delta.core.snapshot.unreadable_columns import UnreadableColumnsWarning
from airflow_delta.core.storage.file_locator import FileLocator
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.table_features.feature import DELETION_VECTORS, column_mapping_of, reader_features
from airflow_delta.core.table_features.support import PARTLY_READABLE, check_readable


class Snapshot:
    """One version of a table. Immutable; large parts are read on first use and then cached.

    Raises:
        CorruptLogError: The log holds no protocol or no metadata.
        UnsupportedReaderFeatureError: The table needs a reader feature that is not supported here.
        CatalogRequiredError: The table is catalog-managed, and the store does not go through its catalog.
        NotCatalogManagedError: The store goes through a catalog, but the table is not catalog-managed.
        AnotherManagedTableError: The catalog manages another table at this place.
    """

    def __init__(self, store: LogStore, replay: LogReplay) -> None:
        self.store: LogStore = store
        self.replay = replay
        self.protocol: Protocol = replay.protocol
        self.metadata: Metadata = replay.metadata
        check_access(store, self.protocol)
        check_identity(store, self.metadata)
        check_readable(store.table_uri, self.protocol, self.metadata)

    @property
    def table_uri(self) -> str:
        """The table's root as the user wrote it."""
        return self.store.table_uri

    @property
    def version(self) -> int:
        """The version number, that of the commit that made it."""
        return self.replay.segment.version

    @property
    def segment(self) -> LogSegment:
        """The log files that make up this version."""
        return self.replay.segment

    @cached_property
    def timestamp(self) -> int:
        """When this version was committed, in milliseconds since the epoch; the checkpoint's time if only that is left.

        Without in-commit timestamps this is the modification time of the commit file, unadjusted, as in Delta Spark. History,
        time travel and the change feed adjust such times so that they ascend; ``history_timestamp`` is the adjusted time.
        """
        commit, checkpoint = self.segment.commit_of_version, self.segment.checkpoint
        file = commit or (checkpoint.files[-1] if checkpoint else None)
        in_commit = InCommitTimestamps.from_metadata(self.metadata)
        if not in_commit.holds_for(self.version):
            return file.modification_time if file else 0
        if commit is None and self.checksum and self.checksum.in_commit_timestamp is not None:
            return self.checksum.in_commit_timestamp  # the only source left
        return commit_timestamp(self.version, file.modification_time if file else 0, self.commit_info, in_commit)

    @cached_property
    def history_timestamp(self) -> int:
        """The time by which history, time travel and the change feed know this version, in milliseconds since the epoch.

        Without in-commit timestamps this lists the log. If the commit file is gone, it equals ``timestamp``.
        """
        in_commit = InCommitTimestamps.from_metadata(self.metadata)
        if in_commit.holds_for(self.version):
            return self.timestamp
        try:
            return CommitTimes(self.store, in_commit).time_of(self.version)
        except KeyError:  # only its checkpoint is left
            return self.timestamp

    @cached_property
    def checksum(self) -> VersionChecksum | None:
        """The content of the version checksum file (``.crc``); None if absent or unreadable. A hint only: the log decides."""
        return read_checksum(self.store, self.version)

    def verify_checksum(self) -> tuple[str, ...]:
        """The differences between the version checksum and the log, as texts; empty if they agree or there is no checksum.

        Raises:
            CorruptLogError: A log file that is needed cannot be read.
        """
        if self.checksum is None:
            return ()
        info, in_commit = self.commit_info, InCommitTimestamps.from_metadata(self.metadata)
        sizes = self.files(columns=["size"])["size"]
        counted = VersionChecksum(
            num_files=len(sizes),
            table_size=pc.sum(sizes).as_py() or 0,
            protocol=self.protocol,
            metadata=self.metadata,
            transactions=tuple(self.transactions.values()),
            domains=tuple(self.domains.values()),
            in_commit_timestamp=self.timestamp if info and in_commit.holds_for(self.version) else None,
        )
        return differences(self.checksum, counted)

    @property
    def commit_info(self) -> CommitInfo | None:
        """The ``commitInfo`` of this version; None when the log does not record it."""
        return self.replay.commit_info

    @cached_property
    def schema(self) -> StructType:
        """The readable columns, partition columns included, in the table's order.

        Field metadata holds physical names and ids only if column mapping is on. A warning (``UnreadableColumnsWarning``) names
        the columns left out, the ``unreadable_columns``.
        """
        schema = parse_schema(self.schema_string)
        if unreadable := self.unreadable_columns:
            warn(UnreadableColumnsWarning(self.table_uri, unreadable), stacklevel=2)
            schema = schema.without(unreadable)
        return without_column_mapping(schema) if self.column_mapping is MappingMode.NONE else schema

    @cached_property
    def unreadable_columns(self) -> tuple[str, ...]:
        """Names of the columns left out because their type needs a feature that is not supported here (such as geometry)."""
        if PARTLY_READABLE.isdisjoint(reader_features(self.protocol)):
            return ()
        return columns_of_unknown_types(parse_schema(self.schema_string))

    @property
    def column_mapping(self) -> MappingMode:
        """How columns are matched to those of data files; none if the table's protocol does not support column mapping."""
        return column_mapping_of(self.metadata, self.protocol)

    @property
    def schema_string(self) -> str:
        """The schema as JSON text, unchanged from the log."""
        return self.metadata.schema_string

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Names of the partition columns, in order."""
        return self.metadata.partition_columns

    @property
    def transactions(self) -> Mapping[str, SetTransaction]:
        """The last transaction (``txn`` action) of each application, by application id."""
        return self.replay.transactions

    @property
    def domains(self) -> Mapping[str, DomainMetadata]:
        """The metadata domains, by name."""
        return self.replay.domains

    def redefined(self, metadata: Metadata, protocol: Protocol) -> Snapshot:
        """This snapshot with other metadata and protocol but the same files, as a commit of just those would leave it."""
        other = copy(self)
        other.metadata, other.protocol = metadata, protocol
        for made in ("schema", "unreadable_columns"):  # derived from the former definition
            other.__dict__.pop(made, None)
        return other

    def files(
        self,
        where: str | Expression | None = None,
        columns: Sequence[str] | None = None,
        *,
        keys: pa.Table | None = None,
    ) -> pa.Table:
        """The live files that may hold rows for which ``where`` is true: possibly more files, never fewer.

        Partition values and statistics decide first. If the files left are a few thousand at most, their Bloom filters are
        checked for columns that the table indexes (``airflow_delta.bloomFilter.columns``).

        Args:
            where: Which rows; all when None.
            columns: Names of columns of ``ADD_FILE``, and ``num_records`` (physical rows; NULL where the statistics lack it),
                in this order; all of ``ADD_FILE`` when None. Columns not requested are not read.
            keys: The rows must also have one of these keys: columns named as the table's, integers as 64-bit. Only Bloom
                filters use them.

        Raises:
            InvalidPredicateError: The text is not a predicate on this table.
            CorruptLogError: A log file that is needed cannot be read, or two live files share a path.
        """
        wanted = list(ADD_FILE.names if columns is None else columns)
        predicate = TRUE if where is None else self._predicate(where)
        indexed = IndexedColumns.from_properties(self.metadata.configuration)
        lookups = lookups_of(predicate, keys, indexed, self.schema, self.partition_columns)
        if lookups is None:
            return self._files_by_statistics(predicate, wanted)
        files = self._files_by_statistics(predicate, [*dict.fromkeys((*wanted, "path"))])
        by_id = self.column_mapping is MappingMode.ID
        return without_skippable(files, lookups, FileLocator.from_store(self.store), by_id=by_id).select(wanted)

    def _files_by_statistics(self, predicate: Expression, wanted: list[str]) -> pa.Table:
        """The files that partition values and statistics cannot exclude, with these columns."""
        if predicate == TRUE:
            return self.replay.files(wanted)
        schema, partitions = self.schema, self.partition_columns
        on_partitions = partition_part(predicate, partitions)
        for_predicate = ("partition_values",) if is_partition_only(predicate, partitions) else ("partition_values", "stats")
        needed = [*dict.fromkeys((*wanted, *for_predicate))]
        if on_partitions == TRUE and "stats" in for_predicate and "stats" not in wanted:
            chosen = self.replay.chosen(wanted, lambda batch: _may_hold(predicate, batch, schema, partitions))
            if chosen is not None:
                return chosen
        if on_partitions == TRUE:
            files = self.replay.files(needed)
        else:
            files = self.replay.candidates(needed, lambda batch: _may_hold(on_partitions, batch, schema, partitions))
        return filter_files(predicate, files, schema, partitions).select(wanted)

    def completed(self, files: pa.Table) -> pa.Table:
        """These live files, given with only some columns, with all columns (``ADD_FILE``), in the same order.

        Raises:
            CorruptLogError: As of ``files``.
        """
        if not len(files):
            return NO_ADDS
        if {*ADD_FILE.names} <= {*files.column_names}:
            return files
        paths = files["path"].combine_chunks()

        def among(live: pa.Table) -> pa.Table:
            return live.filter(pc.is_in(live["path"], paths))

        try:
            found = pa.concat_tables(map(among, self.replay.file_pieces()))
        except CorruptLogError:  # another source may serve
            found = among(self.replay.active_files)
        if len(found) < len(files):
            detail = f"{len(files) - len(found)} live files of version {self.version} are gone from the log"
            raise CorruptLogError(table=self.table_uri, file=LOG_DIRECTORY, detail=detail)
        return found.take(pc.index_in(paths, found["path"].combine_chunks()))

    def tombstones(self) -> pa.Table:
        """The removed files that the log still records as tombstones (``REMOVE_FILE``)."""
        return self.replay.tombstones

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        where: str | Expression | None = None,
        *,
        with_row_ids: bool = False,
    ) -> pa.RecordBatchReader:
        """Exactly the rows for which ``where`` is true; files are opened one after the other as the reader is consumed.

        Args:
            columns: Names of the columns to return, in this order; all when None.
            where: Which rows; all when None.
            with_row_ids: Whether to append the columns ``__row_id`` and ``__row_commit_version`` (the version that last changed
                the row); the table must have row tracking enabled.

        Raises:
            InvalidPredicateError: The predicate cannot be evaluated exactly here.
            SchemaMismatchError: A column is not in the table, or row ids are requested but row tracking is not enabled.
            UnsupportedReaderFeatureError: A file has a deletion vector, but the protocol does not list the feature.
            CorruptDataFileError: A data file does not match the log. Raised while the reader is consumed.
        """
        predicate = None if where is None else self._predicate(where)
        row_ids = RowIds.from_configuration(self.metadata.configuration) if with_row_ids else None
        if with_row_ids and row_ids is None:
            raise SchemaMismatchError(table=self.table_uri, differences=("row ids: the table does not track its rows",))
        files = self.files(predicate, READ_COLUMNS)
        if DELETION_VECTORS not in reader_features(self.protocol):
            refuse_deletion_vectors(self.table_uri, files)
        return read_rows(
            store=self.store,
            files=files,
            schema=self.schema,
            partition_columns=self.partition_columns,
            columns=columns,
            predicate=predicate,
            by_id=self.column_mapping is MappingMode.ID,
            row_ids=row_ids,
        )

    def _predicate(self, where: str | Expression) -> Expression:
        return parse_predicate(where, self.schema, self.table_uri) if isinstance(where, str) else where


def _may_hold(predicate: Expression, files: pa.RecordBatch, schema: StructType, partitions: Sequence[str]) -> pa.BooleanArray:
    may_hold = pc.not_equal(evaluate_files(predicate, pa.Table.from_batches([files]), schema, partitions), NO)
    return may_hold.combine_chunks() if isinstance(may_hold, pa.ChunkedArray) else may_hold
