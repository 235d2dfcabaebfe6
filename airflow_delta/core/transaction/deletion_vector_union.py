"""Two commits that delete different rows of the same file: the later one commits the union of both deletion vectors.

Delta Spark fails the later commit, because it compares only paths. The log shows which rows each commit deleted, which proves
whether they touched different rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import CommitActions
from airflow_delta.core.data_files.row_bitmap import RowBitmap
from airflow_delta.core.log.action_reconciliation import canonical_paths, file_keys


class DeletionVectorFiles(Protocol):
    """Reads and writes deletion vectors; the conflict rules themselves access no files."""

    def read(self, deletion_vectors: pa.StructArray) -> list[RowBitmap]:
        """The deleted rows of each deletion vector (``DELETION_VECTOR``); empty for NULL."""
        ...

    def write(self, rows: Sequence[RowBitmap]) -> pa.StructArray:
        """Store the deleted rows of each file; returns the deletion vectors (``DELETION_VECTOR``)."""
        ...


def rows_of_both(before: RowBitmap, theirs: RowBitmap, ours: RowBitmap) -> RowBitmap | None:
    """The rows that are deleted once both commits are made; None if the two commits conflict.

    Uses bitmaps, because a deletion vector of a few bytes may mark all rows of a large file.

    Args:
        before: Rows deleted when both commits began.
        theirs: Rows deleted after the winner, which must not have restored any row.
        ours: Rows deleted after the attempt, which must not change a row that the winner changed.
    """
    if len(before.minus(theirs)) or len(before.minus(ours)):
        return None
    added = ours.minus(before)
    return theirs.union(added) if len(added.minus(theirs)) == len(added) else None


def united(
    ours: CommitActions, theirs: CommitActions, deletion_vectors: DeletionVectorFiles
) -> tuple[CommitActions, CommitActions]:
    """Resolve conflicts on files from which the winner only deleted rows, other rows than the attempt.

    If the attempt deletes rows of such a file too, its deletion vector becomes the union of both.

    Args:
        ours: The actions of the attempt, which decides row by row.
        theirs: The actions of the winner.
        deletion_vectors: Reads the deletion vectors, and writes the merged ones.

    Returns:
        Both sets of actions, with those files removed from ``theirs``; unchanged if there are no such files.

    Raises:
        CorruptDataFileError: A deletion vector is not what the log says.
    """
    files = _updated_files(ours, theirs)
    count = len(files)
    if not count:
        return ours, theirs
    rows = deletion_vectors.read(pa.concat_arrays([files[name].combine_chunks() for name in ("before", "theirs", "ours")]))
    both = [rows_of_both(*triple) for triple in zip(rows[:count], rows[count : 2 * count], rows[2 * count :], strict=True)]
    is_settled = pa.array([union is not None for union in both], pa.bool_())
    is_shared = pc.and_(is_settled, files["our_add"].is_valid())
    settled, shared = files.filter(is_settled), files.filter(is_shared)
    if len(shared):
        united_rows = [union for union, wanted in zip(both, is_shared.to_pylist(), strict=True) if wanted and union is not None]
        removes = _with_deletion_vectors(ours.removes, shared["our_remove"], shared["theirs"].combine_chunks())
        ours = replace(
            ours,
            removes=removes,
            adds=_with_deletion_vectors(ours.adds, shared["our_add"], deletion_vectors.write(united_rows)),
        )
    if len(settled):
        removes = _without_rows(theirs.removes, settled["their_remove"])
        theirs = replace(theirs, removes=removes, adds=_without_rows(theirs.adds, settled["their_add"]))
    return ours, theirs


def _updated_files(ours: CommitActions, theirs: CommitActions) -> pa.Table:
    """The files whose deletion vector the winner changed, and that the attempt does not name, or changes in the same way.

    Columns ``before``, ``theirs`` and ``ours`` are deletion vectors. Columns ``their_*`` and ``our_*`` are row numbers of the
    actions; ``our_*`` are NULL where the attempt does not name the file (then ``ours`` equals ``before``).
    """
    their_add = _add_of_each(theirs.removes, theirs.adds)
    our_remove = pc.index_in(file_keys(theirs.removes), file_keys(ours.removes).combine_chunks())
    our_add = _add_of_each(ours.removes, ours.adds).take(our_remove)
    before, after = theirs.removes["deletion_vector"], theirs.adds["deletion_vector"].take(their_add)
    files = pa.table(
        {
            "their_remove": _row_numbers(theirs.removes),
            "their_add": their_add,
            "our_remove": our_remove,
            "our_add": our_add,
            "before": before,
            "theirs": after,
            "ours": pc.if_else(our_add.is_valid(), ours.adds["deletion_vector"].take(our_add), before),
        }
    )
    named = [pc.is_in(canonical_paths(theirs.removes["path"]), canonical_paths(files["path"]).combine_chunks())
             for files in (ours.adds, ours.removes)]  # fmt: skip
    both_update = pc.and_(our_add.is_valid(), ours.adds["deletion_vector"].take(our_add).is_valid())
    is_open = pc.or_(pc.invert(pc.or_(*named)), both_update)
    return files.filter(pc.and_(pc.and_(their_add.is_valid(), after.is_valid()), is_open))


def _add_of_each(removes: pa.Table, adds: pa.Table) -> pa.ChunkedArray:
    """For each removed file, the row of ``adds`` that adds the same file again, or NULL."""
    return pc.index_in(canonical_paths(removes["path"]), canonical_paths(adds["path"]).combine_chunks())


def _with_deletion_vectors(files: pa.Table, rows: pa.ChunkedArray, deletion_vectors: pa.StructArray) -> pa.Table:
    """The files, with new deletion vectors in the given rows."""
    column = files.schema.get_field_index("deletion_vector")
    numbers = _row_numbers(files)
    ordinal = pc.index_in(numbers, rows.combine_chunks().cast(numbers.type))
    source = pc.coalesce(pc.add(ordinal.cast(pa.int64()), len(files)), numbers)
    values = pa.concat_arrays(
        [files["deletion_vector"].combine_chunks(), deletion_vectors.cast(files.schema.field(column).type)]
    )
    return files.set_column(column, files.schema.field(column), values.take(source))


def _without_rows(files: pa.Table, rows: pa.ChunkedArray) -> pa.Table:
    numbers = _row_numbers(files)
    return files.filter(pc.invert(pc.is_in(numbers, rows.combine_chunks().cast(numbers.type))))


def _row_numbers(files: pa.Table) -> pa.Array:
    return pa.array(range(len(files)), pa.int64())
