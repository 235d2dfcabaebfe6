"""A session may give the words of a condition another meaning than the core's: the rows are those that plain Spark finds."""

import ast
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

import airflow_delta.spark
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.predicate import Opaque, is_exact
from airflow_delta.core.statements import (
    DeleteStatement,
    MatchedDelete,
    MergeStatement,
    OptimizeStatement,
    SqlSource,
    UpdateStatement,
)
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.io.scan import read_table
from airflow_delta.spark.optimize.optimize import optimize
from tests.spark.session_settings import session_settings
from tests.spark.sessions import new_session

IDENTIFIERS = {"spark.sql.ansi.enabled": "true", "spark.sql.ansi.doubleQuotedIdentifiers": "true"}
ESCAPED = {"spark.sql.parser.escapedStringLiterals": "true"}
NOT_ANSI = {"spark.sql.ansi.enabled": "false"}
AS_TEXTS = {**NOT_ANSI, "spark.sql.legacy.typeCoercion.datetimeToString.enabled": "true"}

ROWS = r"""
    SELECT CAST(id AS INT) AS id, IF(id < 3, 'p', 'q') AS p, IF(id % 2 = 0, 'p', CONCAT('a', CHAR(10))) AS q,
           IF(id % 3 = 0, CONCAT('a', CHAR(92), 'n'), CONCAT('a', CHAR(10))) AS s,
           CAST(id AS TINYINT) AS b, TIMESTAMP'2024-01-01 00:00:00' + MAKE_INTERVAL(0, 0, 0, CAST(id AS INT)) AS at
    FROM range(6)
"""
CONDITIONS = [
    ('"q" = p', IDENTIFIERS),
    ('p = "q"', IDENTIFIERS),
    ('p = "p"', {}),
    (r"s = 'a\n'", ESCAPED),
    (r"s = 'a\n'", {}),
    (r"s IN ('a\n', 'b') AND p = 'p'", ESCAPED),
    ("NOT (b = '300')", NOT_ANSI),
    ("b < '300'", NOT_ANSI),
    ("b < '3'", NOT_ANSI),
    ("at <= '2024-01-03'", AS_TEXTS),
    ("at <= '2024-01-03'", NOT_ANSI),
]


@pytest.fixture
def log(write_rows, table):
    write_rows(ROWS, partition_by=("p",))
    return DeltaLog.for_table(table)


def test_reads_and_deletes_are_about_the_rows_that_spark_finds(spark, log):
    rows = spark.sql(ROWS).localCheckpoint()
    for where, settings in CONDITIONS:
        with session_settings(spark, settings):
            wanted = sorted(row.id for row in rows.where(where).collect())
            found = sorted(row.id for row in read_table(spark, log.snapshot(), ["id"], where).collect())
            deleted = delete(spark, log, DeleteStatement(table=log.table_uri, where=where, dry_run=True))
        assert (found, deleted.metrics["numDeletedRows"]) == (wanted, len(wanted)), (where, settings)


def test_an_update_is_of_the_rows_that_spark_finds(spark, log):
    with session_settings(spark, IDENTIFIERS):
        update(spark, log, UpdateStatement(table=log.table_uri, assignments={"id": '"b" + 100'}, where='p = "q"'))
    assert sorted(log.refresh().to_arrow(["id"]).read_all()["id"].to_pylist()) == [1, 3, 4, 5, 100, 102]


def test_replaced_rows_and_clauses_by_source_are_those_that_spark_finds(spark, write_rows, log):
    with session_settings(spark, IDENTIFIERS):
        write_rows(f"SELECT * FROM ({ROWS}) WHERE id = 0", mode="replace_where", replace_where='p = "q"')
        assert sorted(log.refresh().to_arrow(["id"]).read_all()["id"].to_pylist()) == [0, 1, 3, 4, 5]
        clauses = (MatchedDelete(condition='target.p <> "target"."q"'),)
        source = SqlSource("SELECT 1 AS id UNION ALL SELECT 0")
        merge(spark, log, MergeStatement(table=log.table_uri, source=source, on='target.id = source."id"', clauses=clauses))
    assert sorted(log.refresh().to_arrow(["id"]).read_all()["id"].to_pylist()) == [0, 3, 4, 5]


def test_a_function_of_the_session_before_sparks_own_is_left_to_spark(spark, log):
    from airflow_delta.spark.io.predicates import predicate_of  # noqa: PLC0415 - so that the other tests run on older code

    session = new_session(spark)  # Spark 4.0 never lets go of a function that is named as one of its own
    schema, where = log.snapshot().schema, "startswith(p, 'p')"
    assert is_exact(predicate_of(session, where, schema, "t"))
    with session_settings(session, {"spark.sql.functionResolution.sessionOrder": "first"}):
        assert is_exact(predicate_of(session, where, schema, "t"))
        session.udf.register("startswith", lambda text, prefix: text == "q", "boolean")
        assert isinstance(predicate_of(session, where, schema, "t"), Opaque)
        delete(session, log, DeleteStatement(table=log.table_uri, where=where))
    assert sorted(log.refresh().to_arrow(["id"]).read_all()["id"].to_pylist()) == [0, 1, 2]


def test_optimize_refuses_partitions_that_only_spark_can_tell(spark, log):
    with (
        session_settings(spark, IDENTIFIERS),
        pytest.raises(Exception, match=r"""'p = "q"' cannot be used on .*: OPTIMIZE takes whole partitions"""),
    ):
        optimize(spark, log, OptimizeStatement(table=log.table_uri, where='p = "q"'))


@pytest.fixture
def setting(spark):
    """Give the session a setting for the length of a test."""
    names = []

    def put(name, value):
        names.append(name)
        spark.conf.set(name, value)

    yield put
    for name in names:
        spark.conf.unset(name)


def test_partitions_are_read_where_sparks_reader_is_of_its_second_kind(spark, log, setting):
    setting("spark.sql.sources.useV1SourceList", "")
    rows = read_table(spark, log.snapshot(), ["id", "p"], "p = 'p'")
    assert sorted(map(tuple, rows.collect())) == [(0, "p"), (1, "p"), (2, "p")]


RESULTS = {
    f"{path.stem}.{ast.unparse(node.targets[0])}": node.value.value
    for path in Path(airflow_delta.spark.__file__).parent.rglob("*.py")
    for node in ast.parse(path.read_text()).body
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).endswith("_DDL")
}


@pytest.mark.classic(reason="the client parses nothing")
def test_names_in_what_workers_return_are_no_reserved_words(spark, setting):
    setting("spark.sql.ansi.enabled", "true")
    setting("spark.sql.ansi.enforceReservedKeywords", "true")
    assert "deletion_vector_worker.RESULT_DDL" in RESULTS
    assert all(StructType.fromDDL(text).names for text in RESULTS.values())
