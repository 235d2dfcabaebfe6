"""Checksums are carried from version to version: checked against those that Delta-Spark wrote, and by counting."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.actions import ADD_FILE, CommitActions, Metadata, Protocol, SetTransaction, removes_of
from airflow_delta.core.log.commit_reader import read_commit
from airflow_delta.core.log.file_names import checksum_path
from airflow_delta.core.log.version_checksum import VersionChecksum, read_checksum
from airflow_delta.core.operations.checksum_writer import counted_checksum, next_checksum, write_checksum
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.storage.local_log_store import LocalLogStore
from tests.golden_tables import TABLES

PROTOCOL = Protocol(min_reader_version=1, min_writer_version=2)
METADATA = Metadata(id="m", schema_string='{"type":"struct","fields":[]}')
START = VersionChecksum(num_files=2, table_size=30, protocol=PROTOCOL, metadata=METADATA, transactions=(), domains=())


def files(*sizes, data_change=True):
    rows = [
        {"path": f"f{n}-{size}", "partition_values": [], "size": size, "modification_time": 0, "data_change": data_change}
        for n, size in enumerate(sizes)
    ]
    return pa.Table.from_pylist(rows, schema=ADD_FILE)


def gone(adds, *, data_change=True):
    return removes_of(adds, deletion_timestamp=1, data_change=data_change)


@pytest.mark.parametrize("table", sorted(TABLES.glob("*/table")), ids=lambda path: path.parent.name)
def test_each_checksum_of_delta_spark_follows_from_the_one_before(table):
    store = LocalLogStore(str(table))
    versions = sorted(int(path.stem) for path in (table / "_delta_log").glob("0*.crc"))
    followed = 0
    for version in versions:
        before, theirs = read_checksum(store, version - 1) if version else None, read_checksum(store, version)
        if (version and before is None) or not store.exists(f"_delta_log/{version:020d}.json"):
            continue
        ours = next_checksum(before, read_commit(store, version))
        if ours is not None:  # a commit that says more about files that are there
            followed += 1
            assert unordered(ours) == unordered(theirs), version
    assert followed >= len(versions) - 2


def unordered(checksum):
    """The checksum as JSON, where neither the order of actions nor the commit's random id matters."""
    document = checksum.to_json()
    for key in ("setTransactions", "domainMetadata"):
        document[key] = sorted(document.get(key, []), key=json.dumps)
    return document


def test_the_first_version_needs_no_other():
    checksum = next_checksum(None, CommitActions(protocol=PROTOCOL, metadata=METADATA, adds=files(5, 9_000)))
    assert (checksum.num_files, checksum.table_size) == (2, 9_005)
    assert checksum.histogram["fileCounts"][:3] == [1, 1, 0]
    assert checksum.histogram["totalBytes"][:3] == [5, 9_000, 0]


def test_nothing_is_reported_where_the_version_before_is_not_known():
    assert next_checksum(None, CommitActions(adds=files(5))) is None


def test_nothing_is_reported_when_the_size_of_a_removed_file_is_not_known():
    removes = gone(files(5)).set_column(5, "size", pa.nulls(1, pa.int64()))
    assert next_checksum(START, CommitActions(removes=removes)) is None


def test_nothing_is_reported_when_files_may_be_added_that_are_there():
    assert next_checksum(START, CommitActions(adds=files(5, data_change=False))) is None
    rewritten = next_checksum(
        START, CommitActions(adds=files(5, data_change=False), removes=gone(files(10), data_change=False))
    )
    assert (rewritten.num_files, rewritten.table_size) == (2, 25)


def test_nothing_is_reported_when_more_is_gone_than_there_was():
    assert next_checksum(START, CommitActions(removes=gone(files(10, 10, 10)))) is None


def test_what_is_not_known_of_applications_stays_unknown():
    unknown = next_checksum(
        replace(START, transactions=None), CommitActions(transactions=(SetTransaction(app_id="a", version=1),))
    )
    assert unknown.transactions is None
    assert "setTransactions" not in unknown.to_json()


@given(st.lists(st.tuples(st.lists(st.integers(0, 2**40), max_size=4), st.integers(0, 4)), min_size=1, max_size=6))
def test_carrying_on_agrees_with_counting(commits):
    live, checksum = [], None
    for number, (sizes, leaving) in enumerate(commits):
        leaves, live = live[:leaving], live[leaving:] + sizes
        first = {"protocol": PROTOCOL, "metadata": METADATA} if number == 0 else {}
        checksum = next_checksum(checksum, CommitActions(adds=files(*sizes), removes=gone(files(*leaves)), **first))
        assert (checksum.num_files, checksum.table_size) == (len(live), sum(live))
        counted = next_checksum(None, CommitActions(adds=files(*live), protocol=PROTOCOL, metadata=METADATA))
        assert checksum.histogram == counted.histogram
        assert counted_checksum(checksum, None, files=len(live), size=sum(live)) is checksum


@pytest.mark.parametrize(
    "histogram", [{}, {"sortedBinBoundaries": [0], "fileCounts": [], "totalBytes": [1]}, {"fileCounts": 5}]
)
def test_a_histogram_that_makes_no_sense_is_dropped(histogram):
    assert next_checksum(replace(START, histogram=histogram), CommitActions(adds=files(1))).histogram is None


def test_a_checksum_that_is_there_is_never_replaced():
    store = InMemoryLogStore()
    store.write(checksum_path(3), b"theirs")
    write_checksum(store, 3, START)
    assert store.read(checksum_path(3)) == b"theirs"
    write_checksum(store, 4, START)
    assert read_checksum(store, 4) == START
