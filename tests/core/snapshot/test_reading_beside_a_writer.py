"""A reader in the way of a writer of another process."""

import json
import multiprocessing
import time

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_delta.core import DeltaLog
from airflow_delta.core.log.file_names import LAST_CHECKPOINT, checkpoint_path, commit_path
from airflow_delta.core.storage.local_log_store import LocalLogStore
from tests.core.builders import CHECKPOINT, add, metadata, protocol

VERSIONS = 300


def _write(root):
    store = LocalLogStore(root)
    for version in range(1, VERSIONS + 1):
        store.write_if_absent(commit_path(version), json.dumps(add(f"f{version}")).encode())
        if version % 40 == 0:
            actions = [protocol(), metadata(), *(add(f"f{number}") for number in range(1, version + 1))]
            with store.open_output(checkpoint_path(version)) as stream:
                pq.write_table(pa.Table.from_pylist(actions, CHECKPOINT), stream)
            store.write(LAST_CHECKPOINT, json.dumps({"version": version, "size": len(actions)}).encode())


def test_every_version_that_is_seen_is_whole_and_none_goes_back(tmp_path):
    root = str(tmp_path / "table")
    first = "\n".join(map(json.dumps, [protocol(), metadata()])).encode()
    LocalLogStore(root).write_if_absent(commit_path(0), first)
    writer = multiprocessing.get_context("spawn").Process(target=_write, args=(root,))
    writer.start()
    followed, last, seen = DeltaLog.for_table(root), 0, set()
    deadline = time.monotonic() + 60
    while last < VERSIONS and time.monotonic() < deadline:
        anew = DeltaLog.for_table(root).snapshot()
        refreshed = followed.refresh()
        for snapshot in (anew, refreshed):
            assert sorted(snapshot.files()["path"].to_pylist()) == sorted(
                f"f{number}" for number in range(1, snapshot.version + 1)
            )
        assert refreshed.version >= max(last, anew.version)
        last = refreshed.version
        seen.add(last)
    writer.join()
    assert last == VERSIONS
    assert len(seen) > 1
