import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core import DeltaLog
from airflow_delta.core.actions import ADD_FILE, REMOVE_FILE
from airflow_delta.core.errors import (
    CorruptDataFileError,
    CorruptLogError,
    InvalidPredicateError,
    LogGapError,
    MissingDataFileError,
    SchemaMismatchError,
    TableNotFoundError,
    UnsupportedReaderFeatureError,
    VersionNotFoundError,
)
from airflow_delta.core.log.file_names import checkpoint_path, commit_path
from tests.core.builders import HandmadeLog, add, deletion_vector, metadata, protocol, remove


def test_a_snapshot_shows_what_the_table_is():
    handmade = HandmadeLog().create(add("p=1/a", partitionValues={"p": "1"}), partition_columns=("p",), key="value")
    snapshot = handmade.commit({"txn": {"appId": "x", "version": 1}}, remove("p=1/a")).log.snapshot()
    assert (snapshot.table_uri, snapshot.version, snapshot.timestamp) == ("memory://handmade", 1, 2000)
    assert snapshot.schema.names == ("p", "id")
    assert snapshot.partition_columns == ("p",)
    assert snapshot.metadata.configuration == {"key": "value"}
    assert snapshot.protocol.min_writer_version == 2
    assert snapshot.transactions["x"].version == 1
    assert snapshot.files().schema == ADD_FILE
    assert snapshot.tombstones().schema == REMOVE_FILE
    assert snapshot.tombstones()["path"].to_pylist() == ["p=1/a"]


def test_the_last_metadata_protocol_and_transaction_count_also_across_a_checkpoint():
    handmade = HandmadeLog().checkpoint(
        3,
        protocol(1, 2),
        metadata(None, (), old="1"),
        {"txn": {"appId": "x", "version": 9}},
        {"txn": {"appId": "y", "version": 1}},
        {"domainMetadata": {"domain": "kept", "configuration": "1", "removed": False}},
        {"domainMetadata": {"domain": "dropped", "configuration": "1", "removed": False}},
    )
    handmade.commit(
        protocol(1, 3),
        metadata(None, (), new="2"),
        {"txn": {"appId": "x", "version": 4}},
        {"domainMetadata": {"domain": "dropped", "configuration": "", "removed": True}},
        version=4,
    )
    snapshot = handmade.log.snapshot()
    assert (snapshot.protocol.min_writer_version, snapshot.metadata.configuration) == (3, {"new": "2"})
    assert {name: transaction.version for name, transaction in snapshot.transactions.items()} == {"x": 4, "y": 1}
    assert list(snapshot.domains) == ["kept"]


def test_a_broken_newest_checkpoint_is_passed_over_where_the_commits_allow():
    handmade = HandmadeLog().create(add("a")).commit(add("b")).commit(add("c"))
    handmade.checkpoint(1, protocol(), metadata(), add("a"), add("b"))
    handmade.store.write(checkpoint_path(2), b"no parquet")
    snapshot = handmade.log.snapshot()
    assert snapshot.segment.checkpoint.version == 1
    assert sorted(snapshot.files()["path"].to_pylist()) == ["a", "b", "c"]


def test_a_broken_checkpoint_without_which_it_does_not_go_is_named():
    handmade = HandmadeLog().commit(add("a"), version=5)
    handmade.store.write(checkpoint_path(5), b"no parquet")
    with pytest.raises(CorruptLogError) as caught:
        handmade.log.snapshot()
    assert caught.value.file == checkpoint_path(5)


@pytest.mark.parametrize(("actions", "missing"), [([metadata()], "protocol"), ([protocol()], "metaData"), ([], "protocol")])
def test_a_log_without_protocol_or_metadata_is_corrupt(actions, missing):
    with pytest.raises(CorruptLogError) as caught:
        HandmadeLog().commit(add("a"), *actions).log.snapshot()
    assert f"no {missing} action" in caught.value.detail


def test_an_unknown_reader_feature_is_refused_when_the_snapshot_is_opened():
    handmade = HandmadeLog().create().commit(protocol(3, 7, readerFeatures=["novelty"], writerFeatures=["novelty"]))
    assert handmade.log.snapshot(0).version == 0
    with pytest.raises(UnsupportedReaderFeatureError) as caught:
        handmade.log.snapshot()
    assert (caught.value.table, caught.value.features) == ("memory://handmade", ("novelty",))


def test_an_unknown_writer_feature_does_not_block_reading():
    handmade = HandmadeLog().create(add("a")).commit(protocol(1, 7, writerFeatures=["novelty"]))
    assert handmade.paths() == ["a"]


def test_reading_what_is_no_table_creates_nothing(tmp_path):
    log = DeltaLog.for_table(str(tmp_path / "nothing"))
    assert not log.exists()
    for read in (log.snapshot, log.refresh, log.history, lambda: log.snapshot(3), lambda: log.snapshot(timestamp=5)):
        with pytest.raises(TableNotFoundError) as caught:
            read()
        assert caught.value.table == str(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_is_a_file_is_no_table(tmp_path):
    (tmp_path / "file").write_text("x")
    log = DeltaLog.for_table(str(tmp_path / "file"))
    assert not log.exists()
    with pytest.raises(TableNotFoundError):
        log.snapshot()


def test_refresh_reads_only_the_commits_that_came_since(monkeypatch):
    handmade = HandmadeLog().create(add("a")).commit(add("b"))
    log = handmade.log
    first = log.refresh()
    assert log.refresh() is first
    handmade.commit(remove("a"), add("c")).commit(add("d"))
    read, paths = handmade.store.read, []
    monkeypatch.setattr(handmade.store, "read", lambda path: paths.append(path) or read(path))
    second = log.refresh()
    assert [path[-6:] for path in paths] == ["2.json", "3.json"]
    assert (second.version, sorted(second.files()["path"].to_pylist())) == (3, ["b", "c", "d"])
    assert (first.version, sorted(first.files()["path"].to_pylist())) == (1, ["a", "b"])


def test_refresh_begins_at_a_later_checkpoint_when_the_commits_since_were_cleaned_up():
    handmade = HandmadeLog().create(add("a"))
    log = handmade.log
    log.refresh()
    handmade.commit(add("b")).commit(add("c")).checkpoint(2, protocol(), metadata(), add("x")).remove_commits(0, 1)
    assert log.refresh().files()["path"].to_pylist() == ["x"]


def test_refresh_begins_at_a_later_checkpoint_when_commits_are_cleaned_up_after_they_were_listed(monkeypatch):
    handmade = HandmadeLog().create(add("a"))
    log = handmade.log
    log.refresh()
    handmade.commit(add("b")).commit(add("c")).checkpoint(2, protocol(), metadata(), add("x"))
    read = handmade.store.read

    def read_after_the_cleanup(path):
        handmade.remove_commits(0, 1)
        return read(path)

    monkeypatch.setattr(handmade.store, "read", read_after_the_cleanup)
    assert log.refresh().files()["path"].to_pylist() == ["x"]


def test_refresh_sees_that_the_table_was_dropped():
    handmade = HandmadeLog().create(add("a")).commit(add("b"))
    log = handmade.log
    log.refresh()
    handmade.remove_commits(0, 1)
    with pytest.raises(TableNotFoundError):
        log.refresh()


@pytest.mark.parametrize("newer", [0, 1, 2, 5])
def test_refresh_of_a_table_made_anew_at_its_place_has_nothing_of_the_former_one(newer):
    handmade = HandmadeLog().create(add("a")).commit(add("b"))
    log = handmade.log
    assert len(log.refresh().files()) == 2
    handmade.remove_commits(0, 1)
    handmade.next_version = 0
    handmade.create()
    for number in range(newer):
        handmade.commit(add(f"new-{number}"))
    assert (log.refresh().version, log.refresh().files()["path"].to_pylist()) == (newer, [f"new-{n}" for n in range(newer)])


def test_refresh_where_only_the_checkpoint_of_the_version_is_left():
    handmade = HandmadeLog().create(add("a")).commit(add("b")).checkpoint(1, protocol(), metadata(), add("x"))
    log = handmade.remove_commits(0, 1).log
    first = log.refresh()
    assert log.refresh() is first
    handmade.commit(add("c"))
    assert sorted(log.refresh().files()["path"].to_pylist()) == ["c", "x"]


def test_refresh_sees_a_feature_that_came_since():
    handmade = HandmadeLog().create()
    log = handmade.log
    log.refresh()
    handmade.commit(protocol(3, 7, readerFeatures=["novelty"], writerFeatures=["novelty"]))
    with pytest.raises(UnsupportedReaderFeatureError):
        log.refresh()


ACTIONS = st.lists(st.tuples(st.sampled_from([add, remove]), st.sampled_from("abc")), max_size=3)


@given(st.lists(ACTIONS, min_size=1, max_size=6), st.data())
def test_however_a_version_is_reached_it_is_the_same(commits, data):
    """From all commits, from a checkpoint and the tail, and carried on from an earlier snapshot."""
    handmade = HandmadeLog().create()
    middle = data.draw(st.integers(0, len(commits)))
    early = handmade.log
    for version, actions in enumerate(commits, 1):
        if version == middle:
            early.refresh().files()
            if data.draw(st.booleans()):
                early.refresh().tombstones()
        handmade.commit(*(make(path) for make, path in actions))
    whole = handmade.log.snapshot()
    state = (sorted(whole.files()["path"].to_pylist()), sorted(whole.tombstones()["path"].to_pylist()))
    carried_on = early.refresh()
    assert (sorted(carried_on.files()["path"].to_pylist()), sorted(carried_on.tombstones()["path"].to_pylist())) == state

    before = handmade.log.snapshot(middle)
    files, tombstones = before.files()["path"].to_pylist(), before.tombstones()["path"].to_pylist()
    handmade.checkpoint(middle, protocol(), metadata(), *map(add, files), *map(remove, tombstones))
    handmade.remove_commits(*range(middle))
    again = handmade.log.snapshot()
    assert again.segment.checkpoint.version == middle
    assert (sorted(again.files()["path"].to_pylist()), sorted(again.tombstones()["path"].to_pylist())) == state


def test_files_are_pruned_by_partition_and_statistics():
    handmade = HandmadeLog().create(
        add("p=1/a", partitionValues={"p": "1"}, stats='{"numRecords":1,"minValues":{"id":1},"maxValues":{"id":5}}'),
        add("p=1/b", partitionValues={"p": "1"}, stats='{"numRecords":1,"minValues":{"id":6},"maxValues":{"id":9}}'),
        add("p=2/c", partitionValues={"p": "2"}),
        partition_columns=("p",),
    )
    snapshot = handmade.log.snapshot()
    assert sorted(snapshot.files("p = '1'")["path"].to_pylist()) == ["p=1/a", "p=1/b"]
    assert sorted(snapshot.files("id > 5")["path"].to_pylist()) == ["p=1/b", "p=2/c"]
    with pytest.raises(InvalidPredicateError):
        snapshot.files("no_such_column = 1")


def test_a_file_with_a_deletion_vector_of_a_table_without_the_feature_is_never_read_whole():
    handmade = HandmadeLog().create(add("a", deletionVector=deletion_vector("v", 1)))
    with pytest.raises(UnsupportedReaderFeatureError) as caught:
        handmade.log.snapshot().to_arrow()
    assert caught.value.features == ("deletionVectors",)


@pytest.fixture
def table_on_disk(tmp_path):
    """One file of ids 0 to 4 of a table with deletion vectors; a commit is added by the test."""

    def commit(**fields):
        pq.write_table(pa.table({"id": pa.array(range(5), pa.int64())}), tmp_path / "a b.parquet")
        features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
        actions = [protocol(3, 7, **features), metadata(), add("a%20b.parquet", **fields)]
        (tmp_path / "_delta_log").mkdir()
        (tmp_path / commit_path(0)).write_text("\n".join(map(json.dumps, actions)))
        return DeltaLog.for_table(str(tmp_path)).snapshot()

    return commit


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_a_path_is_decoded_once_and_may_be_absolute(table_on_disk, tmp_path, prefix):
    snapshot = table_on_disk()
    assert snapshot.to_arrow().read_all()["id"].to_pylist() == [0, 1, 2, 3, 4]
    absolute = add(f"{prefix}{tmp_path}/a%20b.parquet")
    (tmp_path / commit_path(1)).write_text("\n".join(map(json.dumps, [remove("a%20b.parquet"), absolute])))
    assert DeltaLog.for_table(str(tmp_path)).snapshot().to_arrow(where="id >= 3").read_all()["id"].to_pylist() == [3, 4]


def test_a_missing_deletion_vector_is_an_error_that_names_its_file(table_on_disk):
    snapshot = table_on_disk(deletionVector=deletion_vector("^-aqEH.-t@S}K{vb[*k^", 1))
    with pytest.raises(MissingDataFileError) as caught:
        snapshot.to_arrow().read_all()
    assert caught.value.file == "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert caught.value.detail == "the deletion vector of a%20b.parquet: the file does not exist"


def test_a_damaged_deletion_vector_is_an_error_that_names_its_file(table_on_disk, tmp_path):
    snapshot = table_on_disk(deletionVector=deletion_vector("^-aqEH.-t@S}K{vb[*k^", 1))
    name = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    (tmp_path / name).write_bytes(b"?")
    with pytest.raises(CorruptDataFileError) as caught:
        snapshot.to_arrow().read_all()
    assert (type(caught.value), caught.value.file) == (CorruptDataFileError, name)
    assert caught.value.detail.startswith("the deletion vector of a%20b.parquet: ")


def test_a_missing_data_file_is_an_error_that_names_it(table_on_disk, tmp_path):
    snapshot = table_on_disk()
    (tmp_path / "a b.parquet").unlink()
    with pytest.raises(CorruptDataFileError) as caught:
        snapshot.to_arrow().read_all()
    assert caught.value.file.endswith("a b.parquet")


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(SchemaMismatchError) as caught:
        HandmadeLog().create().log.snapshot().to_arrow(["id", "nope"])
    assert caught.value.differences == ("nope: the column does not exist",)


def test_a_version_that_is_not_there_is_refused_with_the_range():
    log = HandmadeLog().create().commit().log
    with pytest.raises(VersionNotFoundError) as caught:
        log.snapshot(7)
    assert (caught.value.earliest, caught.value.latest) == (0, 1)


def test_a_gap_in_the_log_is_named():
    handmade = HandmadeLog().create().commit().commit().remove_commits(1)
    with pytest.raises(LogGapError):
        handmade.log.snapshot()


def test_rows_of_an_empty_table_have_its_columns():
    reader = HandmadeLog().create(partition_columns=("p",)).log.snapshot().to_arrow()
    assert reader.schema == pa.schema({"p": pa.string(), "id": pa.int64()})
    assert reader.read_all().num_rows == 0
