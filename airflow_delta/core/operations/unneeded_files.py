"""Which listed files no reader needs any more: the decision of a vacuum, without I/O.

A file is deleted only if it is older than the retention, no needed version references it, its path is not hidden, and no other
table below the root owns it. The rules are applied one after the other, so that costly text rules only see the few files left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import Metadata
from airflow_delta.core.data_files.deletion_vector import deletion_vector_path
from airflow_delta.core.errors import CorruptLogError
from airflow_delta.core.log.file_names import LOG_DIRECTORY
from airflow_delta.core.storage.file_locator import FileLocator
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.table_features.iceberg_compat import METADATA_FOLDER, has_iceberg_metadata

LISTED_FILE = pa.schema([("path", pa.string()), ("size", pa.int64()), ("modification_time", pa.int64())])
"""Columns of listed files: path below the root (not percent-encoded), size in bytes, modification time in ms since epoch."""

# What a killed statement leaves in its staging area (spark/io/staging.py): all of it may be deleted, Spark's hidden files, too.
_STAGED = r"(?s)^write-[0-9a-f]{32}/.*$"
# Paths that may refer to a file of this table without being its path below the root: absolute, or with dot segments.
_ODD_PATH = r"^/|^[A-Za-z][A-Za-z0-9+.-]*:|(^|/)\.{0,2}(/|$)"


def unneeded_files(
    listed: pa.Table, needed: pa.ChunkedArray, partition_columns: Iterable[str], cutoff: int, *, kept_below: Iterable[str] = ()
) -> pa.Table:
    """The listed files that may be deleted.

    Args:
        listed: Columns ``LISTED_FILE``.
        needed: Paths that must be kept, as ``named_paths`` returns them.
        partition_columns: Physical names; directories named after them never count as hidden.
        cutoff: Milliseconds since the epoch; files modified at or after it are kept.
        kept_below: Directories that are kept as a whole, each with a trailing slash.
    """
    roots = [*other_tables(listed["path"]), *kept_below]
    old = listed.filter(pc.less(listed["modification_time"], cutoff))
    spare = old.filter(pc.invert(pc.is_in(old["path"], needed)))
    odd = needed.filter(pc.match_substring_regex(needed, _ODD_PATH))
    if len(odd):  # however such a path leads here, its last part is the file's name
        spare = spare.filter(pc.invert(pc.is_in(_name(spare["path"]), _name(odd))))
    spare = spare.filter(pc.invert(_is_hidden(spare["path"], partition_columns)))
    for root in roots:
        spare = spare.filter(pc.invert(pc.starts_with(spare["path"], pattern=root)))
    return spare


def folders_of_other_formats(metadata: Metadata) -> tuple[str, ...]:
    """Directories with metadata of other formats that the table maintains, for ``kept_below`` of ``unneeded_files``."""
    return (f"{METADATA_FOLDER}/",) if has_iceberg_metadata(metadata) else ()


def named_paths(files: Iterable[pa.Table], *, table: str) -> pa.ChunkedArray:
    """Every path that these file actions reference, including deletion vectors: both as written and percent-decoded.

    Both, because some writers do not encode paths.

    Args:
        files: Tables with the columns ``path`` and ``deletion_vector``.
        table: URI of the table, for the error.

    Raises:
        CorruptLogError: A deletion vector cannot be located, so that it is unknown which file to keep.
    """
    pieces: list[pa.Array] = []
    for table_files in files:
        pieces += [*table_files["path"].chunks, *deletion_vector_files(table_files["deletion_vector"], table=table).chunks]
    decoded = (_decoded(piece) for piece in pieces)
    return pa.chunked_array([*pieces, *decoded], pa.string())


def deletion_vector_files(deletion_vectors: pa.ChunkedArray, *, table: str) -> pa.ChunkedArray:
    """The files of these deletion vectors, as paths of the log; only one Python object is made for each file.

    Raises:
        CorruptLogError: A deletion vector cannot be located.
    """
    if deletion_vectors.null_count == len(deletion_vectors):
        return pa.chunked_array([], pa.string())
    keys = ["storage_type", "path_or_inline_dv"]
    places = pa.table([pc.struct_field(deletion_vectors.drop_null(), key) for key in keys], names=keys)
    places = places.filter(pc.not_equal(places["storage_type"], "i")).group_by(keys).aggregate([])
    try:
        return pa.chunked_array([pa.array(map(deletion_vector_path, places.to_pylist()), pa.string())])
    except (ValueError, TypeError) as error:
        raise CorruptLogError(table=table, file=LOG_DIRECTORY, detail=f"a deletion vector: {error}") from error


def check_contained(store: LogStore, files: pa.Table) -> None:
    """Return if these files and their deletion vectors (``path``, ``deletion_vector``) lie where the table may read.

    Raises:
        PathOutsideTableError: One of them lies elsewhere.
        CorruptLogError: A deletion vector cannot be located.
    """
    locate = FileLocator.from_store(store)
    locate.check(files["path"])
    locate.check(deletion_vector_files(files["deletion_vector"], table=store.table_uri))


def lies_below_the_root(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which of these decoded paths are plain paths below the root: no scheme, no leading slash, no dot segment."""
    return pc.invert(pc.match_substring_regex(paths, _ODD_PATH + r"|\x00"))


def unencoded(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Paths of the log as file names, percent-decoded."""
    return pa.chunked_array([_unquoted(chunk) for chunk in paths.chunks], pa.string())


def _decoded(paths: pa.Array) -> pa.Array:
    """The decoded form of those paths that are percent-encoded."""
    return _unquoted(paths.filter(pc.match_substring(paths, "%")))


def _unquoted(paths: pa.Array) -> pa.Array:
    """All paths decoded; each directory is decoded once, and names only if they are encoded themselves."""
    if not pc.any(pc.match_substring(paths, "%")).as_py():
        return paths
    parts = pc.extract_regex(paths, r"(?s)^(?P<directory>(?:.*/)?)(?P<name>[^/]*)$")
    directories, names = (pc.struct_field(parts, part).dictionary_encode() for part in ("directory", "name"))
    plain = [
        pa.array(map(unquote, texts.dictionary.to_pylist()), pa.string()).take(texts.indices) for texts in (directories, names)
    ]
    return pc.binary_join_element_wise(*plain, "")


def _name(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """The last part of each path."""
    return pc.replace_substring_regex(paths, "(?s)^.*/", "")


def _is_hidden(paths: pa.ChunkedArray, partition_columns: Iterable[str]) -> pa.ChunkedArray:
    """Whether any part of the path is hidden from vacuum, as in ``DeltaTableUtils.isHiddenDirectory`` of Delta Spark."""
    prefixes = "|".join(["_delta_index", "_change_data", *(f"{re.escape(name)}=" for name in partition_columns)])
    shown = pc.replace_substring_regex(paths, f"(^|/)(?:{prefixes})", r"\1shown")
    shown = pc.replace_substring_regex(shown, _STAGED, "shown")
    return pc.match_substring_regex(shown, "(^|/)[_.]")


def other_tables(paths: pa.ChunkedArray) -> list[str]:
    """The directories below the root that contain a log of their own, each with a trailing slash."""
    logs = paths.filter(pc.match_substring(paths, "/_delta_log/"))
    return pc.replace_substring_regex(logs, "(?s)/_delta_log/.*$", "/").unique().to_pylist()
