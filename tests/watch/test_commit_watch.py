"""How far a log has come, also when its beginning was cleaned up."""

import pytest

from airflow_delta.core.log.file_names import commit_file
from airflow_delta.core.storage.caching_log_store import CachingLogStore
from airflow_delta.core.storage.disk_cache import DiskCache
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.watch.commit_watch import NO_TABLE, CommitWatch, commit_written, head_version, reached_version
from airflow_delta.watch.waits import CommitWait
from tests.core.storage.versioned_memory_store import VersionedMemoryStore


def store_of(*names):
    store = InMemoryLogStore("memory://table")
    for name in names:
        store.write(f"_delta_log/{name}", b"{}")
    return store


def commits(*versions):
    return [commit_file(version) for version in versions]


@pytest.mark.parametrize(
    ("names", "head"),
    [
        ([], NO_TABLE),
        (["_last_checkpoint", "00000000000000000003.crc", "_sidecars"], NO_TABLE),
        (commits(0, 1, 2), 2),
        ([*commits(11), "00000000000000000010.checkpoint.parquet", "_last_checkpoint", ".tmp"], 11),
        (["00000000000000000010.checkpoint.parquet"], 10),
    ],
)
def test_the_head_is_the_latest_version_in_the_log(names, head):
    assert head_version(store_of(*names)) == head


def test_when_a_commit_was_written_is_known_while_it_is_there():
    now = iter((10, 20, 30))
    store = InMemoryLogStore("memory://table", clock=lambda: next(now))
    for name in ("00000000000000000001.checkpoint.parquet", *commits(1, 3)):
        store.write(f"_delta_log/{name}", b"{}")
    assert [commit_written(store, version) for version in range(5)] == [None, 20, None, 30, None]


def test_a_version_is_reached_by_itself_or_by_a_later_one():
    store = store_of(*commits(0, 1, 2))
    assert reached_version(store, 1, thorough=False) == 2
    assert reached_version(store, 2, thorough=True) == 2
    assert reached_version(store, 3, thorough=True) is None
    assert reached_version(store, 3, thorough=False) is None


def test_a_version_that_was_cleaned_up_was_reached():
    store = store_of("00000000000000000010.checkpoint.parquet", *commits(10, 11))
    assert reached_version(store, 4, thorough=True) == 11


def test_a_missing_table_has_reached_nothing():
    assert reached_version(store_of(), 0, thorough=True) is None
    assert reached_version(store_of(), 0, thorough=False) is None


def test_once_looked_a_poll_is_one_probe():
    calls = []

    class Counting(InMemoryLogStore):
        def exists(self, path):
            calls.append(f"exists {path}")
            return super().exists(path)

        def list_from(self, directory, start=""):
            calls.append(f"list {directory}")
            return super().list_from(directory, start)

    store = Counting("memory://table")
    assert reached_version(store, 5, thorough=False) is None
    assert calls == [f"exists _delta_log/{commit_file(5)}"]


def test_a_look_behind_a_cache_is_one_request_and_sees_a_new_commit_at_once(tmp_path):
    server = VersionedMemoryStore()
    store = CachingLogStore(server, DiskCache(folder=str(tmp_path / "cache"), most_bytes=1_000_000))
    for version in range(3):
        server.write(f"_delta_log/{commit_file(version)}", b"{}")
    watch = CommitWatch(store, CommitWait(after=2), thorough=False)
    for _ in range(2):
        server.requests.clear()
        assert watch.poll() is None
        assert server.requests.total() == 1
    server.write(f"_delta_log/{commit_file(3)}", b"{}")
    assert watch.poll() is not None
