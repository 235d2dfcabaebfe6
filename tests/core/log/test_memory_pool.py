"""Arrow's allocator is switched while a checkpoint is read, and restored afterwards."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from airflow_delta.core.log.memory_pool import memory_pool

pytestmark = pytest.mark.skipif(
    pa.default_memory_pool().backend_name != "mimalloc" or "jemalloc" not in pa.supported_memory_backends(),
    reason="this build of Arrow has only one allocator, or the environment has chosen one",
)


def _backend() -> str:
    return pa.default_memory_pool().backend_name


def test_the_allocator_is_back_when_the_last_of_several_readers_is_done():
    first, second = memory_pool(), memory_pool()
    seen = [_backend()]
    for step in (first.__enter__, second.__enter__, lambda: first.__exit__(None, None, None)):
        step()
        seen.append(_backend())
    second.__exit__(None, None, None)
    assert [*seen, _backend()] == ["mimalloc", "jemalloc", "jemalloc", "jemalloc", "mimalloc"]


def test_the_allocator_is_back_after_an_error():
    with pytest.raises(OSError, match="broken"), memory_pool():
        raise OSError("broken")
    assert _backend() == "mimalloc"


def test_what_was_allocated_meanwhile_grows_on_by_the_allocator_it_came_from():
    with memory_pool():
        inside = pa.array(range(1000))
    outside = pa.array(range(1000, 2000))
    assert pa.concat_arrays([inside, outside]).to_pylist() == list(range(2000))


def test_an_allocator_that_the_user_chose_stays():
    code = (
        "import pyarrow as pa\n"
        "from airflow_delta.core.log.memory_pool import memory_pool\n"
        "with memory_pool(): print(pa.default_memory_pool().backend_name)"
    )
    env = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=env)
    assert done.stdout.split() == ["system"]
