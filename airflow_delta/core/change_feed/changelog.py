"""The change data feed as a changelog stream, with a row kind for each row (+I, -U, +U, -D)."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.data_files.changed_rows import CHANGE_TYPE

ROW_KIND = "_row_kind"

_KINDS = {
    "insert": "+I",
    "update_preimage": "-U",
    "update_postimage": "+U",
    "delete": "-D",
    "update_pre": "-U",  # of a Delta preview
    "update_post": "+U",
}


def changelog(changes: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """The changes with ``_row_kind`` (string) as first column instead of ``_change_type``; unknown types stay unchanged.

    Applied in order, the rows of a version turn the previous version of the table into this one, provided that removed rows
    come first (``going_first`` of ``change_feed``).
    """
    names = [name for name in changes.schema.names if name != CHANGE_TYPE]
    schema = pa.schema([pa.field(ROW_KIND, pa.string(), nullable=False), *(changes.schema.field(name) for name in names)])
    known, kinds = pa.array(list(_KINDS)), pa.array(list(_KINDS.values()))

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in changes:
            kind = pc.coalesce(kinds.take(pc.index_in(batch[CHANGE_TYPE], known)), batch[CHANGE_TYPE])
            yield pa.RecordBatch.from_arrays([kind, *(batch[name] for name in names)], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())
