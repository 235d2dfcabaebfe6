"""A poke at a local table that finds nothing new: by the sensor, with and without conditions, and by the watcher.

    python -m benchmarks.poke [--commits 1000] [--pokes 500]

Prints the median and the slowest of a hundred in milliseconds, and the storage requests of one poke. "first" is the first poke
of a process, which in mode="reschedule" each one is; it does not include Airflow's part (the connection, the task's state).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.core.storage.log_store import FileStatus
from airflow_delta.watch.commit_cursor import first_cursor, poll
from airflow_delta.watch.commit_filter import CommitFilter
from airflow_delta.watch.commit_watch import CommitWatch
from airflow_delta.watch.waits import CommitWait

WANTED = CommitFilter.of(operations="MERGE", data_change_only=True)


class CountingStore(LocalLogStore):
    """A store that counts its requests."""

    requests = 0

    def exists(self, path: str) -> bool:
        """Whether the file is there."""
        self.requests += 1
        return super().exists(path)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStatus]:
        """The files from a given name on."""
        self.requests += 1
        return super().list_from(directory, start)

    def read(self, path: str) -> bytes:
        """The whole content."""
        self.requests += 1
        return super().read(path)


def make_table(root: Path, commits: int) -> CountingStore:
    """A log with the given number of commits, none of which adds a file."""
    metadata = {
        "id": "a",
        "schemaString": '{"type":"struct","fields":[]}',
        "format": {},
        "partitionColumns": [],
        "configuration": {},
    }
    first = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    (root / "_delta_log").mkdir(parents=True)
    for version in range(commits):
        actions: list[Any] = [{"commitInfo": {"timestamp": version, "operation": "WRITE"}}, *(first if version == 0 else [])]
        (root / commit_path(version)).write_text("\n".join(map(json.dumps, actions)))
    return CountingStore(str(root))


def measure(name: str, store: CountingStore, poke: Callable[[], Any], times: int) -> None:
    """Time a poke and print its line."""
    store.requests = 0
    poke()
    requests = store.requests
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        poke()
        taken.append((time.perf_counter() - started) * 1000)
    slowest = statistics.quantiles(taken, n=100)[-1]
    print(f"{name:<34} {statistics.median(taken):8.3f} ms  {slowest:8.3f} ms  {requests} request(s)")


def main() -> None:
    """Measure all kinds of pokes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=1000)
    parser.add_argument("--pokes", type=int, default=500)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="airflow-delta-") as folder:
        store = make_table(Path(folder) / "table", arguments.commits)
        head = arguments.commits - 1
        print(f"{arguments.commits} commits, {os.cpu_count()} cores{'':<14}median       1 of 100")
        for name, wait in (("any commit", CommitWait(after=head)), ("a MERGE", CommitWait(after=head, wanted=WANTED))):
            watch = CommitWatch(store, wait, thorough=False)
            measure(f"sensor, {name}", store, watch.poll, arguments.pokes)
            measure(f"sensor, {name}, first", store, lambda wait=wait: CommitWatch(store, wait).poll(), arguments.pokes)
        cursor = first_cursor(store, "latest")
        measure("watcher", store, lambda: poll(store, cursor, WANTED), arguments.pokes)


if __name__ == "__main__":
    main()
