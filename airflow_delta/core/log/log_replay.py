"""The state of the table at one version, rebuilt from its log files on demand, and updated with later commits."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import (
    ADD_FILE,
    NO_ADDS,
    NO_REMOVES,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    SetTransaction,
)
from airflow_delta.core.errors import CorruptLogError, LogGapError, VersionNotFoundError
from airflow_delta.core.log.action_reconciliation import FileChanges, file_changes, file_keys, path_with_two_deletion_vectors
from airflow_delta.core.log.checkpoint_parquet import FileFilter, RowFilter
from airflow_delta.core.log.checkpoint_reader import (
    BY_PARTITION,
    BY_STATISTICS,
    CheckpointHeader,
    active_file_pieces,
    read_active_files,
    read_header,
    read_tombstones,
)
from airflow_delta.core.log.commit_reader import CommitBatch, read_commit_info, read_commits
from airflow_delta.core.log.file_names import LOG_DIRECTORY
from airflow_delta.core.log.log_segment import Checkpoint, LogSegment, find_segment
from airflow_delta.core.log.record_counts import with_record_counts
from airflow_delta.core.statements.validation import whole_number
from airflow_delta.core.storage.log_store import LogStore

_Earlier: TypeAlias = tuple[pa.Table, CommitBatch]
_OF_KEYS = ("path", "deletion_vector")


class LogReplay:
    """The state of the log up to one version. Immutable; file actions are read on first use and then cached.

    The live files are those of a base (the checkpoint, or an earlier replay that has read them) with the later commits applied.
    """

    def __init__(self, store: LogStore, segment: LogSegment, header: CheckpointHeader | None, tail: CommitBatch) -> None:
        self.segment = segment
        self._store = store
        self._header = header
        self._tail = tail  # all commits after the checkpoint
        self.broken_checkpoints: tuple[Checkpoint, ...] = ()  # found so far, whether or not reading continued without them
        self._known_files: pa.Table | None = None  # live files, with the columns requested so far
        self._earlier_files: _Earlier | None = None  # the live files of an earlier version, and the commits since
        self._earlier_tombstones: _Earlier | None = None
        self._by_commits: LogReplay | None = None  # set once compacted commits have proved wrong
        self._was_chosen_from = False

    @classmethod
    def from_store(cls, store: LogStore, version: int | None = None, *, broken: Collection[Checkpoint] = ()) -> LogReplay:
        """The replay up to ``version`` (the latest one when None).

        If the newest checkpoint is unreadable, an older one is used, provided that all commits since exist.

        Args:
            store: The table's log store.
            version: The version wanted.
            broken: Checkpoints known to be unreadable, which are skipped.

        Raises:
            TableNotFoundError: The table does not exist.
            VersionNotFoundError: ``version`` cannot be rebuilt: it does not exist, or files that it needs were cleaned up.
            CorruptLogError: A log file that is needed cannot be read or is missing.
            InvalidStatementError: The version is not a whole number.
        """
        version = None if version is None else whole_number("the snapshot", "the version", version)
        found = list(broken)
        first_error: CorruptLogError | None = None
        while True:
            try:
                segment = find_segment(store, version, broken=found)
            except (LogGapError, VersionNotFoundError) as error:
                raise first_error or error from error
            header = None
            if segment.checkpoint:
                try:
                    header = read_header(store, segment.checkpoint)
                except CorruptLogError as error:
                    first_error = first_error or error
                    found.append(segment.checkpoint)
                    continue
            replay = cls(store, segment, header, read_commits(store, segment.commits, segment.compacted))
            replay.broken_checkpoints = tuple(found)
            return replay

    def followed_by(self, segment: LogSegment) -> LogReplay:
        """The replay of ``segment``, which extends this one's with later commits; what was read here is not read again."""
        if self._by_commits:
            return self._by_commits.followed_by(replace(segment, compacted=()))
        news = read_commits(self._store, [version for version in segment.commits if version > self.segment.version])
        later = LogReplay(self._store, segment, self._header, self._tail.followed_by(news))
        later.broken_checkpoints = self.broken_checkpoints
        later._earlier_files = _carried_on(self._known_files, self._earlier_files, news)
        later._earlier_tombstones = _carried_on(self.__dict__.get("tombstones"), self._earlier_tombstones, news)
        return later

    @property
    def protocol(self) -> Protocol:
        """The latest protocol. Raises ``CorruptLogError`` when there is none."""
        protocol = self._tail.protocol or (self._header.protocol if self._header else None)
        if protocol is None:
            raise self._corrupt(f"no protocol action up to version {self.segment.version}")
        return protocol

    @property
    def metadata(self) -> Metadata:
        """The latest metadata. Raises ``CorruptLogError`` when there is none."""
        metadata = self._tail.metadata or (self._header.metadata if self._header else None)
        if metadata is None:
            raise self._corrupt(f"no metaData action up to version {self.segment.version}")
        return metadata

    def _corrupt(self, detail: str) -> CorruptLogError:
        return CorruptLogError(table=self.segment.table, file=LOG_DIRECTORY, detail=detail)

    @property
    def transactions(self) -> Mapping[str, SetTransaction]:
        """The last transaction (``txn`` action) of each application, by application id."""
        return {**(self._header.transactions if self._header else {}), **self._tail.transactions}

    @property
    def domains(self) -> Mapping[str, DomainMetadata]:
        """The metadata domains by name, without removed ones."""
        merged = {**(self._header.domains if self._header else {}), **self._tail.domains}
        return {name: domain for name, domain in merged.items() if not domain.removed}

    @cached_property
    def commit_info(self) -> CommitInfo | None:
        """The ``commitInfo`` of this version; None when its commit file is gone or has none."""
        if self._tail.commit_info or not self.segment.commit_of_version:
            return self._tail.commit_info
        return read_commit_info(self._store, self.segment.version)

    # -- files

    @property
    def active_files(self) -> pa.Table:
        """The live files, columns ``ADD_FILE``. Raises as ``files``."""
        return self.files(ADD_FILE.names)

    def files(self, columns: Sequence[str]) -> pa.Table:
        """The live files; cached, so that only columns not requested before are read.

        Args:
            columns: Names of columns of ``ADD_FILE``, and ``NUM_RECORDS``, in the order wanted.

        Raises:
            CorruptLogError: A log file that is needed cannot be read or replaced by others, or two live files share a path.
        """
        known = self._known_files
        if known is None or not {*columns} <= {*known.column_names}:
            also = known.column_names if known is not None else ()
            known = self._known_files = self._rebuilt([*dict.fromkeys((*_OF_KEYS, *columns, *also))], None)
        return known.select(columns)

    def candidates(self, columns: Sequence[str], row_filter: RowFilter) -> pa.Table:
        """The live files for which ``row_filter`` may hold; possibly more.

        The first call reads, of the other files, only the columns that ``row_filter`` needs; from the second call on,
        everything is cached as in ``files``, which describes arguments and errors.
        """
        if not self._may_forget():
            return self.files(columns)
        return self._rebuilt([*dict.fromkeys((*_OF_KEYS, *columns))], FileFilter(BY_PARTITION, row_filter)).select(columns)

    def chosen(self, columns: Sequence[str], row_filter: RowFilter) -> pa.Table | None:
        """The live files for which ``row_filter`` holds; it uses the columns ``BY_STATISTICS``.

        Statistics are read piece by piece and not kept, as they need more memory than all other columns. Only the first call
        does so; later calls return None, as everything is cached as in ``files``, which describes arguments and errors.
        """
        if not self._may_forget():
            return None
        files = self._rebuilt([*dict.fromkeys((*_OF_KEYS, *columns))], FileFilter(BY_STATISTICS, row_filter))
        late = self._tail_changes.added  # ``files`` still includes all of these
        is_wanted = [row_filter(piece) for piece in late.select(BY_STATISTICS.names).combine_chunks().to_batches()]
        unwanted = file_keys(late.filter(pc.invert(pa.chunked_array(is_wanted, pa.bool_()))))
        files = files.filter(pc.invert(pc.is_in(file_keys(files), unwanted))) if len(unwanted) else files
        return files.select(columns)

    def _may_forget(self) -> bool:
        """Whether it is cheaper not to keep what selects the files: for the first selection from a checkpoint."""
        if self._was_chosen_from or self._known_files is not None or self._earlier_files is not None:
            return False
        self._was_chosen_from = self.segment.checkpoint is not None
        return self._was_chosen_from

    def file_pieces(self) -> Iterator[pa.Table]:
        """The live files, columns ``ADD_FILE``, piece by piece; pieces that are not cached are read and not kept.

        Raises:
            CorruptLogError: As of ``files``, except that a checkpoint found to be broken is not replaced by other files.
        """
        known = self._known_files if self._known_files is not None else self._earlier_files and self._earlier_files[0]
        is_known = known is not None and {*ADD_FILE.names} <= {*known.column_names}
        if is_known or not self.segment.checkpoint:
            yield self.active_files
            return
        changes = self._tail_changes
        if self.segment.compacted and not self._by_commits:  # one may be wrong, which must be known before the first piece
            paths = changes.added["path"]
            is_added = FileFilter(pa.schema([ADD_FILE.field("path")]), lambda files: pc.is_in(files["path"], paths))
            self._rebuilt(_OF_KEYS, is_added)
        if self._by_commits:
            yield from self._by_commits.file_pieces()
            return
        self._refuse_shared(path_with_two_deletion_vectors(changes.added))
        for piece in active_file_pieces(self._store, self.segment.checkpoint):
            files = changes.untouched(pa.Table.from_batches([piece]))
            named = files["path"].filter(pc.is_in(files["path"], changes.added["path"]))
            self._refuse_shared(named[0].as_py() if len(named) else None)
            yield files
        yield changes.added

    def _rebuilt(self, columns: Sequence[str], file_filter: FileFilter | None) -> pa.Table:
        if self._earlier_files and {*columns} <= {*self._earlier_files[0].column_names}:
            before, news = self._earlier_files
            files = file_changes(news.adds, news.removes).active_files(before.select(columns))
        elif self.segment.checkpoint:
            try:
                before = read_active_files(self._store, self.segment.checkpoint, columns, file_filter)
            except CorruptLogError as error:
                return self._without_checkpoint(error).files(columns)
            files = self._tail_changes.active_files(before)
        else:
            files = self._tail_changes.active_files(with_record_counts(NO_ADDS, columns))
        shared = path_with_two_deletion_vectors(files)
        if shared is not None and self.segment.compacted:  # one of the compacted files may be wrong; the commits decide
            return self._without_compacted_commits().files(columns)
        self._refuse_shared(shared)
        return files

    def _without_compacted_commits(self) -> LogReplay:
        if self._by_commits is None:
            segment = replace(self.segment, compacted=())
            self._by_commits = LogReplay(self._store, segment, self._header, read_commits(self._store, segment.commits))
            self._by_commits.broken_checkpoints = self.broken_checkpoints
        return self._by_commits

    def _refuse_shared(self, path: str | None) -> None:
        if path is not None:
            raise self._corrupt(f"two live files of version {self.segment.version} have the path {path!r}")

    @cached_property
    def tombstones(self) -> pa.Table:
        """The removed files that the log still records as tombstones, columns ``REMOVE_FILE``. Raises as ``files``."""
        # Contradictions with the checkpoint show only once the live files are read, which would be too much for this alone.
        if self._by_commits or (self.segment.compacted and path_with_two_deletion_vectors(self._tail_changes.added)):
            return self._without_compacted_commits().tombstones
        if self._earlier_tombstones:
            before, news = self._earlier_tombstones
            return file_changes(news.adds, news.removes).tombstones(before)
        if not self.segment.checkpoint:
            return self._tail_changes.tombstones(NO_REMOVES)
        try:
            return self._tail_changes.tombstones(read_tombstones(self._store, self.segment.checkpoint))
        except CorruptLogError as error:
            return self._without_checkpoint(error).tombstones

    @cached_property
    def _tail_changes(self) -> FileChanges:
        return file_changes(self._tail.adds, self._tail.removes)

    def _without_checkpoint(self, error: CorruptLogError) -> LogReplay:
        """The same version from an older checkpoint, or from the commits alone; raises ``error`` if these are gone."""
        if self.segment.checkpoint and self.segment.checkpoint not in self.broken_checkpoints:
            self.broken_checkpoints = (*self.broken_checkpoints, self.segment.checkpoint)
        try:
            return LogReplay.from_store(self._store, self.segment.version, broken=self.broken_checkpoints)
        except (CorruptLogError, VersionNotFoundError):
            raise error from None


def _carried_on(known: pa.Table | None, earlier: _Earlier | None, news: CommitBatch) -> _Earlier | None:
    """The earlier version's cached files, with all commits since, including ``news``."""
    if known is not None:
        return known, news
    return (earlier[0], earlier[1].followed_by(news)) if earlier else None
