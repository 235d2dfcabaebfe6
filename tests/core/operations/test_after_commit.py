"""Post-commit work: checksums carried from version to version, and no failure that fails the commit."""

import json
import shutil

import pyarrow as pa
import pytest

from airflow_delta.core.actions import ADD_FILE, DomainMetadata, Metadata, Protocol, SetTransaction, removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.log.file_names import checkpoint_path, checksum_path
from airflow_delta.core.log.version_checksum import VersionChecksum, read_checksum
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.core.transaction.operation import Operation

WRITE = Operation(name="WRITE")


def new_log(store=None, protocol=None, **configuration):
    log = DeltaLog(store or InMemoryLogStore())
    metadata = Metadata(id="m", schema_string='{"type":"struct","fields":[]}', configuration=configuration)
    log.create_transaction(metadata, protocol).commit(operation=WRITE)
    return log


def files(*paths, size=10):
    rows = [{"path": path, "partition_values": [], "size": size, "modification_time": 0, "data_change": True} for path in paths]
    return pa.Table.from_pylist(rows, schema=ADD_FILE)


def counted(log, version):
    """The checksum of a version by counting its files."""
    snapshot = log.snapshot(version)
    sizes = snapshot.files()["size"].to_pylist()
    return len(sizes), sum(sizes), dict(snapshot.transactions), dict(snapshot.domains)


def reported(checksum):
    return (
        checksum.num_files,
        checksum.table_size,
        {transaction.app_id: transaction for transaction in checksum.transactions},
        {domain.domain: domain for domain in checksum.domains},
    )


def test_every_commit_gets_a_checksum_that_counting_confirms():
    features = frozenset({"appendOnly", "domainMetadata", "invariants"})
    log = new_log(protocol=Protocol(min_reader_version=1, min_writer_version=7, writer_features=features))
    for number in range(12):
        log.start_transaction().commit(
            adds=files(f"a{number}", f"b{number}", size=number),
            removes=removes_of(log.refresh().files().slice(0, number % 3), deletion_timestamp=1, data_change=True),
            transactions=[SetTransaction(app_id=f"app{number % 2}", version=number)],
            domains=[DomainMetadata(domain="d", configuration=str(number), removed=number == 11)],
            operation=WRITE,
        )
    for version in range(13):
        checksum = read_checksum(log.store, version)
        assert reported(checksum) == counted(log, version)
        info = log.snapshot(version).commit_info
        assert (checksum.txn_id, checksum.metadata, checksum.protocol) == (
            info.txn_id, log.refresh().metadata, log.refresh().protocol,
        )  # fmt: skip


def test_another_log_object_carries_on_from_the_file():
    log = new_log()
    log.start_transaction().commit(adds=files("a"), operation=WRITE)
    other = DeltaLog(log.store)
    other.start_transaction().commit(adds=files("b"), operation=WRITE)
    assert read_checksum(log.store, 2).num_files == 2


def test_after_a_commit_without_checksum_there_is_none_until_a_checkpoint_counts():
    log = new_log()
    for number in range(8):
        log.start_transaction().commit(adds=files(str(number)), operation=WRITE)
    log.store.delete([checksum_path(8)])
    other = DeltaLog(log.store)
    for number in range(8, 12):
        other.start_transaction().commit(adds=files(str(number)), operation=WRITE)
    assert [log.store.exists(checksum_path(version)) for version in range(13)] == [True] * 8 + [False, False] + [True] * 3
    assert reported(read_checksum(log.store, 10)) == counted(log, 10)
    assert read_checksum(log.store, 10).txn_id == log.snapshot(10).commit_info.txn_id
    assert reported(read_checksum(log.store, 12)) == counted(log, 12)


def test_a_commit_that_says_protocol_and_metadata_anew_does_not_count_from_nothing_where_a_checksum_is_missing():
    log = new_log()
    log.start_transaction().commit(adds=files("a", "b"), operation=WRITE)
    log.store.delete([checksum_path(1)])  # as after a commit of a writer that writes no checksums
    other = DeltaLog(log.store)
    other.alter().set_properties({"delta.enableDeletionVectors": "true"})
    assert read_checksum(log.store, 2) is None


def test_the_checksum_of_a_dropped_table_is_not_carried_on_into_the_one_made_at_its_place(tmp_path):
    log = new_log(LocalLogStore(str(tmp_path)), note="the old one")
    log.start_transaction().commit(adds=files("a"), operation=WRITE)
    shutil.rmtree(tmp_path / "_delta_log")
    other = new_log(LocalLogStore(str(tmp_path)), note="the new one")
    other.start_transaction().commit(adds=files("b", "c"), operation=WRITE)
    log.start_transaction().commit(adds=files("d"), operation=WRITE)
    assert read_checksum(log.store, 2).metadata.configuration == {"note": "the new one"}
    assert reported(read_checksum(log.store, 2)) == counted(log, 2)


def test_a_checksum_does_not_tell_of_applications_that_checkpoints_forget():
    log = new_log(**{"delta.setTransactionRetentionDuration": "interval 1 day", "delta.checkpointInterval": "2"})
    long_ago = SetTransaction(app_id="app", version=1, last_updated=1)
    for number in range(3):
        log.start_transaction().commit(adds=files(str(number)), transactions=[long_ago][number:], operation=WRITE)
    assert [dict(log.snapshot(version).transactions) for version in (1, 3)] == [{"app": long_ago}, {}]
    assert [DeltaLog(log.store).snapshot(version).verify_checksum() for version in range(4)] == [()] * 4


def test_checksums_stay_small_however_many_applications_write():
    log = new_log(**{"delta.checkpointInterval": "2"})
    many = [SetTransaction(app_id=f"app{number}", version=1) for number in range(2_000)]
    for number in range(3):
        log.start_transaction().commit(adds=files(str(number)), transactions=many[number * 2_000 :], operation=WRITE)
    assert [read_checksum(log.store, version).transactions for version in range(4)] == [(), None, None, None]
    assert [DeltaLog(log.store).snapshot(version).verify_checksum() for version in range(4)] == [()] * 4


def test_a_checkpoint_sets_right_what_was_carried_on_wrongly():
    log = new_log()
    log.start_transaction().commit(adds=files("a"), operation=WRITE)
    wrong = json.loads(log.store.read(checksum_path(1)))
    log.store.write(checksum_path(1), json.dumps({**wrong, "numFiles": 99}).encode())
    other = DeltaLog(log.store)
    for number in range(9):
        other.start_transaction().commit(adds=files(f"b{number}"), operation=WRITE)
    assert read_checksum(log.store, 9).num_files == 107
    assert read_checksum(log.store, 10).num_files == 10


def test_a_checksum_of_another_writer_stays_and_ours_is_not_built_on_it():
    log = new_log()
    theirs = read_checksum(log.store, 0).to_json()
    log.store.write(checksum_path(1), json.dumps({**theirs, "numFiles": 5}).encode())
    log.start_transaction().commit(adds=files("a"), operation=WRITE)
    assert read_checksum(log.store, 1).num_files == 5


class FailingStore(InMemoryLogStore):
    """Fails at every write but those of commits and of the first checksum."""

    def write_if_absent(self, path, content):
        if not path.endswith(".json") and path != checksum_path(0):
            raise OSError(f"no room for {path}")
        super().write_if_absent(path, content)

    def open_output(self, path):
        raise OSError(f"no room for {path}")


def test_what_fails_after_a_commit_is_reported_and_fails_nothing():
    log = new_log(FailingStore(), **{"delta.checkpointInterval": "1"})
    result = log.start_transaction().commit(adds=files("a"), operation=WRITE)
    assert (result.version, result.committed) == (1, True)
    assert result.hook_failures == (
        f"OSError: no room for {checkpoint_path(1)}",
        f"OSError: no room for {checksum_path(1)}",
    )
    assert log.refresh().version == 1


def test_a_local_checksum_is_whole_and_leaves_no_temporary_file(tmp_path):
    log = DeltaLog.for_table(str(tmp_path / "t"))
    metadata = Metadata(id="m", schema_string='{"type":"struct","fields":[]}')
    log.create_transaction(metadata).commit(operation=WRITE)
    assert sorted(path.name for path in (tmp_path / "t" / "_delta_log").iterdir()) == [
        "00000000000000000000.crc",
        "00000000000000000000.json",
    ]
    assert isinstance(read_checksum(log.store, 0), VersionChecksum)


@pytest.mark.parametrize("broken", [b"", b"{", b"[]", b'{"numFiles": "x"}', b"\xff\xff"])
def test_a_broken_checksum_counts_as_none(broken):
    log = new_log()
    log.store.write(checksum_path(0), broken)
    result = DeltaLog(log.store).start_transaction().commit(adds=files("a"), operation=WRITE)
    assert result.hook_failures == ()
    assert not log.store.exists(checksum_path(1))
