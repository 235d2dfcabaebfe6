from contextlib import suppress
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.errors import (
    LogGapError,
    TableNotFoundError,
    VersionNotFoundError,
)
from airflow_delta.core.log.file_names import (
    checkpoint_part_path,
    checkpoint_path,
    commit_path,
    compacted_path,
    v2_checkpoint_path,
)
from airflow_delta.core.log.log_segment import LogSegment, find_later_commits, find_segment, holds_table, list_log
from tests.core.builders import HandmadeLog, add, metadata, protocol

HINT = "_delta_log/_last_checkpoint"


def handmade_log(versions, checkpoints=()):
    handmade = HandmadeLog()
    for version in versions:
        handmade.commit(add(f"f{version}"), version=version)
    for version in checkpoints:
        handmade.checkpoint(version, protocol(), metadata())
    return handmade


def parts(version, count):
    return [f"_delta_log/{version:020d}.checkpoint.{part:010d}.{count:010d}.parquet" for part in range(1, count + 1)]


def described(segment):
    return (segment.version, segment.checkpoint and segment.checkpoint.version, list(segment.commits))


def test_commits_alone_make_up_a_version():
    assert described(find_segment(handmade_log(range(3)).store)) == (2, None, [0, 1, 2])


def test_the_newest_checkpoint_shortens_the_list_of_commits():
    assert described(find_segment(handmade_log(range(8), [2, 5]).store)) == (7, 5, [6, 7])


def test_an_older_version_begins_at_the_checkpoint_before_it():
    handmade = handmade_log(range(8), [2, 5])
    assert described(find_segment(handmade.store, 4)) == (4, 2, [3, 4])
    assert described(find_segment(handmade.store, 5)) == (5, 5, [])
    assert described(find_segment(handmade.store, 1)) == (1, None, [0, 1])


@pytest.mark.parametrize(
    "hint", [b"", b"nonsense", b'{"version":"5"}', b'{"size":3}', b"[1]", b'{"version":99}', b'{"version":4}']
)
def test_a_wrong_hint_does_not_mislead(hint):
    handmade = handmade_log(range(8), [5])
    handmade.store.write(HINT, hint)
    assert described(find_segment(handmade.store)) == (7, 5, [6, 7])
    assert holds_table(handmade.store)


def test_a_checkpoint_newer_than_the_hint_wins():
    handmade = handmade_log(range(8), [2, 5])
    handmade.store.write(HINT, b'{"version":2}')
    assert described(find_segment(handmade.store)) == (7, 5, [6, 7])


def test_with_a_hint_only_the_files_from_there_on_are_listed(monkeypatch):
    handmade = handmade_log(range(8), [5])
    handmade.store.write(HINT, b'{"version":5}')
    starts = []
    listing = handmade.store.list_from
    monkeypatch.setattr(handmade.store, "list_from", lambda path, start: starts.append(start) or listing(path, start))
    find_segment(handmade.store)
    assert starts == [f"{5:020d}"]


def test_files_that_are_not_of_the_log_are_ignored():
    handmade = handmade_log(range(4))
    for name in (
        f"{9:020d}.crc",
        f"{1:020d}.{9:020d}.compacted.json",
        f"{9:020d}.json.tmp",
        f".{9:020d}.json.crc",
        "_commit_9.json.tmp",
        "zzz",
        f"{8:020d}.json/x",
    ):
        handmade.store.write(f"_delta_log/{name}", b"rubbish")
    handmade.store.write(checkpoint_path(2), b"")
    handmade.store.write(parts(3, 1)[0], b"")
    assert described(find_segment(handmade.store)) == (3, None, [0, 1, 2, 3])


def test_a_checkpoint_in_parts_counts_when_all_of_one_writer_are_there():
    handmade = handmade_log(range(6))
    for path in parts(4, 3)[:2] + parts(4, 2)[1:] + parts(2, 2):
        handmade.checkpoint(4, path=path)
    segment = find_segment(handmade.store)
    assert described(segment) == (5, 2, [3, 4, 5])
    assert [file.path for file in segment.checkpoint.files] == parts(2, 2)


def test_gaps_below_the_checkpoint_do_no_harm():
    assert described(find_segment(handmade_log([0, 1, 5, 6, 7], [5]).store)) == (7, 5, [6, 7])


@pytest.mark.parametrize(("versions", "checkpoints"), [([0, 1, 3], []), ([0, 4, 5, 7], [4]), ([4, 5, 6], [])])
def test_a_gap_above_the_checkpoint_is_fatal_and_named(versions, checkpoints):
    with pytest.raises(LogGapError) as caught:
        find_segment(handmade_log(versions, checkpoints).store)
    first = (checkpoints or [-1])[-1] + 1
    missing = next(version for version in range(first, versions[-1]) if version not in versions)
    assert caught.value.file == commit_path(missing)


def test_a_log_of_a_checkpoint_alone_is_a_table():
    assert described(find_segment(handmade_log([], [3]).store)) == (3, 3, [])


@pytest.mark.parametrize("names", [[], [f"{0:020d}.crc"], ["_last_checkpoint"]])
def test_a_directory_without_commit_and_checkpoint_is_no_table(names):
    handmade = HandmadeLog()
    for name in names:
        handmade.store.write(f"_delta_log/{name}", b'{"version":0}')
    with pytest.raises(TableNotFoundError):
        find_segment(handmade.store)
    assert not holds_table(handmade.store)


@pytest.mark.parametrize("version", [-1, 8, 1_000])
def test_a_version_outside_of_the_log_is_refused_with_the_range(version):
    with pytest.raises(VersionNotFoundError) as caught:
        find_segment(handmade_log(range(8), [5]).store, version)
    assert (caught.value.version, caught.value.earliest, caught.value.latest) == (version, 0, 7)


def test_a_version_that_was_cleaned_up_is_refused_with_the_range():
    handmade = handmade_log(range(3, 8), [5])
    for version in (0, 4):
        with pytest.raises(VersionNotFoundError) as caught:
            find_segment(handmade.store, version)
        assert (caught.value.earliest, caught.value.latest) == (5, 7)


@pytest.mark.parametrize(
    ("commits", "checkpoints", "version", "missing"),
    [
        ([0, 1, 3, 4, 5, 6], [], 4, 2),
        ([0, 1, 3, 4, 5, 6], [5], 4, 2),
        ([3, 4, 6, 7, 8, 9], [3, 8], 7, 5),
        ([4, 5, 6], [], 5, 0),
        ([4, 5, 6], [], 1_000, 0),
    ],
)
def test_a_version_behind_a_gap_is_refused_with_the_commit_that_is_missing(commits, checkpoints, version, missing):
    with pytest.raises(LogGapError) as caught:
        find_segment(handmade_log(commits, checkpoints).store, version)
    assert caught.value.file == commit_path(missing)


@pytest.mark.parametrize("commits", [[1, 4, 5], [0, 4, 5], [4, 5], [2, 4, 5]])
def test_a_version_whose_commit_an_interrupted_cleanup_has_deleted_is_refused_with_the_range(commits):
    with pytest.raises(VersionNotFoundError) as caught:
        find_segment(handmade_log(commits, [2, 4]).store, 3)
    assert (caught.value.earliest, caught.value.latest) == (4, 5)


@pytest.mark.parametrize(
    ("commits", "checkpoints", "version", "earliest", "latest"),
    [
        ([0, 1, 3, 4, 5, 6], [], 9, 0, 1),
        ([0, 1, 3, 4, 5, 6], [5], 9, 5, 6),
        ([0, 1, 3, 4, 5, 6], [5], -1, 0, 1),
        ([3, 4, 5, 6, 7, 9], [5], 4, 5, 7),
        ([3, 4, 5, 6, 7, 9], [5], 10, 5, 7),
        ([3, 4, 6, 7, 8, 9], [3, 8], 2, 3, 4),
        ([3, 4, 6, 7, 8, 9], [3, 8], 10, 8, 9),
    ],
)
def test_the_versions_named_instead_of_one_that_is_not_there_can_all_be_read(commits, checkpoints, version, earliest, latest):
    store = handmade_log(commits, checkpoints).store
    with pytest.raises(VersionNotFoundError) as caught:
        find_segment(store, version)
    assert (caught.value.earliest, caught.value.latest) == (earliest, latest)
    assert [find_segment(store, readable).version for readable in range(earliest, latest + 1)] == [*range(earliest, latest + 1)]


@given(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9), max_size=3))
def test_the_readable_ranges_are_the_versions_that_can_be_found(commits, checkpoints):
    store = handmade_log(sorted(commits), checkpoints).store
    listing = list_log(store)
    found = set()
    for version in range(10):
        with suppress(LogGapError, VersionNotFoundError, TableNotFoundError):
            found.add(find_segment(store, version).version)
    assert sorted(chain(*listing.readable_ranges())) == sorted(found)
    whole = [version for version in found if {*range(version + 1, (listing.latest_version or 0) + 1)} <= commits]
    assert listing.earliest_readable_version() == min(whole, default=listing.latest_version or 0)


@pytest.mark.parametrize("suffix", ["json", "parquet"])
def test_of_one_version_a_v2_checkpoint_is_read_before_one_in_parts_and_that_before_a_classic_one(suffix):
    handmade = handmade_log(range(7), [5])
    for part in (1, 2):
        handmade.store.write(checkpoint_part_path(5, part, 2), b"x")
    assert [len(checkpoint.files) for checkpoint in list_log(handmade.store).checkpoints] == [1, 2]
    handmade.store.write(v2_checkpoint_path(5, "0a-b", suffix), b"x")
    segment = find_segment(handmade.store)
    assert [file.path for file in segment.checkpoint.files] == [v2_checkpoint_path(5, "0a-b", suffix)]
    assert described(segment) == (6, 5, [6])
    assert described(find_segment(handmade.store, 4)) == (4, None, [0, 1, 2, 3, 4])


def test_an_empty_v2_checkpoint_is_none():
    handmade = handmade_log(range(7))
    handmade.store.write(v2_checkpoint_path(5, "0a-b", "json"), b"")
    assert described(find_segment(handmade.store)) == (6, None, list(range(7)))


@pytest.mark.parametrize(
    ("checkpoints", "compacted", "version", "chosen"),
    [
        ([], [(0, 3), (4, 6)], None, [(0, 3), (4, 6)]),
        ([], [(0, 3), (2, 5), (4, 6)], None, [(0, 3), (4, 6)]),
        ([], [(1, 2), (1, 4)], None, [(1, 4)]),
        ([], [(1, 2), (1, 4)], 3, [(1, 2)]),
        ([], [(5, 9)], None, []),
        ([], [(3, 3), (4, 2)], None, []),
        ([2], [(0, 3), (3, 5)], None, [(3, 5)]),
        ([2], [(2, 5)], None, []),
    ],
)
def test_compacted_commits_are_taken_greedily_from_the_left_and_never_overlap(checkpoints, compacted, version, chosen):
    handmade = handmade_log(range(8), checkpoints)
    for start, end in compacted:
        handmade.store.write(compacted_path(start, end), b"x")
    handmade.store.write(compacted_path(0, 7), b"")
    segment = find_segment(handmade.store, version)
    assert [(file.start, file.end) for file in segment.compacted] == chosen


def test_compacted_commits_do_not_close_a_gap():
    handmade = handmade_log([0, 1, 3])
    handmade.store.write(compacted_path(1, 3), b"x")
    with pytest.raises(LogGapError):
        find_segment(handmade.store)


def test_later_commits_are_found_by_a_listing_from_the_known_version_on(monkeypatch):
    handmade = handmade_log(range(4), [2])
    segment = find_segment(handmade.store)
    assert find_later_commits(handmade.store, segment) is segment
    handmade.commit(add("x")).commit(add("y"))
    starts = []
    listing = handmade.store.list_from
    monkeypatch.setattr(handmade.store, "list_from", lambda path, start: starts.append(start) or listing(path, start))
    assert described(find_later_commits(handmade.store, segment)) == (5, 2, [3, 4, 5])
    assert starts == [f"{3:020d}"]


def test_a_commit_that_comes_while_the_listing_runs_is_no_gap(monkeypatch):
    handmade = handmade_log(range(4))
    listing, calls = handmade.store.list_from, []

    def overtaken(path, start):
        calls.append(start)
        hidden = commit_path(2) if len(calls) == 1 else None
        return (file for file in listing(path, start) if file.path != hidden)

    monkeypatch.setattr(handmade.store, "list_from", overtaken)
    assert described(find_segment(handmade.store)) == (3, None, [0, 1, 2, 3])


def test_a_segment_that_breaks_its_invariants_cannot_be_made():
    segment = find_segment(handmade_log(range(4)).store)
    with pytest.raises(ValueError, match="do not make up"):
        LogSegment(table="t", version=2, checkpoint=None, commits=segment.commits, commit_of_version=segment.commit_of_version)
