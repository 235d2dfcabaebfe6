"""A sorted stream of row changes, applied to the batches of the files that they are about."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from airflow_delta.core.data_files import conform

OUTPUT = "__output"
"""Column of changes: ordinal of the file that is written."""
ROW = "__row"
"""Column of changes: position of the row in all that goes into the file; ``NO_ROW`` only asks for the file."""
DROP = "__drop"
"""Column of changes: whether the row goes; else it takes the values of the remaining columns."""

NO_ROW = -1


class RowChanges:
    """Changes in the order of (``OUTPUT``, ``ROW``), consumed while the rows that they are about stream by.

    At most one batch of changes and those of one batch of rows are held at a time.

    Args:
        batches: Columns ``OUTPUT``, ``ROW``, ``DROP`` and those columns of the table that take new values.
        schema: The columns of the rows.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
        self._batches = (each for each in batches if each.num_rows)
        self._schema = schema
        self._rest: pa.RecordBatch | None = next(self._batches, None)

    def next_output(self) -> int | None:
        """The output that the next change is about; None when there are no more."""
        return None if self._rest is None else self._rest.column(OUTPUT)[0].as_py()

    def apply(self, output: int, first_row: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows, which start at ``first_row`` of the output, with their changes; the batch itself where there are none."""
        changes = list(self._until(output, first_row + rows.num_rows))
        if not changes:
            return rows
        return _changed(rows, first_row, pa.Table.from_batches(changes).combine_chunks())

    def finish(self, output: int) -> None:
        """Raise ``ValueError`` if a change names a row behind the last one of this output."""
        if self.next_output() == output:
            raise ValueError(f"a change names a row behind the last one of output {output}")

    def _until(self, output: int, end: int) -> Iterator[pa.RecordBatch]:
        """Take the changes of this output's rows before ``end``."""
        while self._rest is not None:
            first, stop = np.searchsorted(self._rest.column(OUTPUT), [output, output + 1])
            if first:
                raise ValueError(f"changes are out of order: output {output} is asked for, {self.next_output()} comes next")
            taken = int(np.searchsorted(self._rest.column(ROW)[:stop], end))
            called = int(np.searchsorted(self._rest.column(ROW)[:taken], NO_ROW, side="right"))
            if taken > called:
                yield self._rest.slice(called, taken - called)
            if taken < self._rest.num_rows:
                self._rest = self._rest.slice(taken)
                return
            self._rest = next(self._batches, None)


def _changed(rows: pa.RecordBatch, first_row: int, changes: pa.Table) -> pa.RecordBatch:
    """The rows with each change in its place: each column is taken by positions in the rows and, behind them, the changes."""
    positions = changes[ROW].to_numpy() - first_row
    drops = changes[DROP].to_numpy()
    kept = np.ones(rows.num_rows, dtype=bool)
    kept[positions[drops]] = False
    untouched = pa.array(np.flatnonzero(kept)) if drops.any() else None
    columns = rows.columns if untouched is None else rows.take(untouched).columns
    new_names = [name for name in changes.column_names if name not in (OUTPUT, ROW, DROP)]
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
