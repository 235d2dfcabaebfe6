"""Following a log for a long time: correct at each version, without keeping all of its past in memory."""

import pytest

from airflow_delta.core.log import latest_replay
from airflow_delta.core.log.latest_replay import LatestReplay
from tests.core.builders import HandmadeLog, add, remove


@pytest.fixture(autouse=True)
def few_commits(monkeypatch):
    monkeypatch.setattr(latest_replay, "_MOST_FOLLOWED", 10)


class Followed:
    """A table that always has one file, and the replay that follows it."""

    def __init__(self):
        self.log = HandmadeLog().create(add("f0"))
        self.starts = []
        self.latest = LatestReplay(self.log.store, lambda replay: self.starts.append(replay.segment.version))
        self.latest.refresh()

    def commit(self):
        version = self.log.next_version
        self.log.commit(remove(f"f{version - 1}"), add(f"f{version}"))
        return version

    def follow(self, commits):
        for _ in range(commits):
            version = self.commit()
            replay = self.latest.refresh()
            assert replay.segment.version == version
            assert replay.files(["path"])["path"].to_pylist() == [f"f{version}"]
        return replay


def test_what_is_followed_for_long_begins_again_at_the_newest_checkpoint():
    followed = Followed()
    followed.follow(9)
    followed.log.log.checkpoint()
    replay = followed.follow(3)
    assert followed.starts == [0, 12]
    assert replay.segment.checkpoint.version == 9
    assert list(replay.segment.commits) == [10, 11, 12]
    assert len(replay._tail.adds) == 3


def test_where_there_is_no_checkpoint_it_begins_again_ever_more_seldom():
    followed = Followed()
    followed.follow(200)
    assert followed.starts == [0, 12, 36, 84, 180]


def test_a_table_with_checkpoints_never_keeps_more_than_so_many_commits():
    followed = Followed()
    kept = []
    for _ in range(20):
        kept.append(len(followed.follow(5).segment.commits))
        followed.log.log.checkpoint()
    assert max(kept) <= 2 * 5 + 10
    assert len(followed.starts) < 10


def test_a_replay_that_was_given_out_stays_as_it_was():
    followed = Followed()
    early = followed.follow(2)
    followed.follow(30)
    assert early.files(["path"])["path"].to_pylist() == ["f2"]
    assert early.segment.version == 2
