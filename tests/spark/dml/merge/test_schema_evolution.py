"""Merges that evolve the target's schema."""

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import MetadataChangedError, SchemaMismatchError
from airflow_delta.core.schema import field_id, physical_name
from airflow_delta.core.statements import (
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    SqlSource,
    WriteStatement,
)
from airflow_delta.spark.io.scan import read_table
from airflow_delta.spark.write.write import write

THREE = pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]})
WIDER = "VALUES (2L, 'B', 20), (9L, 'i', 90) AS t(id, v, more)"


@pytest.fixture
def evolve(run_merge):
    return lambda source, **merge: run_merge(source, schema_evolution=True, **merge)


def test_columns_of_the_source_alone_are_added_with_the_rows_in_one_commit(evolve, reference_rows, table, check_statistics):
    write_deltalake(table, THREE)
    result = evolve(WIDER)
    assert result.version == 1
    assert reference_rows() == [(1, "a", None), (2, "B", 20), (3, "c", None), (9, "i", 90)]
    assert [(field.name, str(field.type)) for field in DeltaLog.for_table(table).snapshot().schema.fields] == [
        ("id", "bigint"),
        ("v", "string"),
        ("more", "int"),
    ]
    check_statistics()
    again = evolve("VALUES (1L, 'A', 10) AS t(id, v, MORE)")
    assert again.version == 2
    assert reference_rows()[0] == (1, "A", 10)
    assert DeltaLog.for_table(table).snapshot().schema.names == ("id", "v", "more")


def test_without_it_a_column_of_the_source_alone_is_left_out(run_merge, reference_rows, table):
    write_deltalake(table, THREE)
    run_merge(WIDER)
    assert reference_rows() == [(1, "a"), (2, "B"), (3, "c"), (9, "i")]


def test_only_columns_that_a_clause_assigns_are_added(evolve, reference_rows, table):
    write_deltalake(table, THREE)
    evolve(
        "SELECT 2L AS id, 'x' AS v, 1 AS one, 2 AS two",
        clauses=[
            MatchedUpdate(condition="source.v = 'y'"),
            MatchedUpdate(assignments={"v": "source.v"}),
        ],
        dry_run=True,
    )
    assert DeltaTable(table).version() == 0
    evolve("SELECT 2L AS id, 'x' AS v, 1 AS one, 2 AS two", clauses=MatchedUpdate(assignments={"two": "source.two + 1"}))
    assert reference_rows() == [(1, "a", None), (2, "b", 3), (3, "c", None)]
    with pytest.raises(SchemaMismatchError) as raised:
        evolve("SELECT 2L AS id", clauses=MatchedUpdate(assignments={"three": "3"}))
    assert raised.value.differences == ("three: not found; the columns of the table are id, v, two",)


def test_columns_that_the_source_lacks_stay_as_they_are(evolve, reference_rows, table):
    write_deltalake(table, THREE)
    evolve("VALUES (2L, 20), (9L, 90) AS t(id, more)")
    assert reference_rows() == [(1, "a", None), (2, "b", 20), (3, "c", None), (9, None, 90)]


def test_every_kind_of_clause_sees_the_new_column(evolve, reference_rows, table):
    write_deltalake(table, THREE, partition_by=["v"])
    evolve(
        "VALUES (1L, 'z', 10), (2L, 'b', 20), (9L, 'i', 90) AS t(id, v, more)",
        clauses=[
            MatchedDelete(condition="source.more = 20"),
            MatchedUpdate(),
            NotMatchedInsert(assignments={"id": "source.id", "v": "'new'", "more": "source.more * 2"}),
            NotMatchedBySourceUpdate(assignments={"more": "-1"}),
        ],
    )
    assert reference_rows(columns="id, v, more") == [(1, "z", 10), (3, "c", -1), (9, "new", 180)]


def test_fields_inside_structs_are_added_and_others_keep_their_values(evolve, reference_rows, table):
    point = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    schema = pa.schema([("id", pa.int64()), ("s", point), ("l", pa.list_(point))])
    rows = [{"id": 1, "s": {"x": 1, "y": 2}, "l": [{"x": 1, "y": 2}]}, {"id": 2, "s": {"x": 3, "y": 4}, "l": []}]
    write_deltalake(table, pa.Table.from_pylist(rows, schema=schema))

    evolve("SELECT id, named_struct('z', 30L, 'x', 10L) AS s, array(named_struct('z', 30L, 'x', 10L)) AS l FROM range(2, 4)")

    assert reference_rows(columns="id, s, l") == [
        (1, {"x": 1, "y": 2, "z": None}, [{"x": 1, "y": 2, "z": None}]),
        (2, {"x": 10, "y": 4, "z": 30}, [{"x": 10, "y": None, "z": 30}]),
        (3, {"x": 10, "y": None, "z": 30}, [{"x": 10, "y": None, "z": 30}]),
    ]


def test_an_assigned_struct_gets_null_where_it_lacks_a_member(evolve, reference_rows, table):
    schema = pa.schema([("id", pa.int64()), ("s", pa.struct([("x", pa.int64()), ("y", pa.int64())]))])
    write_deltalake(table, pa.Table.from_pylist([{"id": 1, "s": {"x": 1, "y": 2}}], schema=schema))
    evolve("SELECT 1L AS id, named_struct('x', 10L) AS s", clauses=MatchedUpdate(assignments={"s": "source.s"}))
    assert reference_rows() == [(1, {"x": 10, "y": None})]


def test_an_assigned_member_that_only_the_structs_of_the_source_have_is_added(evolve, reference_rows, table):
    write_deltalake(table, pa.table({"id": [1, 2, 3], "s": [{"a": 1}, {"a": 2}, None]}))

    evolve(
        "SELECT id, named_struct('n', named_struct('x', id * 10, 'y', 0L), 'a', 7L, 'other', 0) AS S FROM range(2, 4)",
        clauses=[MatchedUpdate(assignments={"target.s.n.x": "source.s.n.x"})],
    )

    assert str(DeltaLog.for_table(table).snapshot().schema.find("s").type) == "struct<a:bigint,n:struct<x:bigint>>"
    assert reference_rows() == [
        (1, {"a": 1, "n": None}),
        (2, {"a": 2, "n": {"x": 20}}),
        (3, {"a": None, "n": {"x": 30}}),
    ]


@pytest.mark.parametrize("deletion_vectors", ["false", "true"])
def test_new_columns_of_a_mapped_table_get_ids_and_physical_names(spark, evolve, table, deletion_vectors):
    properties = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": deletion_vectors}
    source = SqlSource("SELECT id, concat('v', id) AS v FROM range(1, 4)")
    write(spark, DeltaLog.for_table(table), WriteStatement(table=table, source=source, properties=properties))
    evolve(WIDER)
    snapshot = DeltaLog.for_table(table).snapshot()
    new = snapshot.schema.find("more")
    assert (field_id(new), physical_name(new).startswith("col-")) == (3, True)
    assert snapshot.metadata.configuration["delta.columnMapping.maxColumnId"] == "3"
    expected = [(1, "v1", None), (2, "B", 20), (3, "v3", None), (9, "i", 90)]
    assert sorted(tuple(row) for row in read_table(spark, snapshot).collect()) == expected
    assert sorted(tuple(row.values()) for row in snapshot.to_arrow().read_all().to_pylist()) == expected


def test_a_wider_type_is_taken_where_the_table_lets_types_widen(spark, evolve, table):
    source = SqlSource("SELECT id, CAST(id AS INT) AS n FROM range(1, 3)")
    properties = {"delta.enableTypeWidening": "true"}
    write(spark, DeltaLog.for_table(table), WriteStatement(table=table, source=source, properties=properties))
    evolve("VALUES (2L, 3000000000L) AS t(id, n)")
    snapshot = DeltaLog.for_table(table).snapshot()
    assert str(snapshot.schema.find("n").type) == "bigint"
    assert sorted(tuple(row) for row in read_table(spark, snapshot).collect()) == [(1, 1), (2, 3_000_000_000)]


def test_elsewhere_a_value_that_is_too_large_fails_and_a_text_is_no_number(evolve, reference_rows, table):
    write_deltalake(table, pa.table({"id": [1, 2], "n": pa.array([1, 2], pa.int32())}))
    with pytest.raises(Exception, match="3000000000"):
        evolve("VALUES (2L, 3000000000L) AS t(id, n)")
    with pytest.raises(SchemaMismatchError) as raised:
        evolve("VALUES (2L, 'x', 1) AS t(id, n, more)")
    assert raised.value.differences == ("n: string in the source, int in the table",)
    assert reference_rows() == [(1, 1), (2, 2)]
    assert DeltaTable(table).version() == 0


def test_a_merge_that_matches_nothing_still_adds_the_columns(evolve, reference_rows, table):
    write_deltalake(table, THREE)
    result = evolve("SELECT 7L AS id, 'x' AS v, 1 AS more", clauses=MatchedUpdate())
    assert (result.committed, result.version) == (True, 1)
    assert reference_rows() == [(1, "a", None), (2, "b", None), (3, "c", None)]


def test_schema_evolution_fails_when_a_concurrent_commit_changed_the_schema(evolve, table):
    write_deltalake(table, THREE)
    log = DeltaLog.for_table(table)
    stale = log.refresh()
    wider = THREE.slice(0, 1).append_column("other", [["x"]])
    log.refresh = lambda: stale
    write_deltalake(table, wider, mode="append", schema_mode="merge")
    with pytest.raises(MetadataChangedError):
        evolve(WIDER, log=log)
