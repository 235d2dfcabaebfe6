"""Members of structs are assigned one by one, and all other members stay: in UPDATE, MERGE and ``DeltaTable``."""

import pytest
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import ConstraintViolatedError, InvalidPredicateError, SchemaMismatchError
from airflow_delta.core.statements import (
    DeleteStatement,
    MatchedUpdate,
    MergeStatement,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    SqlSource,
    UpdateStatement,
    WriteStatement,
)
from airflow_delta.spark import DeltaTable, sql
from airflow_delta.spark.change_feed.read import read_changes
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.write.write import write

ROWS = """
    SELECT /*+ COALESCE(1) */ * FROM VALUES
        (1L, named_struct('a', 10L, 'B-c', 'x', 'in', named_struct('d', 1, 'e', 'p'))),
        (2L, named_struct('a', 20L, 'B-c', 'y', 'in', NULL)),
        (3L, NULL)
    AS t(id, s)
"""
ONE, TWO, THREE = (
    {"a": 10, "B-c": "x", "in": {"d": 1, "e": "p"}},
    {"a": 20, "B-c": "y", "in": None},
    None,
)
RECORDED = {"delta.enableChangeDataFeed": "true"}
DELETION_VECTORS = {"delta.enableDeletionVectors": "true", **RECORDED}


@pytest.fixture(params=[{}, RECORDED, DELETION_VECTORS], ids=["plain", "recorded", "deletion_vectors"])
def nested(request, write_rows, table):
    """A table of three rows whose struct ``s`` has a struct inside, by each of the ways in which rows change."""
    write_rows(ROWS, properties=request.param)
    return DeltaLog.for_table(table)


@pytest.fixture
def plain(write_rows, table):
    write_rows(ROWS)
    return DeltaLog.for_table(table)


def change(spark, log, assignments, where=None):
    return update(spark, log, UpdateStatement(table=log.table_uri, assignments=assignments, where=where))


def structs(log, column="s"):
    rows = log.refresh().to_arrow().read_all().to_pylist()
    return {row["id"]: row[column] for row in rows}


def refused(spark, log, assignments):
    with pytest.raises(SchemaMismatchError) as caught:
        change(spark, log, assignments)
    return caught.value.differences


def test_an_update_of_members_keeps_the_others_at_any_depth(spark, nested):
    change(spark, nested, {"s.a": "s.a + 1", "S.`b-C`": "upper(s.`B-c`)", "target.s.IN.d": "s.a"})
    assert structs(nested) == {
        1: {"a": 11, "B-c": "X", "in": {"d": 10, "e": "p"}},
        2: {"a": 21, "B-c": "Y", "in": {"d": 20, "e": None}},
        3: {"a": None, "B-c": None, "in": {"d": None, "e": None}},
    }


@pytest.mark.slow
def test_a_null_struct_becomes_one_with_the_assigned_member_alone(spark, nested):
    assert change(spark, nested, {"s.a": "7"}, "id = 3").metrics["numUpdatedRows"] == 1
    assert structs(nested) == {1: ONE, 2: TWO, 3: {"a": 7, "B-c": None, "in": None}}


def test_a_whole_inner_struct_is_assigned_beside_members(spark, nested):
    change(spark, nested, {"s.in": "named_struct('e', 'new', 'd', 5)", "s.B-c": "NULL"}, "id < 3")
    new = {"d": 5, "e": "new"}
    assert structs(nested) == {1: {"a": 10, "B-c": None, "in": new}, 2: {"a": 20, "B-c": None, "in": new}, 3: None}


def test_a_merge_assigns_members_in_matched_and_unmatched_rows(spark, nested, table):
    clauses = (
        MatchedUpdate(
            assignments={"s.a": "source.v", "s.in.e": "concat(target.s.`B-c`, '!') -- loud"}, condition="source.v > 0"
        ),
        NotMatchedBySourceUpdate(assignments={"s.`B-c`": "'alone'"}),
        NotMatchedInsert(assignments={"id": "id", "s": "named_struct('a', v, 'B-c', 'new', 'in', NULL)"}),
    )
    source = SqlSource("SELECT * FROM VALUES (1L, 5), (9L, 6) AS t(id, v)")
    merge(spark, nested, MergeStatement(table=table, source=source, on="target.id = source.id", clauses=clauses))
    assert structs(nested) == {
        1: {"a": 5, "B-c": "x", "in": {"d": 1, "e": "x!"}},
        2: {"a": 20, "B-c": "alone", "in": None},
        3: {"a": None, "B-c": "alone", "in": None},
        9: {"a": 6, "B-c": "new", "in": None},
    }


@pytest.mark.slow
@pytest.mark.parametrize("properties", [RECORDED, DELETION_VECTORS], ids=["files", "deletion_vectors"])
def test_the_change_feed_holds_the_whole_struct_before_and_after(spark, write_rows, table, properties):
    write_rows(ROWS, properties=properties)
    log = DeltaLog.for_table(table)
    change(spark, log, {"s.in.d": "2"}, "id = 1")
    found = {row["_change_type"]: row["s"].asDict(True) for row in read_changes(spark, log, 1).collect()}
    assert found == {"update_preimage": ONE, "update_postimage": {**ONE, "in": {"d": 2, "e": "p"}}}


def test_members_of_mapped_columns_are_assigned(spark, write_rows, table):
    write_rows(ROWS, properties={"delta.columnMapping.mode": "name"})
    log = DeltaLog.for_table(table)
    change(spark, log, {"s.in.e": "'new'"}, "id = 1")
    assert structs(log) == {1: {**ONE, "in": {"d": 1, "e": "new"}}, 2: TWO, 3: None}


def test_delta_tables_assign_members(spark, plain, table):
    birds = DeltaTable.forPath(spark, table)
    birds.update("id = 1", {"s.a": "s.a * 2"})
    news = spark.createDataFrame([(2, "z")], "id BIGINT, text STRING").alias("news")
    birds.alias("birds").merge(news, "birds.id = news.id").whenMatchedUpdate(set={"birds.s.`B-c`": "news.text"}).execute()
    assert structs(plain) == {1: {**ONE, "a": 20}, 2: {**TWO, "B-c": "z"}, 3: None}


def test_a_table_that_grows_by_a_merge_gets_null_in_new_members(spark, plain, table):
    clauses = (MatchedUpdate(condition="source.id = 1", assignments={"s.a": "0"}), MatchedUpdate())
    source = SqlSource("SELECT id, named_struct('a', 1L, 'more', 2) AS s FROM range(1, 3) AS t(id)")
    statement = MergeStatement(table=table, source=source, on="target.id = source.id", clauses=clauses, schema_evolution=True)
    merge(spark, plain, statement)
    assert structs(plain) == {1: {**ONE, "a": 0, "more": None}, 2: {**TWO, "a": 1, "more": 2}, 3: None}


@pytest.mark.parametrize(
    ("assignments", "differences"),
    [
        ({"s": "NULL", "s.a": "1"}, ["s and s.a: both assign the same column or member; keep one"]),
        ({"s.in.d": "1", "S.in": "NULL"}, ["s.in.d and S.in: both assign the same column or member; keep one"]),
        ({"s.a": "1", "target.S.A": "2"}, ["s.a and target.S.A: both assign the same column or member; keep one"]),
        ({"s.f": "1"}, ["s.f: not found; the members of s are a, B-c, in"]),
        (
            {"s.in.f": "1", "t.a": "1"},
            ["s.in.f: not found; the members of s.in are d, e", "t.a: not found; the columns of the table are id, s"],
        ),
        ({"id.a": "1"}, ["id.a: id is bigint, not a struct, so it can only be assigned as a whole"]),
        ({"s.a": "DEFAULT"}, ["s.a: only columns have a DEFAULT, members of structs do not; assign a value"]),
        ({"s..a": "1"}, ["s..a: 's..a' is not a column path"]),
        ({"s.a": "'text'"}, ["s.a: string in the source, bigint in the table"]),
    ],
)
def test_what_cannot_be_assigned_is_reported_before_anything_runs(spark, plain, assignments, differences):
    assert list(refused(spark, plain, assignments)) == differences
    assert (structs(plain), plain.refresh().version) == ({1: ONE, 2: TWO, 3: THREE}, 0)


def test_members_of_lists_and_maps_are_not_assigned(spark, write_rows, table):
    write_rows("SELECT 1L AS id, array(named_struct('a', 1)) AS l, map('k', named_struct('a', 1)) AS m")
    found = refused(spark, DeltaLog.for_table(table), {"l.element.a": "2", "m.value.a": "2", "m.k": "NULL"})
    assert [line.split(",")[0].rpartition(" is ")[0] for line in found] == ["l.element.a: l", "m.value.a: m", "m.k: m"]
    assert all(line.endswith("not a struct, so it can only be assigned as a whole") for line in found)


def test_an_insert_takes_whole_columns(spark, plain, table):
    clauses = (NotMatchedInsert(assignments={"id": "source.id", "s.a": "1"}),)
    statement = MergeStatement(table=table, source=SqlSource("SELECT 9L AS id"), on="target.id = source.id", clauses=clauses)
    with pytest.raises(SchemaMismatchError, match=r"s\.a: an insert assigns whole columns, not members of structs"):
        merge(spark, plain, statement)


def test_backticks_tell_a_column_with_a_dot_from_a_member(spark, write_rows, table):
    write_rows(
        "SELECT 1L AS id, named_struct('a', 1, 'x.y', 2) AS s, 3 AS `s.a`, 4 AS `t.u`",
        properties={"delta.columnMapping.mode": "name"},
    )
    log = DeltaLog.for_table(table)
    assert refused(spark, log, {"s.a": "0"}) == (
        "s.a: ambiguous, write the column as `s.a` or the member of the struct as `s`.`a`",
    )
    change(spark, log, {"`s.a`": "30", "`s`.`a`": "10", "s.`x.y`": "20", "t.u": "40"})
    assert (structs(log)[1], structs(log, "s.a")[1], structs(log, "t.u")[1]) == ({"a": 10, "x.y": 20}, 30, 40)


EDGES = "SELECT /*+ COALESCE(1) */ id, id AS weight, named_struct('id', id + 4, 'kind', 'road') AS target FROM range(1, 4)"


@pytest.fixture
def edges(write_rows, table):
    """Edges 1 to 3, whose struct ``target`` has members ``id``, as the table has, and ``kind``."""
    write_rows(EDGES)
    return DeltaLog.for_table(table)


def replace(spark, log, where):
    source = SqlSource(EDGES)
    write(spark, log, WriteStatement(table=log.table_uri, source=source, mode="replace_where", replace_where=where))


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ({"assignments": {"target.id": "7"}}, "target.id: ambiguous, write id for the column or `target`.id for the member"),
        ({"assignments": {"TARGET.ID": "7"}}, "TARGET.ID: ambiguous, write ID for the column or `target`.ID for the member"),
        (
            {"assignments": {"weight": "target.id"}},
            "weight: target.id is ambiguous, write id for the column or target.target.id",
        ),
        ({"assignments": {"weight": "0"}, "where": "Target.id = 5"}, "target.id is ambiguous, write id for the column"),
        ({"where": "weight > 0 AND `target`.id = 5"}, "target.id is ambiguous, write id for the column or target.target.id"),
    ],
)
def test_what_may_be_a_column_or_a_member_of_a_column_called_target_is_refused(spark, edges, table, statement, error):
    run, kind = (update, UpdateStatement) if "assignments" in statement else (delete, DeleteStatement)
    with pytest.raises((SchemaMismatchError, InvalidPredicateError)) as caught:
        run(spark, edges, kind(table=table, **statement))
    assert error in str(caught.value)
    with pytest.raises(InvalidPredicateError, match=r"target\.id is ambiguous"):
        write(
            spark,
            edges,
            WriteStatement(table=table, source=SqlSource(EDGES), mode="replace_where", replace_where="target.id = 5"),
        )
    assert edges.refresh().version == 0


def test_what_can_only_be_a_column_or_only_a_member_of_a_column_called_target_is_that(spark, edges, table):
    change(spark, edges, {"TARGET.weight": "target.target.id * 10", "target.kind": "'rail'"}, where="target.kind = 'road'")
    change(
        spark, edges, {"`target`.id": "0", "target.target.kind": "'sea'"}, where="target.target.id = 6 AND target.weight = 60"
    )
    delete(spark, edges, DeleteStatement(table=table, where="target.kind = 'rail' AND id = 1"))
    write(
        spark,
        edges,
        WriteStatement(table=table, source=SqlSource(EDGES), mode="replace_where", replace_where="target.kind = 'road'"),
    )

    rows = edges.refresh().to_arrow().read_all().to_pylist()
    assert sorted((row["id"], row["weight"], *row["target"].values()) for row in rows) == [
        (1, 1, 5, "road"), (2, 2, 6, "road"), (2, 60, 0, "sea"), (3, 3, 7, "road"), (3, 70, 7, "rail"),
    ]  # fmt: skip


def test_delta_tables_and_texts_with_an_alias_mean_what_they_say_where_a_column_is_called_target(spark, edges, table):
    e = DeltaTable.forPath(spark, table).alias("e")
    e.update(condition="e.target.id = 5", set={"e.target.id": "e.id + e.target.id + 10", "weight": "e.id"})
    e.update(condition=F.col("e.id") == 2, set={"weight": F.col("e.id") * 100})
    DeltaTable.forPath(spark, table).delete(F.col("id") == 3)
    sql(spark, f"UPDATE delta.`{table}` AS e SET e.target.id = 9 WHERE e.target.id = 6")

    rows = edges.refresh().to_arrow().read_all().to_pylist()
    assert sorted((row["id"], row["weight"], row["target"]["id"]) for row in rows) == [(1, 1, 16), (2, 200, 9)]


def test_a_not_null_member_stays_enforced_where_a_null_struct_is_filled(spark, write_rows, table):
    write_rows("SELECT 1L AS id, CAST(NULL AS STRUCT<a: INT, b: INT>) AS s")
    log = DeltaLog.for_table(table)
    log.alter().add_constraint("b", "s IS NULL OR s.b IS NOT NULL")
    with pytest.raises(ConstraintViolatedError):
        change(spark, log, {"s.a": "1"})
    change(spark, log, {"s.a": "1", "s.b": "2"})
    assert structs(log) == {1: {"a": 1, "b": 2}}


def test_what_is_generated_from_a_member_follows_it(spark, table):
    DeltaTable.create(spark).location(table).addColumn("id", "BIGINT").addColumn("s", "STRUCT<a: INT, b: INT>").addColumn(
        "twice", "INT", generatedAlwaysAs="s.a * 2"
    ).execute()
    spark.createDataFrame([(1, (1, 2))], "id BIGINT, s STRUCT<a: INT, b: INT>").createOrReplaceTempView("given_struct")
    log = DeltaLog.for_table(table)
    write(spark, log, WriteStatement(table=table, source=SqlSource("TABLE given_struct")))
    change(spark, log, {"s.a": "s.b + 3"})
    assert (structs(log), structs(log, "twice")) == ({1: {"a": 5, "b": 2}}, {1: 10})
