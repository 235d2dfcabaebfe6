"""Winners that another engine wrote are understood: its compaction is resolved, its delete conflicts."""

import pytest
from deltalake import DeltaTable

from airflow_delta.core.errors import ConcurrentAppendError, ConcurrentDeleteDeleteError, ConcurrentDeleteReadError
from airflow_delta.core.transaction.operation import Operation

WRITE = Operation(name="WRITE")


@pytest.fixture
def table(real_table):
    """Six rows in six files of one partition."""
    table = real_table()
    for number in range(6):
        table.commit(adds=table.add(f"p=a/f{number}.parquet", number, "a"))
    return table


def rows(table):
    return sorted(table.log.refresh().to_arrow(["n"]).read_all()["n"].to_pylist())


def test_rows_read_before_its_compaction_are_still_right(table):
    transaction = table.log.start_transaction()
    transaction.files("p = 'a' AND n >= 3")
    assert DeltaTable(table.root).optimize.compact()["numFilesRemoved"] == 6

    result = transaction.commit(adds=table.add("p=b/copy.parquet", 3, "b"), operation=WRITE)

    assert [(conflict["operation"], conflict["rule"]) for conflict in result.conflicts] == [("OPTIMIZE", None)]
    assert rows(table) == [0, 1, 2, 3, 3, 4, 5]


def test_a_file_that_it_compacted_cannot_be_removed_too(table):
    transaction = table.log.start_transaction()
    files = transaction.files("n = 3")
    DeltaTable(table.root).optimize.compact()
    with pytest.raises(ConcurrentDeleteDeleteError) as caught:
        transaction.commit(removes=table.tombstones(files), operation=Operation(name="DELETE"))
    assert caught.value.path == "p=a/f3.parquet"
    assert rows(table) == [0, 1, 2, 3, 4, 5]


def test_rows_that_it_deleted_conflict_only_where_they_were_read(table):
    reader, bystander = table.log.start_transaction(), table.log.start_transaction()
    reader.files("n >= 3")
    bystander.files("n <= 1")
    DeltaTable(table.root).delete("n = 4")
    with pytest.raises(ConcurrentDeleteReadError) as caught:
        reader.commit(adds=table.add("p=b/copy.parquet", 3, "b"), operation=WRITE)
    assert caught.value.path == "p=a/f4.parquet"
    assert bystander.commit(adds=table.add("p=b/copy.parquet", 1, "b"), operation=WRITE).committed


def test_rows_that_it_updated_conflict_by_their_statistics(table):
    reader, bystander = table.log.start_transaction(), table.log.start_transaction()
    reader.record_read("n = 40")
    bystander.record_read("n = 41")
    DeltaTable(table.root).update(updates={"n": "40"}, predicate="n = 4")
    with pytest.raises(ConcurrentAppendError):
        reader.commit(adds=table.add("p=b/x.parquet", 40, "b"), operation=WRITE)
    assert bystander.commit(adds=table.add("p=b/y.parquet", 41, "b"), operation=WRITE).committed
    assert rows(table) == [0, 1, 2, 3, 5, 40, 41]
