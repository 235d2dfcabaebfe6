"""A process that runs statements on a shared table: ``python -m tests.core.serial.worker ORDER``; its commits record its reads.

The order is JSON: ``uri``, ``options``, ``seed``, ``writer``, ``statements``, ``go`` (a file whose creation starts the work).
Rows are ``(p, key, value)``; the table is partitioned by ``p``. The process prints the version of each commit.
"""

import io
import json
import sys
import time
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_delta.core.actions import ADD_FILE, NO_ADDS, Origin, removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import CommitConflictError
from airflow_delta.core.transaction.operation import Operation

PARTITIONS, KEYS = ("a", "b"), 20
KINDS = ("append", "append", "update", "update", "upsert", "delete", "copy", "compact", "compact", "checkpoint", "compact log")


def rows_of(store, path, p):
    """The rows of a data file."""
    with store.open_input(path) as stream:
        table = pq.read_table(io.BytesIO(stream.read()))
    return [(p, row["key"], row["value"]) for row in table.to_pylist()]


def matches(where, row):
    p, low, high = where
    return row[0] == p and low <= row[1] <= high


class Worker:
    def __init__(self, order):
        self.log = DeltaLog.for_table(order["uri"], order["options"])
        self.random = Random(f"{order['seed']}/{order['writer']}")
        self.writer = order["writer"]
        self.files = 0

    def run(self, statements):
        for number in range(statements):
            kind = self.random.choice(KINDS)
            if kind == "checkpoint":
                self.log.checkpoint()
            elif kind == "compact log":
                self.log.compact_log()
            else:
                self.statement(kind, number)

    def statement(self, kind, number):
        """Retry from the start until no concurrent commit conflicts."""
        where = self.random.choice(PARTITIONS), *sorted(self.random.choices(range(KEYS), k=2))
        is_careful = self.random.random() < 0.5
        while True:
            try:
                version = self.attempt(kind, where, (where[0], where[1], self.writer * 1000 + number), is_careful=is_careful)
            except CommitConflictError:
                continue
            if version is not None:
                report(version)
            return

    def attempt(self, kind, where, row, *, is_careful):
        transaction = self.log.start_transaction()
        if kind == "append":
            return self.commit(transaction, kind, None, [], [], [row])
        if kind == "compact":
            files = transaction.files(f"p = '{where[0]}'")
            if len(files) < 2:
                return None
            files = files.slice(0, self.random.choice([2, 3, len(files)]))
            rows = self.rows(files)
            return self.commit(transaction, kind, None, files, rows, rows)
        candidates, matched = self.read(transaction, where, is_careful=is_careful)
        old = self.rows(candidates)
        match kind:
            case "update":
                new = [
                    (p, key, value + 1_000_000) if matches(where, (p, key, value)) else (p, key, value) for p, key, value in old
                ]
            case "upsert":
                new = [
                    (p, key, value + 1_000_000) if matches(where, (p, key, value)) else (p, key, value) for p, key, value in old
                ]
                new += [] if matched else [row]
            case "delete":
                new = [row for row in old if not matches(where, row)]
            case _:  # copies what it read, removes nothing
                candidates, old, new = candidates.slice(0, 0), [], [(row[0], row[1], len(matched))]
        return self.commit(transaction, kind, where, candidates, old, new, read=matched)

    def read(self, transaction, where, *, is_careful):
        """The files with rows to be changed, and these rows; reads are recorded whole, or as predicate and relevant files."""
        text = f"p = '{where[0]}' AND key >= {where[1]} AND key <= {where[2]}"
        files = transaction.snapshot.files(text) if is_careful else transaction.files(text)
        holds = [any(matches(where, row) for row in self.rows(files.slice(at, 1))) for at in range(len(files))]
        files = files.filter(pa.array(holds, pa.bool_()))
        if is_careful:
            transaction.record_read(text)
            transaction.record_read_files(files["path"])
        return files, [row for row in self.rows(files) if matches(where, row)]

    def rows(self, files):
        found = []
        for path, values in zip(files["path"].to_pylist(), files["partition_values"].to_pylist(), strict=True):
            found += rows_of(self.log.store, path, dict(values)["p"])
        return found

    def commit(self, transaction, kind, where, files, old, new, read=()):
        is_change = kind != "compact"
        adds = self.write(new, data_change=is_change) if new else NO_ADDS
        if not len(files) and not len(adds):
            return None
        gone = removes_of(files if len(files) else NO_ADDS, deletion_timestamp=self.log.clock(), data_change=is_change)
        record = {"kind": kind, "where": where, "read": read, "old": old, "new": new}
        result = transaction.commit(
            adds=adds,
            removes=gone,
            operation=Operation(name=kind.upper(), changes_data=is_change),
            origin=Origin(user_metadata=json.dumps(record)),
        )
        return result.version

    def write(self, rows, *, data_change):
        """Write one file per partition."""
        adds = []
        for p in sorted({row[0] for row in rows}):
            table = pa.table(
                {
                    name: pa.array([row[at] for row in rows if row[0] == p], pa.int64())
                    for at, name in ((1, "key"), (2, "value"))
                }
            )
            path = f"p={p}/part-{self.writer}-{self.files}.parquet"
            self.files += 1
            with self.log.store.open_output(path) as stream:
                pq.write_table(table, stream)
            bounds = pc.min_max(table["key"]).as_py()
            stats = {"numRecords": len(table), "minValues": {"key": bounds["min"]}, "maxValues": {"key": bounds["max"]}}
            adds.append(
                {
                    "path": path,
                    "partition_values": [("p", p)],
                    "size": 1,
                    "modification_time": 1,
                    "data_change": data_change,
                    "stats": json.dumps({**stats, "nullCount": {"key": 0}}),
                }
            )
        return pa.Table.from_pylist(adds, schema=ADD_FILE)


def report(what):
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def main(order):
    worker = Worker(order)
    report("ready")
    while not Path(order["go"]).exists():
        time.sleep(0.01)
    worker.run(order["statements"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
