"""Generated tables without data files. The peer wrote their checkpoints, so that ours have no advantage of a tuned layout."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq
from deltalake import DeltaTable

from benchmarks.log_core.case import Size

COMMITS_AFTER_CHECKPOINT = 10
FILES_OF_COMMIT = 100
PARTITION = "day"
"""The one partition column of every table."""

COMMITS = 100
"""Number of commits that the case of a single commit times together."""

_FILES_OF_FIRST_COMMITS = 100_000
_STRIDE = 7919  # a prime: neighbors in the log are in different partitions
_COLUMNS = {PARTITION: "string", "id": "long", "value": "double", "name": "string"}
SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in _COLUMNS.items()],
    }
)
"""The schema of every table, as in the log."""


def partition_value(number: int) -> str:
    """The value of a partition."""
    return f"p{number:07d}"


def large_table(directory: Path, size: Size) -> Path:
    """A checkpoint, then ten commits of 100 files each; a partition has 1,000 files."""
    return _checkpointed(directory / "large", size.files, max(1, size.files // 1000))


def table_of_many_partitions(directory: Path, size: Size) -> Path:
    """A checkpoint, then ten commits of 100 files each; as many partitions as files in the checkpoint."""
    return _checkpointed(directory / "many-partitions", size.files, size.files)


def table_of_many_commits(directory: Path, size: Size) -> Path:
    """One file in each commit, and no checkpoint."""
    table = directory / "many-commits"
    if not table.exists():
        for version in range(size.commits):
            _commit(table, version, [version], partitions=100, operation="WRITE")
    return table


def version_of_table(table: Path) -> int:
    """The last version of a table as it was made."""
    return int((table / "next").read_text()) - 1


def checkpoint_rows(table: Path) -> list[int]:
    """Number of rows in the checkpoint of that version, and the version in ``_last_checkpoint``."""
    log = table / "_delta_log"
    rows = pq.read_metadata(log / f"{version_of_table(table):020d}.checkpoint.parquet").num_rows
    return [rows, json.loads((log / "_last_checkpoint").read_text())["version"]]


def next_commit(table: Path) -> Path:
    """Path of the first commit after those that a table was made with."""
    return table / "_delta_log" / f"{int((table / 'next').read_text()):020d}.json"


def add_next_commit(table: Path) -> None:
    """Commit one more file; ``remove_next_commit`` undoes it."""
    number = int((table / "next").read_text())
    next_commit(table).write_text(_add(10**9 + number, 100))


def remove_next_commit(table: Path) -> None:
    """Restore the table to what it was when made."""
    next_commit(table).unlink(missing_ok=True)


def _checkpointed(table: Path, files: int, partitions: int) -> Path:
    if not table.exists():
        starts = range(0, files, _FILES_OF_FIRST_COMMITS)
        for version, start in enumerate(starts):
            _commit(table, version, range(start, min(start + _FILES_OF_FIRST_COMMITS, files)), partitions)
        DeltaTable(table).create_checkpoint()
        for number in range(COMMITS_AFTER_CHECKPOINT):
            start = files + number * FILES_OF_COMMIT
            _commit(table, len(starts) + number, range(start, start + FILES_OF_COMMIT), partitions)
    return table


def _commit(table: Path, version: int, numbers: Iterable[int], partitions: int, operation: str | None = None) -> None:
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    with (log / f"{version:020d}.json").open("w") as file:
        if operation:
            file.write(_commit_info(version, operation))
        if version == 0:
            file.write(_protocol_and_metadata())
        file.writelines(_add(number, partitions) for number in numbers)
    (table / "next").write_text(str(version + 1))


def _commit_info(version: int, operation: str) -> str:
    metrics = {"numFiles": "1", "numOutputRows": "1000", "numOutputBytes": "100000"}
    info = {"timestamp": version, "operation": operation, "readVersion": version - 1, "operationMetrics": metrics}
    return json.dumps({"commitInfo": info}) + "\n"


def _protocol_and_metadata() -> str:
    metadata = {
        "id": "benchmark",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": SCHEMA,
        "partitionColumns": [PARTITION],
        "configuration": {},
        "createdTime": 0,
    }
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    return f"{json.dumps({'protocol': protocol})}\n{json.dumps({'metaData': metadata})}\n"


def stats(number: int) -> str:
    """The statistics of a file."""
    return (
        f'{{"numRecords":{1000 + number % 977}'
        f',"minValues":{{"id":{number * 1000},"value":{number / 7:.3f},"name":"a{number % 100}"}}'
        f',"maxValues":{{"id":{number * 1000 + 999},"value":{number / 7 + 5:.3f},"name":"z{number % 100}"}}'
        f',"nullCount":{{"id":0,"value":{number % 3},"name":0}}}}'
    )


def _add(number: int, partitions: int) -> str:
    """A log line, formatted by hand for speed: there are millions."""
    name, day = hashlib.md5(b"%d" % number, usedforsecurity=False).hexdigest(), partition_value(number * _STRIDE % partitions)
    quoted = stats(number).replace('"', '\\"')
    return (
        f'{{"add":{{"path":"{PARTITION}={day}/part-00000-{name[:8]}-{name[8:12]}-{name[12:16]}-{name[16:20]}-{name[20:]}'
        f'-c000.snappy.parquet","partitionValues":{{"{PARTITION}":"{day}"}},"size":{100_000 + number % 50_000}'
        f',"modificationTime":1700000000000,"dataChange":true,"stats":"{quoted}"}}}}\n'
    )
