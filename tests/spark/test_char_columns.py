"""CHAR(n) is one value to all readers of a session: those in the JVM, those in Python, and plain Spark."""

import json
from pathlib import Path

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import ConstraintViolatedError
from airflow_delta.core.statements import (
    DeleteStatement,
    MatchedUpdate,
    MergeStatement,
    NotMatchedInsert,
    SqlSource,
    TableSource,
    UpdateStatement,
    WriteStatement,
)
from airflow_delta.core.table_changes import NewTable
from airflow_delta.core.table_changes.ddl import parse_struct
from airflow_delta.spark import register
from airflow_delta.spark.change_feed.read import read_changes
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.io.scan import read_table
from airflow_delta.spark.session import temporary_views
from airflow_delta.spark.write.write import write
from tests.slow_cases import slow_after
from tests.spark.session_settings import session_settings

CHAR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"
ROWS = """
    SELECT * FROM VALUES ('a', 'x', 1, NAMED_STRUCT('n', 'x')), ('b  ', 'x  ', 2, NAMED_STRUCT('n', 'y ')),
    (NULL, NULL, 3, NULL) AS t(c, p, v, s)
"""
DECLARED = {"c": "char(3)", "p": "char(3)", "s": "struct<n:char(4)>"}
PADDED = [(None, None, 3, None), ("a  ", "x  ", 1, ("x   ",)), ("b  ", "x  ", 2, ("y   ",))]
RAW = [(None, None, 3, None), ("a", "x", 1, ("x",)), ("b  ", "x  ", 2, ("y ",))]
DELETION_VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture
def log(write_rows, table, request):
    """A table whose log says CHAR, and whose files and partitions hold what the rows said."""
    write_rows(ROWS, partition_by=("p",), properties=getattr(request, "param", {}))
    declare(table)
    return DeltaLog.for_table(table)


def declare(table):
    commit = Path(table, "_delta_log", f"{0:020d}.json")
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    metadata = next(action["metaData"] for action in actions if "metaData" in action)
    schema = json.loads(metadata["schemaString"])
    for field in schema["fields"]:
        field["metadata"] = {CHAR_VARCHAR: DECLARED[field["name"]]} if field["name"] in DECLARED else {}
    metadata["schemaString"] = json.dumps(schema)
    commit.write_text("\n".join(map(json.dumps, actions)))


def rows(frame):
    return sorted(((r.c, r.p, r.v, None if r.s is None else tuple(r.s)) for r in frame.collect()), key=str)


@pytest.mark.parametrize(("pads", "wanted"), [("true", PADDED), ("false", RAW)])
def test_the_jvm_and_python_read_the_same(spark, log, monkeypatch, pads, wanted):
    with session_settings(spark, {"spark.sql.readSideCharPadding": pads}):
        assert rows(read_table(spark, log.snapshot())) == sorted(wanted, key=str)
        monkeypatch.setattr("airflow_delta.spark.io.scan.suits_jvm", lambda _, **__: False)
        assert rows(read_table(spark, log.snapshot())) == sorted(wanted, key=str)


@pytest.mark.parametrize("pads", ["true", pytest.param("false", marks=pytest.mark.slow)])
def test_a_merge_with_its_own_rows_matches_them_all(spark, log, pads):
    with session_settings(spark, {"spark.sql.readSideCharPadding": pads}):
        own = read_table(spark, log.snapshot()).where("c IS NOT NULL")
        clauses = (MatchedUpdate(assignments={"v": "source.v + 10"}), NotMatchedInsert())
        with temporary_views(spark, {"own": own}):
            statement = MergeStatement(
                table=log.table_uri,
                source=SqlSource("TABLE own"),
                on="target.c = source.c AND target.p = source.p",
                clauses=clauses,
            )
            result = merge(spark, log, statement)
    assert (result.metrics["numTargetRowsUpdated"], result.metrics["numTargetRowsInserted"]) == (2, 0)
    assert sorted(log.refresh().to_arrow(["v"]).read_all()["v"].to_pylist()) == [3, 11, 12]


def test_a_merge_on_a_constant_key_matches_as_spark_compares_it(spark, log):
    statement = MergeStatement(
        table=log.table_uri,
        source=SqlSource("SELECT 'a' AS c, 5 AS v"),
        on="target.c = 'a'",
        clauses=(MatchedUpdate(assignments={"v": "source.v"}),),
    )
    assert merge(spark, log, statement).metrics["numTargetRowsUpdated"] == 1


@pytest.mark.parametrize(
    "log", [pytest.param(DELETION_VECTORS, marks=pytest.mark.slow), FEED], indirect=True, ids=["deletion_vectors", "feed"]
)
def test_a_delete_and_an_update_find_their_rows(spark, log):
    update(
        spark, log, UpdateStatement(table=log.table_uri, assignments={"v": "7"}, where="c = 'a' AND p = 'x' AND s.n = 'x   '")
    )
    delete(spark, log, DeleteStatement(table=log.table_uri, where="c = 'b'"))
    assert rows(read_table(spark, log.refresh())) == sorted([(None, None, 3, None), ("a  ", "x  ", 7, ("x   ",))], key=str)
    if log.snapshot().metadata.configuration.get("delta.enableChangeDataFeed"):
        changes = {(row.c, row._change_type) for row in read_changes(spark, log, 1).collect()}
        assert changes == {("a  ", "update_preimage"), ("a  ", "update_postimage"), ("b  ", "delete")}
        core = log.changes(1).read_all()
        assert set(core["c"].to_pylist()) == {"a  ", "b  "}


@pytest.mark.slow
@pytest.mark.parametrize("mapping", ["name", "none"])
def test_rows_are_written_and_read_where_members_beside_a_length_come_and_go(spark, table, write_rows, mapping):
    """Spark takes the declared type for the type: a text that is none of today's members makes columns of its own."""
    columns = parse_struct("id INT, s STRUCT<a: CHAR(3), b: VARCHAR(4), c: INT>")
    log = DeltaLog.for_table(table)
    log.create(NewTable(schema=columns, properties={"delta.columnMapping.mode": mapping}))
    if mapping == "name":
        log.alter().rename_column("s.a", "z")
        log.alter().drop_columns("s.c")
    name = "z" if mapping == "name" else "a"
    rows = f"SELECT 1 AS id, NAMED_STRUCT('{name}', 'x', 'b', 'yyyy', 'n', 'new') AS s"
    write_rows(rows, merge_schema=True)
    with pytest.raises(ConstraintViolatedError):
        write_rows(rows.replace("yyyy", "yyyyy"))
    write_rows(rows)
    shown = [(row.id, row.s[name], row.s.b, row.s.n) for row in read_table(spark, log.refresh()).collect()]
    assert shown == [(1, "x  ", "yyyy", "new")] * 2
    register(spark)
    assert spark.read.format("delta").load(table).select("s.n").distinct().collect() == [("new",)]


CHECKED = {"is_a": "c = 'a'", "is_whole": "length(c) = 3 AND length(s.m) = 4"}
A_ROW = "SELECT 1 AS id, 'a' AS c, 'a' AS d, NAMED_STRUCT('m', 'x') AS s"


@pytest.fixture(params=[(), ("c",)], ids=["plain", "partitioned"])
def checked(table, request):
    """A table without rows, whose constraints are about a CHAR."""
    log = DeltaLog.for_table(table)
    columns = parse_struct("id INT, c CHAR(3), d STRING, s STRUCT<m: CHAR(4)>")
    partitioned = {"partition_columns": request.param, "properties": DELETION_VECTORS}
    log.create(NewTable(schema=columns, constraints=CHECKED, **partitioned))
    return log


def test_every_statement_checks_the_padded_text(spark, checked, write_rows):
    """Spark pads the literal that a CHAR is compared with, too."""
    write_rows(A_ROW)
    target = {"table": checked.table_uri}
    assert update(spark, checked, UpdateStatement(**target, assignments={"d": "'b'"})).committed
    assert update(spark, checked, UpdateStatement(**target, assignments={"c": "'a '"})).committed
    source = SqlSource(A_ROW.replace("1 AS id", "explode(array(1, 2)) AS id"))
    merge_own = MergeStatement(
        **target, source=source, on="target.id = source.id", clauses=(MatchedUpdate(), NotMatchedInsert())
    )
    assert merge(spark, checked, merge_own).committed
    assert {row.c for row in read_table(spark, checked.refresh()).collect()} == {"a  "}
    for violation in (
        lambda: write_rows(A_ROW.replace("'a' AS c", "'b' AS c")),
        lambda: update(spark, checked, UpdateStatement(**target, assignments={"c": "'b'"})),
    ):
        with pytest.raises(ConstraintViolatedError):
            violation()


@pytest.mark.parametrize("partition_columns", [(), ("c",)], ids=["plain", "partitioned"])
@pytest.mark.parametrize("pads", slow_after(1, ["true", "false"]))
def test_a_replaced_range_takes_the_rows_that_a_read_finds_in_it(spark, table, write_rows, pads, partition_columns):
    with session_settings(spark, {"spark.sql.readSideCharPadding": pads}):
        log = DeltaLog.for_table(table)
        log.create(NewTable(schema=parse_struct("id INT, c CHAR(3)"), partition_columns=partition_columns))
        write_rows("SELECT 1 AS id, 'a' AS c")
        write_rows("SELECT 2 AS id, 'a' AS c", mode="replace_where", replace_where="c = 'a'")
        assert [row.id for row in read_table(spark, log.refresh()).where("c = 'a'").collect()] == [2]
        length = 3 if pads == "true" else 1
        write_rows("SELECT 3 AS id, 'a' AS c", mode="replace_where", replace_where=f"length(c) = {length}")
        assert [row.id for row in read_table(spark, log.refresh()).where(f"length(c) = {length}").collect()] == [3]


def test_values_that_are_computed_from_and_for_a_char_are_those_of_the_padded_text(spark, table, write_rows):
    columns = parse_struct("id INT, c CHAR(3), n INT GENERATED ALWAYS AS (length(c)), g CHAR(4) GENERATED ALWAYS AS (upper(c))")
    log = DeltaLog.for_table(table)
    log.create(NewTable(schema=columns, properties=DELETION_VECTORS))
    write_rows("SELECT 1 AS id, 'a' AS c")
    update(spark, log, UpdateStatement(table=table, assignments={"id": "2"}))
    shown = [tuple(row) for row in read_table(spark, log.refresh()).collect()]
    assert shown == [(2, "a  ", 3, "A   ")]
    update(spark, log, UpdateStatement(table=table, assignments={"c": "'b'"}))
    assert [tuple(row) for row in read_table(spark, log.refresh()).collect()] == [(2, "b  ", 3, "B   ")]
    with pytest.raises(ConstraintViolatedError, match="length of c"):
        write_rows("SELECT 1 AS id, 'abcd' AS c")


def test_a_char_that_is_written_into_a_string_is_a_string_to_the_rules_of_the_table(spark, tmp_path, table, write_rows):
    """A comparison of the padded text with a shorter one is TRUE of a CHAR alone."""
    source = str(tmp_path / "source")
    DeltaLog.for_table(source).create(NewTable(schema=parse_struct("id INT, c CHAR(3)")))
    padded = WriteStatement(table=source, source=SqlSource("SELECT 1 AS id, 'a' AS c"))
    write(spark, DeltaLog.for_table(source), padded)
    log = DeltaLog.for_table(table)
    log.create(NewTable(schema=parse_struct("id INT, c STRING"), constraints={"is_a": "c = 'a'"}))
    with pytest.raises(ConstraintViolatedError, match="is_a"):
        write_rows(TableSource(source))
    with pytest.raises(ConstraintViolatedError):
        write_rows(TableSource(source), mode="replace_where", replace_where="c = 'a'")
    write_rows("SELECT 1 AS id, 'a' AS c")
