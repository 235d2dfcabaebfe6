"""Which files a version is rebuilt from, and that only the needed parts of them are read."""

import json
from contextlib import nullcontext

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_delta.core.actions import ADD_FILE
from airflow_delta.core.errors import CorruptLogError
from airflow_delta.core.log.compaction_mark import KEEPS_ALL_TOMBSTONES
from airflow_delta.core.log.file_names import checkpoint_path, commit_path, compacted_path
from tests.core.builders import CHECKPOINT, HandmadeLog, add, deletion_vector, metadata, protocol, remove

COUNTED = ["path", "num_records"]


def stats(records):
    return json.dumps({"numRecords": records, "minValues": {"id": records}, "maxValues": {"id": records}})


def file_of(partition, number):
    values = {"partitionValues": {"p": partition}, "stats": stats(number)}
    return add(f"p={partition}/{number}", **values)


def checkpoint_in_row_groups(handmade, version, *groups):
    """A checkpoint with a row group for each list of actions."""
    with (
        handmade.store.open_output(checkpoint_path(version)) as stream,
        pq.ParquetWriter(stream, CHECKPOINT) as writer,
    ):
        for actions in groups:
            writer.write_table(pa.Table.from_pylist(actions, CHECKPOINT))


def break_column(handmade, version, row_group, column):
    """Overwrite the column's pages, so that only reading that column fails."""
    content = bytearray(handmade.store.read(checkpoint_path(version)))
    group = pq.ParquetFile(pa.BufferReader(bytes(content))).metadata.row_group(row_group)
    chunks = (group.column(index) for index in range(group.num_columns))
    chunk = next(chunk for chunk in chunks if chunk.path_in_schema == column)
    start = min(offset for offset in (chunk.dictionary_page_offset, chunk.data_page_offset) if offset)
    content[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    handmade.store.write(checkpoint_path(version), bytes(content))


def partitioned():
    """Two checkpointed partitions, a row group each, and a commit on both of them."""
    handmade = HandmadeLog().create(partition_columns=["p"]).commit()
    head = [protocol(), metadata(None, ["p"])]
    checkpoint_in_row_groups(handmade, 1, head, [file_of("1", 1), file_of("1", 2)], [file_of("2", 3), file_of("2", 4)])
    handmade.commit(remove("p=1/1"), file_of("1", 5), file_of("2", 6), remove("p=2/4"))
    return handmade


def test_columns_are_read_when_they_are_asked_for_and_then_kept():
    snapshot = partitioned().log.snapshot()
    counted = snapshot.files(columns=COUNTED)
    assert counted.column_names == COUNTED
    assert sorted(counted["num_records"].to_pylist()) == [2, 3, 5, 6]
    assert snapshot.files(columns=["path"])["path"].combine_chunks().equals(counted["path"].combine_chunks())
    whole = snapshot.files()
    assert whole.schema == ADD_FILE
    assert whole["path"].to_pylist() == counted["path"].to_pylist()
    assert snapshot.files() is not None
    assert snapshot.files(columns=COUNTED).equals(counted)


@pytest.mark.parametrize("where", ["p = '1'", "p = '1' AND id = 2", "id = 2", "p = '3'", "p = '2' OR id = 5"])
def test_a_cold_search_finds_what_a_search_in_all_files_finds(where):
    handmade = partitioned()
    cold = handmade.log.snapshot().files(where)
    warm = handmade.log.snapshot()
    warm.files()
    assert cold.schema == ADD_FILE
    assert cold.to_pylist() == warm.files(where).to_pylist()
    searched = handmade.log.snapshot()
    assert [searched.files(where, COUNTED).to_pylist() for _ in range(3)] == [warm.files(where, COUNTED).to_pylist()] * 3


def test_of_other_partitions_nothing_more_than_their_values_is_read():
    handmade = partitioned()
    break_column(handmade, 1, 2, "add.stats")
    assert sorted(handmade.log.snapshot().files("p = '1'")["path"].to_pylist()) == ["p=1/2", "p=1/5"]


def test_what_is_not_asked_for_may_be_broken():
    handmade = partitioned()
    handmade.remove_commits(0, 1)
    break_column(handmade, 1, 1, "add.stats")
    snapshot = handmade.log.snapshot()
    assert sorted(snapshot.files(columns=["path"])["path"].to_pylist()) == ["p=1/2", "p=1/5", "p=2/3", "p=2/6"]
    with pytest.raises(CorruptLogError) as caught:
        snapshot.files()
    assert caught.value.file == checkpoint_path(1)


@pytest.mark.parametrize("column", ["add.path", "add.stats", "add.partitionValues.key_value.value", "remove.path"])
def test_a_checkpoint_that_is_broken_anywhere_is_replaced_by_an_older_one(column):
    handmade = HandmadeLog().create(file_of("1", 1), file_of("1", 2), partition_columns=["p"])
    handmade.commit(remove("p=1/1"))
    handmade.checkpoint(1, protocol(), metadata(None, ["p"]), file_of("1", 2), remove("p=1/1"))
    handmade.commit(file_of("1", 3))
    handmade.checkpoint(2, protocol(), metadata(None, ["p"]), file_of("1", 2), file_of("1", 3), remove("p=1/1"))
    handmade.commit(file_of("1", 4)).remove_commits(0)
    break_column(handmade, 2, 0, column)
    snapshot = handmade.log.snapshot()
    for where in (None, "p = '1'", None):
        assert sorted(snapshot.files(where)["path"].to_pylist()) == ["p=1/2", "p=1/3", "p=1/4"]
    assert snapshot.tombstones()["path"].to_pylist() == ["p=1/1"]
    break_column(handmade, 1, 0, column)
    with pytest.raises(CorruptLogError):
        [handmade.log.snapshot().files(), handmade.log.snapshot().tombstones()]


def test_a_log_carried_on_from_a_broken_checkpoint_goes_on_without_it():
    handmade = HandmadeLog().create(add("a")).commit(add("b"))
    handmade.checkpoint(1, protocol(), metadata(), add("a"), add("b"))
    break_column(handmade, 1, 0, "add.path")
    log = handmade.log
    log.snapshot()
    handmade.commit(add("c"))
    assert sorted(log.snapshot().files()["path"].to_pylist()) == ["a", "b", "c"]
    handmade.commit(remove("a"))
    assert sorted(log.snapshot().files()["path"].to_pylist()) == ["b", "c"]


def test_what_is_known_is_carried_on_over_versions_that_were_not_looked_at():
    handmade = partitioned()
    log = handmade.log
    log.snapshot().files(columns=["path"])
    log.snapshot().tombstones()
    break_column(handmade, 1, 1, "add.path")
    for number in (7, 8, 9):
        handmade.commit(file_of("1", number), remove(f"p=1/{number - 1}"))
        log.refresh()
    assert sorted(log.snapshot().files(columns=["path"])["path"].to_pylist()) == ["p=1/2", "p=1/5", "p=1/9", "p=2/3", "p=2/6"]
    assert sorted(log.snapshot().tombstones()["path"].to_pylist()) == ["p=1/1", "p=1/6", "p=1/7", "p=1/8", "p=2/4"]


def compacted_log(*actions):
    """Versions 0 to 4, with a log compaction file of ours for 1 to 3."""
    handmade = HandmadeLog().create(add("a"), add("b")).commit(remove("a")).commit(add("c")).commit(add("a", size=7))
    handmade.commit(remove("b"))
    lines = "\n".join(map(json.dumps, actions or [add("c"), add("a", size=7), {"txn": {"appId": "x", "version": 1}}]))
    handmade.store.write(compacted_path(1, 3), KEEPS_ALL_TOMBSTONES + lines.encode())
    return handmade


def test_compacted_commits_are_read_instead_of_the_commits():
    handmade = compacted_log()
    snapshot = handmade.log.snapshot()
    assert {file["path"]: file["size"] for file in snapshot.files().to_pylist()} == {"a": 7, "c": 1}
    assert snapshot.tombstones()["path"].to_pylist() == ["b"]
    assert snapshot.transactions["x"].version == 1  # which no commit says
    handmade.store.write(commit_path(2), b"{")
    assert sorted(snapshot.files()["path"].to_pylist()) == ["a", "c"]


def test_who_made_a_version_at_the_end_of_compacted_commits_is_still_known():
    handmade = compacted_log()
    handmade.commit({"commitInfo": {"operation": "WRITE"}}, add("a", size=7), version=3)
    assert handmade.log.snapshot(3).commit_info.operation == "WRITE"


@pytest.mark.parametrize("lines", ['{"add":{"path":', "[]", '{"add":{"size":1}}'])
def test_broken_compacted_commits_are_none(lines):
    handmade = compacted_log()
    handmade.store.write(compacted_path(1, 3), KEEPS_ALL_TOMBSTONES + lines.encode())
    assert handmade.paths() == ["a", "c"]


def test_compacted_commits_that_may_lack_tombstones_are_left_aside_and_others_are_read():
    handmade = HandmadeLog().create(add("a"), add("b"))
    handmade.commit(remove("a")).commit(add("c")).commit(remove("b")).commit(add("d")).commit(add("e"))
    handmade.store.write(compacted_path(1, 2), json.dumps(add("c")).encode())
    lines = "\n".join(map(json.dumps, [remove("b"), add("d"), {"txn": {"appId": "x", "version": 1}}]))
    handmade.store.write(compacted_path(3, 4), KEEPS_ALL_TOMBSTONES + lines.encode())
    snapshot = handmade.log.snapshot()
    assert sorted(snapshot.files()["path"].to_pylist()) == ["c", "d", "e"]
    assert snapshot.transactions["x"].version == 1  # which no commit says


def test_compacted_commits_from_the_first_one_on_need_no_tombstones():
    handmade = HandmadeLog().create(add("a")).commit(remove("a")).commit(add("b"))
    lines = [protocol(), metadata(), add("b"), {"txn": {"appId": "x", "version": 1}}]
    handmade.store.write(compacted_path(0, 1), "\n".join(map(json.dumps, lines)).encode())
    assert handmade.log.snapshot().transactions["x"].version == 1  # which no commit says


@pytest.mark.parametrize(
    "actions",
    [
        pytest.param([remove("c"), add("c"), add("a", size=7), add("z")], id="an added file that it also removes"),
        pytest.param([add("c"), add("a", size=7), add("a", deletionVector=deletion_vector("v"))], id="a file added twice"),
        pytest.param(
            [add("c"), add("a", size=7), add("b", deletionVector=deletion_vector("v"))],
            id="another deletion vector of a live file",
        ),
    ],
)
def test_commits_serve_where_compacted_ones_contradict_themselves_or_the_log(actions):
    handmade = compacted_log(*actions)
    files = handmade.log.snapshot(3).files().to_pylist()
    assert {file["path"]: file["size"] for file in files} == {"a": 7, "b": 1, "c": 1}


@pytest.mark.parametrize(
    ("is_in_checkpoint", "questions"),
    [
        pytest.param(False, ["files", "tombstones"], id="all in commits"),
        pytest.param(False, ["tombstones", "files"], id="all in commits, tombstones first"),
        pytest.param(True, ["files", "tombstones"], id="removed file in a checkpoint"),
    ],
)
def test_where_compacted_commits_lost_a_remove_the_commits_decide_on_files_and_tombstones_of_this_and_later_versions(
    is_in_checkpoint, questions
):
    handmade = HandmadeLog().create(add("a"), add("b"))
    if is_in_checkpoint:
        handmade.log.checkpoint()
    handmade.commit(remove("b")).commit(add("b", deletionVector=deletion_vector("v")))
    lost = json.dumps(add("b", deletionVector=deletion_vector("v"))).encode()
    handmade.store.write(compacted_path(1, 2), KEEPS_ALL_TOMBSTONES + lost)
    for later in ("c", "d"):
        snapshot = handmade.log.refresh()
        answers = {question: getattr(snapshot, question)() for question in questions}
        assert answers["tombstones"].select(["path", "deletion_vector"]).to_pylist() == [{"path": "b", "deletion_vector": None}]
        assert len(answers["files"]) == snapshot.version
        handmade.commit(add(later))


def test_where_compacted_commits_lost_the_remove_of_a_file_in_a_checkpoint_pieces_of_live_files_come_from_the_commits():
    handmade = HandmadeLog().create(add("a"), add("b"))
    handmade.log.checkpoint()
    replaced = add("b", deletionVector=deletion_vector("v"))
    handmade.commit(remove("b")).commit(replaced)
    handmade.store.write(compacted_path(1, 2), KEEPS_ALL_TOMBSTONES + json.dumps(replaced).encode())
    files = pa.concat_tables(handmade.log.snapshot().replay.file_pieces())
    assert [(file["path"], file["deletion_vector"] is None) for file in files.to_pylist()] == [("a", True), ("b", False)]


def test_a_broken_checkpoint_stays_known_in_later_versions_where_compacted_commits_were_wrong():
    handmade = HandmadeLog().create(add("a"), add("b"))
    handmade.commit(remove("b")).commit(add("b", deletionVector=deletion_vector("v")))
    handmade.store.write(checkpoint_path(0), b"broken")
    lost = json.dumps(add("b", deletionVector=deletion_vector("v"))).encode()
    handmade.store.write(compacted_path(1, 2), KEEPS_ALL_TOMBSTONES + lost)
    log = handmade.log
    log.refresh().files()
    handmade.commit(add("c"))
    assert [checkpoint.version for checkpoint in log.refresh().replay.broken_checkpoints] == [0]


def test_commits_serve_where_compacted_ones_leave_out_the_definition_of_the_table():
    handmade = HandmadeLog().create(add("a")).commit(add("b"))
    handmade.store.write(compacted_path(0, 1), json.dumps(add("z")).encode())
    assert handmade.paths() == ["a", "b"]


@pytest.mark.parametrize("broken", [{"id": "x"}, {"id": "x", "schemaString": None}, {"schemaString": 5}], ids=str)
def test_metadata_that_a_later_version_replaced_need_not_be_understood(broken):
    handmade = HandmadeLog().commit(protocol(), {"metaData": broken}, add("a")).commit(metadata(), add("b"))
    assert handmade.paths() == ["a", "b"]
    assert [entry.version for entry in handmade.log.history()] == [1, 0]
    with pytest.raises(CorruptLogError) as caught:
        handmade.paths(version=0)
    assert caught.value.file == commit_path(0)


def test_a_broken_commit_is_blamed_not_the_compacted_ones():
    handmade = compacted_log()
    handmade.store.write(commit_path(4), b"{")
    with pytest.raises(CorruptLogError) as caught:
        handmade.paths()
    assert caught.value.file == commit_path(4)


def test_two_live_files_of_one_path_are_no_table():
    handmade = HandmadeLog().create(
        add("a", deletionVector=deletion_vector("v")), add("b", deletionVector=deletion_vector("v"))
    )
    assert handmade.paths() == ["a", "b"]
    handmade.commit(add("a", deletionVector=deletion_vector("w")))
    with pytest.raises(CorruptLogError, match="two live files of version 1 have the path 'a'"):
        handmade.paths()
    handmade.commit(remove("a", deletionVector=deletion_vector("v")))
    assert handmade.paths() == ["a", "b"]


@pytest.mark.parametrize("last", [0, 1], ids=["both after the last checkpoint", "one in the last checkpoint"])
def test_no_checkpoint_is_written_of_two_live_files_of_one_path(last):
    features = protocol(3, 7, readerFeatures=["deletionVectors"], writerFeatures=["deletionVectors"])
    handmade = HandmadeLog().commit(features, metadata())
    for version, file in enumerate(("v", "w")):
        if version == last:
            handmade.log.checkpoint()
        handmade.commit(add("a", deletionVector=deletion_vector(file)))
    with pytest.raises(CorruptLogError, match="two live files of version 2 have the path 'a'"):
        handmade.log.checkpoint()
    assert [version for version in range(3) if handmade.store.exists(checkpoint_path(version))] == [last]


@pytest.mark.parametrize("action", [protocol(), metadata()])
def test_two_of_an_action_that_a_commit_may_hold_once_are_reported_with_their_line(action):
    handmade = HandmadeLog().create().commit(action, add("a"), action)
    with pytest.raises(CorruptLogError, match="line 3: a second") as caught:
        handmade.paths()
    assert caught.value.file == commit_path(1)


@pytest.mark.parametrize("where", ["id = 2 OR id = 6", "id > 100", "id >= 0", "p = '1' AND id > 2", "id < 3 OR p = '2'"])
def test_the_same_files_are_chosen_whether_their_statistics_are_kept_or_not(where):
    handmade = partitioned()
    kept = sorted(handmade.log.snapshot().files(where)["path"].to_pylist())
    snapshot = handmade.log.snapshot()
    for _ in range(3):
        found = snapshot.files(where, COUNTED)
        assert found.column_names == COUNTED
        assert sorted(found["path"].to_pylist()) == kept


def test_chosen_files_are_completed_in_their_order():
    snapshot = partitioned().log.snapshot()
    found = snapshot.files("id >= 3", ["path", "size"]).sort_by([("path", "descending")])
    completed = snapshot.completed(found)
    assert completed.schema == ADD_FILE
    assert completed["path"].to_pylist() == found["path"].to_pylist() == ["p=2/6", "p=2/3", "p=1/5"]
    assert completed["stats"].to_pylist() == [stats(6), stats(3), stats(5)]
    assert snapshot.completed(completed) is completed
    assert snapshot.completed(found.slice(0, 0)).equals(ADD_FILE.empty_table())


@pytest.mark.parametrize("commits_serve", [True, False])
def test_chosen_files_are_completed_from_the_commits_where_the_checkpoint_turns_out_to_be_broken(commits_serve):
    old = [file_of("1", 1), file_of("1", 2)]
    handmade = HandmadeLog().create(partition_columns=["p"]).commit(*(old if commits_serve else ()))
    handmade.checkpoint(1, protocol(), metadata(None, ["p"]), *old)
    handmade.commit(file_of("1", 3))
    break_column(handmade, 1, 0, "add.modificationTime")
    snapshot = handmade.log.snapshot()
    found = snapshot.files("id >= 2", ["path", "size"]).sort_by("path")
    assert found["path"].to_pylist() == ["p=1/2", "p=1/3"]
    with nullcontext() if commits_serve else pytest.raises(CorruptLogError, match="1 live files of version 2"):
        assert snapshot.completed(found)["stats"].to_pylist() == [stats(2), stats(3)]
