"""Where a shared replay begins, and when it is worth it; decided without Spark."""

import io
import json

import pyarrow as pa
import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import CorruptLogError, LogGapError, UnfinishedCommitError
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.operations.checkpoints import CheckpointKind
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.spark.distributed.log_pieces import LogPiece, pieces_of, pieces_table, whole_lines
from airflow_delta.spark.distributed.log_start import MANY_ACTIONS, LogStart, outgrows_one_process
from tests.core.builders import add, metadata, protocol, remove

FEATURES = {"readerFeatures": ["v2Checkpoint"], "writerFeatures": ["v2Checkpoint"]}


@pytest.mark.parametrize(
    ("rows", "commit_bytes", "many", "outgrown"),
    [
        (0, 0, MANY_ACTIONS, False),
        (MANY_ACTIONS - 1, 0, MANY_ACTIONS, False),
        (MANY_ACTIONS, 0, MANY_ACTIONS, True),
        (0, 100 * MANY_ACTIONS - 1, MANY_ACTIONS, False),
        (0, 100 * MANY_ACTIONS, MANY_ACTIONS, True),  # 2 GB of commits
        (MANY_ACTIONS // 2, 50 * MANY_ACTIONS, MANY_ACTIONS, True),
        (5, 0, 5, True),
        (0, 0, 0, True),
    ],
)
def test_a_log_outgrows_one_process_by_actions_and_by_bytes_of_commits(rows, commit_bytes, many, outgrown):
    assert outgrows_one_process(rows=rows, commit_bytes=commit_bytes, many=many) is outgrown


@pytest.fixture
def log():
    """Two commits that are in a checkpoint of version 2, and one that is not."""
    log = DeltaLog.for_table("memory://start", store=InMemoryLogStore("memory://start"))
    commits = [[protocol(3, 7, **FEATURES), metadata()], [add("a"), add("b")], [add("c"), remove("d")]]
    for version, actions in enumerate(commits):
        log.store.write(commit_path(version), "\n".join(map(json.dumps, actions)).encode())
    log.checkpoint(1, kind=CheckpointKind.V2_JSON)
    return log


def test_footers_and_lengths_tell_how_much_there_is(log):
    start = LogStart.of(log.store)
    assert (start.segment.version, start.segment.checkpoint.version, list(start.rows.values())) == (2, 1, [2])
    assert start.commit_bytes == len(log.store.read(commit_path(2)))
    assert start.outgrows_one_process(2 + start.commit_bytes // 100)
    assert not start.outgrows_one_process(3 + start.commit_bytes // 100)


def test_manifest_sidecars_and_commits_are_pieces(log):
    start = LogStart.of(log.store)
    (sidecar,) = start.rows
    manifest = start.segment.checkpoint.files[0].path
    found = list(start.pieces())
    assert [(piece.path, piece.version) for piece in found] == [(manifest, 1), (sidecar, 1), (commit_path(2), 2)]
    assert list(pieces_of(pieces_table(found))) == found
    tables = [actions for piece in found for actions in piece.actions(log.store)]
    assert [(table["path"].to_pylist(), table["version"].to_pylist()) for table in tables] == [
        (["a", "b"], [1, 1]),
        (["c"], [2]),
        (["d"], [2]),
    ]


@pytest.mark.parametrize(("start", "stop", "paths"), [(0, 1, ["a"]), (1, 2, ["b"]), (0, 9, ["a", "b"]), (2, 9, [])])
def test_a_piece_of_a_file_is_read_by_the_numbers_of_its_actions(log, start, stop, paths):
    (sidecar,) = LogStart.of(log.store).rows
    piece = LogPiece(path=sidecar, version=1, start=start, stop=stop)
    assert [path for actions in piece.actions(log.store) for path in actions["path"].to_pylist()] == paths


def test_a_checkpoint_that_lost_a_sidecar_is_passed_over(log):
    whole = LogStart.of(log.store)
    log.store.delete(whole.rows)
    start = LogStart.of(log.store)
    assert (start.segment.checkpoint, start.broken) == (None, (whole.segment.checkpoint,))
    assert [piece.version for piece in start.pieces()] == [0, 1, 2]


def test_only_the_checkpoint_that_is_to_blame_is_passed_over(log):
    start = LogStart.of(log.store)
    of_commit = CorruptLogError(table="t", file=commit_path(2), detail="line 1")
    with pytest.raises(CorruptLogError) as caught:
        start.without_checkpoint(log.store, of_commit)
    assert caught.value is of_commit
    of_sidecar = CorruptLogError(table="t", file=next(iter(start.rows)), detail="no Parquet")
    assert start.without_checkpoint(log.store, of_sidecar).segment.checkpoint is None
    log.store.delete([commit_path(0)])
    with pytest.raises(CorruptLogError) as caught:
        start.without_checkpoint(log.store, of_sidecar)
    assert caught.value is of_sidecar


def test_small_lines_leave_out_what_is_about_files(log):
    assert LogPiece(path=commit_path(2), version=2).small_lines(log.store) == b""
    lines = LogPiece(path=commit_path(0), version=0).small_lines(log.store).split(b"\n")
    assert [next(iter(json.loads(line))) for line in lines] == ["protocol", "metaData"]


def test_a_commit_that_went_away_is_a_gap(log):
    with pytest.raises(LogGapError):
        list(LogPiece(path=commit_path(7), version=7).actions(log.store))


def test_a_piece_of_a_commit_that_is_cut_off_is_unfinished_only_at_the_end_of_the_log(log):
    log.store.write(commit_path(3), b'{"add":{"path":"e","partitionVal')
    piece = LogPiece(path=commit_path(3), version=3)
    with pytest.raises(UnfinishedCommitError):
        list(piece.actions(log.store))
    log.store.write(commit_path(4), json.dumps(add("f")).encode())
    with pytest.raises(CorruptLogError, match="later commits exist") as caught:
        list(piece.actions(log.store))
    assert (caught.value.file, caught.value.retryable) == (commit_path(3), False)


@pytest.mark.parametrize("size", [1, 2, 5, 7, 100])
def test_blocks_end_between_lines_whatever_their_size(size):
    content = b"one\n\ntwo three\nfour"
    blocks = list(whole_lines(io.BytesIO(content), size))
    assert b"\n".join(blocks) == content
    assert pa.array(blocks).null_count == 0
