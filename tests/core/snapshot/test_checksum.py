"""What the checksum file beside a commit is used for, and that a wrong one changes no answer."""

import json

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.log.file_names import checksum_path
from tests.core.builders import HandmadeLog, add, metadata, protocol
from tests.golden_tables import TABLES

NAMES = sorted(path.parent.name for path in TABLES.glob("*/expected.json"))
WITH_TIMES = {"delta.enableInCommitTimestamps": "true"}


def checksum(**changes):
    says = {"tableSizeBytes": 2, "numFiles": 2, "numMetadata": 1, "numProtocol": 1, "setTransactions": [], "domainMetadata": []}
    return json.dumps({**says, **metadata(), **protocol(), "metadata": metadata()["metaData"], **changes}).encode()


def test_a_right_checksum_is_right():
    handmade = HandmadeLog().create(add("a"), add("b"))
    assert handmade.log.snapshot().verify_checksum() == ()
    handmade.store.write(checksum_path(0), checksum())
    assert handmade.log.snapshot().checksum.num_files == 2
    assert handmade.log.snapshot().verify_checksum() == ()


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"numFiles": 9, "tableSizeBytes": 1}, ("num_files is 2, not 9", "table_size is 2, not 1")),
        ({"protocol": protocol(3, 7)["protocol"]}, ("it holds another protocol",)),
        ({"setTransactions": [{"appId": "x", "version": 1}]}, ("it holds other transactions",)),
    ],
)
def test_a_wrong_checksum_is_reported_and_changes_no_answer(changes, reported):
    handmade = HandmadeLog().create(add("a"), add("b"))
    handmade.store.write(checksum_path(0), checksum(**changes))
    snapshot = handmade.log.snapshot()
    assert snapshot.verify_checksum() == reported
    assert handmade.paths() == ["a", "b"]
    assert (snapshot.protocol.min_reader_version, dict(snapshot.transactions)) == (1, {})


def test_where_the_commit_is_gone_the_checksum_shows_its_time():
    handmade = HandmadeLog().create(add("a"), **WITH_TIMES)
    handmade.checkpoint(0, protocol(), metadata(**WITH_TIMES), add("a"))
    handmade.store.write(checksum_path(0), checksum(inCommitTimestampOpt=77))
    assert handmade.log.snapshot().timestamp == 1000  # the commit is there, though it carries no time
    handmade.remove_commits(0)
    assert handmade.log.snapshot().timestamp == 77


@pytest.mark.parametrize("name", NAMES)
def test_the_checksums_of_spark_agree_with_what_is_read(name):
    log = DeltaLog.for_table(str(TABLES / name / "table"))
    for version in range(log.snapshot().version + 1):
        assert log.snapshot(version).verify_checksum() == ()
