"""Any interleaving of transactions ends as if those that committed had run one after the other, in the order of the log.

The model is a table of rows in memory. Each statement is computed on the snapshot it read, perhaps many commits ago; when its
commit goes through, the files must hold exactly what the statement makes of the rows just before it.
"""

import json
from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from airflow_delta.core.actions import ADD_FILE, NO_ADDS, Metadata, removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import CommitConflictError
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.optimistic_transaction import OptimisticTransaction

DAYS = "ab"
KEYS = range(3)
DAY, KEY = st.sampled_from(DAYS), st.sampled_from(KEYS)
SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in
                   {"day": "string", "key": "long", "value": "long"}.items()],
    }
)  # fmt: skip


@dataclass(frozen=True)
class Statement:
    """Rows ``(day, key, value)`` with a key in ``low..high`` of one day: what becomes of them."""

    kind: str
    day: str
    low: int
    high: int

    @property
    def where(self):
        return f"day = '{self.day}' AND key >= {self.low} AND key <= {self.high}"

    def matches(self, row):
        return row[0] == self.day and self.low <= row[1] <= self.high

    def apply(self, rows):
        """The rows after the statement, as a serial execution has it."""
        kept = [row for row in rows if not self.matches(row)]
        matched = [row for row in rows if self.matches(row)]
        match self.kind:
            case "append":
                return [*rows, (self.day, self.low, 0)]
            case "update":
                return kept + [(day, key, value + 1) for day, key, value in matched]
            case "delete":
                return kept
            case "upsert":
                return kept + ([(day, key, value + 1) for day, key, value in matched] or [(self.day, self.low, 100)])
            case "copy":
                return rows + [("copy", key, value) for _, key, value in matched]
            case "overwrite":
                return [(self.day, self.low, len(rows))]
            case "optimize":
                return rows


KINDS = ["append", "update", "delete", "upsert", "copy", "copy", "overwrite", "optimize"]
STATEMENT = st.builds(
    lambda kind, day, keys: Statement(kind, day, min(keys), max(keys)), st.sampled_from(KINDS), DAY, st.tuples(KEY, KEY)
)


@dataclass
class Pending:
    """A statement that has read and written its files, and still has to commit."""

    statement: Statement
    transaction: OptimisticTransaction
    adds: pa.Table
    removes: pa.Table
    rows: list


class Races(RuleBasedStateMachine):
    pending = Bundle("pending")

    @initialize(partitioned=st.booleans(), checkpoint_interval=st.sampled_from(["2", "100"]))
    def create(self, partitioned, checkpoint_interval):
        self.ticks = 0
        self.log = DeltaLog(InMemoryLogStore(clock=self.clock), clock=self.clock)
        self.partition_columns = ("day",) if partitioned else ()
        self.log.create_transaction(
            Metadata(
                id="m",
                schema_string=SCHEMA,
                partition_columns=self.partition_columns,
                configuration={"delta.checkpointInterval": checkpoint_interval},
            )
        ).commit(operation=Operation(name="CREATE TABLE"))
        self.contents = {}
        self.rows = []

    def clock(self):
        self.ticks += 1
        return 1_700_000_000_000 + self.ticks

    @rule(target=pending, statement=STATEMENT, careful=st.booleans(), statistics=st.booleans())
    def execute(self, statement, careful, statistics):
        """Read and compute on the latest version; ``careful`` records only the files that matter beside the predicate."""
        transaction, now = self.log.start_transaction(), self.rows
        if statement.kind == "append":
            return Pending(statement, transaction, self.write([(statement.day, statement.low, 0)], statistics), NO_ADDS, now)
        if statement.kind == "overwrite":
            transaction.read_whole_table()
            files = transaction.snapshot.files()
            rows = [row for path in files["path"].to_pylist() for row in self.contents[path]]
            return Pending(statement, transaction, self.write(statement.apply(rows), statistics), files, now)
        if statement.kind == "optimize":
            files = transaction.files(f"day = '{statement.day}'")
            rows = [row for path in files["path"].to_pylist() for row in self.contents[path]]
            return Pending(statement, transaction, self.write(rows, statistics, data_change=False), files, now)
        candidates = transaction.snapshot.files(statement.where) if careful else transaction.files(statement.where)
        touched = candidates.filter(
            pa.array([any(map(statement.matches, self.contents[path])) for path in candidates["path"].to_pylist()], pa.bool_())
        )
        if careful:
            transaction.record_read(statement.where)
            transaction.record_read_files(touched["path"])
        rows = [row for path in touched["path"].to_pylist() for row in self.contents[path]]
        if statement.kind == "copy":
            return Pending(statement, transaction, self.write(statement.apply(rows)[len(rows) :], statistics), NO_ADDS, now)
        return Pending(statement, transaction, self.write(statement.apply(rows), statistics), touched, now)

    def write(self, rows, statistics, *, data_change=True):
        """One file for each day."""
        adds = []
        for day in sorted({row[0] for row in rows}):
            path = f"f{len(self.contents)}"
            self.contents[path] = [row for row in rows if row[0] == day]
            keys = [row[1] for row in self.contents[path]]
            bounds = {"minValues": {"day": day, "key": min(keys)}, "maxValues": {"day": day, "key": max(keys)}}
            nulls = {"nullCount": {"day": 0, "key": 0}}
            adds.append(
                {
                    "path": path,
                    "partition_values": [(name, day) for name in self.partition_columns],
                    "size": 1,
                    "modification_time": 1,
                    "data_change": data_change,
                    "stats": json.dumps({"numRecords": len(keys), **bounds, **nulls}) if statistics else None,
                }
            )
        return pa.Table.from_pylist(adds, schema=ADD_FILE)

    @rule(each=consumes(pending))
    def commit(self, each):
        data_change = each.statement.kind != "optimize"
        removes = removes_of(each.removes, deletion_timestamp=self.clock(), data_change=data_change)
        latest = self.log.refresh().version
        operation = Operation(name=each.statement.kind.upper(), changes_data=data_change)
        conflict = None
        try:
            result = each.transaction.commit(adds=each.adds, removes=removes, operation=operation)
        except CommitConflictError as error:
            conflict = error
        if conflict:
            assert each.transaction.read_version < conflict.winning_version <= latest
            assert self.log.refresh().version == latest
            return
        if result.committed:
            assert result.version == latest + 1
            self.rows = each.statement.apply(self.rows)
        else:  # it changed nothing in the version it read, and takes its place right there
            assert Counter(each.statement.apply(each.rows)) == Counter(each.rows)

    @invariant()
    def the_files_hold_the_rows(self):
        if hasattr(self, "rows"):
            for log in (self.log, DeltaLog(self.log.store)):
                files = log.refresh().files()["path"].to_pylist()
                assert Counter(row for path in files for row in self.contents[path]) == Counter(self.rows)


Races.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestRaces = Races.TestCase
