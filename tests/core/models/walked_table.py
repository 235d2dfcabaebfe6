"""A table that our core and deltalake change alternately, and a model of its content in plain Python."""

import datetime as dt
import uuid
from collections import Counter
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import groupby
from zoneinfo import ZoneInfo

import deltalake
import pyarrow as pa
import pyarrow.fs as pafs
from deltalake import DeltaTable, write_deltalake

from airflow_delta.core import DeltaLog
from airflow_delta.core.actions import ADD_FILE, Metadata, removes_of
from airflow_delta.core.data_files import DataFileWriter
from airflow_delta.core.operations.checkpoints import CheckpointKind
from airflow_delta.core.schema import physical_name, schema_json, serialize, struct_from_arrow
from airflow_delta.core.snapshot.rows import read_rows
from airflow_delta.core.table_changes import NewColumn
from airflow_delta.core.table_features.support import ROW_FEATURES
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.rewrite_bins import FileRewriteBin

UTC = ZoneInfo("UTC")
LOCAL = pafs.LocalFileSystem()
TYPES = {
    "k": pa.int64(),
    "n": pa.int32(),
    "s": pa.string(),
    "x": pa.float64(),
    "d": pa.decimal128(12, 3),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "b": pa.bool_(),
    "st": pa.struct([("a", pa.int32()), ("b", pa.string())]),
    "l": pa.list_(pa.int64()),
    "m": pa.map_(pa.string(), pa.int64()),
}
"""The columns that the table may have; it always has ``k``."""

PARTITIONS = ("n", "s", "d", "day", "at", "b")
"""The possible partition columns."""

VALUES = {
    "n": (-(2**31), 0, 7, None),
    "s": ("a", "a b%", "é/=:", "null", None),  # deltalake reads Hive's name for the default partition as null
    "x": (0.5, -1e300, float("nan"), float("inf"), None),
    "d": (Decimal("1.250"), Decimal("999999999.999"), Decimal("0.000"), None),  # deltalake writes "-1.-5" into partition values
    "day": (dt.date(1969, 12, 31), dt.date(2024, 2, 29), None),
    "at": (dt.datetime(2024, 2, 29, 1, 2, 3, 456_789, UTC), dt.datetime(1999, 12, 31, tzinfo=UTC), None),
    "b": (True, False, None),
    "st": ({"a": 1, "b": "x"}, {"a": None, "b": None}, None),
    "l": ([1, None, 3], [], None),
    "m": ([("k", 1), ("", None)], [], None),
}


@dataclass(frozen=True, kw_only=True)
class State:
    """The expected content of a version: columns and partition columns in order, rows as objects."""

    columns: tuple
    partitions: tuple
    rows: tuple

    def with_rows(self, rows):
        return replace(self, rows=tuple(rows))


class WalkedTable:
    """The table and its model; each step changes both."""

    def __init__(self, root, rng, duckdb):
        self.root, self.rng, self.duckdb = root, rng, duckdb
        self.log = DeltaLog.for_table(str(root))
        self.keys = 0
        self.state = self._drawn_state()
        if rng.random() < 0.5:
            self._create()
        else:
            self._write_theirs(mode="overwrite", partition_by=list(self.state.partitions) or None)
        self.versions = [self.state]
        self._catch_up()

    # -- what is written

    def _drawn_state(self):
        others = [name for name in TYPES if name != "k"]
        columns = ("k", *self.rng.sample(others, self.rng.randint(1, 6)))
        able = [name for name in columns if name in PARTITIONS]
        partitions = tuple(self.rng.sample(able, min(len(able), self.rng.choice((0, 1, 1, 2)))))
        return State(columns=columns, partitions=partitions, rows=self._drawn_rows(columns))

    def _drawn_rows(self, columns):
        rows = []
        for _ in range(self.rng.randint(1, 8)):
            self.keys += 1
            rows.append({"k": self.keys, **{name: self.rng.choice(VALUES[name]) for name in columns if name != "k"}})
        return tuple(rows)

    def _arrow(self, rows, columns):
        arrays = [pa.array([row.get(name) for row in rows], TYPES[name]) for name in columns]
        return pa.table(arrays, schema=pa.schema([(name, TYPES[name]) for name in columns]))

    def _adds(self, rows, schema, partitions, *, data_change=True):
        """Our data files with these rows, one or two per partition."""
        adds = []
        fields = [schema.find(name) for name in partitions]

        def values(row):
            return tuple((physical_name(field), serialize(row.get(field.name), field.type)) for field in fields)

        for partition, group in groupby(sorted(rows, key=lambda row: repr(values(row))), key=values):
            found = list(group)
            half = len(found) if not data_change else self.rng.randint(1, len(found))
            pieces = [piece for piece in (found[:half], found[half:]) if piece]
            adds += [self._added(piece, partition, schema.without(partitions), data_change) for piece in pieces]
        return pa.Table.from_pylist(adds, ADD_FILE)

    def _added(self, rows, partition, schema, data_change):
        name = f"part-{uuid.UUID(int=self.rng.getrandbits(128))} %.parquet"
        with DataFileWriter(LOCAL, str(self.root / name), schema) as writer:
            for batch in self._arrow(rows, [field.name for field in schema.fields]).to_batches():
                writer.write(batch)
        written = writer.close()
        return {
            "path": name.replace("%", "%25").replace(" ", "%20"),
            "partition_values": list(partition),
            "size": written.size,
            "modification_time": self.log.clock(),
            "data_change": data_change,
            "stats": written.stats,
        }

    def _catch_up(self):
        """Assign the model's state to the versions that the step made; deltalake and hooks may make some without new rows."""
        version = self.log.refresh().version
        self.versions += [self.state] * (version + 1 - len(self.versions))

    # -- our steps

    def _create(self):
        schema = struct_from_arrow(self._arrow((), self.state.columns).schema)
        metadata = Metadata(
            id=str(uuid.UUID(int=self.rng.getrandbits(128))),
            schema_string=schema_json(schema),
            partition_columns=self.state.partitions,
            configuration={"delta.checkpointInterval": self.rng.choice(("3", "10"))},
        )
        self.root.mkdir()
        transaction = self.log.create_transaction(metadata)
        transaction.commit(
            adds=self._adds(self.state.rows, schema, self.state.partitions), operation=Operation(name="CREATE TABLE AS SELECT")
        )

    def our_append(self):
        rows = self._drawn_rows(self.state.columns)
        adds = self._adds(rows, self.log.refresh().schema, self.state.partitions)
        self.log.start_transaction(enforces=ROW_FEATURES).commit(adds=adds, operation=Operation(name="WRITE"))
        self.state = self.state.with_rows(self.state.rows + rows)

    def our_add_column(self):
        new = self._new_columns()
        if not new:
            return self.our_append()
        fields = struct_from_arrow(pa.schema([(name, TYPES[name]) for name in new])).fields
        self.log.alter().add_columns(*(NewColumn(path=field.name, type=field.type) for field in fields))
        self.state = replace(self.state, columns=self.state.columns + new)
        self._catch_up()
        return self.our_append()

    def _new_columns(self):
        others = [name for name in TYPES if name not in self.state.columns]
        return tuple(self.rng.sample(others, min(len(others), self.rng.randint(1, 2))))

    def our_overwrite(self):
        self._overwrite(self.state.with_rows(self._drawn_rows(self.state.columns)))

    def our_repartition(self):
        self._overwrite(self._repartitioned())

    def _repartitioned(self):
        """Replace the table: other partition columns, perhaps another schema, the same rows or others."""
        drawn = self._drawn_state()
        if self.rng.random() < 0.5:
            return drawn
        able = [name for name in self.state.columns if name in PARTITIONS]
        return replace(self.state, partitions=tuple(self.rng.sample(able, self.rng.randint(0, min(2, len(able))))))

    def _overwrite(self, state):
        transaction = self.log.start_transaction(self.log.refresh(), enforces=ROW_FEATURES)
        transaction.read_whole_table()
        snapshot = transaction.snapshot
        schema = snapshot.schema
        if state.columns != self.state.columns or state.partitions != self.state.partitions:
            schema = struct_from_arrow(self._arrow((), state.columns).schema)
            metadata = replace(snapshot.metadata, schema_string=schema_json(schema), partition_columns=state.partitions)
            transaction.set_metadata(metadata)
        transaction.commit(
            adds=self._adds(state.rows, schema, state.partitions),
            removes=removes_of(snapshot.files(), deletion_timestamp=self.log.clock(), data_change=True),
            operation=Operation(name="WRITE"),
        )
        self.state = state

    def our_delete(self):
        keep = self._kept()
        transaction = self.log.start_transaction(self.log.refresh(), enforces=ROW_FEATURES)
        transaction.read_whole_table()
        snapshot = transaction.snapshot
        gone, adds = [], []
        for file, rows in self._files(snapshot):
            kept = [row for row in rows if keep(row)]
            if len(kept) < len(rows):
                gone.append(file)
                adds.append(self._adds(kept, snapshot.schema, self.state.partitions))
        if gone:
            removes = removes_of(pa.concat_tables(gone), deletion_timestamp=self.log.clock(), data_change=True)
            transaction.commit(adds=pa.concat_tables(adds), removes=removes, operation=Operation(name="DELETE"))
        self.state = self.state.with_rows(filter(keep, self.state.rows))

    def _kept(self):
        divisor, rest = self._modulus()
        return lambda row: row["k"] % divisor != rest

    def _modulus(self):
        divisor = self.rng.randint(2, 5)
        return divisor, self.rng.randrange(divisor)

    def _files(self, snapshot):
        """Each live file with its rows."""
        files = snapshot.files()
        for number in range(len(files)):
            file = files.slice(number, 1)
            rows = read_rows(
                store=self.log.store,
                files=file,
                schema=snapshot.schema,
                partition_columns=snapshot.partition_columns,
                columns=None,
                predicate=None,
            )
            yield file, rows.read_all().to_pylist()

    def our_optimize(self):
        transaction = self.log.start_transaction(self.log.refresh(), enforces=ROW_FEATURES)
        snapshot = transaction.snapshot
        bins = []
        files = sorted(self._files(snapshot), key=self._partition)
        for _, group in groupby(files, key=self._partition):
            inputs, rows = zip(*group, strict=True)
            removes = removes_of(pa.concat_tables(inputs), deletion_timestamp=self.log.clock(), data_change=False)
            rows = [row for some in rows for row in some]
            adds = self._adds(rows, snapshot.schema, self.state.partitions, data_change=False)
            bins.append(FileRewriteBin(removes=removes, adds=adds))
        transaction.commit_rewrites(bins, operation=Operation(name="OPTIMIZE", changes_data=False))

    @staticmethod
    def _partition(found):
        return repr(sorted(dict(found[0]["partition_values"][0].as_py()).items()))

    def our_checkpoint(self):
        self.log.checkpoint(kind=self.rng.choice((None, CheckpointKind.CLASSIC, CheckpointKind.MULTI_PART)))

    def our_log_compaction(self):
        self.log.compact_log()

    def our_restore(self):
        if len(self.versions) > 1:
            version = self.rng.randrange(len(self.versions) - 1)
            self.log.restore(version)
            self.state = self.versions[version]

    def our_statistics(self):
        self.log.recompute_statistics()

    def our_property(self):
        name, value = self.rng.choice(
            [
                ("delta.checkpointInterval", "2"),
                ("delta.checkpoint.writeStatsAsStruct", "true"),
                ("delta.dataSkippingNumIndexedCols", "2"),
                ("delta.dataSkippingStatsColumns", "k"),
            ]
        )
        self.log.alter().set_properties({name: value})

    # -- steps of deltalake

    @property
    def theirs(self):
        return DeltaTable(self.root)

    def _write_theirs(self, state=None, **options):
        state = state or self.state
        write_deltalake(str(self.root), self._arrow(state.rows, state.columns), **options)

    def their_append(self):
        rows = self._drawn_rows(self.state.columns)
        self._write_theirs(self.state.with_rows(rows), mode="append")
        self.state = self.state.with_rows(self.state.rows + rows)

    def their_append_with_new_columns(self):
        new = self._new_columns()
        columns = self.state.columns + new
        rows = self._drawn_rows(columns)
        self._write_theirs(State(columns=columns, partitions=(), rows=rows), mode="append", schema_mode="merge")
        self.state = replace(self.state, columns=columns, rows=self.state.rows + rows)

    def their_overwrite(self):
        self.state = self.state.with_rows(self._drawn_rows(self.state.columns))
        self._write_theirs(mode="overwrite")

    def their_repartition(self):
        self.state = self._repartitioned()
        partitions = list(self.state.partitions)
        self._write_theirs(mode="overwrite", schema_mode="overwrite", partition_by=partitions)

    def their_replacement(self):
        divisor, rest = self._modulus()
        rows = [row for row in self._drawn_rows(self.state.columns) if row["k"] % divisor == rest]
        self._write_theirs(self.state.with_rows(rows), mode="overwrite", predicate=f"k % {divisor} = {rest}")
        self.state = self.state.with_rows([*(row for row in self.state.rows if row["k"] % divisor != rest), *rows])

    def their_delete(self):
        divisor, rest = self._modulus()
        self.theirs.delete(f"k % {divisor} = {rest}")
        self.state = self.state.with_rows(row for row in self.state.rows if row["k"] % divisor != rest)

    def their_update(self):
        divisor, rest = self._modulus()
        able = [name for name in ("n", "s") if name in self.state.columns]
        if not able:
            return
        name = self.rng.choice(able)
        value, sql = {"n": (5, "5"), "s": ("it's", "'it''s'")}[name]
        self.theirs.update(updates={name: sql}, predicate=f"k % {divisor} = {rest}")
        rows = ({**row, name: value} if row["k"] % divisor == rest else row for row in self.state.rows)
        self.state = self.state.with_rows(rows)

    def their_merge(self):
        known = [row["k"] for row in self.state.rows]
        keys = self.rng.sample(known, min(3, len(known)))
        source = {row["k"]: row for row in self._drawn_rows(self.state.columns)}
        source |= {key: {**row, "k": key} for key, row in zip(keys, self._drawn_rows(self.state.columns), strict=False)}
        merger = self.theirs.merge(
            self._arrow(source.values(), self.state.columns), "t.k = s.k", source_alias="s", target_alias="t"
        )
        merger.when_matched_update_all().when_not_matched_insert_all().execute()
        kept = [source.get(row["k"], row) for row in self.state.rows]
        new = [row for key, row in source.items() if key not in known]
        self.state = self.state.with_rows([*kept, *new])

    def their_compaction(self):
        self.theirs.optimize.compact()

    def their_z_order(self):
        self.theirs.optimize.z_order(["k"])

    def their_checkpoint(self):
        """A checkpoint, unless ours in parts exists: deltalake's hint names its own, and Delta Kernel picks either."""
        if list((self.root / "_delta_log").glob(f"{self.theirs.version():020d}.checkpoint.*.*.parquet")):
            self.their_append()
        self.theirs.create_checkpoint()

    def their_log_compaction(self):
        if (version := self.theirs.version()) > 0:
            self.theirs.compact_logs(0, version)

    def their_restore(self):
        if len(self.versions) > 1:
            version = self.rng.randrange(len(self.versions) - 1)
            self.theirs.restore(version)
            self.state = self.versions[version]

    def their_vacuum(self):
        self.theirs.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False)

    # -- the steps, and what is checked after each

    @classmethod
    def steps(cls):
        """The names of all steps."""
        return sorted(name for name in vars(cls) if name.startswith(("our_", "their_")))

    def walk(self, name):
        """Take the step."""
        getattr(self, name)()
        self._catch_up()

    def check(self):
        """Check that every engine sees the model's rows: all of them, and those from some key on."""
        least = self.rng.randint(0, self.keys)
        for wanted, where in ((self.state, None), (self._from_key(self.state, least), f"k >= {least}")):
            for name, read in self._readers().items():
                found = read(where)
                check_equal(found, wanted, f"{name}, {where}")
        version = self.rng.randrange(len(self.versions))
        former = self.versions[version]
        ours = DeltaLog.for_table(str(self.root)).snapshot(version).to_arrow().read_all()
        check_equal(ours, former, f"a new log, version {version}")

    @staticmethod
    def _from_key(state, least):
        return state.with_rows(row for row in state.rows if row["k"] >= least)

    def _readers(self):
        return {
            "the log that goes on": lambda where: self.log.refresh().to_arrow(where=where).read_all(),
            "a new log": lambda where: DeltaLog.for_table(str(self.root)).snapshot().to_arrow(where=where).read_all(),
            "deltalake": self._read_theirs,
            "duckdb": self._read_duckdb,
        }

    def _read_theirs(self, where):
        query = deltalake.QueryBuilder().register("t", self.theirs)
        return pa.table(query.execute(f"SELECT * FROM t{f' WHERE {where}' if where else ''}").read_all())

    def _read_duckdb(self, where):
        scan = f"SELECT * FROM delta_scan('{self.root}'){f' WHERE {where}' if where else ''}"
        return self.duckdb.sql(scan).to_arrow_table()


def check_equal(table, state, reader):
    """Raise ``AssertionError`` if a reader found columns or rows other than the model's."""
    if set(table.column_names) != set(state.columns):
        raise AssertionError(f"{reader}: found the columns {table.column_names}, expected {state.columns}")
    found = Counter(map(repr, zip(*(table[name].to_pylist() for name in state.columns), strict=True)))
    expected = Counter(repr(tuple(row.get(name) for name in state.columns)) for row in state.rows)
    if found != expected:
        raise AssertionError(f"{reader}: found {list(found - expected)}, expected {list(expected - found)}")
