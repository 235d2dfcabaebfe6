"""Two commits that delete different rows of one file: Delta Spark fails the second one, here both are made."""

import struct
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.actions import ADD_FILE, Metadata, Protocol, removes_of
from airflow_delta.core.data_files.deletion_vector_writer import write_deletion_vectors
from airflow_delta.core.data_files.row_bitmap import RowBitmap
from airflow_delta.core.data_files.z85 import z85_encoded
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import ConcurrentAppendError, ConcurrentDeleteDeleteError, ConcurrentDeleteReadError
from airflow_delta.core.snapshot.stored_deletion_vectors import StoredDeletionVectors
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.transaction.deletion_vector_union import rows_of_both
from airflow_delta.core.transaction.operation import Operation
from tests.core.cost import assert_bounded, cost_of

ROWS = 10
SCHEMA = '{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}}]}'
DELETION_VECTORS = frozenset({"deletionVectors"})
PROTOCOL = Protocol(
    min_reader_version=3, min_writer_version=7, reader_features=DELETION_VECTORS, writer_features=DELETION_VECTORS
)
WRITE, DELETE, RESTORE = (Operation(name=name) for name in ("WRITE", "DELETE", "RESTORE"))


def bitmap(rows):
    return RowBitmap.from_positions(pa.array(sorted(rows), pa.int64()))


class Table:
    """A table whose files hold the numbers from their first one on, and statements that delete some of these."""

    def __init__(self, root):
        self.root = root
        self.log = DeltaLog.for_table(str(root))
        self.log.create_transaction(Metadata(id="m", schema_string=SCHEMA), PROTOCOL).commit(operation=WRITE)

    def file(self, name, first):
        pq.write_table(pa.table({"n": pa.array(range(first, first + ROWS), pa.int64())}), self.root / name)
        stats = (
            f'{{"numRecords":{ROWS},"minValues":{{"n":{first}}},"maxValues":{{"n":{first + ROWS - 1}}},"tightBounds":false}}'
        )
        row = {"path": name, "partition_values": [], "size": (self.root / name).stat().st_size, "modification_time": 1}
        return pa.Table.from_pylist([{**row, "data_change": True, "stats": stats}], schema=ADD_FILE)

    def append(self, name, first):
        self.log.start_transaction().commit(adds=self.file(name, first), operation=WRITE)

    def delete(self, where, rows, *, transaction=None):
        """A transaction that deletes these positions of each file named, and the actions it will commit."""
        transaction = transaction or self.log.start_transaction()
        files = transaction.files(where)
        touched = files.filter(pa.array([path in rows for path in files["path"].to_pylist()], pa.bool_()))
        before = StoredDeletionVectors(self.log.store).read(touched["deletion_vector"].combine_chunks())
        after = [bitmap(rows[path]).union(old) for path, old in zip(touched["path"].to_pylist(), before, strict=True)]
        filesystem, root = self.log.store.data_filesystem()
        deletion_vectors = write_deletion_vectors(filesystem, root, after)
        adds = touched.set_column(7, ADD_FILE.field(7), [deletion_vectors]).set_column(
            4, ADD_FILE.field(4), [[True] * len(touched)]
        )
        removes = removes_of(touched, deletion_timestamp=5, data_change=True)
        return transaction, {"adds": adds, "removes": removes, "operation": DELETE}

    def numbers(self):
        return sorted(self.log.refresh().to_arrow().read_all()["n"].to_pylist())


@pytest.fixture
def table(tmp_path):
    made = Table(tmp_path / "table")
    made.append("f", 0)
    made.append("g", 100)
    return made


def all_but(*gone):
    return [n for n in [*range(ROWS), *range(100, 100 + ROWS)] if n not in gone]


# -- what both delete, as a pure decision


@pytest.mark.parametrize(
    ("before", "theirs", "ours", "both"),
    [
        pytest.param([], [1], [2], [1, 2], id="first-deletion-vectors"),
        pytest.param([0], [0, 5], [0, 2], [0, 2, 5], id="later-deletion-vectors"),
        pytest.param([], [1, 2], [2], None, id="one-row-twice"),
        pytest.param([0], [5], [0, 2], None, id="the-winner-brought-a-row-back"),
        pytest.param([0], [0, 5], [2], None, id="the-attempt-brings-a-row-back"),
        pytest.param([0], [0], [0], [0], id="nothing-new"),
    ],
)
def test_what_is_deleted_when_both_commits_are_made(before, theirs, ours, both):
    found = rows_of_both(*map(bitmap, (before, theirs, ours)))
    assert (found and found.positions().to_pylist()) == both


SETS = st.sets(st.integers(0, 20) | st.integers(65_530, 65_540))


@given(before=SETS, theirs=SETS, ours=SETS)
def test_the_union_is_what_a_serial_execution_deletes(before, theirs, ours):
    found = rows_of_both(bitmap(before), bitmap(before | theirs), bitmap(before | ours))
    if (theirs - before) & (ours - before):
        assert found is None
    else:
        assert found.positions().to_pylist() == sorted(before | theirs | ours)


# -- on tables


def test_deletions_of_different_rows_of_one_file_both_commit_where_delta_spark_fails_the_second(table, duckdb_connection):
    late, actions = table.delete("n < 10", {"f": {2, 3}})
    earlier, theirs = table.delete("n < 10", {"f": {7}})
    earlier.commit(**theirs)

    with pytest.raises(ConcurrentAppendError):  # what Delta Spark says: the winner's add is a file like any
        table.delete("n < 10", {"f": {2, 3}}, transaction=table.log.start_transaction(late.snapshot))[0].commit(**actions)
    result = late.commit(**actions, row_wise=True)

    assert (result.version, result.attempts) == (4, 2)
    assert table.numbers() == all_but(2, 3, 7)
    assert [n for (n,) in duckdb_connection.sql(f"SELECT n FROM delta_scan('{table.root}') ORDER BY n").fetchall()] == all_but(
        2, 3, 7
    )
    files = table.log.refresh().files()
    assert len(files) == 2
    assert (
        sum(deletion_vector["cardinality"] for deletion_vector in files["deletion_vector"].to_pylist() if deletion_vector) == 3
    )


def test_three_of_them_are_united_one_after_the_other(table):
    statements = [table.delete("n < 200", {"f": {number}, "g": {number}}) for number in (1, 4, 8)]
    for transaction, actions in statements:
        transaction.commit(**actions, row_wise=True)
    assert table.numbers() == all_but(1, 4, 8, 101, 104, 108)


def test_a_row_that_both_delete_is_a_conflict(table):
    late, actions = table.delete("n < 10", {"f": {2, 3}})
    earlier, theirs = table.delete("n < 10", {"f": {3}})
    earlier.commit(**theirs)
    with pytest.raises(ConcurrentAppendError) as caught:
        late.commit(**actions, row_wise=True)
    assert (caught.value.path, caught.value.winning_version) == ("f", 3)
    assert table.numbers() == all_but(3)


def test_a_row_that_a_restore_brought_back_is_a_conflict(table):
    first, actions = table.delete("n < 10", {"f": {3}})
    first.commit(**actions)
    late, actions = table.delete("n < 10", {"f": {5}})
    table.log.restore(2)
    with pytest.raises(ConcurrentAppendError):
        late.commit(**actions, row_wise=True)


def test_a_file_that_the_winner_has_removed_is_a_conflict(table):
    late, actions = table.delete("n < 10", {"f": {5}})
    winner = table.log.start_transaction()
    winner.commit(removes=removes_of(winner.files("n < 10"), deletion_timestamp=5, data_change=True), operation=DELETE)
    with pytest.raises(ConcurrentDeleteDeleteError):
        late.commit(**actions, row_wise=True)


def test_rows_that_others_deleted_from_files_that_are_only_read_do_not_matter_to_a_row_wise_statement(table):
    late, actions = table.delete("n < 200", {"g": {5}})  # reads both files, changes one
    winner = table.log.start_transaction()
    winner.commit(removes=removes_of(winner.files("n < 10"), deletion_timestamp=5, data_change=True), operation=DELETE)
    copy = replace_snapshot(late)
    with pytest.raises(ConcurrentDeleteReadError):  # Delta Spark's answer
        copy.commit(**actions)
    late.commit(**actions, row_wise=True)
    assert table.numbers() == [n for n in range(100, 110) if n != 105]


def replace_snapshot(transaction):
    """The same transaction without having committed."""
    again = DeltaLog(transaction.snapshot.store).start_transaction(transaction.snapshot)
    again.files("n < 200")
    return again


def test_rows_that_the_winner_adds_are_still_looked_at(table):
    late, actions = table.delete("n < 50", {"f": {5}})
    winner, theirs = table.delete("n < 10", {"f": {7}})
    moved = table.file("h", 20)
    winner.commit(**{**theirs, "adds": pa.concat_tables([theirs["adds"], moved])})
    with pytest.raises(ConcurrentAppendError) as caught:
        late.commit(**actions, row_wise=True)
    assert caught.value.path == "h"


def test_a_file_from_which_only_the_winner_deleted_is_left_as_it_is(table):
    late, actions = table.delete("n < 200", {"f": {5}})
    winner, theirs = table.delete("n < 200", {"g": {7}})
    winner.commit(**theirs)
    late.commit(**actions, row_wise=True)
    assert table.numbers() == all_but(5, 107)


def test_a_deleted_file_and_marked_rows_of_another_one_both_commit(table):
    late = table.log.start_transaction()
    actions = {"removes": removes_of(late.files("n < 200").slice(0, 1), deletion_timestamp=5, data_change=True)}
    winner, theirs = table.delete("n < 200", {"g": {7}})
    winner.commit(**theirs)
    late.commit(**actions, operation=DELETE, row_wise=True)
    assert table.numbers() == [n for n in range(100, 110) if n != 107]


def test_marked_rows_and_a_file_that_another_writer_deleted_both_commit(table):
    late, actions = table.delete("n < 200", {"g": {7}})
    winner = table.log.start_transaction()
    winner.commit(removes=removes_of(winner.files("n < 10"), deletion_timestamp=5, data_change=True), operation=DELETE)
    late.commit(**actions, row_wise=True)
    assert table.numbers() == [n for n in range(100, 110) if n != 107]


def test_a_transaction_without_access_to_deletion_vectors_takes_it_for_a_conflict(table):
    late, actions = table.delete("n < 10", {"f": {2}})
    winner, theirs = table.delete("n < 10", {"f": {7}})
    winner.commit(**theirs)
    late._deletion_vectors = None
    with pytest.raises(ConcurrentAppendError):
        late.commit(**actions, row_wise=True)


def test_a_united_deletion_vector_keeps_the_other_columns_of_the_file(table):
    late, actions = table.delete("n < 10", {"f": {2}})
    winner, theirs = table.delete("n < 10", {"f": {7}})
    winner.commit(**theirs)
    before = {row["path"]: row for row in table.log.refresh().files().to_pylist()}["f"]
    late.commit(**actions, row_wise=True)
    after = {row["path"]: row for row in table.log.refresh().files().to_pylist()}["f"]
    assert {**before, "deletion_vector": None} == {**after, "deletion_vector": None}
    removed = [row for row in table.log.refresh().tombstones().to_pylist() if row["path"] == "f"]
    assert before["deletion_vector"] in [row["deletion_vector"] for row in removed]


def test_metadata_is_as_it_was(table):
    assert replace(table.log.refresh().metadata, id="m") == Metadata(id="m", schema_string=SCHEMA)


def unite(content, rows):
    deletion_vector = {
        "storage_type": "i",
        "path_or_inline_dv": z85_encoded(content),
        "size_in_bytes": len(content),
        "cardinality": rows,
    }
    stored = StoredDeletionVectors(InMemoryLogStore("memory://t"))
    before, theirs, ours = stored.read(pa.array([None, deletion_vector, None], ADD_FILE.field("deletion_vector").type))
    assert len(rows_of_both(before, theirs, ours)) == rows


def test_a_small_deletion_vector_of_very_many_rows_is_united_at_a_bounded_cost():
    rows = 2_000 << 16
    run = struct.pack("<HHH", 1, 0, 0xFFFF)
    headers = b"".join(struct.pack("<HH", key, 0xFFFF) for key in range(2_000))
    bitmap = struct.pack("<I", 12347 | 1_999 << 16) + b"\xff" * 250 + headers + b"\0" * 8_000 + run * 2_000
    cost = cost_of(unite, struct.pack("<iqI", 1681511377, 1, 0) + bitmap, rows)
    assert cost.error is None
    assert_bounded(cost)
