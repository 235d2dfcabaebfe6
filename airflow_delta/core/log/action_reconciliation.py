"""Action reconciliation: which files are live, computed on columns, without I/O.

Protocol: PROTOCOL.md, "Action Reconciliation". A file action is identified by its path and the id of its deletion vector. The
    last action with that key decides; within one commit, an add wins over a remove of the same key, whatever their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.log.record_counts import with_record_counts

Paths = TypeVar("Paths", pa.Array, pa.ChunkedArray)

_ROW = "row"
_NAMED = "named again"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileChanges:
    """The net effect of consecutive commits.

    Attributes:
        added: Files that these commits added and that are live after them.
        removed: Tombstones of the files that these commits removed.
        keys: Keys of all files that these commits name.
    """

    added: pa.Table
    removed: pa.Table
    keys: pa.ChunkedArray

    def active_files(self, before: pa.Table) -> pa.Table:
        """The live files after the commits, given those before them; same columns as ``before``."""
        return self._replaced(before, with_record_counts(self.added, before.column_names))

    def tombstones(self, before: pa.Table) -> pa.Table:
        """The tombstones after the commits, given those before them."""
        return self._replaced(before, self.removed)

    def untouched(self, before: pa.Table) -> pa.Table:
        """The files of ``before`` that the commits do not name; chunks without any change are not copied."""
        if not len(self.keys):
            return before
        pieces = before.append_column(_NAMED, pc.is_in(file_keys(before), self.keys)).to_batches() if len(before) else []
        kept = [batch.filter(pc.invert(batch[_NAMED])) if pc.any(batch[_NAMED]).as_py() else batch for batch in pieces]
        return pa.Table.from_batches([batch.select(before.column_names) for batch in kept], before.schema)

    def _replaced(self, before: pa.Table, news: pa.Table) -> pa.Table:
        return pa.concat_tables([self.untouched(before), news]) if len(self.keys) else before


def file_changes(adds: pa.Table, removes: pa.Table) -> FileChanges:
    """The net effect of the file actions of consecutive commits.

    Args:
        adds: Columns ``ADD_FILE`` and ``version``.
        removes: Columns ``REMOVE_FILE`` and ``version``.

    Returns:
        The changes, without the column ``version``.
    """
    rows = pa.array(range(len(removes) + len(adds)), pa.int64())
    is_add = pc.greater_equal(rows, len(removes))
    order = pc.add(pc.multiply(_joined(removes["version"], adds["version"]), 2), is_add.cast(pa.int64()))
    rank = pc.add(pc.multiply(order, 1 << 31), rows)  # unique, ascending by (version, removes first, row)
    actions = pa.table({"key": _joined(file_keys(removes), file_keys(adds)), "rank": rank, _ROW: rows})
    last = actions.group_by("key", use_threads=False).aggregate([("rank", "max")])
    winners = actions.filter(pc.is_in(actions["rank"], last["rank_max"]))[_ROW].combine_chunks()
    is_remove = pc.less(winners, len(removes))
    return FileChanges(
        added=adds.take(pc.subtract(winners.filter(pc.invert(is_remove)), len(removes))).drop_columns(["version"]),
        removed=removes.take(winners.filter(is_remove)).drop_columns(["version"]),
        keys=last["key"],
    )


def _joined(first: pa.ChunkedArray, second: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([*first.chunks, *second.chunks], first.type)


def canonical_paths(paths: Paths) -> Paths:
    """The paths in a form in which equal texts mean the same file.

    ``/x``, ``file:/x`` and ``file:///x`` are the same path, as in Spark; otherwise paths are compared as written,
    percent-encoded.
    """
    is_local = pc.any(pc.starts_with(paths, "file:")).as_py()
    return pc.replace_substring_regex(paths, "^file:/+", "/") if is_local else paths


def file_keys(files: pa.Table) -> pa.ChunkedArray:
    """A text for each file action that is equal if path (as of ``canonical_paths``) and deletion vector are equal."""
    paths = canonical_paths(files["path"])
    deletion_vectors = files["deletion_vector"]
    if deletion_vectors.null_count == len(deletion_vectors):
        return paths
    storage, path, offset = (
        pc.struct_field(deletion_vectors, name) for name in ("storage_type", "path_or_inline_dv", "offset")
    )
    ids = pc.binary_join_element_wise(storage, path, "")
    ids = pc.if_else(pc.is_valid(offset), pc.binary_join_element_wise(ids, pc.cast(offset, pa.string()), "@"), ids)
    # A line feed is never part of a percent-encoded path, so no path with a deletion vector equals another path.
    return pc.if_else(pc.is_valid(deletion_vectors), pc.binary_join_element_wise(paths, ids, "\n"), paths)


def path_with_two_deletion_vectors(files: pa.Table) -> str | None:
    """A path that two of these live files share, which only differing deletion vectors allow; None if all are distinct."""
    deletion_vectors = files["deletion_vector"]
    if deletion_vectors.null_count == len(deletion_vectors):
        return None
    paths = canonical_paths(files["path"])
    found = paths.filter(pc.is_in(paths, value_set=paths.filter(pc.is_valid(deletion_vectors)))).combine_chunks()
    values, counts = found.value_counts().flatten()
    return next(iter(values.filter(pc.greater(counts, 1)).to_pylist()), None)
