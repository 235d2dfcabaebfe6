"""The table at one version: the front door of everything that reads."""

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
    """One version of a table. It never changes; what is large is read when it is first requested, and kept.

    Raises:
        CorruptLogError: The log holds no protocol or no metadata.
        UnsupportedReaderFeatureError: The rows cannot be read right.
        CatalogRequiredError: A catalog manages the table, and the store does not know it; or the other way round,
            ``NotCatalogManagedError``; or the catalog manages another table there, ``AnotherManagedTableError``.
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
        """Number of the commit that made this version."""
        return self.replay.segment.version

    @property
    def segment(self) -> LogSegment:
        """The log files that make up this version."""
        return self.replay.segment

    @cached_property
    def timestamp(self) -> int:
        """When this version was committed, in milliseconds since the epoch; the checkpoint's time where only that is left.

        Where commits carry no time, that of the file, as it stands: as in Delta Spark. History, time travel and the change feed
        move times of a clock that ran backwards; to name the version by its time, take ``history_timestamp``.
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
        """The time that history, time travel and the change feed give this version, in milliseconds since the epoch.

        Costs a listing of the log where commits carry no time. ``timestamp`` where the commit is gone.
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
        """What the checksum file beside the commit says; None where there is none that can be read. It is never the truth."""
        return read_checksum(self.store, self.version)

    def verify_checksum(self) -> tuple[str, ...]:
        """What the checksum file says otherwise than the log, each as a text; empty where they agree or there is none.

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
        """Who made this version; None when the log does not record it."""
        return self.replay.commit_info

    @cached_property
    def schema(self) -> StructType:
        """The columns that can be read, partition columns included, in the table's order.

        Their metadata names physical names and ids only where the table's column mapping is on. Columns that are left out, the
        ``unreadable_columns``, are named in a warning.
        """
        schema = parse_schema(self.schema_string)
        if unreadable := self.unreadable_columns:
            warn(UnreadableColumnsWarning(self.table_uri, unreadable), stacklevel=2)
            schema = schema.without(unreadable)
        return without_column_mapping(schema) if self.column_mapping is MappingMode.NONE else schema

    @cached_property
    def unreadable_columns(self) -> tuple[str, ...]:
        """Names of the columns of types that only a feature explains which is not known here (a geometry)."""
        if PARTLY_READABLE.isdisjoint(reader_features(self.protocol)):
            return ()
        return columns_of_unknown_types(parse_schema(self.schema_string))

    @property
    def column_mapping(self) -> MappingMode:
        """How columns are found in data files; a table whose protocol does not know column mapping has none."""
        return column_mapping_of(self.metadata, self.protocol)

    @property
    def schema_string(self) -> str:
        """The schema as JSON text, as in the log."""
        return self.metadata.schema_string

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Names of the partition columns, in order."""
        return self.metadata.partition_columns

    @property
    def transactions(self) -> Mapping[str, SetTransaction]:
        """How far each application has written, by its id."""
        return self.replay.transactions

    @property
    def domains(self) -> Mapping[str, DomainMetadata]:
        """The metadata domains, by name."""
        return self.replay.domains

    def redefined(self, metadata: Metadata, protocol: Protocol) -> Snapshot:
        """The same files as a commit that gives the table this definition will have them read."""
        other = copy(self)
        other.metadata, other.protocol = metadata, protocol
        for made in ("schema", "unreadable_columns"):  # what the other definition made of it
            other.__dict__.pop(made, None)
        return other

    def files(
        self,
        where: str | Expression | None = None,
        columns: Sequence[str] | None = None,
        *,
        keys: pa.Table | None = None,
    ) -> pa.Table:
        """The live files that can hold rows for which ``where`` is true; it may be more, never fewer.

        Statistics decide first. Of the files that they leave, some thousands at most, the Bloom filters are asked of the
        columns that the table indexes so (``airflow_delta.bloomFilter.columns``).

        Args:
            where: Which rows; all when None.
            columns: Names of ``ADD_FILE`` and ``num_records`` (physical rows; null where the statistics lack them), in this
                order; those of ``ADD_FILE`` when None. What is not requested is not read.
            keys: The rows have one of these keys: columns named as the table's, integers as longs. Only Bloom filters are asked
                for them.

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
        """The files that partition values and statistics leave, with these columns."""
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
        """These live files, of which some columns are known, with all columns (``ADD_FILE``), in the same order.

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
        except CorruptLogError:  # something else may serve
            found = among(self.replay.active_files)
        if len(found) < len(files):
            detail = f"{len(files) - len(found)} live files of version {self.version} are gone from the log"
            raise CorruptLogError(table=self.table_uri, file=LOG_DIRECTORY, detail=detail)
        return found.take(pc.index_in(paths, found["path"].combine_chunks()))

    def tombstones(self) -> pa.Table:
        """The removed files that the log still remembers (``REMOVE_FILE``)."""
        return self.replay.tombstones

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        where: str | Expression | None = None,
        *,
        with_row_ids: bool = False,
    ) -> pa.RecordBatchReader:
        """The rows for which ``where`` is true, exactly; files are opened one after the other while the reader is consumed.

        Args:
            columns: Names of the columns wanted, in this order; all when None.
            where: Which rows; all when None.
            with_row_ids: Whether the last columns ``__row_id`` and ``__row_commit_version`` identify each row and which
                version last changed it, on a table that tracks its rows.

        Raises:
            InvalidPredicateError: The predicate cannot be decided exactly here.
            SchemaMismatchError: A column is not in the table, or row ids are requested but the table does not track rows.
            UnsupportedReaderFeatureError: A file carries a deletion vector though the table does not say that there are any.
            CorruptDataFileError: A data file is not what the log says. Raised while the reader is consumed.
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
