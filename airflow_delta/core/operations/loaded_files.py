"""The record of files that COPY INTO has loaded into a table, tied to the commits that loaded them.

The names of loaded files would not fit into the log: a million of them in a ``txn`` or a metadata domain would be part of every
checkpoint, and domains need a table feature. So they are kept in immutable Parquet files ("parts") in the folder of the table,
``_airflow_delta/loaded/{number}.parquet``, and the commit that adds the rows names the newest part in its ``txn`` action:

* The number of a part is the ``version`` of the ``txn`` of the application ``APP_ID``: the upper 31 bits count the loads, and
  32 random bits make sure that two attempts at the same load never share a file. The part is written before the commit and only
  takes effect with it, so that rows and record become visible atomically.
* Every protocol version includes ``txn``: all engines keep it in checkpoints, and no log cleanup removes it. Two concurrent
  loads conflict through it (``application_progressed``).
* Each part names the earlier parts that are still valid. Small ones are merged when a new one is written, so that their number
  grows with the logarithm of the number of loads. Parts that no current commit references are deleted after a week, including
  those that killed loads leave.
* The folder's name starts with an underscore, so that no engine reads it as data and no vacuum deletes it.

RESTORE and time travel do not change the record: Delta's RESTORE keeps ``txn`` actions as they are. A deep clone, which has the
rows, gets the record of the version that was cloned.
"""

from __future__ import annotations

import io
import json
import logging
import secrets
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_delta.core.actions import SetTransaction
from airflow_delta.core.errors import DeltaError, LoadedFilesLostError
from airflow_delta.core.json_text import parse_json
from airflow_delta.core.log.corrupt_log_errors import UNREADABLE, described
from airflow_delta.core.log.log_segment import list_log
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.storage_failures import storage_failure
from airflow_delta.core.transaction.table_properties import transaction_retention

APP_ID = "airflow-delta.copy_into"
"""The application id whose ``txn`` names the newest part."""

LOADED_FOLDER = "_airflow_delta/loaded"

LOADED_FILE = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64()),
        pa.field("modification_time", pa.int64()),
        pa.field("loaded_at", pa.int64()),
    ]
)
"""A loaded file: its place (``Place`` as text), bytes, and when it was last modified and loaded (ms since epoch)."""

KEPT_MILLISECONDS = 7 * 24 * 3_600_000
"""How long unreferenced parts are kept: running loads may still read them, or be about to commit them."""

_PARTS_KEY = b"airflow_delta.parts"
_RANDOM_BITS = 32
_MOST_PARTS = 1_000
_MOST = 1 << 63
_THREADS = 8
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedPart:
    """One part; ``files`` has the columns ``LOADED_FILE``."""

    number: int
    files: pa.Table


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadedFiles:
    """The loaded files that a version of the table records.

    Attributes:
        parts: The parts, oldest first; the table's ``txn`` names the last one.
    """

    parts: tuple[LoadedPart, ...] = ()

    @property
    def head(self) -> int | None:
        """The version of the table's ``txn``; None before the first load."""
        return self.parts[-1].number if self.parts else None

    @cached_property
    def files(self) -> pa.Table:
        """All loaded files, columns ``LOADED_FILE``; a file loaded several times has several rows, the latest first."""
        return pa.concat_tables([part.files for part in reversed(self.parts)]) if self.parts else LOADED_FILE.empty_table()

    def positions(self, paths: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        """For each path its row in ``files``; null if it was not loaded."""
        return pc.index_in(paths, value_set=self.files["path"].combine_chunks())

    def followed_by(self, files: pa.Table) -> tuple[LoadedPart, tuple[LoadedPart, ...]]:
        """The part that a load of these files writes, and the earlier parts that it names: those much larger than itself."""
        kept, united = list(self.parts), [files]
        while kept and len(kept[-1].files) <= 2 * sum(map(len, united)):
            united.append(kept.pop().files)
        generation = 1 if self.head is None else 1 + (self.head >> _RANDOM_BITS)
        number = generation << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
        rows = pa.concat_tables(united).sort_by([("path", "ascending"), ("loaded_at", "descending")])
        return LoadedPart(number=number, files=rows), tuple(kept)


def part_path(number: int) -> str:
    """Path of a part, below the table's root."""
    return f"{LOADED_FOLDER}/{number:020d}.parquet"


def read_loaded_files(store: LogStore, snapshot: Snapshot | None) -> LoadedFiles:
    """The files loaded into the table up to this version; none if the table does not exist yet.

    Raises:
        LoadedFilesLostError: A part is missing or unreadable, or the table may drop its ``txn``.
    """
    if snapshot is None:
        return LoadedFiles()
    if transaction_retention(snapshot.metadata.configuration) is not None:
        detail = "delta.setTransactionRetentionDuration lets the table forget what was loaded; unset the property"
        raise LoadedFilesLostError(table=snapshot.table_uri, detail=detail)
    progress = snapshot.transactions.get(APP_ID)
    if progress is None:
        _check_not_forgotten(store)
        return LoadedFiles()
    if not 0 <= progress.version < _MOST - (1 << _RANDOM_BITS):  # leaves a number for the next one
        detail = f"the log says that the application {APP_ID} is at {progress.version}, which no load has written"
        raise LoadedFilesLostError(table=snapshot.table_uri, detail=detail)
    newest, named = _read_part(store, progress.version)
    with ThreadPoolExecutor(_THREADS) as readers:
        earlier = readers.map(lambda number: _read_part(store, number)[0], named)
        return LoadedFiles(parts=(*earlier, newest))


def write_loaded_files(store: LogStore, loaded: LoadedFiles, files: pa.Table) -> LoadedFiles:
    """Write the part that also records these files (``LOADED_FILE``); it takes effect once a commit names its number.

    Raises:
        OSError: The storage does not answer.
        StorageAccessError: The storage denies access.
    """
    part, named = loaded.followed_by(files)
    numbers = [earlier.number for earlier in named]
    table = part.files.cast(LOADED_FILE).replace_schema_metadata({_PARTS_KEY: json.dumps(numbers).encode()})
    content = io.BytesIO()
    pq.write_table(table, content, compression="zstd", use_dictionary=False, column_encoding={"path": "DELTA_BYTE_ARRAY"})
    store.write_if_absent(part_path(part.number), content.getvalue())
    return LoadedFiles(parts=(*named, part))


def copy_loaded_files(source: Snapshot, target: LogStore, now: int) -> tuple[SetTransaction, ...]:
    """Write the record of a version as one part of a copy of its table; returns the ``txn`` that puts it into effect there.

    If the record is lost, the copy only gets the ``txn``, so that loads into it fail as loads into the source do.

    Args:
        source: The version that is copied.
        target: The copy.
        now: Milliseconds since the epoch.

    Raises:
        OSError: A storage does not answer.
        StorageAccessError: A storage denies access.
    """
    progress = source.transactions.get(APP_ID)
    if progress is None:
        return ()
    number: int | None = progress.version
    try:
        number = write_loaded_files(target, LoadedFiles(), read_loaded_files(source.store, source).files).head
    except LoadedFilesLostError as error:
        _logger.warning("%s: the copy needs a load with reload=True first: %s", target.table_uri, error.claim())
    return (replace(progress, version=number or 0, last_updated=now),)


def sweep_loaded_files(store: LogStore, keep: Iterable[LoadedFiles], now: int, *, keep_for: int = 0) -> None:
    """Delete parts that none of ``keep`` references and that are older than ``KEPT_MILLISECONDS``.

    Storage failures, and those of a catalog that issues credentials, are not raised: the commit has already been made.

    Args:
        store: The table's log store.
        keep: Records whose parts are kept.
        now: Milliseconds since the epoch.
        keep_for: Milliseconds for which other parts are kept, if longer: loads may be staged, to be published later.
    """
    kept = {part_path(part.number) for loaded in keep for part in loaded.parts}
    try:
        found = [status for status in store.list_from(LOADED_FOLDER) if status.path not in kept]
        store.delete([status.path for status in found if status.modification_time < now - max(keep_for, KEPT_MILLISECONDS)])
    except (OSError, DeltaError) as error:
        _logger.warning("%s: parts of %s that nothing names were left: %s", store.table_uri, LOADED_FOLDER, error)


def _read_part(store: LogStore, number: int) -> tuple[LoadedPart, tuple[int, ...]]:
    """A part, and the numbers of the earlier parts that it names."""
    try:
        with store.open_input(part_path(number)) as stream, pq.ParquetFile(stream) as file:
            named = parse_json((file.schema_arrow.metadata or {}).get(_PARTS_KEY, b"[]"))
            files = file.read(LOADED_FILE.names).replace_schema_metadata(None).cast(LOADED_FILE)
            files.validate(full=True)  # Arrow accepts any bytes as text
    except FileNotFoundError:
        raise LoadedFilesLostError(table=store.table_uri, detail=f"{part_path(number)} is missing") from None
    except DeltaError:
        raise
    except UNREADABLE as error:
        if failure := storage_failure(error, store.table_uri):
            raise failure from error
        detail = f"{part_path(number)} cannot be read: {described(error)}"
        raise LoadedFilesLostError(table=store.table_uri, detail=detail) from error
    is_list = isinstance(named, list) and len(named) <= _MOST_PARTS
    if not is_list or not all(type(part) is int and 0 <= part < number for part in named) or len({*named}) < len(named):
        raise LoadedFilesLostError(table=store.table_uri, detail=f"{part_path(number)} names no list of earlier parts")
    return LoadedPart(number=number, files=files), tuple(named)


def _check_not_forgotten(store: LogStore) -> None:
    """Return if no part exists that a commit has named; called when the log names none.

    The part of a second load names the first one, which must have been committed. The only part of a first load may be left by
    a killed load; then its commit decides, as long as the log has it. (A ``txn`` is lost if
    ``delta.setTransactionRetentionDuration`` was set meanwhile, for example.)
    """
    parts = [status for status in store.list_from(LOADED_FOLDER) if status.path.endswith(".parquet")]
    if not parts:
        return
    newest = max(parts, key=lambda status: status.path)
    number = newest.path.rsplit("/", 1)[-1].removesuffix(".parquet")
    if number.isdecimal() and int(number) >> _RANDOM_BITS > 1:
        detail = f"the log names none of the parts in {LOADED_FOLDER}, of which {newest.path} is the newest"
        raise LoadedFilesLostError(table=store.table_uri, detail=detail)
    if _may_have_been_named(store, min(status.modification_time for status in parts)):
        detail = f"the log has forgotten which of the parts in {LOADED_FOLDER} counts, {newest.path} perhaps"
        raise LoadedFilesLostError(table=store.table_uri, detail=detail)


def _may_have_been_named(store: LogStore, since: int) -> bool:
    """Whether a commit made since then (ms since the epoch) names a part, or might, as commits were cleaned up."""
    commits = list_log(store).commits
    if 0 not in commits and all(status.modification_time >= since for status in commits.values()):
        return True
    try:
        return any(APP_ID.encode() in store.read(status.path) for status in commits.values())
    except FileNotFoundError:  # a log cleanup was faster
        return True
