"""The rows of a table whose columns change between writes: against a model, and as other engines read them."""

import deltalake
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_delta.core.actions import ADD_FILE
from airflow_delta.core.data_files import DataFileWriter
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidTableChangeError
from airflow_delta.core.schema import ArrayType, StructField, StructType, arrow_schema, parse_schema, physical_name
from airflow_delta.core.schema.data_types import BYTE, DATE, DOUBLE, FLOAT, INTEGER, LONG, SHORT, STRING, TIMESTAMP_NTZ
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.table_changes import FIRST, NewColumn, NewTable, after, generated, identity, with_default
from airflow_delta.core.table_features.support import ROW_FEATURES
from airflow_delta.core.transaction.operation import Operation

MAPPED = {"delta.columnMapping.mode": "name"}
WIDENING = {"delta.enableTypeWidening": "true"}
TYPES = {"short": SHORT, "integer": INTEGER, "float": FLOAT, "string": STRING, "list": ArrayType(SHORT)}
WIDER = {SHORT: [INTEGER, LONG, DOUBLE], INTEGER: [LONG, DOUBLE], FLOAT: [DOUBLE]}
VALUES = {
    "short": st.integers(-100, 100),
    "integer": st.integers(-100, 100),
    "long": st.integers(-100, 100),
    "float": st.integers(-100, 100).map(float),
    "double": st.integers(-100, 100).map(float),
    "string": st.sampled_from(["", "a", "é"]),
}
NAMES = ["a", "B", "c d", "é", "x.y", "p"]
WRITE = Operation(name="WRITE")


def write(log, rows):
    """Appends the rows, in one file for each value of the partition column if there is one."""
    snapshot = log.refresh()
    schema = parse_schema(snapshot.schema_string)
    keys = snapshot.partition_columns
    filesystem, root = snapshot.store.data_filesystem()
    columns = StructType(tuple(field for field in schema.fields if field.name not in keys))
    adds = []
    for value in sorted({tuple(row[key] for key in keys) for row in rows}, key=repr):
        path = f"{snapshot.version}-{len(adds)}.parquet"
        with DataFileWriter(filesystem, f"{root}/{path}" if root else path, columns) as writer:
            chosen = [row for row in rows if tuple(row[key] for key in keys) == value]
            writer.write(pa.RecordBatch.from_pylist(chosen, schema=arrow_schema(columns)))
        written = writer.close()
        values = [(physical_name(schema.find(key)), member) for key, member in zip(keys, value, strict=True)]
        row = {"path": path, "partition_values": values, "size": written.size, "modification_time": 0, "data_change": True}
        adds.append({**row, "stats": written.stats})
    transaction = log.start_transaction(enforces=ROW_FEATURES)
    transaction.commit(adds=pa.Table.from_pylist(adds, schema=ADD_FILE), operation=WRITE)


def in_order(rows):
    return sorted(repr(sorted(row.items())) for row in rows)


def values_of(kind):
    values = st.lists(VALUES["short"], max_size=2) if isinstance(kind, ArrayType) else VALUES[kind.name]
    return st.none() | values


class Model:
    """What the rows must be, whatever files say."""

    def __init__(self, data, log):
        self.data, self.log, self.rows = data, log, []

    def draw(self, *choices):
        return self.data.draw(st.sampled_from(choices))

    @property
    def schema(self):
        return self.log.refresh().schema

    def write(self):
        one = st.fixed_dictionaries({field.name: values_of(field.type) for field in self.schema.fields})
        rows = self.data.draw(st.lists(one.map(self.with_partition), min_size=1, max_size=3))
        write(self.log, rows)
        self.rows += rows

    def with_partition(self, row):
        return row | {key: row[key] or None for key in self.log.refresh().partition_columns}  # "" is NULL there

    def add(self):
        name = self.draw(*NAMES)
        if self.schema.find(name):
            return
        position = self.draw(None, FIRST, after(self.draw(*self.schema.names)))
        self.log.alter().add_columns(NewColumn(path=f"`{name}`", type=TYPES[self.draw(*TYPES)], position=position))
        self.rows = [{**row, name: None} for row in self.rows]

    def rename(self):
        old, new = self.draw(*self.schema.names), self.draw(*NAMES)
        if self.schema.find(new):
            return
        self.log.alter().rename_column(f"`{old}`", new)
        self.rows = [{new if key == old else key: value for key, value in row.items()} for row in self.rows]

    def drop(self):
        name = self.draw(*self.schema.names)
        if name in self.log.refresh().partition_columns or len(self.schema.fields) < 3:
            return
        self.log.alter().drop_columns(f"`{name}`")
        self.rows = [{key: value for key, value in row.items() if key != name} for row in self.rows]

    def widen(self):
        field = self.draw(*self.schema.fields)
        is_list = isinstance(field.type, ArrayType)
        wider = WIDER.get(field.type.element_type if is_list else field.type)
        if wider:
            self.log.alter().widen_column(f"`{field.name}`" + ".element" * is_list, self.draw(*wider))
            kind = self.schema.find(field.name).type
            self.rows = [{**row, field.name: as_kind(row[field.name], kind)} for row in self.rows]

    def move(self):
        name = self.draw(*self.schema.names)
        self.log.alter().move_column(f"`{name}`", FIRST)


def as_kind(value, kind):
    if isinstance(value, list):
        return [as_kind(member, kind.element_type) for member in value]
    return value if value is None or kind != DOUBLE else float(value)


@given(st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_rows_stay_what_they_are_while_columns_change(data):
    store = InMemoryLogStore("memory://altered", clock=lambda: 0)
    log = DeltaLog.for_table("memory://altered", store=store)
    partition_columns = data.draw(st.sampled_from([(), ("q",)]))
    schema = StructType(tuple(StructField(name, kind) for name, kind in [("id", INTEGER), ("s", SHORT), ("q", STRING)]))
    log.create(NewTable(schema=schema, partition_columns=partition_columns, properties=WIDENING))
    model = Model(data, log)
    model.write()
    log.alter().set_properties(MAPPED)  # on a table with files
    for _ in range(data.draw(st.integers(1, 8))):
        getattr(model, model.draw("write", "add", "rename", "drop", "widen", "move"))()
        found = log.refresh().to_arrow().read_all()
        assert found.column_names == list(log.refresh().schema.names)
        assert in_order(found.to_pylist()) == in_order(model.rows)


@pytest.fixture
def log(tmp_path):
    return DeltaLog.for_table(str(tmp_path / "table"))


@pytest.fixture
def by_others(duckdb_connection):
    """The rows as duckdb and deltalake read them."""

    def read(log):
        query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(log.table_uri))
        yield pa.table(query.execute("SELECT * FROM t").read_all())
        yield duckdb_connection.sql(f"FROM delta_scan('{log.table_uri}')").to_arrow_table()

    return read


MEMBERS = StructType((StructField("x", INTEGER), StructField("y", STRING)))
NESTED = StructType((StructField("id", INTEGER), StructField("st", MEMBERS), StructField("arr", ArrayType(MEMBERS))))


@pytest.mark.parametrize("properties", [{}, MAPPED])
def test_other_engines_read_altered_tables(log, by_others, properties):
    log.create(NewTable(schema=NESTED, properties=properties))
    write(log, [{"id": 1, "st": {"x": 1, "y": "a"}, "arr": [{"x": 2, "y": "b"}, None]}, {"id": None, "st": None, "arr": []}])
    log.alter().set_properties(MAPPED)
    log.alter().rename_column("st.x", "the x")
    log.alter().rename_column("id", "number")
    log.alter().drop_columns("st.y", "arr.element.x")
    log.alter().add_columns(NewColumn(path="arr.element.x", type=STRING), NewColumn(path="new", type=DATE, position=FIRST))
    write(log, [{"new": None, "number": 5, "st": {"the x": 7}, "arr": [{"y": "c", "x": "new x"}]}])
    log.alter().set_properties({"delta.enableInCommitTimestamps": "true", "delta.checkpointPolicy": "v2", "own": "1"})
    log.alter().add_constraint("c", "number > 0 OR number IS NULL")
    log.checkpoint()
    wanted = [
        {"new": None, "number": 1, "st": {"the x": 1}, "arr": [{"y": "b", "x": None}, None]},
        {"new": None, "number": None, "st": None, "arr": []},
        {"new": None, "number": 5, "st": {"the x": 7}, "arr": [{"y": "c", "x": "new x"}]},
    ]
    for found in (log.refresh().to_arrow().read_all(), *by_others(log)):
        assert in_order(found.to_pylist()) == in_order(wanted)


def test_other_engines_read_a_table_with_every_rule(log, by_others):
    columns = (
        identity(StructField("k", LONG)),
        with_default(StructField("d", STRING), "'x'"),
        generated(StructField("g", LONG), "k * 2"),
        StructField("n", LONG, nullable=False),
    )
    properties = ["delta.enableRowTracking", "delta.enableInCommitTimestamps", "delta.enableChangeDataFeed", "delta.appendOnly"]
    log.create(NewTable(schema=StructType(columns), clustering_columns=["n"], properties=dict.fromkeys(properties, "true")))
    rows = [{"k": 1, "d": "x", "g": 2, "n": 5}, {"k": 2, "d": None, "g": 4, "n": 6}]
    write(log, rows)
    log.alter().sync_identity("k", 2)
    log.alter().add_constraint("c", "n > 0")
    for found in (log.refresh().to_arrow().read_all(), *by_others(log)):
        assert in_order(found.to_pylist()) == in_order(rows)
    assert log.refresh().files()["base_row_id"].to_pylist() == [0]


def test_other_engines_follow_a_dropped_feature(log, by_others):
    log.create(NewTable(schema=StructType((StructField("id", LONG),)), properties={"delta.enableDeletionVectors": "true"}))
    write(log, [{"id": 1}])
    log.drop_feature("deletionVectors")
    write(log, [{"id": 2}])
    for found in by_others(log):
        assert in_order(found.to_pylist()) == in_order([{"id": 1}, {"id": 2}])


def test_other_engines_write_to_tables_that_were_created_and_altered_here(log):
    log.create(NewTable(schema=StructType((StructField("id", LONG),)), properties={"own": "1"}))
    log.alter().add_columns(NewColumn(path="s", type=STRING))
    log.alter().add_constraint("c", "id > 0")
    deltalake.write_deltalake(log.table_uri, pa.table({"id": [1, 2], "s": ["a", None]}), mode="append")
    assert in_order(log.refresh().to_arrow().read_all().to_pylist()) == in_order([{"id": 1, "s": "a"}, {"id": 2, "s": None}])
    with pytest.raises(deltalake.exceptions.DeltaError):
        deltalake.write_deltalake(log.table_uri, pa.table({"id": [0], "s": ["a"]}), mode="append")


def test_widened_columns_are_read_with_their_new_types(log):
    schema = StructType((StructField("b", BYTE), StructField("d", DATE), StructField("arr", ArrayType(SHORT))))
    log.create(NewTable(schema=schema, properties=WIDENING))
    write(log, [{"b": 1, "d": None, "arr": [1, None]}])
    for path, kind in [("b", DOUBLE), ("d", TIMESTAMP_NTZ), ("arr.element", LONG)]:
        log.alter().widen_column(path, kind)
    found = log.refresh().to_arrow().read_all()
    assert found.to_pylist() == [{"b": 1.0, "d": None, "arr": [1, None]}]
    assert found.schema.types == [pa.float64(), pa.timestamp("us"), pa.list_(found.schema.field("arr").type.value_field)]
    with pytest.raises(InvalidTableChangeError):
        log.alter().widen_column("b", LONG)
