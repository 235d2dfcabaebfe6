"""A log from this machine's disk: fewer requests, the same answers."""

import random
import shutil
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.storage.caching_log_store import CachingLogStore
from airflow_delta.core.storage.disk_cache import DiskCache
from airflow_delta.core.storage.resolve import log_store_for
from tests.core.builders import HandmadeLog, add
from tests.core.storage.log_store_contract import LogStoreContract
from tests.core.storage.versioned_memory_store import VersionedMemoryStore

COMMIT = "_delta_log/00000000000000000000.json"
CHECKPOINT = "_delta_log/00000000000000000000.checkpoint.parquet"
SIDECAR = "_delta_log/_sidecars/a.parquet"
HINT = "_delta_log/_last_checkpoint"


@pytest.fixture
def cache(tmp_path):
    return DiskCache(folder=str(tmp_path / "cache"), most_bytes=100_000_000)


@pytest.fixture
def server():
    return VersionedMemoryStore()


@pytest.fixture
def opened(server, cache):
    """As another process opens the table."""
    return lambda: CachingLogStore(server, cache)


class TestOverMemory(LogStoreContract):
    @pytest.fixture
    def store(self, server, cache):
        return CachingLogStore(server, cache)


class TestOverS3(LogStoreContract):
    @pytest.fixture
    def store(self, s3, cache, monkeypatch):
        monkeypatch.setenv("AIRFLOW_DELTA_CACHE_DIR", cache.folder)
        store = log_store_for(f"{s3.uri}/lake/a table%20 #?ü", s3.options)
        assert isinstance(store, CachingLogStore)
        return store


def listed(store):
    return {status.path: status for status in store.list_from("_delta_log")}


def test_what_a_listing_names_is_read_without_a_request_the_second_time(server, opened):
    server.write(COMMIT, b"commit")
    first = opened()
    listed(first)
    assert first.read(COMMIT) == b"commit"
    server.requests.clear()
    second = opened()
    listed(second)
    assert second.read(COMMIT) == b"commit"
    assert server.requests == {"list": 1}


def test_what_no_listing_named_takes_a_request_and_is_the_newest(server, opened):
    server.write(COMMIT, b"commit")
    listed(first := opened())
    first.read(COMMIT)
    server.write(COMMIT, b"other!")
    assert opened().read(COMMIT) == b"other!"
    assert opened().open_input(COMMIT).read() == b"other!"


def test_a_file_that_was_replaced_is_read_anew_once_it_is_listed(server, opened):
    server.write(COMMIT, b"commit")
    store = opened()
    listed(store)
    store.read(COMMIT)
    server.write(COMMIT, b"other!")
    listed(store)
    assert store.read(COMMIT) == b"other!"
    assert store.open_input(COMMIT).read() == b"other!"


def test_a_listing_is_believed_for_half_a_minute_only(server, cache):
    server.write(COMMIT, b"commit")
    seconds = [0.0]
    store = CachingLogStore(server, cache, now=lambda: seconds[0])
    listed(store)
    store.read(COMMIT)
    server.write(COMMIT, b"other!")
    seconds[0] = 30.1
    assert store.read(COMMIT) == b"other!"


@pytest.mark.parametrize("change", ["write", "stream"])
def test_its_own_writes_are_seen_at_once(server, opened, change):
    server.write(COMMIT, b"commit")
    store = opened()
    listed(store)
    store.read(COMMIT)
    if change == "write":
        store.write(COMMIT, b"other!")
    else:
        with store.open_output(COMMIT) as stream:
            stream.write(b"other!")
    assert store.read(COMMIT) == b"other!"


def test_what_it_deleted_is_gone(server, opened):
    server.write(COMMIT, b"commit")
    store = opened()
    listed(store)
    store.read(COMMIT)
    store.delete([COMMIT])
    with pytest.raises(FileNotFoundError):
        store.read(COMMIT)


def test_files_that_are_replaced_as_a_rule_are_never_kept(server, opened):
    server.write(HINT, b"1")
    store = opened()
    listed(store)
    assert store.read(HINT) == b"1"
    server.write(HINT, b"2")
    assert store.read(HINT) == b"2"
    assert store.open_input(HINT).read() == b"2"


def test_random_reads_fetch_each_mebibyte_once(server, opened):
    content = random.Random(0).randbytes(7_500_000)
    server.write(CHECKPOINT, content)
    first = opened()
    listed(first)
    with first.open_input(CHECKPOINT) as stream:
        stream.seek(3_000_000)
        assert stream.read(2_000_000) == content[3_000_000:5_000_000]
    assert server.requests == {"list": 1, "fetch_end": 1, "fetch_range": 1}
    server.requests.clear()
    second = opened()
    listed(second)
    with second.open_input(CHECKPOINT) as stream:
        stream.seek(3_500_000)
        assert stream.read(1_000_000) == content[3_500_000:4_500_000]
        stream.seek(0)
        assert stream.read() == content
    assert server.requests == {"list": 1, "fetch_range": 2}  # before and after what is known


def test_a_sidecar_that_no_listing_named_takes_one_request(server, opened):
    content = random.Random(0).randbytes(3_000_000)
    server.write(SIDECAR, content)
    assert opened().open_input(SIDECAR).read() == content
    server.requests.clear()
    assert opened().open_input(SIDECAR).read() == content
    assert server.requests == {"fetch_end": 1}


def test_a_checkpoint_replaced_under_a_reader_is_an_error_and_not_a_mixture(server, opened):
    server.write(CHECKPOINT, bytes(5_000_000))
    store = opened()
    stream = store.open_input(CHECKPOINT)
    server.write(CHECKPOINT, b"\1" * 5_000_000)
    with pytest.raises(OSError, match="replaced"):
        stream.read(1_000_000)


def test_tables_of_one_cache_do_not_meet(cache):
    one, other = VersionedMemoryStore("memory://one"), VersionedMemoryStore("memory://other")
    one.write(COMMIT, b"commit")
    other.write(COMMIT, b"commit")
    for server in (one, other):
        store = CachingLogStore(server, cache)
        listed(store)
        store.read(COMMIT)
    assert (one.requests["fetch"], other.requests["fetch"]) == (1, 1)


def test_a_damaged_entry_is_read_from_the_store_again(server, opened, cache, tmp_path):
    server.write(COMMIT, b"commit")
    listed(store := opened())
    store.read(COMMIT)
    for path in (tmp_path / "cache").iterdir():
        if path.name != "ledger":
            path.write_bytes(path.read_bytes()[:-1] + b"T")
    assert store.read(COMMIT) == b"commit"
    assert server.requests["fetch"] == 2
    assert store.read(COMMIT) == b"commit"
    assert server.requests["fetch"] == 2


def test_a_table_that_is_opened_again_takes_a_read_of_the_hint_and_a_listing(server, opened):
    handmade = HandmadeLog()
    handmade.store = server
    handmade.create(add("f")).commit(add("g"))
    DeltaLog(server).checkpoint()
    handmade.commit(add("h"))
    paths = DeltaLog(opened()).snapshot().files()["path"].to_pylist()
    server.requests.clear()
    snapshot = DeltaLog(opened()).snapshot()
    assert snapshot.files()["path"].to_pylist() == paths
    assert sorted(paths) == ["f", "g", "h"]
    assert server.requests == {"read": 1, "list": 1}


# -- whatever happens in between

PATHS = (COMMIT, CHECKPOINT, "_delta_log/00000000000000000001.json")
CONTENTS = st.binary(min_size=1, max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["write", "own write"]), st.sampled_from(PATHS), CONTENTS, st.booleans()),
        st.tuples(st.sampled_from(["delete", "own delete", "read", "open"]), st.sampled_from(PATHS), st.none(), st.booleans()),
        st.tuples(st.just("list"), st.none(), st.none(), st.booleans()),
    ),
    max_size=40,
)


@given(steps=STEPS)
@settings(deadline=None, max_examples=150)
def test_no_read_gives_less_than_the_latest_listing_showed_or_the_store_has_now(steps):
    """Contents come back under one name, two readers share a cache, others write: reads give a content since the listing."""
    server = VersionedMemoryStore()
    folder = tempfile.mkdtemp()
    cache = DiskCache(folder=f"{folder}/cache", most_bytes=8 * 4096)
    readers = [CachingLogStore(server, cache), CachingLogStore(server, cache)]
    since = [{path: [None] for path in PATHS} for _ in readers]  # each content that the path had since that reader's listing

    def now_has(path, content, by=None):
        for number, contents in enumerate(since):
            contents[path] = [content] if number == by else [*contents[path], content]

    try:
        for what, path, content, is_second in steps:
            reader = readers[is_second]
            if what in ("write", "own write"):
                (server if what == "write" else reader).write(path, content)
                now_has(path, content, is_second if what == "own write" else None)
            elif what in ("delete", "own delete"):
                (server if what == "delete" else reader).delete([path])
                now_has(path, None, is_second if what == "own delete" else None)
            elif what == "list":
                listed(reader)
                since[is_second] = {path: [contents[-1]] for path, contents in since[is_second].items()}
            else:
                try:
                    found = reader.read(path) if what == "read" else reader.open_input(path).read()
                except FileNotFoundError:
                    found = None
                assert found in since[is_second][path]
                if path not in reader._listing.files:
                    assert found == since[is_second][path][-1]
    finally:
        shutil.rmtree(folder)
