"""Where the replay of a version begins, and whether one process should do it; determined without reading file actions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow.parquet as pq

from airflow_delta.core.errors import CorruptLogError, LogGapError, VersionNotFoundError
from airflow_delta.core.log.checkpoint_reader import CheckpointHeader, read_header
from airflow_delta.core.log.corrupt_log_errors import corrupt_log_errors
from airflow_delta.core.log.log_segment import Checkpoint, LogSegment, find_segment
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.spark.distributed.log_pieces import LogPiece

MANY_ACTIONS = 20_000_000
"""Number of actions from which on a checkpoint is written with Spark.

One process writes about 1.5 million actions per second, reading those of the checkpoint piece by piece: this many take about 15
seconds. But tombstones, and everything since the checkpoint, must be held in memory at once.
"""

_BYTES_HELD_AS_AN_ACTION = 100
_BYTES_OF_AN_ACTION = 500
_ROWS_OF_PIECE = 1 << 20
_READERS = 16


def outgrows_one_process(*, rows: int, commit_bytes: int, many: int = MANY_ACTIONS) -> bool:
    """Whether the replay of a log should be distributed.

    An action in a commit, about 500 bytes of JSON, counts as five actions of a checkpoint, as one process parses and holds all
    commits at once. So 20 million actions of a checkpoint count as much as 2 GB of commits.

    Args:
        rows: Actions in the checkpoint.
        commit_bytes: Total size of the commits since, in bytes.
        many: The number of actions from which on the replay should be distributed.
    """
    return rows + commit_bytes // _BYTES_HELD_AS_AN_ACTION >= many


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogStart:
    """The files that make up a version, as far as their names, footers and non-file actions show.

    Attributes:
        segment: The files.
        header: Header of the checkpoint; None without a checkpoint.
        rows: Number of actions in each Parquet file of the checkpoint, including sidecars, by path.
        broken: Unreadable checkpoints, which were skipped.
    """

    segment: LogSegment
    header: CheckpointHeader | None
    rows: Mapping[str, int]
    broken: tuple[Checkpoint, ...]

    @classmethod
    def of(cls, store: LogStore, version: int | None = None, *, broken: Collection[Checkpoint] = ()) -> LogStart:
        """The start of ``version`` (the latest one when None), from an older checkpoint if the newest is broken.

        Raises:
            TableNotFoundError: There is no table.
            VersionNotFoundError: ``version`` cannot be rebuilt: it does not exist, or files that it needs were cleaned up.
            CorruptLogError: No checkpoint can be read, or a commit is missing.
        """
        found = list(broken)
        first_error: CorruptLogError | None = None
        while True:
            try:
                segment = find_segment(store, version, broken=found)
            except (LogGapError, VersionNotFoundError) as error:
                raise first_error or error from error
            if segment.checkpoint is None:
                return cls(segment=segment, header=None, rows={}, broken=tuple(found))
            try:
                header = read_header(store, segment.checkpoint)
                rows = _rows_of_files(store, [*(status.path for status in segment.checkpoint.files), *header.sidecars])
            except CorruptLogError as error:
                first_error = first_error or error
                found.append(segment.checkpoint)
            else:
                return cls(segment=segment, header=header, rows=rows, broken=tuple(found))

    @property
    def commit_bytes(self) -> int:
        """Total size of the commits after the checkpoint, in bytes."""
        return sum(status.size for status in self.segment.commits.values())

    @property
    def actions(self) -> int:
        """Approximate number of actions, including those that others cancel."""
        return sum(self.rows.values()) + self.commit_bytes // _BYTES_OF_AN_ACTION

    def outgrows_one_process(self, many: int = MANY_ACTIONS) -> bool:
        """Whether the replay should be distributed; see the function of this name."""
        return outgrows_one_process(rows=sum(self.rows.values()), commit_bytes=self.commit_bytes, many=many)

    def commits(self) -> Iterator[LogPiece]:
        """The commits after the checkpoint, one piece each, as the lines of a commit are ordered."""
        for version, status in self.segment.commits.items():
            yield LogPiece(path=status.path, version=version)

    def pieces(self) -> Iterator[LogPiece]:
        """Everything to be read, in pieces for many readers; a large Parquet file is split into several pieces."""
        checkpoint = self.segment.checkpoint
        if checkpoint:
            for status in checkpoint.files:
                if status.path not in self.rows:
                    yield LogPiece(path=status.path, version=checkpoint.version)
            for path, rows in self.rows.items():
                for first in range(0, rows, _ROWS_OF_PIECE):
                    yield LogPiece(path=path, version=checkpoint.version, start=first, stop=first + _ROWS_OF_PIECE)
        yield from self.commits()

    def without_checkpoint(self, store: LogStore, error: CorruptLogError) -> LogStart:
        """The start of the same version from an older checkpoint.

        Raises:
            CorruptLogError: ``error`` itself, if the checkpoint is not its cause, or if there is no other start.
        """
        checkpoint = self.segment.checkpoint
        if checkpoint is None or error.file not in {*self.rows, *(status.path for status in checkpoint.files)}:
            raise error
        try:
            return LogStart.of(store, self.segment.version, broken=[*self.broken, checkpoint])
        except (CorruptLogError, VersionNotFoundError):
            raise error from None


def _rows_of_files(store: LogStore, paths: Collection[str]) -> dict[str, int]:
    def rows(path: str) -> int:
        with corrupt_log_errors(store.table_uri, path), store.open_input(path) as stream:
            return int(pq.read_metadata(stream).num_rows)

    parquet = [path for path in paths if not path.endswith(".json")]
    with ThreadPoolExecutor(_READERS) as readers:
        return dict(zip(parquet, readers.map(rows, parquet), strict=True))
