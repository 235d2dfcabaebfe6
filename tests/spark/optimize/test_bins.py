"""Which files OPTIMIZE compacts into one."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.actions import ADD_FILE
from airflow_delta.core.schema import PrimitiveType, StructField
from airflow_delta.spark.optimize.bins import compaction_bins

DAY = StructField("day", PrimitiveType("timestamp"))


def files(*sizes_and_days):
    rows = [
        {"path": f"f{i}", "partition_values": [("day", day)], "size": size, "modification_time": 0, "data_change": True}
        for i, (size, day) in enumerate(sizes_and_days)
    ]
    return pa.Table.from_pylist(rows, schema=ADD_FILE)


def bins(table, fields, file_size):
    inputs, outputs = compaction_bins(table, fields, file_size)
    found = {}
    for path, output in zip(inputs["path"].to_pylist(), outputs.to_pylist(), strict=True):
        found.setdefault(output, []).append(path)
    assert list(found) == list(range(len(found)))
    return list(found.values())


def test_the_smallest_come_first_and_a_full_bin_begins_another():
    assert bins(files((60, None), (50, None), (30, None), (45, None), (40, None)), [], 100) == [["f2", "f4"], ["f3", "f1"]]


def test_large_files_and_files_without_company_stay():
    assert bins(files((100, None), (250, None), (99, None)), [], 100) == []


def test_partitions_are_equal_by_value_not_by_spelling():
    table = files(
        (1, "2021-01-01 00:00:00"), (1, "2021-01-01T00:00:00.000000Z"), (1, "2021-01-02 00:00:00"), (1, None), (1, None)
    )
    assert sorted(bins(table, [DAY], 100)) == [["f0", "f1"], ["f3", "f4"]]


def test_no_files_make_no_bins():
    assert bins(files(), [DAY], 100) == []


@given(
    table=st.lists(st.tuples(st.integers(0, 120), st.sampled_from([None, "2021-01-01 00:00:00", "2021-01-02 00:00:00"]))),
    partitioned=st.booleans(),
)
def test_bins_hold_small_files_of_one_partition_and_no_more_bytes_than_a_file(table, partitioned):
    binned = bins(files(*table), [DAY] if partitioned else [], 100)
    assert len({path for paths in binned for path in paths}) == sum(map(len, binned))
    for paths in binned:
        members = [table[int(path[1:])] for path in paths]
        assert len(members) > 1
        assert all(size < 100 for size, _ in members)
        assert sum(size for size, _ in members) <= 100
        assert not partitioned or len({day for _, day in members}) == 1
