"""Iceberg compatibility of tables that are made and altered: what they get, what is refused, what their files must hold."""

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_delta.core import DeltaLog
from airflow_delta.core.actions import ADD_FILE
from airflow_delta.core.errors import (
    ConcurrentAppendError,
    FeatureDropError,
    IcebergCompatError,
    InvalidStatementError,
    MissingRecordCountError,
    NotConvertibleError,
    UnsupportedWriterFeatureError,
)
from airflow_delta.core.schema import all_fields, field_id, physical_name
from airflow_delta.core.schema.column_mapping import assigned_ids, nested_ids
from airflow_delta.core.table_changes import NewColumn, NewTable
from airflow_delta.core.table_changes.ddl import parse_struct
from airflow_delta.core.transaction.operation import Operation
from tests.core.iceberg_tables import UNIFORM, V1, V2, V3, IcebergTable, field_ids

W1, W3 = ("delta.enableIcebergWriterCompatV1", "delta.enableIcebergWriterCompatV3")
MODE = "delta.columnMapping.mode"
NESTED = "id long, l array<array<int>>, m map<string, struct<x: array<timestamp>>>"
NESTED_ROW = {"id": 1, "l": [[1, None], None], "m": [("k", {"x": [dt.datetime(2024, 5, 1, tzinfo=dt.UTC)]})]}


@pytest.fixture
def make(tmp_path):
    return lambda columns, **options: IcebergTable(tmp_path / "table", columns, **options)


@pytest.mark.parametrize(
    ("name", "features", "implied"),
    [
        (V1, {"icebergCompatV1", "columnMapping"}, {MODE: "name"}),
        (V2, {"icebergCompatV2", "columnMapping"}, {MODE: "name"}),
        (
            V3,
            {"icebergCompatV3", "columnMapping", "rowTracking", "domainMetadata"},
            {MODE: "name", "delta.enableRowTracking": "true"},
        ),
        (W1, {"icebergWriterCompatV1", "icebergCompatV2", "columnMapping"}, {MODE: "id", V2: "true"}),
        (
            W3,
            {"icebergWriterCompatV3", "icebergCompatV3", "columnMapping", "rowTracking", "domainMetadata"},
            {MODE: "id", V3: "true", "delta.enableRowTracking": "true"},
        ),
    ],
)
def test_a_new_table_gets_what_the_property_needs(make, name, features, implied):
    table = make("id long, d date", **{name: "true"})
    configuration = table.snapshot.metadata.configuration
    assert {key: configuration.get(key) for key in implied} == implied
    assert table.snapshot.protocol.writer_features == {"appendOnly", "invariants", *features}
    table.append({"id": 1, "d": None})
    assert table.rows() == [{"id": 1, "d": None}]


def test_elements_keys_and_values_have_ids_in_the_schema_and_in_every_file(make):
    table = make(NESTED, **{V2: "true"})
    schema = table.snapshot.schema
    ids = assigned_ids(schema)
    assert sorted(ids) == list(range(1, 10))
    assert table.snapshot.metadata.configuration["delta.columnMapping.maxColumnId"] == "9"
    _, items, pairs = schema.fields
    name = physical_name(items)
    assert nested_ids(items).keys() == {f"{name}.element", f"{name}.element.element"}
    assert nested_ids(pairs).keys() == {f"{physical_name(pairs)}.key", f"{physical_name(pairs)}.value"}
    table.append(NESTED_ROW)
    [footer] = table.footers()
    found = field_ids(footer.schema.to_arrow_schema())
    assert sorted(found.values()) == list(range(1, 10))
    assert found[f"{name}.element.element"] == nested_ids(items)[f"{name}.element.element"]
    assert table.rows() == [NESTED_ROW]


def test_columns_that_come_later_get_ids_inside_that_no_other_has(make):
    table = make("id long", **{V2: "true"})
    table.log.alter().add_columns(NewColumn(path="m", type=parse_struct("m map<string, array<int>>").fields[0].type))
    assert sorted(assigned_ids(table.snapshot.schema)) == [1, 2, 3, 4, 5]
    table.log.alter().rename_column("m", "n")
    table.append({"id": 1, "n": [("a", [1])]})
    assert sorted(field_ids(table.footers()[0].schema.to_arrow_schema()).values()) == [1, 2, 3, 4, 5]


def test_physical_names_are_numbers_where_writers_of_iceberg_take_part(make):
    table = make("a int, s struct<b: array<int>>", **{W1: "true"})
    table.log.alter().add_columns(NewColumn(path="c", type=parse_struct("c int").fields[0].type))
    names = {field.name: physical_name(field) for field in all_fields(table.snapshot.schema)}
    assert names == {"a": "col-1", "s": "col-2", "b": "col-3", "c": "col-5"}  # 4 is of the elements of b


def test_partition_columns_are_in_the_files_behind_the_others(make):
    table = make("p int, v long", partition_by=["p"], **{V1: "true"})
    table.append({"p": 7, "v": 1})
    p, v = table.snapshot.schema.fields
    assert table.footers()[0].schema.names == [physical_name(v), physical_name(p)]
    assert field_ids(table.footers()[0].schema.to_arrow_schema())[physical_name(p)] == field_id(p)


@pytest.mark.parametrize(
    ("columns", "properties", "broken"),
    [
        ("a array<int>", {V1: "true"}, V1),
        ("v variant", {V2: "true"}, V2),
        ("a int", {V1: "true", V2: "true"}, V2),
        ("a int", {V2: "true", MODE: "none"}, V2),
        ("a int", {V1: "true", "delta.enableDeletionVectors": "true"}, V1),
        ("a int", {V3: "true", "delta.enableRowTracking": "false"}, V3),
        ("a tinyint", {W1: "true"}, W1),
        ("a int", {W1: "true", "delta.feature.rowTracking": "supported"}, W1),
        ("a int", {W3: "true", V3: "false"}, W3),
        ("a int", UNIFORM, "delta.universalFormat.enabledFormats"),
    ],
)
def test_a_table_that_would_break_a_rule_is_not_made(make, columns, properties, broken, tmp_path):
    with pytest.raises(IcebergCompatError) as caught:
        make(columns, **properties)
    assert caught.value.property == broken
    assert not (tmp_path / "table" / "_delta_log").exists()


def test_a_replaced_table_is_partitioned_as_before_or_not_made(make):
    table = make("p int, q int, v long", partition_by=["p"], **{V2: "true"})
    schema = parse_struct("p int, q int, v long")
    for columns in (["q"], []):
        new = NewTable(schema=schema, partition_columns=columns, properties={V2: "true"})
        with pytest.raises(IcebergCompatError, match="the table is partitioned by"):
            table.log.create(new, mode="replace")
    new = NewTable(schema=parse_struct("p long, v long"), partition_columns=["p"], properties={V2: "true"})
    assert table.log.create(new, mode="replace").version == 1


# -- altering


def test_a_table_whose_files_have_ids_becomes_compatible(make):
    table = make("id long, t timestamp", **{MODE: "name"})
    table.append({"id": 1, "t": None})
    table.log.alter().set_properties({V2: "true"})
    assert table.snapshot.protocol.writer_features >= {"icebergCompatV2"}
    table.append({"id": 2, "t": None})
    assert [row["id"] for row in table.rows()] == [1, 2]


def test_a_table_without_files_becomes_compatible_whatever_its_columns(make):
    table = make(NESTED, **{MODE: "name"})
    table.log.alter().set_properties({V2: "true"})
    assert sorted(assigned_ids(table.snapshot.schema)) == list(range(1, 10))
    table.append(NESTED_ROW)
    assert sorted(field_ids(table.footers()[0].schema.to_arrow_schema()).values()) == list(range(1, 10))


def test_files_without_what_readers_of_iceberg_need_are_named(make):
    table = make("id long, l array<int>", **{MODE: "name"})
    table.append({"id": 1, "l": [1]})
    before = table.snapshot.version
    with pytest.raises(IcebergCompatError) as caught:
        table.log.alter().set_properties({V2: "true"})
    assert "element has no id, not 3" in caught.value.reasons[0]
    assert caught.value.cure == "write the rows into a new table with the property"
    assert table.snapshot.version == before


def test_files_without_their_partition_columns_are_named(make):
    table = make("p int, v long", partition_by=["p"], **{MODE: "name"})
    table.append({"p": 1, "v": 1})
    with pytest.raises(IcebergCompatError, match="it lacks the partition column col-"):
        table.log.alter().set_properties({V1: "true"})
    table.log.alter().set_properties({"delta.writePartitionColumnsToParquet": "true"})
    table.replace(None, {"p": 1, "v": 2})
    table.log.alter().set_properties({V1: "true"})
    assert table.rows() == [{"p": 1, "v": 2}]


def test_files_with_times_as_spark_stores_them_by_default_are_named(make):
    table = make("t timestamp", **{MODE: "name"})
    table.append({"t": dt.datetime(2024, 5, 1, tzinfo=dt.UTC)})
    path = table.snapshot.files()["path"][0].as_py().replace("%20", " ")
    rows = pq.read_table(f"{table.root}/{path}")
    pq.write_table(rows, f"{table.root}/{path}", use_deprecated_int96_timestamps=True)
    with pytest.raises(IcebergCompatError, match="is stored as INT96"):
        table.log.alter().set_properties({V2: "true"})


def test_files_without_their_number_of_rows_are_named(make):
    table = make("id long", **{MODE: "name"})
    adds = table.written([{"id": 1}])
    table.commit(adds=adds.set_column(adds.column_names.index("stats"), ADD_FILE.field("stats"), pa.array(["{}"])))
    with pytest.raises(IcebergCompatError, match="1 file whose statistics lack the number of rows"):
        table.log.alter().set_properties({V2: "true"})


def test_a_table_with_more_files_than_are_looked_at_is_refused(make, monkeypatch):
    table = make("id long", **{MODE: "name"})
    for number in range(3):
        table.append({"id": number})
    monkeypatch.setattr("airflow_delta.core.table_changes.iceberg_files.MOST_FILES", 2)
    with pytest.raises(IcebergCompatError, match="it has 3 files, and the footers of no more than 2 are looked at"):
        table.log.alter().set_properties({V2: "true"})


def test_a_file_that_comes_while_the_others_are_looked_at_is_no_way_around(make, monkeypatch):
    table = make("id long", **{MODE: "name"})
    table.append({"id": 1})
    changes = "airflow_delta.core.table_changes.steps.check_files_conform"
    monkeypatch.setattr(changes, lambda *_: IcebergTable.append(other, {"id": 2}))
    other = IcebergTable.__new__(IcebergTable)
    other.root, other.log = table.root, DeltaLog.for_table(table.root)
    with pytest.raises(ConcurrentAppendError):
        table.log.alter().set_properties({V2: "true"})
    assert V2 not in table.snapshot.metadata.configuration


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda alter: alter.set_properties({W1: "true", V2: "true"}), "it cannot be enabled on a table that exists"),
        (lambda alter: alter.set_properties({V1: "true", V2: "true"}), "are true"),
        (lambda alter: alter.set_properties(UNIFORM), "no version of Iceberg compatibility is enabled"),
    ],
)
def test_a_change_that_breaks_a_rule_is_refused(make, change, reason):
    table = make("id int", **{MODE: "name"})
    with pytest.raises(IcebergCompatError, match=reason):
        change(table.log.alter())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda alter: alter.set_properties({"delta.enableDeletionVectors": "true"}), "deletion vectors are enabled"),
        (lambda alter: alter.add_columns(NewColumn(path="v", type=parse_struct("v variant").fields[0].type)), "type variant"),
        (lambda alter: alter.set_properties({V1: "true"}), "are true"),
        (lambda alter: alter.set_properties({V2: "false"}), "no version of Iceberg compatibility is enabled"),
    ],
)
def test_a_compatible_table_stays_so(make, change, reason):
    table = make("id int", **{V2: "true"}, **UNIFORM)
    with pytest.raises(IcebergCompatError, match=reason):
        change(table.log.alter())
    assert table.snapshot.version == 0


# -- commits


def test_a_file_without_its_number_of_rows_or_with_a_deletion_vector_is_not_committed(make):
    table = make("id int", **{V2: "true", "delta.feature.deletionVectors": "supported"})
    adds = table.written([{"id": 1}])
    with pytest.raises(MissingRecordCountError, match="Iceberg compatibility"):
        table.commit(adds=adds.set_column(adds.column_names.index("stats"), ADD_FILE.field("stats"), pa.array(["{}"])))
    vector = {"storage_type": "i", "path_or_inline_dv": "x", "size_in_bytes": 1, "cardinality": 1}
    index = adds.column_names.index("deletion_vector")
    marked = adds.set_column(index, ADD_FILE.field(index), pa.array([vector], ADD_FILE.field(index).type))
    with pytest.raises(IcebergCompatError, match="would have a deletion vector"):
        table.commit(adds=marked)
    assert table.snapshot.version == 0


def test_rows_of_a_writer_that_does_not_know_the_feature_are_not_committed(make):
    table = make("id int", **{V2: "true"})
    with pytest.raises(UnsupportedWriterFeatureError) as caught:
        table.log.start_transaction().commit(adds=table.written([{"id": 1}]), operation=Operation(name="WRITE"))
    assert caught.value.features == ("columnMapping", "icebergCompatV2")


def test_no_restored_version_breaks_a_rule_of_the_one_before(make):
    table = make("p int, v long", partition_by=["p"], **{V2: "true"})
    new = NewTable(schema=parse_struct("p int, v long"), partition_columns=["v"])
    table.log.create(new, mode="replace")
    with pytest.raises(IcebergCompatError, match="the table is partitioned by"):
        table.log.restore(version=0)
    assert table.snapshot.version == 1


def test_a_clone_is_as_compatible_as_its_source(make, tmp_path):
    table = make(NESTED, **{V2: "true"})
    table.append(NESTED_ROW)
    table.log.shallow_clone(str(tmp_path / "copy"))
    copy = DeltaLog.for_table(str(tmp_path / "copy"))
    assert copy.snapshot().to_arrow().read_all().to_pylist() == [NESTED_ROW]
    assert copy.snapshot().schema == table.snapshot.schema


def test_files_of_others_do_not_become_compatible_by_a_clone_or_a_conversion(make, tmp_path):
    table = make("id long", **{MODE: "name"})
    table.append({"id": 1})
    with pytest.raises(InvalidStatementError, match="a clone has its source's files"):
        table.log.shallow_clone(str(tmp_path / "copy"), properties={V2: "true"})
    (tmp_path / "files").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "files" / "a.parquet")
    with pytest.raises(NotConvertibleError, match="its files lack the ids"):
        DeltaLog.convert(str(tmp_path / "files"), properties={V2: "true"})


def test_the_feature_is_dropped_once_it_is_off(make):
    table = make("id int", **{V2: "true"})
    with pytest.raises(FeatureDropError, match=r"set delta\.enableIcebergCompatV2 to false first"):
        table.log.drop_feature("icebergCompatV2")
    table.log.alter().set_properties({V2: "false"})
    table.log.drop_feature("icebergCompatV2")
    assert "icebergCompatV2" not in table.snapshot.protocol.writer_features
