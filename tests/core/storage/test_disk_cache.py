"""Entries on disk: whole or not there, within the bound, and of this user alone, whatever happens to folder and processes."""

import multiprocessing
import os
import random
import signal
import stat
import threading
import time

import pytest

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.storage import disk_cache
from airflow_delta.core.storage.disk_cache import DiskCache

_BOUND = 64 * 4096
_SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def cache(folder):
    return DiskCache(folder=str(folder), most_bytes=_BOUND)


@pytest.fixture(autouse=True)
def _not_warned(monkeypatch):
    monkeypatch.setattr(disk_cache, "_warned", set())


def entries(folder):
    return [path for path in folder.iterdir() if path.name != "ledger"]


def bytes_in(folder):
    """As a disk counts them, at one moment; 0 where others write all the time."""
    with DiskCache(folder=str(folder), most_bytes=1)._opened() as opened, disk_cache._locked(opened) as ledger:
        sizes = [path.stat().st_size for path in entries(folder)] if ledger is not None else []
    return sum(-(-size // 4096) * 4096 for size in sizes)


def test_what_was_kept_is_there_also_for_another_process_object(cache, folder):
    assert cache.get("a", 7) is None
    assert not folder.exists()
    cache.put("a", b"content")
    assert DiskCache(folder=str(folder), most_bytes=_BOUND).get("a", 7) == b"content"
    assert cache.get("b", 7) is None
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()] == [0o600, 0o600]


def test_an_empty_content_is_a_content(cache):
    cache.put("a", b"")
    assert cache.get("a", 0) == b""


@pytest.mark.parametrize("damage", ["flip", "cut", "longer", "empty", "other"])
def test_a_damaged_entry_is_removed_and_can_be_kept_again(cache, folder, damage):
    cache.put("a", b"content")
    [entry] = entries(folder)
    whole = entry.read_bytes()
    cache.put("b", b"CONTENT")
    [other] = [path for path in entries(folder) if path != entry]
    entry.write_bytes(
        {
            "flip": whole[:-1] + b"T",
            "cut": whole[:-1],
            "longer": whole + b"t",
            "empty": b"",
            "other": other.read_bytes(),
        }[damage]
    )
    assert cache.get("a", 7) is None
    assert entries(folder) == [other]
    cache.put("a", b"content")
    assert cache.get("a", 7) == b"content"


def test_an_entry_that_leads_elsewhere_is_not_followed(cache, folder, tmp_path):
    cache.put("a", b"content")
    [entry] = entries(folder)
    copy = tmp_path / "copy"
    copy.write_bytes(entry.read_bytes())
    entry.unlink()
    entry.symlink_to(copy)
    assert cache.get("a", 7) is None


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o755, 0o1777, 0o701])
def test_a_folder_that_others_can_enter_is_not_used(cache, folder, caplog, mode):
    cache.put("a", b"content")
    folder.chmod(mode)
    before = sorted(folder.iterdir())
    assert cache.get("a", 7) is None
    cache.put("b", b"content")
    assert sorted(folder.iterdir()) == before
    [record] = caplog.records
    assert f"mode {mode:04o}" in record.getMessage()
    folder.chmod(0o700)
    assert cache.get("a", 7) == b"content"


def test_a_folder_of_another_user_is_not_used(cache, folder, caplog, monkeypatch):
    cache.put("a", b"content")
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    assert cache.get("a", 7) is None
    cache.put("b", b"content")
    assert len(entries(folder)) == 1
    assert "found one of the user" in caplog.text


def test_a_link_to_a_folder_is_not_used(cache, folder, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    cache.put("a", b"content")
    assert cache.get("a", 7) is None
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_those_not_used_for_longest_go_when_the_bound_is_reached(cache, folder):
    for number in range(64):
        cache.put(str(number), bytes(3000))
        [name] = [path for path in entries(folder) if path.name == disk_cache._name(str(number))]
        os.utime(name, (number, number))
    assert bytes_in(folder) == _BOUND
    assert cache.get("0", 3000) == bytes(3000)  # used now
    cache.put("64", bytes(3000))
    assert bytes_in(folder) == _BOUND * 7 // 8
    assert [number for number in range(65) if cache.get(str(number), 3000)] == [0, *range(10, 65)]


def test_an_entry_that_would_take_most_of_the_bound_is_not_kept(cache):
    cache.put("a", bytes(_BOUND // 2))
    assert cache.get("a", _BOUND // 2) is None


def test_a_bound_that_became_smaller_holds_from_the_next_entry_on(cache, folder):
    for number in range(64):
        cache.put(str(number), bytes(3000))
    DiskCache(folder=str(folder), most_bytes=_BOUND // 4).put("new", bytes(3000))
    assert bytes_in(folder) <= _BOUND // 4


def test_files_of_others_in_the_folder_stay(cache, folder):
    folder.mkdir(mode=0o700)
    (folder / "note").write_text("mine")
    for number in range(100):
        cache.put(str(number), bytes(3000))
    assert (folder / "note").read_text() == "mine"


@pytest.mark.parametrize("content", [b"", b"x" * 20, b"99999999999999999999", b"-0000000000000000001"])
def test_a_ledger_that_says_nothing_is_made_anew(cache, folder, content):
    cache.put("a", b"content")
    (folder / "ledger").write_bytes(content)
    cache.put("b", b"content")
    assert cache.get("a", 7) == cache.get("b", 7) == b"content"
    assert (folder / "ledger").read_bytes() == b"%020d" % (2 * 4096)


def test_a_full_disk_keeps_nothing_and_fails_nothing(cache, folder, monkeypatch, caplog):
    cache.put("a", b"content")

    def no_space(*_arguments, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", no_space)
    cache.put("b", b"content")
    cache.put("c", b"content")
    monkeypatch.undo()
    assert len(entries(folder)) == 1
    assert cache.get("a", 7) == b"content"
    assert cache.get("b", 7) is None
    assert [record.getMessage() for record in caplog.records if "No space left" in record.getMessage()] == [
        f"The cache in {folder} is not used: OSError No space left on device"
    ]


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    cache = DiskCache(folder=str(tmp_path / "file" / "cache"), most_bytes=_BOUND)
    cache.put("a", b"content")
    assert cache.get("a", 7) is None


def test_who_does_not_get_the_ledger_goes_on_without(cache, folder):
    cache.put("a", b"content")
    with cache._opened() as opened, disk_cache._locked(opened) as ledger:
        assert ledger is not None
        started = time.monotonic()
        cache.put("b", b"content")
        assert time.monotonic() - started < 5
        assert cache.get("a", 7) == b"content"
    assert cache.get("b", 7) is None


@pytest.mark.parametrize(("folder", "most"), [("relative", 1), ("/x", 0), ("/x", -1)])
def test_settings_without_a_meaning_are_refused(folder, most):
    with pytest.raises(InvalidStatementError):
        DiskCache(folder=folder, most_bytes=most)


# -- among threads and processes


def content_of(number):
    return random.Random(number).randbytes(100 * number)


def use(cache, seed, times):
    """Read and keep; everything read must be what was kept."""
    chosen = random.Random(seed)
    for _ in range(times):
        number = chosen.randrange(150)
        found = cache.get(str(number), 100 * number)
        assert found in (None, content_of(number))
        if found is None:
            cache.put(str(number), content_of(number))


def use_in_process(folder, seed, times, failed):
    try:
        use(DiskCache(folder=folder, most_bytes=_BOUND), seed, times)
    except BaseException:
        failed.set()
        raise


def test_threads_with_a_small_bound_read_what_was_kept_and_stay_within(cache, folder):
    errors = []

    def run(seed):
        try:
            use(cache, seed, 300)
        except BaseException as error:  # noqa: BLE001 - the test shows it
            errors.append(error)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if folder.exists():
            assert bytes_in(folder) <= _BOUND
    assert errors == []
    assert bytes_in(folder) > 0


@pytest.mark.slow
def test_processes_with_a_small_bound_of_which_some_are_killed_read_what_was_kept_and_stay_within(folder):
    failed = _SPAWN.Event()

    def start(seed, times):
        process = _SPAWN.Process(target=use_in_process, args=(str(folder), seed, times, failed))
        process.start()
        return process

    lasting = [start(seed, 3000) for seed in (1, 2)]
    killed = 0
    while any(process.is_alive() for process in lasting):
        victim = start(100 + killed, 1_000_000)
        until = time.monotonic() + 1.5 + random.Random(killed).random()
        while time.monotonic() < until:
            if folder.exists():
                assert bytes_in(folder) <= _BOUND
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
        killed += 1
    for process in lasting:
        process.join()
    assert not failed.is_set()
    assert [process.exitcode for process in lasting] == [0, 0]
    assert killed
    cache = DiskCache(folder=str(folder), most_bytes=_BOUND)
    use(cache, 3, 200)
    assert bytes_in(folder) <= _BOUND
