import json

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import StorageUnavailableError
from airflow_delta.core.log.json_checksum import json_checksum
from airflow_delta.core.log.last_checkpoint import hinted_version
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore

HINT = {"version": 5, "size": 3, "v2Checkpoint": {"path": "x.json", "sidecarFiles": [], "nonFileActions": []}}


def hinted(content):
    store = InMemoryLogStore("memory://t")
    store.write("_delta_log/_last_checkpoint", content)
    return hinted_version(store)


def test_a_hint_with_its_checksum_is_followed():
    assert hinted(json.dumps({**HINT, "checksum": json_checksum(HINT)}).encode()) == 5
    assert hinted(json.dumps(HINT).encode()) == 5


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({**HINT, "checksum": json_checksum({**HINT, "version": 4})}).encode(),
        json.dumps({**HINT, "checksum": 7}).encode(),
        b'{"version":4,"version":5}',
        b'{"version":true}',
        b'{"version":"5"}',
        b'{"version":-1}',
        b'{"version":5.0}',
        b"[5]",
        b"5",
        b"",
        b'{"version":5',
        b'{"version":5,"a":"\xff"}',
        b'{"version":5,"checksum":"x","a":"\\ud800"}',
        b"[" * 100_000,
    ],
)
def test_a_hint_that_is_not_what_was_written_is_none(content):
    assert hinted(content) is None


def test_a_storage_without_an_answer_for_the_hint_is_not_waited_for_once_more_in_a_listing():
    class Away(InMemoryLogStore):
        def read(self, path):
            raise StorageUnavailableError(uri=self.table_uri, detail=path)

        def list_from(self, directory, start=""):
            raise AssertionError("listed")

    with pytest.raises(StorageUnavailableError):
        DeltaLog(Away("memory://t")).snapshot()
