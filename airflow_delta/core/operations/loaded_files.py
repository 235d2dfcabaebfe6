"""The files that COPY INTO has loaded into a table: which, and by which commit that is known.

Names of loaded files would not fit into the log: a million of them in a ``txn`` or a metadata domain would go into each
checkpoint, and the domain needs a table feature. So they lie in immutable Parquet files beside the table,
``_airflow_delta/loaded/{number}.parquet``, and the commit that adds the rows names one of these in its ``txn`` action:

* The number of a file is the ``version`` of the ``txn`` of the application ``APP_ID``: a generation in the upper 31 bits,
  which counts the loads, and 32 random bits, so that two attempts at one generation never share a file. The file is written
  before the commit, and counts only by the commit: rows and memory become visible in the same instant, or neither does.
* A ``txn`` is part of every version of the protocol: every engine keeps it in checkpoints, and no log cleanup takes it away.
  Two loads at once conflict by it (``application_progressed``).
* Each file names the earlier ones that still count. Small ones are united when a new one is written, so that their number grows
  with the logarithm of the loads. Whatever no newest commit names goes after a week: what killed loads have left, too.
* The folder's name starts with an underscore: no engine takes it for data, and no vacuum touches it.

RESTORE and time travel do not change what is remembered: Delta's RESTORE keeps ``txn`` actions as they are. A deep clone, which
holds the rows, gets the memory of the version that was cloned.
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
"""The application whose ``txn`` names the newest file."""

LOADED_FOLDER = "_airflow_delta/loaded"

LOADED_FILE = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64()),
        pa.field("modification_time", pa.int64()),
        pa.field("loaded_at", pa.int64()),
    ]
)
"""A loaded file: its place (``Place`` as text), bytes, and milliseconds since the epoch of its last change and of the load."""

KEPT_MILLISECONDS = 7 * 24 * 3_600_000
"""How long a file stays that no newest commit names: loads that run may still read it, or be about to commit it."""

_PARTS_KEY = b"airflow_delta.parts"
_RANDOM_BITS = 32
_MOST_PARTS = 1_000
_MOST = 1 << 63
_THREADS = 8
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedPart:
    """One of the Parquet files; ``files`` has the columns ``LOADED_FILE``."""

    number: int
    files: pa.Table


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadedFiles:
    """What a version of the table remembers.

    Attributes:
        parts: Oldest first; the last one is named by the table's ``txn``.
    """

    parts: tuple[LoadedPart, ...] = ()

    @property
    def head(self) -> int | None:
        """The version of the table's ``txn``; None where nothing was loaded yet."""
        return self.parts[-1].number if self.parts else None

    @cached_property
    def files(self) -> pa.Table:
        """All that were loaded, columns ``LOADED_FILE``; a file that was loaded again has several rows, the last one first."""
        return pa.concat_tables([part.files for part in reversed(self.parts)]) if self.parts else LOADED_FILE.empty_table()

    def positions(self, paths: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        """For each path its row in ``files``, null where it was not loaded."""
        return pc.index_in(paths, value_set=self.files["path"].combine_chunks())

    def followed_by(self, files: pa.Table) -> tuple[LoadedPart, tuple[LoadedPart, ...]]:
        """The part that a load of these files writes, and the earlier ones that it names: those much larger than itself."""
        kept, united = list(self.parts), [files]
        while kept and len(kept[-1].files) <= 2 * sum(map(len, united)):
            united.append(kept.pop().files)
        generation = 1 if self.head is None else 1 + (self.head >> _RANDOM_BITS)
        number = generation << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
        rows = pa.concat_tables(united).sort_by([("path", "ascending"), ("loaded_at", "descending")])
        return LoadedPart(number=number, files=rows), tuple(kept)


def part_path(number: int) -> str:
    """Where a part lies, below the table's root."""
    return f"{LOADED_FOLDER}/{number:020d}.parquet"


def read_loaded_files(store: LogStore, snapshot: Snapshot | None) -> LoadedFiles:
    """What was loaded into the table up to this version; nothing, where there is no table yet.

    Raises:
        LoadedFilesLostError: A part is missing or unreadable, or the table may forget its ``txn``.
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
    if not 0 <= progress.version < _MOST - (1 << _RANDOM_BITS):  # the next one needs a number, too
        detail = f"the log says that the application {APP_ID} is at {progress.version}, which no load has written"
        raise LoadedFilesLostError(table=snapshot.table_uri, detail=detail)
    newest, named = _read_part(store, progress.version)
    with ThreadPoolExecutor(_THREADS) as readers:
        earlier = readers.map(lambda number: _read_part(store, number)[0], named)
        return LoadedFiles(parts=(*earlier, newest))


def write_loaded_files(store: LogStore, loaded: LoadedFiles, files: pa.Table) -> LoadedFiles:
    """Write the part that remembers these files (``LOADED_FILE``) too; it counts once a commit names its number.

    Raises:
        OSError: The storage does not answer.
        StorageAccessError: It refuses.
    """
    part, named = loaded.followed_by(files)
    numbers = [earlier.number for earlier in named]
    table = part.files.cast(LOADED_FILE).replace_schema_metadata({_PARTS_KEY: json.dumps(numbers).encode()})
    content = io.BytesIO()
    pq.write_table(table, content, compression="zstd", use_dictionary=False, column_encoding={"path": "DELTA_BYTE_ARRAY"})
    store.write_if_absent(part_path(part.number), content.getvalue())
    return LoadedFiles(parts=(*named, part))


def copy_loaded_files(source: Snapshot, target: LogStore, now: int) -> tuple[SetTransaction, ...]:
    """Write what a version remembers into one part of a copy of its table; gives the action by which it counts there.

    Of what is lost the copy gets the action alone: loads into it end as those into the source.

    Args:
        source: The version that is copied.
        target: The copy.
        now: Milliseconds since the epoch.

    Raises:
        OSError: A storage does not answer.
        StorageAccessError: It refuses.
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
    """Delete the parts that neither of these name and that are older than ``KEPT_MILLISECONDS``.

    Never raises for a storage, or for a catalog that gives its keys: there is a commit that is to be seen.

    Args:
        store: The table.
        keep: What stays.
        now: Milliseconds since the epoch.
        keep_for: Milliseconds that others stay, if that is longer: loads may be staged, to be published later.
    """
    kept = {part_path(part.number) for loaded in keep for part in loaded.parts}
    try:
        found = [status for status in store.list_from(LOADED_FOLDER) if status.path not in kept]
        store.delete([status.path for status in found if status.modification_time < now - max(keep_for, KEPT_MILLISECONDS)])
    except (OSError, DeltaError) as error:
        _logger.warning("%s: parts of %s that nothing names were left: %s", store.table_uri, LOADED_FOLDER, error)


def _read_part(store: LogStore, number: int) -> tuple[LoadedPart, tuple[int, ...]]:
    """A part, and the numbers of the earlier ones that it names."""
    try:
        with store.open_input(part_path(number)) as stream, pq.ParquetFile(stream) as file:
            named = parse_json((file.schema_arrow.metadata or {}).get(_PARTS_KEY, b"[]"))
            files = file.read(LOADED_FILE.names).replace_schema_metadata(None).cast(LOADED_FILE)
            files.validate(full=True)  # Arrow takes any bytes for text
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
    """Return unless a part is there that a commit has named, although the log names none.

    A second load can only have written one behind a first one. Of the first one, whose part is also there where it was killed,
    its commit says so, while it is kept (``delta.setTransactionRetentionDuration`` was set in the meantime, say).
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
    """Whether a commit since then (milliseconds since the epoch) names a part, or it is unknown, as the commits are gone."""
    commits = list_log(store).commits
    if 0 not in commits and all(status.modification_time >= since for status in commits.values()):
        return True
    try:
        return any(APP_ID.encode() in store.read(status.path) for status in commits.values())
    except FileNotFoundError:  # a cleanup of the log was faster
        return True
