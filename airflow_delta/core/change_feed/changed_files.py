"""Which rows of which files changed in one commit: computed from its actions, without I/O.

Protocol: PROTOCOL.md, "Reader Requirements for AddCDCFile". Follows ``CDCReader`` of Delta Spark.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import CommitActions, CommitInfo
from airflow_delta.core.actions.file_actions import DELETION_VECTOR, STRING_MAP
from airflow_delta.core.data_files.changed_rows import DELETE, INSERT
from airflow_delta.core.log.action_reconciliation import canonical_paths

CHANGED_FILE = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("partition_values", STRING_MAP),
        pa.field("change_type", pa.string()),
        pa.field("shown_by", DELETION_VECTOR),
        pa.field("hidden_by", DELETION_VECTOR),
        pa.field("size", pa.int64()),
    ]
)
"""Columns of files whose rows are changes.

``change_type`` is null if the file itself has that column. With ``shown_by``, only rows in that deletion vector count; rows in
``hidden_by`` never do. ``size`` is in bytes; 0 where the commit does not record it.
"""

_MERGED_ROWS = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


def changed_files(actions: CommitActions) -> pa.Table:
    """The files (``CHANGED_FILE``) that contain the rows changed by the commit.

    If a commit has change data files, only these count. Otherwise the files added and removed with data change count; a path in
    both only got another deletion vector.
    """
    if len(actions.changes):
        return _changes(actions.changes)
    if _merged_nothing(actions.commit_info):
        return CHANGED_FILE.empty_table()
    adds = actions.adds.filter(actions.adds["data_change"])
    removes = actions.removes.filter(actions.removes["data_change"])
    added, removed = canonical_paths(adds["path"]), canonical_paths(removes["path"])
    partner = pc.index_in(added, value_set=removed.combine_chunks())
    after, before = adds.filter(pc.is_valid(partner)), removes.take(partner.drop_null())
    new, gone = adds.filter(pc.is_null(partner)), removes.filter(pc.invert(pc.is_in(removed, added.combine_chunks())))
    undeleted, deleted = before["deletion_vector"], after["deletion_vector"]
    return pa.concat_tables(
        [
            _changes(gone, DELETE, hidden_by=gone["deletion_vector"]),
            _changes(after, DELETE, shown_by=deleted, hidden_by=undeleted).filter(pc.is_valid(deleted)),
            _changes(after, INSERT, shown_by=undeleted, hidden_by=deleted).filter(pc.is_valid(undeleted)),
            _changes(new, INSERT, hidden_by=new["deletion_vector"]),
        ]
    )


def _changes(
    files: pa.Table,
    change_type: str | None = None,
    *,
    shown_by: pa.ChunkedArray | None = None,
    hidden_by: pa.ChunkedArray | None = None,
) -> pa.Table:
    nothing = pa.nulls(len(files), DELETION_VECTOR)
    return pa.table(
        [
            files["path"],
            files["partition_values"],
            pa.repeat(pa.scalar(change_type, pa.string()), len(files)),
            nothing if shown_by is None else shown_by,
            nothing if hidden_by is None else hidden_by,
            pc.fill_null(files["size"], 0),
        ],
        schema=CHANGED_FILE,
    )


def _merged_nothing(info: CommitInfo | None) -> bool:
    """Whether it is a MERGE that only copied rows: Delta Spark then writes no change data, although it rewrote files."""
    if info is None or info.operation != "MERGE":
        return False
    return all(info.operation_metrics.get(name) == "0" for name in _MERGED_ROWS)
