"""Two commits that delete different rows of one file: the later one deletes the rows of both.

Delta Spark lets the later one fail, because it compares paths. Which rows each deleted is in the log, so that it can be proved
that neither touched a row of the other.
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
    """Deletion vectors, read and written; the conflict rules know no files."""

    def read(self, deletion_vectors: pa.StructArray) -> list[RowBitmap]:
        """For each deletion vector (``DELETION_VECTOR``) the deleted rows; none for NULL."""
        ...

    def write(self, rows: Sequence[RowBitmap]) -> pa.StructArray:
        """Store the deleted rows of files, and return their deletion vectors (``DELETION_VECTOR``)."""
        ...


def rows_of_both(before: RowBitmap, theirs: RowBitmap, ours: RowBitmap) -> RowBitmap | None:
    """The rows that are deleted when both commits are made; None when that would be wrong.

    As bitmaps, because a few bytes of a deletion vector may name all rows of a large file.

    Args:
        before: Rows that were deleted when both began.
        theirs: Rows that are deleted after the winner; it must not have brought any back.
        ours: Rows that are deleted after the attempt; it must not change a row that the winner changed.
    """
    if len(before.minus(theirs)) or len(before.minus(ours)):
        return None
    added = ours.minus(before)
    return theirs.union(added) if len(added.minus(theirs)) == len(added) else None


def united(
    ours: CommitActions, theirs: CommitActions, deletion_vectors: DeletionVectorFiles
) -> tuple[CommitActions, CommitActions]:
    """Settle what the winner did to files from which it only deleted rows, and other rows than the attempt.

    Where the attempt deletes rows of such a file too, its deletion vector becomes that of both.

    Args:
        ours: What the attempt writes; it decides row by row.
        theirs: What the winner wrote.
        deletion_vectors: For reading the deletion vectors, and writing the united ones.

    Returns:
        Both, so that ``theirs`` does not name those files any more; unchanged where there are none.

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
    """The files to which the winner gave another deletion vector, and that the attempt does not name, or gives another one too.

    Columns ``before``, ``theirs`` and ``ours`` are deletion vectors; ``their_*`` and ``our_*`` are
    rows of the actions, the latter two NULL where the attempt does not name the file (``ours`` is ``before`` then).
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
    """For each removed file the row in ``adds`` that adds it again, or NULL."""
    return pc.index_in(canonical_paths(removes["path"]), canonical_paths(adds["path"]).combine_chunks())


def _with_deletion_vectors(files: pa.Table, rows: pa.ChunkedArray, deletion_vectors: pa.StructArray) -> pa.Table:
    """The files, those in ``rows`` with these deletion vectors."""
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
