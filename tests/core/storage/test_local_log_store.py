import errno
import multiprocessing
import os

import pytest

from airflow_delta.core.storage import local_log_store
from airflow_delta.core.storage.local_log_store import LocalLogStore
from tests.core.storage.log_store_contract import LogStoreContract


class TestLocalLogStore(LogStoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        return LocalLogStore(str(tmp_path / "table"))


class TestLocalLogStoreWithoutHardLinks(LogStoreContract):
    @pytest.fixture
    def store(self, tmp_path, monkeypatch):
        def no_links(*_):
            raise OSError(errno.ENOTSUP, "no hard links here")

        monkeypatch.setattr(os, "link", no_links)
        return LocalLogStore(f"file://{tmp_path}/table/")


def test_a_create_that_fails_without_hard_links_leaves_the_name_free(tmp_path, monkeypatch):
    store, sync, calls = LocalLogStore(str(tmp_path)), os.fsync, []

    def no_links(*_):
        raise OSError(errno.ENOTSUP, "no hard links here")

    def full_disk(descriptor):
        calls.append(descriptor)
        if len(calls) == 2:  # the first is the temporary file's
            raise OSError(errno.ENOSPC, "no space left")
        sync(descriptor)

    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space left"):
        store.write_if_absent("_delta_log/0.json", b"half of a commit")
    assert list(tmp_path.rglob("*.json")) == []
    store.write_if_absent("_delta_log/0.json", b"whole")
    assert store.read("_delta_log/0.json") == b"whole"


def _race(root, rounds, barrier, racer, results):
    store = LocalLogStore(root)
    won = []
    for number in range(rounds):
        barrier.wait()
        try:
            store.write_if_absent(f"_delta_log/{number:020d}.json", f"{racer}".encode() * 5_000)
        except FileExistsError:
            continue
        won.append(number)
    results.put((racer, won))


def test_of_racing_processes_exactly_one_creates_each_file_whole(tmp_path):
    racers, rounds = 4, 100
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(racers), context.Queue()
    processes = [
        context.Process(target=_race, args=(str(tmp_path), rounds, barrier, racer, results)) for racer in range(racers)
    ]
    for process in processes:
        process.start()
    outcomes = dict(results.get(timeout=120) for _ in processes)
    for process in processes:
        process.join()
    assert sorted(number for won in outcomes.values() for number in won) == list(range(rounds))
    for racer, won in outcomes.items():
        for number in won:
            assert (tmp_path / f"_delta_log/{number:020d}.json").read_bytes() == f"{racer}".encode() * 5_000
    assert len(list((tmp_path / "_delta_log").iterdir())) == rounds


@pytest.mark.parametrize("uri", ["{}", "{}/", "file://{}", "file:{}/"])
def test_a_local_table_may_be_named_by_path_or_uri(tmp_path, uri):
    (tmp_path / "a b%20c").mkdir()
    (tmp_path / "a b%20c" / "x").write_bytes(b"1")
    assert LocalLogStore(uri.format(tmp_path / "a b%20c")).read("x") == b"1"


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x"])
def test_no_path_leaves_the_table(tmp_path, path):
    store = LocalLogStore(str(tmp_path / "table"))
    with pytest.raises(ValueError, match="is not a path below"):
        store.delete([path])


def test_stray_files_in_the_log_are_not_asked_for_their_status(tmp_path, monkeypatch):
    log = tmp_path / "_delta_log"
    log.mkdir()
    for number in range(50):
        (log / f"_commit_{number}.json.tmp").touch()
        (log / f".{number}.crc").touch()
    (log / f"{0:020d}.json").write_text("{}")
    listing = LocalLogStore(str(tmp_path)).list_from("_delta_log", f"{0:020d}")
    assert next(listing).path.endswith("0.json")
    monkeypatch.setattr("airflow_delta.core.storage.local_log_store._status", pytest.fail)
    listing.close()


def test_a_relative_table_stays_where_it_is_when_the_process_goes_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = LocalLogStore("table")
    monkeypatch.chdir("/")
    store.write("a", b"rows")
    filesystem, root = store.data_filesystem()
    assert filesystem.open_input_file(f"{root}/a").read() == b"rows"


def test_the_directories_of_a_new_table_are_as_durable_as_its_first_commit(tmp_path, monkeypatch):
    synced = set()
    monkeypatch.setattr(local_log_store, "_sync_directory", synced.add)
    LocalLogStore(str(tmp_path / "schema" / "table")).write_if_absent("_delta_log/0", b"x")
    assert synced == {
        tmp_path,
        tmp_path / "schema",
        tmp_path / "schema" / "table",
        tmp_path / "schema" / "table" / "_delta_log",
    }


def test_a_file_or_a_broken_link_at_the_root_is_not_taken_for_a_commit(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere" / "at all")
    for name in ("file", "link"):
        with pytest.raises(NotADirectoryError):
            LocalLogStore(str(tmp_path / name)).write_if_absent("_delta_log/0", b"x")


def test_a_time_is_in_milliseconds(tmp_path):
    (tmp_path / "x").touch()
    os.utime(tmp_path / "x", ns=(0, 1_600_000_000_123_999_999))
    assert next(LocalLogStore(str(tmp_path)).list_from("")).modification_time == 1_600_000_000_123
