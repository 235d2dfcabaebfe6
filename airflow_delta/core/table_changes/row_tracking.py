"""Row tracking backfill: assigns row ids to existing files before row tracking is enabled; and unbackfill, their removal.

No data file changes: every file is added to the log again, in batches, as Delta does it.

Protocol: PROTOCOL.md, "Row Tracking".
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import Origin
from airflow_delta.core.errors import InvalidTableChangeError
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.optimistic_transaction import OptimisticTransaction
from airflow_delta.core.transaction.winning_commit import BACKFILL, UNBACKFILL

FILES_AT_ONCE = 100_000
_IDS = ("base_row_id", "default_row_commit_version")


def backfill(start: Callable[[], OptimisticTransaction], origin: Origin | None = None) -> None:
    """Add all files without row ids again; the transaction assigns the ids, as the table supports the feature.

    Raises:
        MissingRecordCountError: The statistics of a file lack its number of rows.
        InvalidTableChangeError: Another writer suspended row tracking meanwhile.
    """
    _write_again(start, BACKFILL, lambda files: pc.is_null(files["base_row_id"]), origin)


def unbackfill(start: Callable[[], OptimisticTransaction], origin: Origin | None = None) -> None:
    """Add all files with row ids again, without them; the table must have suspended row tracking before.

    Raises:
        InvalidTableChangeError: Another writer resumed row tracking meanwhile.
    """
    _write_again(start, UNBACKFILL, lambda files: pc.is_valid(files["base_row_id"]), origin)


def _write_again(
    start: Callable[[], OptimisticTransaction],
    operation: str,
    choose: Callable[[pa.Table], pa.ChunkedArray],
    origin: Origin | None,
) -> None:
    left = None
    for batch in count():
        transaction = start()
        files = transaction.snapshot.files()
        files = files.filter(choose(files))
        if not len(files):
            return
        if left is not None and len(files) >= left:
            detail = f"{len(files)} files are not rewritten yet"
            raise InvalidTableChangeError(
                table=transaction.snapshot.table_uri, change=operation, detail=detail, cure="run it again"
            )
        left = len(files)
        files = _replaced(files.slice(0, FILES_AT_ONCE), "data_change", pa.scalar(False))
        for name in _IDS:
            files = _replaced(files, name, pa.scalar(None, pa.int64()))
        transaction.commit(
            adds=files,
            operation=Operation(name=operation, parameters={"batchId": batch}, changes_data=False),
            origin=origin,
        )


def _replaced(files: pa.Table, name: str, value: pa.Scalar) -> pa.Table:
    index = files.schema.get_field_index(name)
    return files.set_column(index, files.schema.field(index), pa.repeat(value, len(files)))
