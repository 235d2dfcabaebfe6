"""Applies a sorted stream of row changes to the batches of rows that they refer to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_delta.core.data_files import conform
from airflow_delta.core.data_files.changed_rows import DELETE, UPDATE_POSTIMAGE, UPDATE_PREIMAGE

OUTPUT = "__airflow_delta_output"
"""Column of changes: index of the file that is written."""
ROW = "__airflow_delta_row"
"""Column of changes: position of the row among all rows that go into the file."""
DROP = "__airflow_delta_drop"
"""Column of changes: whether the row is removed; otherwise it gets the values of the remaining columns."""
LIVES_ON = "__airflow_delta_lives_on"
"""Column of changes: whether a removed row was updated and is written elsewhere. Only if change data is recorded."""

MARKS = (OUTPUT, ROW, DROP, LIVES_ON)
"""The columns of changes that are not the table's."""


class RowChanges:
    """Changes sorted by (``OUTPUT``, ``ROW``), consumed while the rows that they refer to are streamed.

    At most one batch of changes, and the changes of one batch of rows, are held at a time.

    Args:
        batches: Columns ``OUTPUT``, ``ROW``, ``DROP``, and the table's columns that get new values.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = (batch for batch in batches if batch.num_rows)
        self._rest: pa.RecordBatch | None = next(self._batches, None)

    def next_output(self) -> int | None:
        """The output of the next change; None if there are no more."""
        return None if self._rest is None else self._rest.column(OUTPUT)[0].as_py()

    def take(self, output: int, first_row: int, rows: int) -> pa.Table | None:
        """The changes of the next rows; None if there are none.

        Args:
            output: The output of the rows.
            first_row: Position of the first of them in the output's input rows.
            rows: Number of rows.
        """
        changes = list(self._until(output, first_row + rows))
        return pa.Table.from_batches(changes).combine_chunks() if changes else None

    def finish(self, output: int) -> None:
        """Raise ``ValueError`` if a change names a row after the last one of this output."""
        if self.next_output() == output:
            raise ValueError(f"a change names a row behind the last one of output {output}")

    def _until(self, output: int, end: int) -> Iterator[pa.RecordBatch]:
        """Take the changes of this output's rows before ``end``."""
        while self._rest is not None:
            first, stop = np.searchsorted(self._rest.column(OUTPUT), [output, output + 1])
            if first:
                raise ValueError(f"changes are out of order: output {output} is requested, {self.next_output()} comes next")
            taken = int(np.searchsorted(self._rest.column(ROW)[:stop], end))
            if taken:
                yield self._rest.slice(0, taken)
            if taken < self._rest.num_rows:
                self._rest = self._rest.slice(taken)
                return
            self._rest = next(self._batches, None)


def with_changes(
    rows: pa.RecordBatch, first_row: int, changes: pa.Table | None, there: pa.BooleanArray | None = None
) -> pa.RecordBatch:
    """The rows with each change in its place; the batch itself if there are no changes.

    Each column is built by taking positions from the rows followed by the changes.

    Args:
        rows: The rows.
        first_row: Position of the first of them, as counted by changes.
        changes: The changes of these rows.
        there: Which of the rows exist; all when None. Changes only refer to existing rows.
    """
    if changes is None:
        return rows if there is None else rows.filter(there)
    positions = changes[ROW].to_numpy() - first_row
    drops = changes[DROP].to_numpy()
    kept = np.ones(rows.num_rows, dtype=bool) if there is None else there.to_numpy(zero_copy_only=False).copy()
    kept[positions[drops]] = False
    untouched = None if kept.all() else pa.array(np.flatnonzero(kept))
    columns = rows.columns if untouched is None else rows.take(untouched).columns
    new_names = _new_names(changes)
    if drops.all() or not new_names:
        return pa.RecordBatch.from_arrays(columns, schema=rows.schema)
    order = np.arange(rows.num_rows)
    order[positions[~drops]] = rows.num_rows + np.flatnonzero(~drops)
    indices = pa.array(order[kept])
    new_values = conform(changes.select(new_names), pa.schema([rows.schema.field(name) for name in new_names]))
    for name in new_names:
        both = pa.chunked_array([rows.column(name), *new_values[name].chunks])
        columns[rows.schema.get_field_index(name)] = both.combine_chunks().take(indices)
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def changed_rows(rows: pa.RecordBatch, first_row: int, changes: pa.Table) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The changes (with ``LIVES_ON``) as rows of the change data feed: for each change type, its rows.

    A row that several changes drop is deleted once. A row that lives on elsewhere is recorded there.

    Args:
        rows: The rows before the changes.
        first_row: Position of the first of them, as counted by changes.
        changes: The changes of these rows.
    """
    positions = changes[ROW].to_numpy() - first_row
    drops, lives_on = (changes[name].to_numpy() for name in (DROP, LIVES_ON))
    before, updated = np.unique(positions[~drops | lives_on]), positions[~drops]
    for kind, chosen in ((DELETE, np.unique(positions[drops & ~lives_on])), (UPDATE_PREIMAGE, before)):
        if len(chosen):
            yield kind, rows.take(pa.array(chosen))
    if len(updated):
        yield UPDATE_POSTIMAGE, _updated(rows.take(pa.array(updated)), changes.filter(pa.array(~drops)))


def _updated(rows: pa.RecordBatch, changes: pa.Table) -> pa.RecordBatch:
    """The rows with the new values of their changes, row by row."""
    columns: list[Any] = rows.columns
    new_names = _new_names(changes)
    new_values = conform(changes.select(new_names), pa.schema([rows.schema.field(name) for name in new_names]))
    for name in new_names:
        columns[rows.schema.get_field_index(name)] = new_values[name].combine_chunks()
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _new_names(changes: pa.Table) -> list[str]:
    return [name for name in changes.column_names if name not in MARKS]
