"""Pieces of a log, each read by one Python worker: file actions as columns, never more than a few megabytes at once.

Workers import this module, so it does not import the predicate parser.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, fields
from functools import partial
from typing import BinaryIO

import pyarrow as pa

from airflow_delta.core.actions import ADD_FILE, REMOVE_FILE
from airflow_delta.core.errors import LogGapError
from airflow_delta.core.log.checkpoint_parquet import CheckpointFile, FileFilter
from airflow_delta.core.log.corrupt_log_errors import corrupt_log_errors
from airflow_delta.core.log.json_file_actions import VERSION, file_actions
from airflow_delta.core.log.non_file_actions import LogText
from airflow_delta.core.log.unfinished_commits import read_settled
from airflow_delta.core.storage.log_store import LogStore

ADDS, REMOVES = ADD_FILE.append(VERSION), REMOVE_FILE.append(VERSION)

_BLOCK = 32 << 20
_BY_SIZE = pa.schema([ADD_FILE.field("size")])  # any column that is cheap to read
_LARGE_ACTIONS = (b'{"add":', b'{"remove":', b'{"cdc":', b'{"commitInfo":')


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPiece:
    """A file of the log, or a range of the actions in a Parquet file.

    Attributes:
        path: Path below the table's root.
        version: The version of its actions.
        start: Index of the first file action of each kind, from 0.
        stop: Index after the last file action of each kind; -1 for a file that is read as a whole.
    """

    path: str
    version: int
    start: int = 0
    stop: int = -1

    def actions(self, store: LogStore) -> Iterator[pa.Table]:
        """The file actions, columns ``ADDS`` or ``REMOVES``; actions of the same kind in the order of the file.

        Raises:
            CorruptLogError: The file is missing or has invalid content, or an action violates the protocol.
        """
        return self._of_json(store) if self.path.endswith(".json") else self._of_parquet(store)

    def small_lines(self, store: LogStore) -> bytes:
        """The lines of a commit with non-file actions. Raises ``LogGapError``."""
        return b"\n".join(
            line for lines in self._blocks(store) for line in lines.split(b"\n") if line and not line.startswith(_LARGE_ACTIONS)
        )

    def _of_json(self, store: LogStore) -> Iterator[pa.Table]:
        for lines in self._blocks(store):
            text = LogText.from_content(self.path, self.version, lines)
            found = read_settled(store, partial(file_actions, store.table_uri, [text]))
            yield from (actions for actions in (found.adds, found.removes) if len(actions))

    def _blocks(self, store: LogStore) -> Iterator[bytes]:
        try:
            with store.open_input(self.path) as stream:
                yield from whole_lines(stream, _BLOCK)
        except FileNotFoundError as error:
            raise LogGapError(table=store.table_uri, file=self.path, detail="it was there a moment ago") from error

    def _of_parquet(self, store: LogStore) -> Iterator[pa.Table]:
        with corrupt_log_errors(store.table_uri, self.path), store.open_input(self.path) as stream:
            file = CheckpointFile(stream)
            for action, schema in (("add", ADD_FILE), ("remove", REMOVE_FILE)):
                for batch in file.files(action, schema, FileFilter(_BY_SIZE, _Range(self.start, self.stop))):
                    if batch.num_rows:
                        versions = pa.repeat(pa.scalar(self.version, pa.int64()), batch.num_rows)
                        yield pa.Table.from_batches([batch]).append_column(VERSION, versions)


class _Range:
    """Selects rows by their index, counting them as they arrive."""

    def __init__(self, start: int, stop: int) -> None:
        self._start, self._stop, self._seen = start, stop, 0

    def __call__(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        rows = batch.num_rows
        start, stop = (min(max(bound - self._seen, 0), rows) for bound in (self._start, self._stop))
        self._seen += rows
        runs = ((False, start), (True, stop - start), (False, rows - stop))
        return pa.concat_arrays([pa.repeat(pa.scalar(is_in), count) for is_in, count in runs])


def whole_lines(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """The content in blocks of about ``size`` bytes that end between two lines; a longer line is a block of its own."""
    pending: list[bytes] = []
    while block := stream.read(size):
        head, newline, tail = block.rpartition(b"\n")
        if newline:
            yield b"".join([*pending, head])
            pending = [tail]
        else:
            pending.append(block)
    if rest := b"".join(pending):
        yield rest


def pieces_table(pieces: Iterable[LogPiece]) -> pa.Table:
    """The pieces as rows, which Spark distributes to its workers."""
    columns = zip(*map(astuple, pieces), strict=True)
    kinds = (pa.string(), pa.int64(), pa.int64(), pa.int64())
    return pa.table(
        {field.name: pa.array(values, kind) for field, values, kind in zip(fields(LogPiece), columns, kinds, strict=True)}
    )


def pieces_of(rows: pa.Table) -> Iterator[LogPiece]:
    """The pieces in these rows."""
    return (LogPiece(**row) for row in rows.to_pylist())
