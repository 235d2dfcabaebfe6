"""Any interleaving of transactions ends as if those that committed had run one after the other, in the order of the log.

The model is a table of rows in memory. Each statement is computed on the snapshot it read, perhaps many commits ago; when its
commit goes through, the rows it looked for must be those just before its version (of a statement that decides row by row: but
for rows that are gone since), and the files must hold exactly what the statement makes of all rows just before it. Beside that,
no two rows ever get one id, and the times of commits ascend.
"""

import json
from collections import Counter
from dataclasses import dataclass, field, replace

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from airflow_delta.core.actions import ADD_FILE, NO_ADDS, Metadata, Protocol, SetTransaction, removes_of
from airflow_delta.core.actions.file_actions import DELETION_VECTOR
from airflow_delta.core.data_files.row_bitmap import RowBitmap
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import CommitConflictError
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.optimistic_transaction import OptimisticTransaction
from airflow_delta.core.transaction.rewrite_bins import FileRewriteBin

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
FEATURES = frozenset({"deletionVectors", "rowTracking", "domainMetadata", "inCommitTimestamp", "appendOnly", "invariants"})
PROTOCOL = Protocol(
    min_reader_version=3, min_writer_version=7, reader_features=frozenset({"deletionVectors"}), writer_features=FEATURES
)


@dataclass(frozen=True)
class Statement:
    """Rows ``(day, key, value)`` with a key in ``low..high`` of one day: the outcome for them."""

    kind: str
    day: str
    low: int
    high: int

    @property
    def where(self):
        return f"day = '{self.day}' AND key >= {self.low} AND key <= {self.high}"

    @property
    def is_row_wise(self):
        return self.kind in {"erase", "raise"}

    @property
    def depends_on_matches(self):
        """Whether it must find the very rows that it looked for."""
        return self.kind in {"update", "delete", "upsert", "copy"}

    def matches(self, row):
        return row[0] == self.day and self.low <= row[1] <= self.high

    def apply(self, rows):
        """The rows after the statement, as a serial execution has it."""
        kept = [row for row in rows if not self.matches(row)]
        matched = [row for row in rows if self.matches(row)]
        match self.kind:
            case "append":
                return [*rows, (self.day, self.low, 0)]
            case "count":
                return [*rows, ("app", 0, 0)]
            case "update" | "raise":
                return kept + [(day, key, value + 1) for day, key, value in matched]
            case "delete" | "erase":
                return kept
            case "upsert":
                return kept + ([(day, key, value + 1) for day, key, value in matched] or [(self.day, self.low, 100)])
            case "copy":
                return rows + [("copy", key, value) for _, key, value in matched]
            case "overwrite":
                return [(self.day, self.low, len(rows))]
            case "optimize" | "compact" | "settings":
                return rows


KINDS = ["append", "count", "update", "delete", "upsert", "copy", "copy", "erase", "erase", "raise", "overwrite", "optimize",
         "compact", "settings"]  # fmt: skip
STATEMENT = st.builds(
    lambda kind, day, keys: Statement(kind, day, min(keys), max(keys)), st.sampled_from(KINDS), DAY, st.tuples(KEY, KEY)
)


class DeletionVectors:
    """Deletion vectors that are kept by their number."""

    def __init__(self):
        self.stored = {}

    def read(self, deletion_vectors):
        return [
            RowBitmap.from_positions(pa.array(self.of(deletion_vector), pa.int64()))
            for deletion_vector in deletion_vectors.to_pylist()
        ]

    def of(self, deletion_vector):
        return self.stored[deletion_vector["path_or_inline_dv"]] if deletion_vector else []

    def write(self, rows):
        return pa.array([self.keep(row.positions().to_pylist()) for row in rows], DELETION_VECTOR)

    def keep(self, positions):
        name = f"v{len(self.stored)}"
        self.stored[name] = sorted(positions)
        return {
            "storage_type": "u",
            "path_or_inline_dv": name,
            "offset": 1,
            "size_in_bytes": 1,
            "cardinality": len(positions),
        }


@dataclass
class Pending:
    """A statement that has read and written its files, and still has to commit."""

    statement: Statement
    transaction: OptimisticTransaction
    rows: list
    adds: pa.Table = field(default_factory=lambda: NO_ADDS)
    removes: pa.Table = field(default_factory=lambda: NO_ADDS)
    transactions: tuple = ()
    bins: list = field(default_factory=list)


class Races(RuleBasedStateMachine):
    pending = Bundle("pending")

    @initialize(partitioned=st.booleans(), checkpoint_interval=st.sampled_from(["2", "100"]))
    def create(self, partitioned, checkpoint_interval):
        self.ticks = 0
        self.log = DeltaLog(InMemoryLogStore(clock=self.clock), clock=self.clock)
        self.deletion_vectors = DeletionVectors()
        self.partition_columns = ("day",) if partitioned else ()
        self.log.create_transaction(
            Metadata(
                id="m",
                schema_string=SCHEMA,
                partition_columns=self.partition_columns,
                configuration={"delta.checkpointInterval": checkpoint_interval, "delta.enableInCommitTimestamps": "true"},
            ),
            PROTOCOL,
        ).commit(operation=Operation(name="CREATE TABLE"))
        self.contents = {}
        self.rows = []
        self.progress = 0

    def clock(self):
        self.ticks += 1
        return 1_700_000_000_000 + self.ticks % 7  # it runs backwards now and then

    def live(self, file):
        """The rows of a file (``ADD_FILE``) that are not deleted, by their position."""
        gone = self.deletion_vectors.of(file["deletion_vector"])
        return {number: row for number, row in enumerate(self.contents[file["path"]]) if number not in gone}

    def rows_of(self, files):
        return [row for file in files.to_pylist() for row in self.live(file).values()]

    @rule(target=pending, statement=STATEMENT, careful=st.booleans(), statistics=st.booleans())
    def execute(self, statement, careful, statistics):
        """Read and compute on the latest version; ``careful`` records only the files that matter beside the predicate."""
        transaction = OptimisticTransaction(
            self.log.store, self.clock, self.log.refresh(), deletion_vectors=self.deletion_vectors
        )
        planned = Pending(statement, transaction, self.rows)
        match statement.kind:
            case "append":
                planned.adds = self.write([(statement.day, statement.low, 0)], statistics)
            case "count":
                number = (transaction.transaction_version("app") or 0) + 1
                planned.adds = self.write([("app", 0, 0)], statistics)
                planned.transactions = (SetTransaction(app_id="app", version=number),)
            case "settings":
                configuration = {**transaction.metadata.configuration, "user": str(self.ticks)}
                transaction.set_metadata(replace(transaction.metadata, configuration=configuration))
            case "overwrite":
                transaction.read_whole_table()
                planned.removes = transaction.snapshot.files()
                planned.adds = self.write(statement.apply(self.rows_of(planned.removes)), statistics)
            case "optimize":
                planned.removes = transaction.files(f"day = '{statement.day}'")
                planned.adds = self.write(self.rows_of(planned.removes), statistics, data_change=False)
            case "compact":
                planned.bins = [self.bin(file, statistics) for file in self.each_file(transaction.snapshot.files())]
            case _:
                self.change(planned, careful=careful, statistics=statistics)
        return planned

    def change(self, planned, *, careful, statistics):
        """Find the rows, and rewrite their files or mark them as deleted."""
        statement, transaction = planned.statement, planned.transaction
        candidates = transaction.snapshot.files(statement.where) if careful else transaction.files(statement.where)
        is_touched = [any(map(statement.matches, self.live(file).values())) for file in candidates.to_pylist()]
        touched = candidates.filter(pa.array(is_touched, pa.bool_()))
        if careful:
            transaction.record_read(statement.where)
            transaction.record_read_files(touched["path"])
        rows = self.rows_of(touched)
        if statement.kind == "copy":
            planned.adds = self.write(statement.apply(rows)[len(rows) :], statistics)
            return
        planned.removes = touched
        if not statement.is_row_wise:
            planned.adds = self.write(statement.apply(rows), statistics)
            return
        matched = [row for row in rows if statement.matches(row)]
        marked = [self.deletion_vectors.keep(self.deleted_after(statement, file)) for file in touched.to_pylist()]
        adds = touched.set_column(7, ADD_FILE.field(7), pa.array(marked, DELETION_VECTOR))
        adds = adds.set_column(4, ADD_FILE.field(4), pa.array([True] * len(adds), pa.bool_()))
        planned.adds = pa.concat_tables([adds, self.write(statement.apply(matched), statistics)])

    def deleted_after(self, statement, file):
        matched = [number for number, row in self.live(file).items() if statement.matches(row)]
        return {*self.deletion_vectors.of(file["deletion_vector"]), *matched}

    @staticmethod
    def each_file(files):
        return [files.slice(number, 1) for number in range(len(files))]

    def bin(self, file, statistics):
        rows = self.rows_of(file)
        removes = removes_of(file, deletion_timestamp=1, data_change=False)
        return FileRewriteBin(removes=removes, adds=self.write(rows, statistics, data_change=False))

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
                    "stats": json.dumps({"numRecords": len(keys), **(bounds | nulls if statistics else {})}),
                }
            )
        return pa.Table.from_pylist(adds, schema=ADD_FILE)

    def really_matching(self, statement):
        def settle(files):
            return files.filter(
                pa.array([any(map(statement.matches, self.live(file).values())) for file in files.to_pylist()], pa.bool_())
            )

        return settle

    @rule(attempt=consumes(pending), settles=st.booleans())
    def commit(self, attempt, settles):
        latest = self.log.refresh().version
        conflict = None
        try:
            result = self.committed(attempt, settles=settles)
        except CommitConflictError as error:
            conflict = error
        if conflict:
            assert attempt.transaction.read_version < conflict.winning_version <= latest
            assert conflict.rule is not None
            assert self.log.refresh().version == latest
            return
        if result.committed:
            assert result.version == latest + 1
            if attempt.statement.depends_on_matches:
                looked_for, found = (Counter(filter(attempt.statement.matches, rows)) for rows in (attempt.rows, self.rows))
                assert looked_for == found
            self.rows = attempt.statement.apply(self.rows)
            for moved in attempt.transactions:
                self.progress += 1
                assert moved.version == self.progress
        elif not result.lost_bins:  # it changed nothing in the version it read, and takes its place right there
            assert Counter(attempt.statement.apply(attempt.rows)) == Counter(attempt.rows)

    def committed(self, attempt, *, settles):
        statement = attempt.statement
        rearranges = statement.kind in {"optimize", "compact"}
        operation = Operation(name=statement.kind.upper(), changes_data=not rearranges)
        if statement.kind == "compact":
            return attempt.transaction.commit_rewrites(attempt.bins, operation=operation)
        knows_all = statement.kind in {"update", "delete", "upsert", "copy", "erase", "raise"}
        return attempt.transaction.commit(
            adds=attempt.adds,
            removes=removes_of(attempt.removes, deletion_timestamp=1, data_change=not rearranges),
            transactions=attempt.transactions,
            operation=operation,
            row_wise=statement.is_row_wise,
            confirm_conflicting_files=self.really_matching(statement) if settles and knows_all else None,
        )

    @invariant()
    def the_files_hold_the_rows(self):
        if hasattr(self, "rows"):
            for log in (self.log, DeltaLog(self.log.store)):
                assert Counter(self.rows_of(log.refresh().files())) == Counter(self.rows)

    @invariant()
    def no_two_rows_have_one_id(self):
        if hasattr(self, "rows"):
            taken = [
                file["base_row_id"] + number
                for file in self.log.refresh().files().to_pylist()
                for number in range(len(self.contents[file["path"]]))
            ]
            assert len(taken) == len(set(taken))
            if taken:
                mark = json.loads(self.log.refresh().domains["delta.rowTracking"].configuration)["rowIdHighWaterMark"]
                assert max(taken) <= mark

    @invariant()
    def times_ascend(self):
        if hasattr(self, "rows"):
            times = [entry.timestamp for entry in self.log.history()]
            assert times == sorted(set(times), reverse=True)


Races.TestCase.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
TestRaces = Races.TestCase
