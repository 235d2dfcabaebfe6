"""What statements cache is released when they end, in whatever way; rows come out of the cache as they went in."""

import datetime as dt
import os
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import functions as F  # noqa: N812

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import DeltaError, ExpectationFailedError
from airflow_delta.core.statements import (
    DeleteStatement,
    Expectation,
    MatchedUpdate,
    MergeStatement,
    SqlSource,
    UpdateStatement,
    WriteStatement,
)
from airflow_delta.core.table_changes.create import NewTable
from airflow_delta.core.table_changes.ddl import parse_struct
from airflow_delta.spark import spark_features
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.io import row_cache, small_work
from airflow_delta.spark.io.row_cache import RowCache
from airflow_delta.spark.session import has_executors
from airflow_delta.spark.write.write import write
from tests.slow_cases import slow_after
from tests.spark.sessions import new_session

NUMBERED = "id BIGINT, v BIGINT, k BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 1 INCREMENT BY 1)"
NEVER = Expectation("v IS NULL")


@pytest.fixture(params=["local", "executors"])
def place(request, monkeypatch):
    """Rows are kept as by a driver alone, or as where executors may be lost."""
    monkeypatch.setattr(row_cache, "has_executors", lambda _: request.param == "executors")
    return request.param


@pytest.fixture
def cached(spark):
    """The numbers of the RDDs that Spark keeps."""
    return lambda: {*spark.sparkContext._jsc.getPersistentRDDs().keySet().toArray()}


@pytest.fixture
def unknown_files(table):
    """The files in the table's directory that its log does not know."""

    def find():
        known = {Path(file) for file in DeltaTable(table).file_uris()}
        return {file for file in Path(table).rglob("*.parquet") if file not in known} - replaced

    replaced = set()
    write_deltalake(table, pa.table({"id": [1, 2, 3, 4], "v": [10, 20, 30, 40]}))
    replaced |= {Path(file) for file in DeltaTable(table).file_uris()}
    return find


def _merge(spark, log, **statement):
    source = SqlSource("SELECT id, rand() AS r FROM VALUES (2L), (3L), (9L) AS s(id)")
    statement = {"clauses": [MatchedUpdate(assignments={"v": "CAST(r AS BIGINT)"})]} | statement
    return merge(spark, log, MergeStatement(table=log.table_uri, source=source, on="target.id = source.id", **statement))


def _update(spark, log, **statement):
    return update(spark, log, UpdateStatement(table=log.table_uri, where="id > 2", **statement))


def _update_to_random(spark, log):
    return _update(spark, log, assignments={"v": "CAST(rand() AS BIGINT)"})


def _delete(spark, log, where="id % 2 = 0", **statement):
    return delete(spark, log, DeleteStatement(table=log.table_uri, where=where, **statement))


STATEMENTS = {
    "merge": (_merge, [10, 0, 0, 40]),
    "update": (lambda spark, log: _update(spark, log, assignments={"v": "v + 1"}), [10, 20, 31, 41]),
    "update to random": (_update_to_random, [10, 20, 0, 0]),
    "delete": (_delete, [10, 30]),
}


@pytest.mark.classic(reason="counts what the JVM keeps")
@pytest.mark.parametrize("name", slow_after(4, STATEMENTS))
def test_what_a_statement_keeps_is_released_at_its_end(spark, table, place, cached, unknown_files, name):
    statement, values = STATEMENTS[name]
    before = cached()
    statement(spark, DeltaLog.for_table(table))
    assert cached() == before
    assert DeltaTable(table).to_pyarrow_table().sort_by("id")["v"].to_pylist() == values
    assert unknown_files() == set()


DRY_RUNS = {
    "merge": (_merge, {"numTargetRowsUpdated": 2}),
    "update to random": (partial(_update, assignments={"v": "CAST(rand() AS BIGINT)"}), {"numUpdatedRows": 2}),
    "delete": (partial(_delete, where="id % 2 = CAST(rand() AS BIGINT)"), {"numDeletedRows": 2}),
}


@pytest.mark.parametrize("name", DRY_RUNS)
def test_a_dry_run_writes_nothing_to_the_table(spark, table, name, monkeypatch):
    monkeypatch.setattr(row_cache, "has_executors", lambda _: True)
    write_deltalake(table, pa.table({"id": [1, 2, 3, 4], "v": [10, 20, 30, 40]}))
    statement, metrics = DRY_RUNS[name]
    directories = [Path(table), Path(table) / "_delta_log"]
    for directory in directories:  # whose time is that of its last file made or deleted
        os.utime(directory, (0, 0))

    result = statement(spark, DeltaLog.for_table(table), dry_run=True)

    assert not result.committed
    assert result.metrics.items() >= metrics.items()
    assert [directory.stat().st_mtime for directory in directories] == [0, 0]


def _merge_twice(spark, log):
    source = SqlSource("SELECT id FROM VALUES (2L), (2L) AS s(id)")
    clauses = [MatchedUpdate(assignments={"v": "0"})]
    merge(spark, log, MergeStatement(table=log.table_uri, source=source, on="target.id = source.id", clauses=clauses))


def _merge_error(spark, log):
    source = SqlSource("SELECT CAST(raise_error('no') AS BIGINT) AS id, 1 AS r")
    clauses = [MatchedUpdate(assignments={"v": "r"})]
    merge(spark, log, MergeStatement(table=log.table_uri, source=source, on="target.id = source.id", clauses=clauses))


FAILURES = {
    "expectation": (lambda spark, log: _merge(spark, log, expect=[NEVER]), ExpectationFailedError),
    "matched twice": (_merge_twice, DeltaError),
    "source": (_merge_error, Exception),
    "value": (lambda spark, log: _update(spark, log, assignments={"v": "raise_error('no')"}), Exception),
}


@pytest.mark.classic(reason="counts what the JVM keeps")
@pytest.mark.parametrize("name", slow_after(4, FAILURES))
def test_what_a_statement_keeps_is_released_when_it_fails(spark, table, place, cached, unknown_files, name):
    statement, error = FAILURES[name]
    before = cached()
    with pytest.raises(error):
        statement(spark, DeltaLog.for_table(table))
    assert cached() == before
    assert unknown_files() == set()
    assert DeltaTable(table).version() == 0


def test_rows_that_are_numbered_are_kept_until_they_are_written(spark, table, place):
    log = DeltaLog.for_table(table)
    log.create(NewTable(schema=parse_struct(NUMBERED)))
    source = SqlSource("SELECT id, id AS v FROM range(0, 100, 1, 4) DISTRIBUTE BY rand()")
    write(spark, log, WriteStatement(table=table, source=source))
    rows = DeltaTable(table).to_pyarrow_table()
    assert sorted(rows["k"].to_pylist()) == [*range(1, 101)]
    assert {*Path(table).rglob("*.parquet")} == {Path(file) for file in DeltaTable(table).file_uris()}


ROW = (
    "named_struct('a', 1, 'b', array(1, NULL)) AS s, map('k', 1.5BD) AS m, 'x' AS `a.b`, TIMESTAMP '1500-01-01 12:00:00' AS t, "
    "DATE '1500-01-01' AS d, X'00ff' AS x, NULL AS n, 1Y AS `A.b`"
)


def test_rows_come_out_of_files_as_they_went_in_whatever_their_types_and_names(spark, table, monkeypatch):
    monkeypatch.setattr(row_cache, "has_executors", lambda _: True)
    rows = spark.sql(f"SELECT {ROW} FROM range(3)")
    with RowCache(DeltaLog.for_table(table).store) as cache:
        kept, counted = cache.keep(rows, {"rows": F.count(F.lit(1)), "x": F.max("x")})
        assert counted == {"rows": 3, "x": bytearray(b"\x00\xff")}
        assert kept.schema.simpleString() == rows.schema.simpleString()
        assert kept.collect() == rows.collect()
        assert len([*Path(table).rglob("*.parquet")]) > 0
    assert not Path(table).exists()


def test_rows_that_no_file_holds_are_kept_as_a_driver_alone_keeps_them(spark, table, monkeypatch):
    monkeypatch.setattr(row_cache, "has_executors", lambda _: True)
    rows = spark.sql("SELECT INTERVAL '1' DAY AS i, array() AS nothing FROM range(2)")
    with RowCache(DeltaLog.for_table(table).store) as cache:
        kept, counted = cache.keep(rows, {"rows": F.count(F.lit(1))})
        assert counted == {"rows": 2}
        assert [tuple(row) for row in kept.collect()] == [(dt.timedelta(days=1), [])] * 2
    assert not Path(table).exists()


def test_rows_of_a_session_that_is_not_the_active_one_are_kept_in_their_own(spark, table, place):
    session = new_session(spark)
    with RowCache(DeltaLog.for_table(table).store) as cache:
        kept, counted = cache.keep(session.range(3), {"rows": F.count(F.lit(1))})
        assert (kept.count(), counted) == (3, {"rows": 3})
        assert kept.sparkSession is session


def test_texts_keep_their_collations(spark, table, place):
    rows = spark.sql("SELECT 'A' COLLATE UTF8_LCASE AS k, array(named_struct('k', 'A' COLLATE UTF8_LCASE)) AS s")
    with RowCache(DeltaLog.for_table(table).store) as cache:
        kept, _ = cache.keep(rows, {"rows": F.count(F.lit(1))})
        assert kept.schema.simpleString() == rows.schema.simpleString()
        assert kept.where("k = 'a' AND s[0].k = 'a'").count() == 1
    assert not Path(table).exists()


def test_rows_that_draw_numbers_stay_as_they_were_computed_first(spark, table, place):
    rows = spark.range(50).select("id", F.rand().alias("r"))
    with RowCache(DeltaLog.for_table(table).store) as cache:
        kept, counted = cache.keep(rows, {"sum": F.sum("r")}, of_fixed_files=True)
        assert kept.agg(F.sum("r")).first()[0] == pytest.approx(counted["sum"])


@pytest.mark.classic(reason="counts what the JVM keeps")
def test_rows_that_nothing_is_asked_of_yet_are_kept_by_the_first_look_at_them(spark, table, place, cached):
    rows, before = spark.range(50).select(F.col("id") % 3, F.rand().alias("r")).toDF("k", "r"), cached()
    with RowCache(DeltaLog.for_table(table).store) as cache:
        kept, counted = cache.keep(rows, {}, of_fixed_files=True)
        sums = dict(kept.groupBy("k").agg(F.sum("r")).collect())
        assert dict(kept.groupBy("k").agg(F.sum("r")).collect()) == pytest.approx(sums)
        assert (counted, len(sums)) == ({}, 3)
    assert cached() == before


def test_where_the_server_sends_no_observations_the_kept_rows_are_looked_at_once_more(spark, table, place, monkeypatch):
    for module in (spark_features, row_cache):
        monkeypatch.setattr(module, "sends_observations", lambda _: False)
    rows = spark.range(50).select("id", F.rand().alias("r"))
    with RowCache(DeltaLog.for_table(table).store) as cache:
        kept, counted = cache.keep(rows, {"rows": F.count(F.lit(1)), "sum": F.sum("r"), "last": F.max(F.struct("id", "r"))})
        assert (counted["rows"], counted["last"].id) == (50, 49)
        assert kept.agg(F.sum("r")).first()[0] == pytest.approx(counted["sum"])


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", False),
        ("local[*]", False),
        ("local[4,2]", False),
        ("local-cluster[2,1,1024]", True),
        ("yarn", True),
        ("", True),
    ],
)
def test_only_a_local_master_has_no_executors_to_lose(master, expected):
    assert has_executors(SimpleNamespace(conf={"spark.master": master})) is expected


def test_the_session_tells_its_master(spark):
    assert not has_executors(spark)


def test_rows_that_this_process_keeps_come_out_as_they_went_in(spark, table, monkeypatch):
    for module in (small_work, row_cache):
        monkeypatch.setattr(module, "is_connect", lambda _: True)
    instant, day = dt.datetime(2024, 3, 31, 1, 30, tzinfo=dt.UTC), dt.date(1500, 2, 28)
    schema = "`a.b` BIGINT NOT NULL, t TIMESTAMP, n TIMESTAMP_NTZ, d DATE, x DECIMAL(20, 2), f DOUBLE, b BINARY, s STRING"
    values = [(1, instant, instant.replace(tzinfo=None), day, Decimal("1.50"), float("nan"), b"\x00", ""), (2, *[None] * 7)]
    rows = spark.createDataFrame(values, schema)
    none = rows.where("`a.b` > 2")
    with RowCache(DeltaLog.for_table(table).store) as cache:
        kept, held = cache.keep_here(rows, size=100)
        kept_none, held_none = cache.keep_here(none, size=100)

        assert (len(held), held["a.b"].to_pylist(), len(held_none)) == (2, [1, 2], 0)
        assert kept.schema == rows.schema
        assert repr(sorted(kept.collect())) == repr(sorted(rows.collect()))
        assert (kept_none.schema, kept_none.collect()) == (rows.schema, [])


def test_rows_stay_with_spark_where_they_are_many_of_one_name_or_of_a_type_that_arrow_knows_otherwise(
    spark, table, monkeypatch
):
    for module in (small_work, row_cache):
        monkeypatch.setattr(module, "is_connect", lambda _: True)
    with RowCache(DeltaLog.for_table(table).store) as cache:
        assert cache.keep_here(spark.range(3), size=small_work.MOST_BYTES + 1) is None
        assert cache.keep_here(spark.sql("SELECT 1 AS a, 2 AS a"), size=100) is None
        assert cache.keep_here(spark.sql("SELECT array(1) AS a"), size=100) is None
        assert cache.keep_here(spark.sql("SELECT INTERVAL '1' DAY AS a"), size=100) is None
        monkeypatch.setattr(row_cache, "MOST_BYTES", 8)
        assert cache.keep_here(spark.range(3), size=8) is None  # they were more than was said


@pytest.mark.classic(reason="the test is about a classic session")
def test_a_classic_session_keeps_its_rows_itself(spark, table):
    with RowCache(DeltaLog.for_table(table).store) as cache:
        assert cache.keep_here(spark.range(3), size=100) is None
