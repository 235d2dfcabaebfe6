import json
from dataclasses import replace

import pytest

from airflow_delta.core.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from airflow_delta.core.log.file_names import checksum_path
from airflow_delta.core.log.version_checksum import VersionChecksum, differences, read_checksum
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore

CHECKSUM = VersionChecksum(
    table_size=7,
    num_files=2,
    protocol=Protocol(min_reader_version=1, min_writer_version=2),
    metadata=Metadata(id="i", schema_string="{}"),
    txn_id="t",
    in_commit_timestamp=5,
    transactions=(SetTransaction(app_id="a", version=1),),
    domains=(DomainMetadata(domain="d", configuration="{}"),),
    histogram={"fileCounts": [2]},
)


def store_with(content):
    store = InMemoryLogStore("memory://t")
    store.write(checksum_path(3), content)
    return store


def test_what_is_written_is_read_again_under_the_names_of_the_protocol():
    document = CHECKSUM.to_json()
    assert {key: document[key] for key in ("tableSizeBytes", "numFiles", "numMetadata", "numProtocol")} == {
        "tableSizeBytes": 7,
        "numFiles": 2,
        "numMetadata": 1,
        "numProtocol": 1,
    }
    assert document["inCommitTimestampOpt"] == 5
    assert read_checksum(store_with(json.dumps(document).encode()), 3) == CHECKSUM


def test_what_is_not_recorded_is_left_out_and_all_files_are_ignored():
    bare = VersionChecksum(table_size=0, num_files=0, protocol=CHECKSUM.protocol, metadata=CHECKSUM.metadata)
    assert set(bare.to_json()) == {"tableSizeBytes", "numFiles", "numMetadata", "numProtocol", "metadata", "protocol"}
    document = {**bare.to_json(), "allFiles": [{"path": "x"}], "histogramOpt": None, "later": 1}
    assert VersionChecksum.from_json(document) == bare


def test_a_version_without_a_checksum_has_none():
    assert read_checksum(store_with(b"{}"), 4) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b"null",
        b"{}",
        b"[" * 100_000,
        json.dumps({**CHECKSUM.to_json(), "numFiles": None}).encode(),
        json.dumps({**CHECKSUM.to_json(), "numProtocol": 2}).encode(),
        json.dumps({**CHECKSUM.to_json(), "tableSizeBytes": float("inf")}).encode(),
        json.dumps({**CHECKSUM.to_json(), "setTransactions": 1}).encode(),
        json.dumps({**CHECKSUM.to_json(), "metadata": {}}).encode(),
    ],
)
def test_garbage_is_no_checksum(content):
    assert read_checksum(store_with(content), 3) is None


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({}, ()),
        ({"num_files": 3}, ("num_files is 3, not 2",)),
        ({"table_size": 8}, ("table_size is 8, not 7",)),
        ({"metadata": Metadata(id="j", schema_string="{}")}, ("it holds another metadata",)),
        ({"transactions": ()}, ("it holds other transactions",)),
        ({"domains": None, "in_commit_timestamp": None, "txn_id": "u", "histogram": None}, ()),
    ],
)
def test_what_was_counted_otherwise_is_reported(change, reported):
    assert differences(CHECKSUM, replace(CHECKSUM, **change)) == reported
