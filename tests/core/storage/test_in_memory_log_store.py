import pytest

from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from tests.core.storage.log_store_contract import LogStoreContract


class TestInMemoryLogStore(LogStoreContract):
    @pytest.fixture
    def store(self):
        return InMemoryLogStore()


def test_the_time_of_a_file_is_the_clocks():
    store = InMemoryLogStore(clock=lambda: 42)
    store.write("x", b"")
    assert next(store.list_all()).modification_time == 42
