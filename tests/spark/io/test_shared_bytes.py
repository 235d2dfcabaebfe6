"""Data sent to each worker once: bytes, and files that are looked up by number."""

import pickle
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.spark.io import shared_bytes as module
from airflow_delta.spark.io.shared_bytes import CarriedBytes, share, share_files
from tests.spark.needs import looks_into_the_jvm


def numbered(numbers):
    paths = [f"part-{position}" for position in range(len(numbers))]
    return pa.table({"path": paths, "output": pa.array(numbers, pa.int32())})


def nothing_at_end(release):
    raise AssertionError(f"{release} is to be called at the end of a statement that shares nothing large")


def paths_of(lookup, number):
    return lookup.of(number)["path"].to_pylist()


@given(gaps=st.lists(st.integers(0, 2), max_size=30), batch_files=st.integers(1, 7))
def test_every_file_is_found_by_its_number_wherever_batches_end(spark, gaps, batch_files):
    numbers = [sum(gaps[: position + 1]) for position in range(len(gaps))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BATCH_FILES", batch_files)
        lookup = share_files(spark, numbered(numbers), "output", nothing_at_end).opened()

    for number in range(-1, sum(gaps) + 2):
        assert paths_of(lookup, number) == [f"part-{position}" for position, found in enumerate(numbers) if found == number]


def test_a_file_of_a_table_in_chunks_keeps_its_number(spark):
    chunked = pa.concat_tables([numbered([0, 1]), numbered([1]), numbered([2])])

    lookup = share_files(spark, chunked, "output", nothing_at_end).opened()

    assert [lookup.of(number).num_rows for number in range(4)] == [1, 2, 1, 0]


def test_only_batches_around_a_number_are_decoded_and_each_once(spark, monkeypatch):
    monkeypatch.setattr(module, "_BATCH_FILES", 10)
    files = share_files(spark, numbered(range(1000)), "output", nothing_at_end)
    open_file, decoded = pa.ipc.open_file, Counter()

    class CountingReader:
        def __init__(self, source):
            self._reader = open_file(source)
            self.schema = self._reader.schema

        def get_batch(self, batch):
            decoded[batch] += 1
            return self._reader.get_batch(batch)

    monkeypatch.setattr(pa.ipc, "open_file", CountingReader)
    lookup = files.opened()

    assert [paths_of(lookup, number) for number in range(505, 510)] == [[f"part-{number}"] for number in range(505, 510)]
    assert decoded == {50: 1}


@looks_into_the_jvm
def test_files_too_large_for_a_function_are_broadcast_until_the_statement_ends(spark, monkeypatch):
    monkeypatch.setattr(module, "_CARRIED_BYTES", 0)
    releases = []
    files = share_files(spark, numbered(range(50_000)), "output", releases.append)

    def found(numbers):
        lookup = files.opened()
        for batch in numbers:
            paths = [paths_of(lookup, number)[0] for number in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pydict({"path": paths})

    assert len(pickle.dumps(files)) < 10_000
    rows = spark.range(0, 50_000, 9_999, 3).mapInArrow(found, "path string")
    wanted = range(0, 50_000, 9_999)
    assert [row.path for row in rows.collect()] == [f"part-{number}" for number in wanted]

    (destroy,) = releases
    destroy()
    with pytest.raises(Exception, match="destroyed"):
        files.content.unpersist()


def test_few_bytes_travel_within_the_function(spark):
    assert share(spark, b"keys", nothing_at_end) == CarriedBytes(b"keys")
