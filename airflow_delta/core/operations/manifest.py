"""Symlink manifests: lists of the table's files for readers of Hive-partitioned Parquet without Delta support.

Follows ``GenerateSymlinkManifest`` of Delta Spark: ``_symlink_format_manifest/[<column>=<value>/...]manifest`` lists the files
of one partition, one absolute path per line, not percent-encoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import CommitActions
from airflow_delta.core.errors import ManifestUnsupportedError
from airflow_delta.core.operations.absolute_paths import absolute_paths
from airflow_delta.core.operations.unneeded_files import check_contained, unencoded
from airflow_delta.core.schema.column_mapping import MappingMode, mapping_mode
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.storage.log_store import LogStore

MANIFESTS: Final = "_symlink_format_manifest"
ENABLED: Final = "delta.compatibility.symlinkFormatManifest.enabled"

_MANIFEST = "manifest"
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_THREADS = 8
_ESCAPED: Final = {
    code: f"%{code:02X}" for code in (*range(1, 0x20), 0x7F, *map(ord, "\"#%'*/:=?\\{[]^"))
}  # as ``ExternalCatalogUtils.escapePathName`` of Spark


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestResult:
    """The manifests that were written.

    Attributes:
        version: Version of the table that the manifests show.
        written: Manifests written, one for each partition.
        deleted: Manifests deleted, of partitions that have become empty.
        files: Data files listed in the written manifests.
    """

    version: int
    written: int
    deleted: int
    files: int


def keeps_manifests(configuration: Mapping[str, str]) -> bool:
    """Whether the table property requires manifests to be updated after each commit."""
    return configuration.get(ENABLED, "").strip().lower() == "true"


def generate_manifests(snapshot: Snapshot) -> ManifestResult:
    """Write the manifests of all partitions, and delete those of partitions that no longer exist.

    Raises:
        ManifestUnsupportedError: The table uses column mapping or deletion vectors, which readers of manifests would ignore; or
            a file name contains a line break.
        OSError: The storage failed; calling again finishes the work.
    """
    files = _with_directory(_listable_files(snapshot), snapshot.partition_columns)
    manifests = _manifests(files, snapshot)
    _write(snapshot.store, manifests)
    stale = _existing(snapshot.store) - manifests.keys()
    snapshot.store.delete(sorted(stale))
    return ManifestResult(version=snapshot.version, written=len(manifests), deleted=len(stale), files=len(files))


def update_manifests(snapshot: Snapshot, actions: CommitActions) -> ManifestResult:
    """Update the manifests of the partitions that a commit changed; write all if there are none yet.

    Args:
        snapshot: The table after the commit, or a later version.
        actions: The actions of the commit.

    Raises:
        As ``generate_manifests``.
    """
    incomplete = actions.removes["partition_values"].null_count  # old writers do not record the partition of a removed file
    # new metadata may change the partition columns, and with them the directories
    if incomplete or actions.metadata or not snapshot.partition_columns or not _has_any(snapshot.store):
        return generate_manifests(snapshot)
    live = _with_directory(_listable_files(snapshot), snapshot.partition_columns)
    changed = [_with_directory(files, snapshot.partition_columns)["directory"] for files in (actions.adds, actions.removes)]
    touched = pa.chunked_array([chunk for directories in changed for chunk in directories.chunks], pa.string()).unique()
    files = live.filter(pc.is_in(live["directory"], touched))
    manifests = _manifests(files, snapshot)
    _write(snapshot.store, manifests)
    empty = {_path(directory) for directory in touched.to_pylist()} - manifests.keys()
    snapshot.store.delete(sorted(empty))
    return ManifestResult(version=snapshot.version, written=len(manifests), deleted=len(empty), files=len(files))


def _listable_files(snapshot: Snapshot) -> pa.Table:
    if mapping_mode(snapshot.metadata.configuration) is not MappingMode.NONE:
        raise ManifestUnsupportedError(table=snapshot.table_uri, detail="its files use other column names (column mapping)")
    files = snapshot.files()
    if files["deletion_vector"].null_count < len(files):
        raise ManifestUnsupportedError(table=snapshot.table_uri, detail="its files hold deleted rows (deletion vectors)")
    check_contained(snapshot.store, files)
    return files


def _manifests(files: pa.Table, snapshot: Snapshot) -> dict[str, pa.ListScalar]:
    """The lines of each manifest, by its path below the root; an empty unpartitioned table has one empty manifest."""
    lines = unencoded(absolute_paths(files["path"], snapshot.table_uri))
    is_broken = pc.match_substring_regex(lines, r"[\r\n]")
    if pc.any(is_broken, min_count=0).as_py():  # the rest of the name would appear as another file
        detail = f"the name of {files['path'].filter(is_broken)[0].as_py()} has a line break"
        raise ManifestUnsupportedError(table=snapshot.table_uri, detail=detail)
    listed = pa.table({"directory": files["directory"], "line": lines})
    by_directory = listed.group_by("directory").aggregate([("line", "list")])
    found = dict(zip(map(_path, by_directory["directory"].to_pylist()), by_directory["line_list"], strict=True))
    return found or ({} if snapshot.partition_columns else {_path(""): pa.scalar([], pa.list_(pa.string()))})


def _with_directory(files: pa.Table, partition_columns: Iterable[str]) -> pa.Table:
    """The column ``path`` of the files, and ``directory``: the Hive-style path of their partition, with a trailing slash."""
    values = files["partition_values"]
    parts = [_directories(name, pc.map_lookup(values, pa.scalar(name), "first")) for name in partition_columns]
    empty = pa.repeat(pa.scalar(""), len(files))
    directory = pc.binary_join_element_wise(*parts, "") if parts else empty
    return pa.table(
        {"path": files["path"], "directory": directory}, schema=pa.schema({"path": pa.string(), "directory": pa.string()})
    )


def _directories(column: str, values: pa.ChunkedArray) -> pa.Array:
    """``<column>=<value>/`` for each value; computed once for each distinct value."""
    encoded = values.combine_chunks().dictionary_encode(null_encoding="encode")
    names = [f"{_escaped(column)}={_escaped(value) if value else _HIVE_NULL}/" for value in encoded.dictionary.to_pylist()]
    return pa.array(names, pa.string()).take(encoded.indices)


def _escaped(text: str) -> str:
    return text.translate(_ESCAPED)


def _path(directory: str) -> str:
    return f"{MANIFESTS}/{directory}{_MANIFEST}"


def _write(store: LogStore, manifests: Mapping[str, pa.ListScalar]) -> None:
    def write(path: str) -> None:
        store.write(path, "".join(f"{line}\n" for line in manifests[path].as_py()).encode())

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(write, manifests))  # re-raises errors of the threads


def _existing(store: LogStore) -> set[str]:
    return {file.path for file in store.list_all(MANIFESTS) if file.path.endswith(f"/{_MANIFEST}")}


def _has_any(store: LogStore) -> bool:
    return next(iter(store.list_all(MANIFESTS)), None) is not None
