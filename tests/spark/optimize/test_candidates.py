"""Which files OPTIMIZE takes, decided without Spark."""

import pytest

from airflow_delta.core.errors import InvalidPredicateError, InvalidStatementError
from airflow_delta.core.predicate import parse_predicate
from airflow_delta.core.statements import OptimizeStatement
from airflow_delta.spark.optimize.bins import compaction_bins
from airflow_delta.spark.optimize.candidates import DEFAULT_FILE_SIZE, candidates, named_partitions, target_file_size
from tests.core.builders import HandmadeLog, add


def taken(sizes_by_day, **statement):
    files = [
        add(f"{day}-{number}", size=size, partitionValues={"p": day})
        for day, sizes in sizes_by_day.items()
        for number, size in enumerate(sizes)
    ]
    snapshot = HandmadeLog().create(*files, partition_columns=["p"]).log.snapshot()
    named = named_partitions(snapshot, statement.get("where"), parse_predicate)
    return sorted(candidates(snapshot, OptimizeStatement(table="t", **statement), named)["path"].to_pylist())


def test_without_more_said_every_file_below_the_target_with_company_is_taken():
    sizes = {"a": [10, 90, 100], "b": [10], "c": [100, 200]}
    assert taken(sizes, target_file_size=100) == ["a-0", "a-1"]


def test_of_a_partition_with_enough_small_files_only_these_are_taken():
    sizes = {"a": [1, 2, 90], "b": [1, 90, 90], "c": [90, 90, 90]}
    assert taken(sizes, target_file_size=100, small_file_size=10, min_files=2) == ["a-0", "a-1"]
    assert taken(sizes, target_file_size=100, small_file_size=10, min_files=3) == []


def test_small_never_means_larger_than_the_target():
    assert taken({"a": [90, 110]}, target_file_size=100, small_file_size=1_000, min_files=1) == ["a-0"]


def test_a_condition_picks_whole_partitions():
    sizes = {"a": [1, 1], "b": [1, 1]}
    assert taken(sizes, where="p = 'b'") == ["b-0", "b-1"]
    with pytest.raises(InvalidPredicateError) as caught:
        taken(sizes, where="id = 1")
    assert caught.value.detail == "OPTIMIZE takes whole partitions; the partition columns are p"
    assert caught.value.cure == "name partitions alone, by conditions on p; or leave the condition out"


def test_a_condition_on_a_table_without_partitions_is_to_be_left_out():
    snapshot = HandmadeLog().create(add("f")).log.snapshot()
    with pytest.raises(InvalidPredicateError, match=r"has no partition columns\. Remedy: leave the condition out"):
        named_partitions(snapshot, "id = 1", parse_predicate)


def test_files_with_many_deleted_rows_are_taken_whatever_their_size():
    deletion_vector = {"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 6}
    stats = '{"numRecords":100}'
    files = [
        add("many", size=900, stats=stats, deletionVector=deletion_vector),
        add("few", size=900, stats=stats, deletionVector=deletion_vector | {"cardinality": 5}),
        add("unknown", size=900, deletionVector=deletion_vector),
        add("none", size=900, stats=stats),
        add(
            "absurd",
            size=900,
            stats='{"numRecords":9223372036854775807}',
            deletionVector=deletion_vector | {"cardinality": 2**62 + 1},
        ),
    ]
    snapshot = HandmadeLog().create(*files).log.snapshot()
    found = candidates(snapshot, OptimizeStatement(table="t", target_file_size=100), None)
    assert sorted(found["path"].to_pylist()) == ["absurd", "many", "unknown"]
    assert compaction_bins(found, [], 100)[1].to_pylist() == [0, 1, 2]


def test_a_size_of_nothing_is_refused():
    with pytest.raises(InvalidStatementError):
        OptimizeStatement(table="t", small_file_size=0)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1 KiB", 1024), ("2MB", 2 << 20), ("9" * 5_000, DEFAULT_FILE_SIZE), ("0", DEFAULT_FILE_SIZE), (None, DEFAULT_FILE_SIZE)],
)
def test_the_size_of_a_file_is_the_tables_where_that_can_be_read(text, size):
    snapshot = HandmadeLog().create(**({} if text is None else {"delta.targetFileSize": text})).log.snapshot()
    assert target_file_size(snapshot, OptimizeStatement(table="t")) == size
    assert target_file_size(snapshot, OptimizeStatement(table="t", target_file_size=7)) == 7
