"""Writing the log with our core."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from airflow_delta.core import DeltaLog
from airflow_delta.core.actions import ADD_FILE, Metadata
from airflow_delta.core.transaction.operation import Operation
from benchmarks.log_core.tables import COMMITS, SCHEMA, checkpoint_rows, stats

_WARM_UP = 20


def write_checkpoint(table: str) -> Callable[[], list[int]]:
    """The checkpoint of a table that is already open; our core reads the file actions lazily, so that is timed, too."""
    log = DeltaLog.for_table(table)
    log.refresh()

    def work() -> list[int]:
        log.checkpoint()
        return checkpoint_rows(Path(table))

    return work


def commit_one_add(directory: str) -> Callable[[], list[int]]:
    """A commit to each of many new tables, including the version checksum; the transactions are already started."""
    write = Operation(name="WRITE")
    transactions = []
    for number in range(_WARM_UP + COMMITS):
        log = DeltaLog.for_table(f"{directory}/{number}")
        metadata = Metadata(id="benchmark", schema_string=SCHEMA, partition_columns=("day",))
        log.create_transaction(metadata).commit(operation=write)
        transactions.append(log.start_transaction())
    adds = [_add(number) for number in range(_WARM_UP + COMMITS)]
    for number in range(_WARM_UP):
        transactions[number].commit(adds=adds[number], operation=write)

    def work() -> list[int]:
        for number in range(_WARM_UP, _WARM_UP + COMMITS):
            transactions[number].commit(adds=adds[number], operation=write)
        return [sum(1 for _ in Path(directory).glob(f"*/_delta_log/{1:020d}.json")) - _WARM_UP]

    return work


def _add(number: int) -> pa.Table:
    row = {
        "path": f"day=p/part-00000-{number:032x}-c000.snappy.parquet",
        "partition_values": [("day", "p")],
        "size": 100_000 + number,
        "modification_time": 1_700_000_000_000,
        "data_change": True,
        "stats": stats(number),
    }
    return pa.Table.from_pylist([row], schema=ADD_FILE)
