import errno
import multiprocessing
import os
import re
import subprocess
import sys

import pytest

from airflow_delta.core.actions import Metadata
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import PathOutsideTableError, StorageAccessError, StorageFullError, UnfinishedCommitError
from airflow_delta.core.log.commit_reader import read_commit
from airflow_delta.core.storage import local_log_store
from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.core.transaction.operation import Operation
from tests.core.rights import as_a_user_without_rights
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
    with pytest.raises(StorageFullError, match="no space left"):
        store.write_if_absent("_delta_log/0.json", b"half of a commit")
    assert list(tmp_path.rglob("*.json")) == []
    store.write_if_absent("_delta_log/0.json", b"whole")
    assert store.read("_delta_log/0.json") == b"whole"


_KILLED_HALF_WAY = """
import errno, os, sys
from airflow_delta.core.storage.local_log_store import LocalLogStore

def no_links(*_):
    raise OSError(errno.ENOTSUP, "no hard links here")

def killed(descriptor, calls=[]):
    calls.append(descriptor)
    if len(calls) == 2:  # the first is the temporary file's
        os._exit(9)

os.link, os.fsync = no_links, killed
LocalLogStore(sys.argv[1]).write_if_absent(sys.argv[2], sys.argv[3].encode())
"""


def test_a_writer_killed_half_way_without_hard_links_leaves_what_is_not_taken_for_a_commit(tmp_path):
    path, content = "_delta_log/00000000000000000000.json", '{"commitInfo":{}}\n{"protocol":{}}\n'
    (tmp_path / "_delta_log").mkdir()
    killed = subprocess.run([sys.executable, "-c", _KILLED_HALF_WAY, str(tmp_path), path, content], check=False)
    assert killed.returncode == 9
    store = LocalLogStore(str(tmp_path))
    assert store.read(path)[:1] == b"\0"
    with pytest.raises(UnfinishedCommitError, match="delete the file"):
        read_commit(store, 0)
    (tmp_path / path).unlink()
    store.write_if_absent(path, content.encode())
    assert store.read(path) == content.encode()


def test_a_half_written_file_that_somebody_deleted_meanwhile_is_not_believed_to_be_there(tmp_path, monkeypatch):
    store, sync, calls = LocalLogStore(str(tmp_path)), os.fsync, []
    target = tmp_path / "_delta_log" / "0.json"
    target.parent.mkdir()

    def no_links(*_):
        raise OSError(errno.ENOTSUP, "no hard links here")

    def deleted_meanwhile(descriptor):
        calls.append(descriptor)
        if len(calls) == 2:
            target.unlink()
            target.write_bytes(b"somebody else's")
        sync(descriptor)

    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.setattr(os, "fsync", deleted_meanwhile)
    with pytest.raises(OSError, match="was deleted while it was written"):
        store.write_if_absent("_delta_log/0.json", b"ours")
    assert target.read_bytes() == b"somebody else's"


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, StorageFullError),
        (errno.EDQUOT, StorageFullError),
        (errno.EROFS, StorageAccessError),
        (errno.EACCES, StorageAccessError),
    ],
)
@pytest.mark.parametrize("step", ["fsync", "link"])
def test_a_commit_that_cannot_be_written_is_a_final_error_that_says_so(tmp_path, monkeypatch, step, number, kind):
    log = DeltaLog.for_table(str(tmp_path))
    schema = '{"type":"struct","fields":[]}'
    log.create_transaction(Metadata(id="m", schema_string=schema)).commit(operation=Operation(name="CREATE TABLE"))
    before = sorted(tmp_path.rglob("*"))

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    transaction = log.start_transaction()
    with monkeypatch.context() as patch:
        patch.setattr(os, step, refuse)
        with pytest.raises(kind, match=re.escape(os.strerror(number))) as caught:
            transaction.commit(operation=Operation(name="WRITE"), allow_empty=True)
    assert (type(caught.value), caught.value.retryable) == (kind, False)
    assert sorted(tmp_path.rglob("*")) == before
    assert log.start_transaction().commit(operation=Operation(name="WRITE"), allow_empty=True).version == 1


@pytest.mark.parametrize(
    "request_something",
    [
        lambda store: store.read("_delta_log/0.json"),
        lambda store: store.open_input("_delta_log/0.json"),
        lambda store: store.exists("_delta_log/0.json"),
        lambda store: store.status("_delta_log/0.json"),
        lambda store: list(store.list_from("_delta_log")),
        lambda store: list(store.list_all()),
        lambda store: store.write("_delta_log/1.json", b"x"),
        lambda store: store.write_if_absent("_delta_log/1.json", b"x"),
        lambda store: store.delete(["_delta_log/0.json"]),
    ],
)
def test_a_directory_without_rights_is_one_typed_final_error(tmp_path, request_something):
    store = LocalLogStore(str(tmp_path / "table"))
    store.write("_delta_log/0.json", b"{}")
    with as_a_user_without_rights(tmp_path / "table"), pytest.raises(StorageAccessError, match="Permission denied") as caught:
        request_something(store)
    assert (caught.value.retryable, len(caught.value.claim()) < 300) == (False, True)


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
        with pytest.raises(StorageAccessError, match=f"{name} refused: it is a file or a link to nothing, where a directory"):
            LocalLogStore(str(tmp_path / name)).write_if_absent("_delta_log/0", b"x")


def test_a_link_in_a_circle_and_a_name_longer_than_any_are_no_files(tmp_path):
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "x").touch()
    store = LocalLogStore(str(tmp_path))
    assert [file.path for listed in (store.list_from(""), store.list_all()) for file in listed] == ["x", "x"]
    assert not any(map(store.exists, ["circle", "circle/x", "x" * 300]))


def test_a_time_is_in_milliseconds(tmp_path):
    (tmp_path / "x").touch()
    os.utime(tmp_path / "x", ns=(0, 1_600_000_000_123_999_999))
    assert next(LocalLogStore(str(tmp_path)).list_from("")).modification_time == 1_600_000_000_123


def test_links_below_the_root_that_lead_out_of_it_are_neither_read_nor_written_through(tmp_path):
    outside, root = tmp_path / "outside", tmp_path / "table"
    (outside / "pins").mkdir(parents=True)
    (outside / "x.json").write_text("{}")
    (root / "_delta_log").mkdir(parents=True)
    (root / "_delta_log" / "_sidecars").symlink_to(outside)
    (root / "_delta_log" / f"{0:020}.json").symlink_to(outside / "x.json")
    (root / "_airflow_delta").symlink_to(outside)
    (root / "_symlink_format_manifest").symlink_to(outside)
    (root / "part").mkdir()
    (root / "part" / "_delta_log").symlink_to(outside)
    store = LocalLogStore(str(root))
    for path in (
        "_delta_log/_sidecars/x.json",
        f"_delta_log/{0:020}.json",
        "_airflow_delta/pins/x.json",
        "_symlink_format_manifest/manifest",
        "part/_delta_log/x.json",
    ):
        for request in (
            store.read,
            store.open_input,
            store.open_output,
            lambda path: store.write(path, b"x"),
            lambda path: store.write_if_absent(path, b"x"),
        ):
            with pytest.raises(PathOutsideTableError, match=re.escape(path)):
                request(path)
    assert sorted(outside.rglob("*")) == [outside / "pins", outside / "x.json"]
    assert (outside / "x.json").read_text() == "{}"


def test_the_root_and_the_log_may_be_links_and_links_inside_the_table_are_followed(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "log").mkdir()
    (tmp_path / "table").symlink_to(tmp_path / "root")
    (tmp_path / "root" / "_delta_log").symlink_to(tmp_path / "log")
    store = LocalLogStore(str(tmp_path / "table"))
    store.write_if_absent("_delta_log/0.json", b"0")
    (tmp_path / "log" / "1.json").symlink_to(tmp_path / "log" / "0.json")
    assert (store.read("_delta_log/1.json"), (tmp_path / "log" / "0.json").read_bytes()) == (b"0", b"0")
