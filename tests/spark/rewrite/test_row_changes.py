"""Sorted changes, streamed against the rows that they are about."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.spark.rewrite.row_changes import DROP, OUTPUT, ROW, RowChanges, with_changes

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("tags", pa.list_(pa.string()))])
CHANGES = pa.schema(
    [(OUTPUT, pa.int32()), (ROW, pa.int64()), (DROP, pa.bool_()), ("name", pa.large_string()), ("tags", pa.list_(pa.string()))]
)


def in_pieces(rows, lengths, schema):
    """Batches of these lengths, over and over, with all of the rows."""
    batches = []
    while rows:
        length = lengths[len(batches) % len(lengths)]
        batches.append(pa.RecordBatch.from_pylist(rows[:length], schema=schema))
        rows = rows[length:]
    return batches


def applied(files, changes, row_pieces, change_pieces):
    """The rows of each file that changes name, after the changes."""
    stream = RowChanges(iter(in_pieces(changes, change_pieces, CHANGES)))
    written = {}
    while (output := stream.next_output()) is not None:
        rows, first = [], 0
        for batch in in_pieces(files[output], row_pieces, SCHEMA):
            rows += with_changes(batch, first, stream.take(output, first, batch.num_rows)).to_pylist()
            first += batch.num_rows
        stream.finish(output)
        written[output] = rows
    return written


change_of_a_row = st.one_of(
    st.none(),
    st.just("drop"),
    st.fixed_dictionaries(
        {"name": st.none() | st.text(max_size=3), "tags": st.none() | st.lists(st.text(max_size=2), max_size=2)}
    ),
)


@given(
    decisions=st.lists(st.lists(change_of_a_row, min_size=1, max_size=12), max_size=4),
    row_pieces=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    change_pieces=st.lists(st.integers(1, 4), min_size=1, max_size=3),
)
def test_rows_change_one_by_one_however_both_streams_are_cut(decisions, row_pieces, change_pieces):
    files = [[{"id": row, "name": f"n{row}", "tags": [str(row)]} for row in range(len(decision))] for decision in decisions]
    changes, expected = [], {}
    for output, of_file in enumerate(decisions):
        if any(of_file):
            expected[output] = []
        for row, decision in enumerate(of_file):
            if decision == "drop":
                changes.append({OUTPUT: output, ROW: row, DROP: True})
                continue
            if decision is not None:
                changes.append({OUTPUT: output, ROW: row, DROP: False, **decision})
            expected.get(output, []).append(files[output][row] | (decision or {}))
    assert applied(files, changes, row_pieces, change_pieces) == expected


def test_a_row_that_is_dropped_twice_goes_once():
    rows = [{"id": row, "name": None, "tags": None} for row in range(3)]
    drops = [{OUTPUT: 0, ROW: 1, DROP: True}] * 2
    assert [row["id"] for row in applied([rows], drops, [3], [1])[0]] == [0, 2]


def test_a_batch_without_changes_is_passed_on_as_it_is():
    batch = pa.RecordBatch.from_pylist([{"id": 1, "name": "a", "tags": []}], schema=SCHEMA)
    stream = RowChanges(iter(in_pieces([{OUTPUT: 0, ROW: 5, DROP: True}], [1], CHANGES)))
    assert with_changes(batch, 0, stream.take(0, 0, 1)) is batch


def test_a_change_behind_the_last_row_is_an_error():
    stream = RowChanges(iter(in_pieces([{OUTPUT: 0, ROW: 5, DROP: True}], [1], CHANGES)))
    with pytest.raises(ValueError, match="behind the last one of output 0"):
        stream.finish(0)


def test_changes_of_another_output_than_the_one_written_are_an_error():
    batch = pa.RecordBatch.from_pylist([{"id": 1, "name": "a", "tags": []}], schema=SCHEMA)
    stream = RowChanges(iter(in_pieces([{OUTPUT: 0, ROW: 0, DROP: True}], [1], CHANGES)))
    with pytest.raises(ValueError, match="out of order"):
        stream.take(1, 0, batch.num_rows)
