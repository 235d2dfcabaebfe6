"""Rows whose floats are NaN or -0.0 are found by conditions, which Spark's readers skip by bounds and dictionaries."""

import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import ExpectationFailedError
from airflow_delta.core.statements import (
    DeleteStatement,
    Expectation,
    FileSource,
    MatchedUpdate,
    MergeStatement,
    NotMatchedInsert,
    SqlSource,
    TableSource,
    UpdateStatement,
    WriteStatement,
)
from airflow_delta.spark import DeltaTable
from airflow_delta.spark.dml import jvm_positions
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.io import row_cache
from airflow_delta.spark.io.float_order import PROJECTED_COLUMNS, has_float_members
from airflow_delta.spark.io.row_cache import RowCache
from airflow_delta.spark.io.scan import read_table
from airflow_delta.spark.statement.sources import open_source
from airflow_delta.spark.write.write import write
from tests.slow_cases import slow_after

NAN = math.nan
FLOATS = [NAN, 1.0, -0.0, None]
ROWS = pa.table(
    {
        "id": pa.array(range(4), pa.int64()),
        "x": pa.array(FLOATS),
        "f": pa.array(FLOATS, pa.float32()),
        "s": pa.array([{"k": 1, "in": {"y": value}} for value in FLOATS]),
        "text": ["a"] * 4,
    }
)
"""Of Arrow: the bounds of x are 0.0 and 1.0."""

FOUND = {
    "x > 100": [0],
    "x = double('NaN')": [0],
    "x IN (double('NaN'), 7)": [0],
    "NOT x <= 100": [0],
    "x >= 1 AND length(text) > 0": [0, 1],
    "s.in.y > 100": [0],
    "x = 0.0": [2],
    "x < 0.5": [2],
    "f > 100": [0],
    "f = 0.0": [2],
    "s.in.y = 0.0": [2],
    "x IS NULL": [3],
}
by_condition = pytest.mark.parametrize(("where", "ids"), slow_after(8, FOUND.items()), ids=FOUND)


@pytest.fixture(params=slow_after(1, ["name", "none"]))
def floats(request, table):
    """A table of them, with and without column mapping."""
    write_deltalake(table, ROWS)
    if request.param == "name":
        DeltaLog.for_table(table).alter().set_properties({"delta.columnMapping.mode": "name"})
    return table


@pytest.fixture
def file(tmp_path):
    """A Parquet file of them."""
    pq.write_table(ROWS, tmp_path / "floats.parquet", write_page_index=True)
    return str(tmp_path / "floats.parquet")


def ids_in(rows):
    return sorted(row.id for row in rows.select("id").collect())


@by_condition
def test_a_condition_on_the_rows_of_a_table_finds_nan_and_zeros_of_both_signs(spark, floats, where, ids):
    assert ids_in(DeltaTable.forPath(spark, floats).toDF().where(where)) == ids


def test_their_columns_keep_types_values_and_comments(spark, floats):
    DeltaLog.for_table(floats).alter().comment_column("x", "degrees")
    rows = read_table(spark, DeltaLog.for_table(floats).snapshot())
    assert [(field.name, field.dataType.simpleString()) for field in rows.schema if field.name in "xf"] == [
        ("x", "double"),
        ("f", "float"),
    ]
    assert rows.schema["x"].metadata["comment"] == "degrees"
    assert [str(row.x) for row in rows.orderBy("id").collect()] == ["nan", "1.0", "-0.0", "None"]


@pytest.mark.classic(reason="the plan is looked into")
def test_conditions_on_other_columns_are_still_the_readers(spark, table):
    write_deltalake(table, ROWS.select(["id", "x"]))
    rows = DeltaTable.forPath(spark, table).toDF().where("id = 1 AND x > 0.5")
    assert "PushedFilters: [IsNotNull(id), EqualTo(id,1)]" in rows._jdf.queryExecution().toString()
    assert ids_in(rows) == [1]


@by_condition
def test_a_query_on_parquet_files_finds_them(spark, table, file, where, ids):
    source = SqlSource(f"SELECT id FROM f WHERE {where}", views={"f": FileSource(file, format="parquet")})
    write(spark, DeltaLog.for_table(table), WriteStatement(table=table, source=source))
    assert ids_in(DeltaTable.forPath(spark, table).toDF()) == ids


@pytest.fixture
def wide_file(tmp_path):
    """A Parquet file of them with more columns than Spark compiles a projection of."""
    others = {f"c{number}": pa.nulls(4, pa.float64()) for number in range(PROJECTED_COLUMNS)}
    file = str(tmp_path / "wide.parquet")
    pq.write_table(pa.table({name: ROWS[name] for name in ("id", "x", "f")} | others), file, write_page_index=True)
    return file


@pytest.mark.parametrize(("where", "ids"), [("x > 100", [0]), ("x = 0.0", [2]), ("c99 IS NULL AND f > 100", [0])])
def test_a_query_on_parquet_files_of_many_columns_finds_them(spark, table, wide_file, where, ids):
    source = SqlSource(f"SELECT id FROM w WHERE {where}", views={"w": FileSource(wide_file, format="parquet")})
    write(spark, DeltaLog.for_table(table), WriteStatement(table=table, source=source))
    assert ids_in(DeltaTable.forPath(spark, table).toDF()) == ids


@pytest.mark.parametrize(("where", "ids"), [("x > 100", [0]), ("x = 0.0", [2])])
def test_a_condition_on_parquet_files_of_many_columns_that_are_read_whole_finds_them(spark, wide_file, where, ids):
    rows = open_source(spark, FileSource(wide_file, format="parquet")).frame
    assert ids_in(rows.where(where)) == ids


@pytest.mark.classic(reason="the plan is looked into")
def test_a_write_of_many_columns_is_no_projection_of_them(spark, wide_file):
    rows = open_source(spark, FileSource(wide_file, format="parquet")).frame
    assert "nanvl" not in rows._jdf.queryExecution().toString()


@by_condition
def test_a_query_on_a_table_finds_them(spark, floats, tmp_path, where, ids):
    copy = str(tmp_path / "copy")
    source = SqlSource(f"SELECT id FROM t WHERE {where}", views={"t": TableSource(floats)})
    write(spark, DeltaLog.for_table(copy), WriteStatement(table=copy, source=source))
    assert ids_in(DeltaTable.forPath(spark, copy).toDF()) == ids


@by_condition
def test_the_jvm_finds_the_rows_that_are_deleted(spark, floats, monkeypatch, where, ids):
    monkeypatch.setattr(jvm_positions, "_LEAST_BYTES", 0)
    delete(spark, DeltaLog.for_table(floats), DeleteStatement(table=floats, where=f"({where}) AND hash(id) IS NOT NULL"))
    assert ids_in(DeltaTable.forPath(spark, floats).toDF()) == sorted({0, 1, 2, 3} - {*ids})


def test_rows_written_by_an_update_are_found(spark, table):
    log = DeltaLog.for_table(table)
    source = SqlSource("SELECT id, IF(id % 2 = 0, double('NaN'), 1.0D) AS x, 'a' AS text FROM range(10)")
    write(spark, log, WriteStatement(table=table, source=source))
    update(spark, log, UpdateStatement(table=table, assignments={"text": "'b'"}, where="id < 10"))
    assert DeltaTable.forPath(spark, table).toDF().where("x > 100").count() == 5


@pytest.mark.parametrize("statement", [update, merge])
def test_a_query_of_an_expectation_sees_new_rows_with_nan_where_executors_keep_them(spark, table, monkeypatch, statement):
    monkeypatch.setattr(row_cache, "has_executors", lambda _: True)
    log = DeltaLog.for_table(table)
    write(spark, log, WriteStatement(table=table, source=SqlSource("SELECT id, 1.0D AS x FROM range(10)")))
    no_nan = [Expectation("SELECT count(*) = 0 FROM staged WHERE x > 100")]
    source = SqlSource("SELECT id, double('NaN') AS x FROM range(5, 15)")
    clauses = [MatchedUpdate(), NotMatchedInsert()]
    to_nan = {
        update: UpdateStatement(table=table, assignments={"x": "double('NaN')"}, where="id < 5", expect=no_nan),
        merge: MergeStatement(table=table, source=source, on="target.id = source.id", clauses=clauses, expect=no_nan),
    }
    with pytest.raises(ExpectationFailedError):
        statement(spark, log, to_nan[statement])
    assert log.snapshot().version == 0


def test_rows_kept_by_executors_are_found_though_two_columns_have_one_name(spark, table, monkeypatch):
    monkeypatch.setattr(row_cache, "has_executors", lambda _: True)
    rows = spark.range(20).select("id", F.lit(1).alias("y"), F.lit(NAN).alias("x"), F.lit("b").alias("y"))
    with RowCache(DeltaLog.for_table(table).store) as cache:
        kept, counted = cache.keep(rows, {"rows": F.count(F.lit(1))}, of_fixed_files=True)
        assert kept.where("x > 100").count() == counted["rows"] == 20
        assert kept.columns == ["id", "y", "x", "y"]
        assert str(kept.where("id = 0").first()) == str(Row(id=0, y=1, x=NAN, y2="b")).replace("y2", "y")


def test_floats_are_found_in_structs_at_any_depth_and_not_in_lists(spark):
    def columns(ddl):
        return spark.createDataFrame([], ddl).schema

    assert has_float_members(columns("s struct<a: int, b: struct<c: double>>"))
    assert not has_float_members(columns("x float, a array<struct<y: double>>, s struct<m: map<string, float>>"))
