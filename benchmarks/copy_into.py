"""COPY INTO's search for new files among a million known ones: reading the table's list of loaded files, listing, joining.

    python -m benchmarks.copy_into [--files 1000000] [--new 1000] [--look-back 10000] [--directory /dev/shm]

The files exist on the local disk (one byte each, in folders of a thousand); the table has loaded all but the new ones, a
thousand at a time. Prints seconds, CPU seconds and the peak memory of the process so far: for the whole search with a full
listing, for one that lists from the last known files on, and for its parts. Needs no Spark.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from airflow_delta.core.actions import SetTransaction
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.operations.loaded_files import (
    APP_ID,
    LOADED_FILE,
    LoadedFiles,
    read_loaded_files,
    write_loaded_files,
)
from airflow_delta.core.operations.new_files import FileChoice, NewFiles, find_new_files
from airflow_delta.core.operations.vacuum_candidates import list_files_below_root
from airflow_delta.core.schema.schema_json import parse_schema
from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.core.storage.place import Place
from airflow_delta.core.table_changes import NewTable
from airflow_delta.core.transaction.operation import Operation

FOLDER = 1_000
SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'

Found = TypeVar("Found")


def make_files(root: Path, files: int) -> None:
    """Make files of one byte (COPY INTO does not load empty ones yet), in folders with ascending names."""
    for start in range(0, files, FOLDER):
        folder = root / f"2026/{start // FOLDER:06d}"
        folder.mkdir(parents=True)
        names = [
            f"part-{number:09d}-0a1b2c3d-4e5f-6789-abcd-ef0123456789.csv" for number in range(start, min(start + FOLDER, files))
        ]
        (folder / names[0]).write_bytes(b"\n")
        for name in names[1:]:
            os.link(folder / names[0], folder / name)


def remember(log: DeltaLog, known: pa.Table) -> int:
    """Record the files as loaded, a thousand at a time; returns the number of parts of the record."""
    loaded = LoadedFiles()
    for start in range(0, len(known), FOLDER):
        loaded = write_loaded_files(log.store, loaded, known.slice(start, FOLDER))
    if loaded.head is not None:
        transaction = log.start_transaction()
        transaction.commit(
            transactions=[SetTransaction(app_id=APP_ID, version=loaded.head)],
            operation=Operation(name="COPY INTO", parameters={}),
        )
    return len(loaded.parts)


def measured(name: str, work: Callable[[], Found]) -> Found:
    """Print one line."""
    began, cpu = time.monotonic(), time.process_time()
    found = work()
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name:44} {seconds:7.2f} s {cpu:7.2f} s CPU {peak:7.0f} MiB", flush=True)
    return found


def main() -> None:
    """Make the table and files, and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--new", type=int, default=1_000)
    parser.add_argument("--look-back", type=int, default=10_000)
    parser.add_argument("--directory", help="where files and table are made; default: the system's for temporary files")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        source = Path(directory) / "in"
        make_files(source, arguments.files)
        store = LocalLogStore(str(source))
        place = Place.from_uri(str(source))
        root = f"{place.volume}{place.path}"
        log = DeltaLog.for_table(f"{directory}/table")
        log.create(NewTable(schema=parse_schema(SCHEMA)))
        everything = list_files_below_root(store).sort_by("path")
        found = NewFiles(root=root, files=everything, known=0, changed=0, waiting=0).loaded_at(0)
        parts = remember(log, found.slice(0, arguments.files - arguments.new).cast(LOADED_FILE))
        size = sum(status.size for status in log.store.list_all("_airflow_delta"))
        del everything, found
        print(f"{arguments.files - arguments.new:,} known files in {parts} parts; {size / 1e6:.1f} MB with what is to be swept")

        def look(look_back: int | None = None) -> NewFiles:
            snapshot = DeltaLog.for_table(log.table_uri).snapshot()
            return find_new_files(store, root, read_loaded_files(log.store, snapshot), FileChoice(look_back=look_back))

        for _ in range(3):
            whole = measured("the look, everything listed", look)
            late = measured(f"the look, from the last {arguments.look_back:,} on", lambda: look(arguments.look_back))
            assert len(whole.files) == len(late.files) == arguments.new
        loaded = measured("  what is remembered", lambda: read_loaded_files(log.store, log.refresh()))
        listed = measured("  the listing of everything", lambda: list_files_below_root(store))
        places = NewFiles(root=root, files=listed, known=0, changed=0, waiting=0).places
        measured("  the join", lambda: loaded.positions(places))


if __name__ == "__main__":
    main()
