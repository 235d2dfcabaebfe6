"""Any read of an object gives its bytes, whatever lies on disk already."""

import random
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_delta.core.storage import cached_object
from airflow_delta.core.storage.cached_object import CachedObject, version_key
from airflow_delta.core.storage.disk_cache import DiskCache

CONTENT = random.Random(1).randbytes(1000)


@pytest.fixture(autouse=True, scope="module")
def _small_pieces():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cached_object, "_PIECE", 64)
        yield


@given(
    size=st.integers(1, 1000),
    end_size=st.integers(1, 300),
    reads=st.lists(st.tuples(st.integers(0, 999), st.integers(0, 1000), st.booleans()), max_size=8),
)
@settings(deadline=None, max_examples=150)
def test_reads_in_any_order_give_the_bytes_and_fetch_none_of_them_twice(size, end_size, reads):
    content, fetched = CONTENT[:size], []

    def fetch(start, length):
        assert length > 0
        fetched.extend(range(start, start + length))
        return content[start : start + length]

    with tempfile.TemporaryDirectory() as folder:
        cache = DiskCache(folder=f"{folder}/cache", most_bytes=1_000_000)

        def opened():
            return CachedObject(cache=cache, key=version_key(["o"], "v", size), size=size, end_size=end_size, fetch=fetch)

        version = opened()
        for start, length, is_opened_again in reads:
            version = opened() if is_opened_again else version
            begin = min(start, size)
            wanted = min(length, size - begin)
            assert version.read_at(begin, wanted) == content[begin : begin + wanted]
    assert len(set(fetched)) == len(fetched)


def test_versions_of_one_place_have_keys_of_their_own():
    keys = {
        version_key(place, version, size)
        for place in (["a", "b"], ["a b"], ["a", 'b"'])
        for version in ("1", "2")
        for size in (1, 2)
    }
    assert len(keys) == 12


def test_a_fetch_that_brings_too_little_is_an_error(tmp_path):
    cache = DiskCache(folder=str(tmp_path / "cache"), most_bytes=1_000_000)
    version = CachedObject(cache=cache, key="k", size=100, end_size=10, fetch=lambda _start, length: bytes(length - 1))
    with pytest.raises(OSError, match="expected 64 bytes, found 63"):
        version.read_at(0, 10)
    assert cache.get("k 90 0", 64) is None
