"""Giving row ids to the files of a table that had none, before row tracking is enabled; and taking them away.

No data file changes: every file is written into the log again, in batches, as Delta does it.

Protocol: PROTOCOL.md, "Row Tracking".
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import Origin
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.optimistic_transaction import OptimisticTransaction
from airflow_delta.core.transaction.winning_commit import BACKFILL, UNBACKFILL

FILES_AT_ONCE = 100_000
_IDS = ("base_row_id", "default_row_commit_version")


def lacks_row_ids(files: pa.Table) -> pa.ChunkedArray:
    """Which of these active files (``ADD_FILE``) have rows without ids."""
    return pc.is_null(files["base_row_id"])


def backfill(start: Callable[[], OptimisticTransaction], origin: Origin | None = None) -> None:
    """Write all files that lack row ids again; the transaction gives the ids, as the table supports the feature.

    Raises:
        MissingRecordCountError: The statistics of a file do not tell how many rows it has.
    """
    _write_again(start, BACKFILL, lacks_row_ids, origin)


def unbackfill(start: Callable[[], OptimisticTransaction], origin: Origin | None = None) -> None:
    """Write all files that have row ids again, without; the table must have suspended row tracking before."""
    _write_again(start, UNBACKFILL, lambda files: pc.invert(lacks_row_ids(files)), origin)


def _write_again(
    start: Callable[[], OptimisticTransaction],
    operation: str,
    choose: Callable[[pa.Table], pa.ChunkedArray],
    origin: Origin | None,
) -> None:
    for batch in count():
        transaction = start()
        files = transaction.snapshot.files()
        files = files.filter(choose(files)).slice(0, FILES_AT_ONCE)
        if not len(files):
            return
        files = _replaced(files, "data_change", pa.repeat(pa.scalar(False), len(files)))
        for name in _IDS:
            files = _replaced(files, name, pa.nulls(len(files), pa.int64()))
        transaction.commit(
            adds=files,
            operation=Operation(name=operation, parameters={"batchId": batch}, changes_data=False),
            origin=origin,
        )


def _replaced(files: pa.Table, name: str, values: pa.Array) -> pa.Table:
    index = files.schema.get_field_index(name)
    return files.set_column(index, files.schema.field(index), values)
