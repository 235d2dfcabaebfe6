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
from airflow_delta.core.log.action_reconciliation import canonical_paths, file_keys


class VectorFiles(Protocol):
    """Deletion vectors, read and written; the conflict rules know no files."""

    def read(self, vectors: pa.StructArray) -> list[pa.Int64Array]:
        """For each vector (``DELETION_VECTOR``) the deleted rows, ascending; none for NULL."""
        ...

    def write(self, rows: Sequence[pa.Int64Array]) -> pa.StructArray:
        """Store the deleted rows of files, and give the vectors (``DELETION_VECTOR``) that tell where."""
        ...


def rows_of_both(before: pa.Int64Array, theirs: pa.Int64Array, ours: pa.Int64Array) -> pa.Int64Array | None:
    """The rows that are deleted when both commits are made, ascending; None when that would be wrong.

    Args:
        before: Rows that were deleted when both began.
        theirs: Rows that are deleted after the winner; it must not have brought any back.
        ours: Rows that are deleted after the attempt; it must not change a row that the winner changed.
    """
    if not pc.all(pc.is_in(before, theirs), min_count=0).as_py() or not pc.all(pc.is_in(before, ours), min_count=0).as_py():
        return None
    added = ours.filter(pc.invert(pc.is_in(ours, before)))
    if pc.any(pc.is_in(added, theirs)).as_py():
        return None
    both = pa.concat_arrays([theirs, added])
    return both.take(pc.sort_indices(both))


def united(ours: CommitActions, theirs: CommitActions, vectors: VectorFiles) -> tuple[CommitActions, CommitActions]:
    """Let our vectors delete what the winner deleted too, for each file from which both deleted rows, but not the same ones.

    Args:
        ours: What the attempt writes.
        theirs: What the winner wrote.
        vectors: For reading the vectors, and writing the united ones.

    Returns:
        Both, so that ``theirs`` does not name those files any more; unchanged where there are none.

    Raises:
        CorruptDataFileError: A vector is not what the log says.
    """
    shared = _shared_files(ours, theirs)
    count = len(shared)
    if not count:
        return ours, theirs
    rows = vectors.read(pa.concat_arrays([shared[name].combine_chunks() for name in ("before", "theirs", "ours")]))
    both = [rows_of_both(*each) for each in zip(rows[:count], rows[count : 2 * count], rows[2 * count :], strict=True)]
    settled = shared.filter(pa.array([each is not None for each in both], pa.bool_()))
    if not len(settled):
        return ours, theirs
    written = vectors.write([each for each in both if each is not None])
    return (
        replace(
            ours,
            removes=_with_vectors(ours.removes, settled["our_remove"], settled["theirs"].combine_chunks()),
            adds=_with_vectors(ours.adds, settled["our_add"], written),
        ),
        replace(
            theirs,
            removes=_without_rows(theirs.removes, settled["their_remove"]),
            adds=_without_rows(theirs.adds, settled["their_add"]),
        ),
    )


def _shared_files(ours: CommitActions, theirs: CommitActions) -> pa.Table:
    """The files of which both replace one and the same vector (or none) by a vector: rows of the actions, and the vectors."""
    their_remove = pc.index_in(file_keys(ours.removes), file_keys(theirs.removes).combine_chunks())
    rows = pa.table(
        {
            "our_remove": _row_numbers(ours.removes),
            "our_add": _add_of_each(ours.removes, ours.adds),
            "their_remove": their_remove,
            "their_add": _add_of_each(theirs.removes, theirs.adds).take(their_remove),
        }
    )
    rows = rows.filter(pc.and_(pc.is_valid(rows["our_add"]), pc.is_valid(rows["their_add"])))
    vectors = {
        "before": ours.removes["deletion_vector"].take(rows["our_remove"]),
        "theirs": theirs.adds["deletion_vector"].take(rows["their_add"]),
        "ours": ours.adds["deletion_vector"].take(rows["our_add"]),
    }
    shared = pa.table({**{name: rows[name] for name in rows.column_names}, **vectors})
    return shared.filter(pc.and_(pc.is_valid(shared["theirs"]), pc.is_valid(shared["ours"])))


def _add_of_each(removes: pa.Table, adds: pa.Table) -> pa.ChunkedArray:
    """For each removed file the row in ``adds`` that adds it again, or NULL."""
    return pc.index_in(canonical_paths(removes["path"]), canonical_paths(adds["path"]).combine_chunks())


def _with_vectors(files: pa.Table, rows: pa.ChunkedArray, vectors: pa.StructArray) -> pa.Table:
    """The files, those in ``rows`` with these vectors."""
    column = files.schema.get_field_index("deletion_vector")
    numbers = _row_numbers(files)
    ordinal = pc.index_in(numbers, rows.combine_chunks().cast(numbers.type))
    source = pc.coalesce(pc.add(ordinal.cast(pa.int64()), len(files)), numbers)
    values = pa.concat_arrays([files["deletion_vector"].combine_chunks(), vectors.cast(files.schema.field(column).type)])
    return files.set_column(column, files.schema.field(column), values.take(source))


def _without_rows(files: pa.Table, rows: pa.ChunkedArray) -> pa.Table:
    numbers = _row_numbers(files)
    return files.filter(pc.invert(pc.is_in(numbers, rows.combine_chunks().cast(numbers.type))))


def _row_numbers(files: pa.Table) -> pa.Array:
    return pa.array(range(len(files)), pa.int64())
