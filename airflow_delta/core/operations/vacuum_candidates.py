"""The files that a vacuum considers: all that a listing finds, those of an inventory, or those removed in the log.

All are returned as columns ``LISTED_FILE``. No candidate lies outside the table, whatever an inventory or the log says.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, islice

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_delta.core.errors import InvalidStatementError, VacuumLiteImpossibleError
from airflow_delta.core.json_text import parse_json
from airflow_delta.core.log.commit_reader import read_commit_info, read_commits
from airflow_delta.core.log.file_names import LOG_DIRECTORY
from airflow_delta.core.log.history import InCommitTimestamps, commit_timestamp, monotonic_times
from airflow_delta.core.log.log_segment import list_log
from airflow_delta.core.operations.unneeded_files import LISTED_FILE, deletion_vector_files, lies_below_the_root, unencoded
from airflow_delta.core.storage.data_filesystem import data_filesystem
from airflow_delta.core.storage.log_store import FileStatus, LogStore
from airflow_delta.core.storage.table_uri import local_path, scheme_of

LAST_VACUUM_INFO = f"{LOG_DIRECTORY}/_last_vacuum_info"
"""Delta's record of how far vacuums have come: ``{"latestCommitVersionOutsideOfRetentionWindow": n}``."""

_NOTE_KEY = "latestCommitVersionOutsideOfRetentionWindow"
_INVENTORY = pa.schema([("path", pa.string()), ("length", pa.int64()), ("isDir", pa.bool_()), ("modificationTime", pa.int64())])
_LISTED_AT_ONCE = 1 << 13  # few enough that the garbage collector frees them in its first generation
_COMMITS_AT_ONCE = 1000
_THREADS = 16
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}


def list_files_below_root(store: LogStore, start: str = "") -> pa.Table:
    """Every file below the root, or those whose path is ``start`` or sorts after it: one flat listing."""
    statuses = iter(store.list_all(start=start))
    pieces = iter(lambda: list(islice(statuses, _LISTED_AT_ONCE)), [])
    return pa.Table.from_batches(map(_columns, pieces), LISTED_FILE)


def _columns(statuses: list[FileStatus]) -> pa.RecordBatch:
    try:
        return _batch(statuses)
    except UnicodeEncodeError:
        return _batch(list(filter(_has_text_name, statuses)))


def _batch(statuses: list[FileStatus]) -> pa.RecordBatch:
    # A tuple for each file would cost more time in the garbage collector than everything else.
    columns = ([getattr(status, field.name) for status in statuses] for field in LISTED_FILE)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, LISTED_FILE, strict=True)]
    return pa.record_batch(arrays, schema=LISTED_FILE)


def _has_text_name(status: FileStatus) -> bool:
    """False for a local name that is not UTF-8: no table can reference such a file, and it is never deleted."""
    return status.path.isascii() or "\\ud" not in ascii(status.path)


def inventoried_files(inventory: pa.Table | str, table_uri: str) -> pa.Table:
    """The files below the root that an inventory lists; if a file is listed twice, the younger entry counts.

    Args:
        inventory: The table, or the URI of a Parquet file that holds it: ``path`` (a URI, percent-encoded), ``length`` (bytes),
            ``isDir`` and ``modificationTime`` (milliseconds since the epoch).
        table_uri: The table's root.

    Raises:
        InvalidStatementError: The inventory cannot be read, or lacks a column.
    """
    try:
        if isinstance(inventory, str):
            filesystem, path = data_filesystem(inventory)
            inventory = pq.read_table(path, filesystem=filesystem, columns=_INVENTORY.names)
        rows = inventory.select(_INVENTORY.names).cast(_INVENTORY)
    except (pa.ArrowException, KeyError, OSError) as error:
        detail = f"it must have the columns {', '.join(_INVENTORY.names)} ({error})"
        raise InvalidStatementError(statement="the inventory", detail=detail) from error
    rows = rows.filter(pc.invert(rows["isDir"])).drop_null()
    paths, root = unencoded(_without_spelling(rows["path"])), f"{_root(table_uri)}/"
    paths = pc.if_else(pc.starts_with(paths, root), pc.utf8_slice_codeunits(paths, len(root)), "/")
    files = pa.table([paths, rows["length"], rows["modificationTime"]], schema=LISTED_FILE)
    youngest = files.group_by("path").aggregate([("size", "max"), ("modification_time", "max")])
    youngest = youngest.select(["path", "size_max", "modification_time_max"]).rename_columns(LISTED_FILE.names)
    return youngest.filter(lies_below_the_root(youngest["path"]))


def _root(table_uri: str) -> str:
    """The root in the canonical spelling of ``_without_spelling``."""
    scheme = scheme_of(table_uri)
    if scheme == "file":
        return str(local_path(table_uri)).rstrip("/")
    return f"{_ALIASES.get(scheme, scheme)}{table_uri[len(scheme) :]}"


def _without_spelling(uris: pa.ChunkedArray) -> pa.ChunkedArray:
    """The URIs in one canonical spelling: ``file:/x``, ``file:///x`` and ``/x`` are the same; so are s3a and s3."""
    uris = pc.replace_substring_regex(uris, "^file:/+", "/")
    for alias, scheme in _ALIASES.items():
        uris = pc.replace_substring_regex(uris, f"^{alias}://", f"{scheme}://")
    return uris


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRange:
    """The commits whose removed files are due for deletion.

    Attributes:
        start: The first commit; later than ``end`` if none is due.
        end: The newest commit older than the retention; -1 if there is no such commit.
    """

    start: int
    end: int


def due_commits(store: LogStore, in_commit: InCommitTimestamps, cutoff: int) -> CommitRange:
    """The commits since the last vacuum that are older than ``cutoff`` (milliseconds since the epoch).

    Raises:
        VacuumLiteImpossibleError: Some of them were cleaned up.
    """
    commits = list_log(store).commits
    end = _newest_at(store, monotonic_times(commits), in_commit, cutoff)
    start = _last_vacuumed(store) + 1
    missing = next((version for version in range(start, end + 1) if version not in commits), None)
    if missing is not None:
        raise VacuumLiteImpossibleError(table=store.table_uri, version=missing, earliest=min(commits))
    return CommitRange(start=start, end=end)


def newest_due_commit(store: LogStore, in_commit: InCommitTimestamps, cutoff: int) -> int:
    """The newest commit older than ``cutoff`` (milliseconds since the epoch); -1 if there is no such commit."""
    return _newest_at(store, monotonic_times(list_log(store).commits), in_commit, cutoff)


def _newest_at(store: LogStore, times: dict[int, int], in_commit: InCommitTimestamps, cutoff: int) -> int:
    versions = sorted(times)

    def time_of(version: int) -> int:
        info = read_commit_info(store, version) if in_commit.holds_for(version) else None
        return commit_timestamp(version, times[version], info, in_commit)

    position = bisect_right(versions, cutoff, key=time_of)
    return versions[position - 1] if position else -1


def removed_files(store: LogStore, commits: CommitRange) -> pa.Table:
    """The files that these commits removed, with their deletion vectors and change data files.

    Change data files and deletion vectors get the oldest possible time: their commits are older than the retention.

    Raises:
        CorruptLogError: A commit, or the location of a deletion vector, cannot be read.
    """
    pieces = [LISTED_FILE.empty_table()]
    for start in range(commits.start, commits.end + 1, _COMMITS_AT_ONCE):
        batch = read_commits(store, range(start, min(start + _COMMITS_AT_ONCE, commits.end + 1)))
        removes = batch.removes
        for paths, sizes, times in (
            (unencoded(removes["path"]), removes["size"], removes["deletion_timestamp"]),
            (unencoded(batch.changes["path"]), batch.changes["size"], None),
            (unencoded(deletion_vector_files(removes["deletion_vector"], table=store.table_uri)), None, None),
        ):
            rows = len(paths)
            columns = [paths, _or_zero(sizes, rows), _or_zero(times, rows)]
            pieces.append(pa.table(columns, schema=LISTED_FILE))
    files = pa.concat_tables(pieces).group_by("path").aggregate([("size", "max"), ("modification_time", "max")])
    files = files.select(["path", "size_max", "modification_time_max"]).rename_columns(LISTED_FILE.names)
    files = files.filter(lies_below_the_root(files["path"]))
    return pa.concat_tables([files, _logs_of_other_tables(store, files["path"])])


def _or_zero(values: pa.ChunkedArray | None, rows: int) -> pa.Array | pa.ChunkedArray:
    return pa.repeat(pa.scalar(0, pa.int64()), rows) if values is None else pc.fill_null(values, 0)


def _logs_of_other_tables(store: LogStore, paths: pa.ChunkedArray) -> pa.Table:
    """A log file of each other table below the root that contains one of the paths, as a listing would show it.

    A directory named like a partition is taken to be one: checking each for a log would cost the listing that is saved here.
    """
    directories = pc.replace_substring_regex(paths, "(?s)/?[^/]*$", "").unique().to_pylist()
    above = {parent for directory in directories for parent in _ancestors(directory) if "=" not in parent.rpartition("/")[2]}
    with ThreadPoolExecutor(_THREADS) as pool:
        found = pool.map(lambda directory: next(iter(store.list_from(f"{directory}/{LOG_DIRECTORY}")), None), sorted(above))
        logs = [status.path for status in found if status is not None]
    zeros = pa.array([0] * len(logs), pa.int64())
    return pa.table([pa.array(logs, pa.string()), zeros, zeros], schema=LISTED_FILE)


def _ancestors(directory: str) -> Iterable[str]:
    """The directory and its parents, without the root."""
    return accumulate(directory.split("/"), lambda parent, name: f"{parent}/{name}") if directory else ()


def _last_vacuumed(store: LogStore) -> int:
    """The last commit whose removed files have been deleted; -1 if unknown."""
    try:
        note = parse_json(store.read(LAST_VACUUM_INFO))[_NOTE_KEY]
    except (FileNotFoundError, ValueError, LookupError, TypeError):  # an unreadable file is ignored
        return -1
    return note if isinstance(note, int) and note >= 0 else -1


def record_vacuumed_version(store: LogStore, version: int) -> None:
    """Record that the files removed up to this commit have been deleted; a record of a later commit is kept."""
    if version > _last_vacuumed(store):
        store.write(LAST_VACUUM_INFO, json.dumps({_NOTE_KEY: version}, separators=(",", ":")).encode())
