"""Reads of the target, found in Spark's plan."""

from contextlib import nullcontext

import pyarrow as pa
import pytest
import sqlglot
from deltalake import write_deltalake

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.least_versions import is_at_least
from airflow_delta.core.predicate import TRUE
from airflow_delta.core.statements import SqlSource, TableSource
from airflow_delta.spark.constraints.column_references import without_qualifier
from airflow_delta.spark.data_source import register
from airflow_delta.spark.delta_table.delta_table import DeltaTable
from airflow_delta.spark.errors import SparkConnectUnsupportedError
from airflow_delta.spark.jvm import is_connect
from airflow_delta.spark.statement.sources import open_source
from airflow_delta.spark.statement.target_reads import TargetReads
from tests.spark.needs import sees_plans

DAYS = pa.table({"id": [1, 2, 3], "day": ["mon", "mon", "tue"], "in": [{"id": 1}, {"id": 2}, {"id": 3}]})


@pytest.fixture
def days(table):
    write_deltalake(table, DAYS, partition_by=["day"])
    return table


def test_the_target_is_known_by_any_spelling(spark, table, tmp_path, monkeypatch):
    write_deltalake(table, DAYS)
    snapshot = DeltaLog.for_table(table).snapshot()
    write_deltalake(table, DAYS, mode="append")
    (tmp_path / "link").symlink_to(table)
    monkeypatch.chdir(tmp_path)

    for uri in (table, f"{table}/", f"file:{table}", f"file://{table}/", f"{table}/../link", "table", "./link/../table//"):
        for source, version in [
            (TableSource(uri), 0),
            (SqlSource("SELECT * FROM t", views={"t": TableSource(uri)}), 0),
            (TableSource(uri, version=1), 1),
        ]:
            reads = TargetReads(spark=spark, snapshot=snapshot)
            opened = open_source(spark, source, target=snapshot)
            reads.look_into(opened.frame)
            assert [pin.version for pin in opened.pins] == [version]
            assert reads.predicates == ([TRUE] if version == 0 else []), uri


ALL = ["mon", "tue"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT 1 AS id", []),
        ("SELECT * FROM t", [ALL]),
        ("SELECT * FROM t WHERE day = 'mon' AND id > 1 + 1", [["mon"]]),
        pytest.param(
            "SELECT * FROM t AS x WHERE (x.in.id = 2 OR x.day IN ('mon', 'thu')) AND length(x.day) = 3",
            [["mon"]],
            marks=pytest.mark.skipif(not is_at_least(sqlglot.__version__, (30, 22)), reason="needs sqlglot 30.22"),
        ),
        ("SELECT * FROM (SELECT day, id FROM t) WHERE day = 'mon'", [["mon"]]),
        ("SELECT * FROM (SELECT day AS id, id AS day FROM t) WHERE id = 'mon'", [ALL]),
        ("SELECT * FROM (SELECT * FROM t LIMIT 1) WHERE day = 'mon'", [ALL]),
        ("SELECT * FROM t WHERE day = (SELECT max(day) FROM t WHERE id = 3)", [ALL, ["tue"]]),
        ("SELECT * FROM range(3) r WHERE EXISTS (SELECT 1 FROM t WHERE t.id = r.id AND t.day = 'mon')", [["mon"]]),
        ("SELECT * FROM range(3) r ANTI JOIN t ON t.id = r.id AND t.day = 'mon'", [ALL]),
        ("WITH m AS (SELECT * FROM t WHERE day < 'n') SELECT * FROM m JOIN m n USING (id)", [["mon"]]),
        ("SELECT * FROM t WHERE day = 'mon' UNION ALL SELECT * FROM t WHERE id = CAST(3 AS INT)", [["mon"], ["tue"]]),
    ],
)
def test_a_read_is_recorded_with_the_conditions_right_above_it(spark, days, query, expected):
    snapshot = DeltaLog.for_table(days).snapshot()
    reads = TargetReads(spark=spark, snapshot=snapshot)
    reads.look_into(open_source(spark, SqlSource(query, views={"t": TableSource(days)}), target=snapshot).frame)

    files = [snapshot.files(predicate)["partition_values"].to_pylist() for predicate in reads.predicates]
    # Over Spark Connect a query carries its views, and no conditions are seen: whatever it reads counts as all.
    found = [sorted(dict(values)["day"] for values in found) for found in files]
    assert found == ([ALL] if is_connect(spark) else expected)


@sees_plans
@pytest.mark.parametrize(
    ("rows", "files"),
    [
        (lambda rows: rows.where("id < 5"), 1),
        (lambda rows: rows.where("x < 5"), 1),
        (lambda rows: rows.selectExpr("nanvl(x, id) AS x").where("x < 5"), 2),
        (lambda rows: rows.selectExpr("nanvl(x, x) AS id").where("id < 5"), 2),
    ],
)
def test_a_read_of_a_table_with_floats_is_recorded_with_its_conditions(spark, table, rows, files):
    write_deltalake(table, pa.table({"id": [1], "x": [1.0]}))
    write_deltalake(table, pa.table({"id": [9], "x": [9.0]}), mode="append")
    snapshot = DeltaLog.for_table(table).snapshot()
    reads = TargetReads(spark=spark, snapshot=snapshot)
    reads.look_into(rows(DeltaTable.forPath(spark, table).toDF()))
    assert [len(snapshot.files(predicate)) for predicate in reads.predicates] == [files]


def test_frames_that_are_pinned_or_of_other_tables_read_nothing_of_the_target(spark, days, tmp_path):
    register(spark)
    write_deltalake(tmp_path / "other", DAYS)
    snapshot = DeltaLog.for_table(days).snapshot()
    frames = [
        DeltaTable.forPath(spark, days, version=0).toDF(),
        DeltaTable.forPath(spark, str(tmp_path / "other")).toDF(),
        spark.read.parquet(str(tmp_path / "other")),
        spark.range(3),
    ]
    of_data_source = [
        spark.read.format("delta").option("versionAsOf", 0).load(days),
        spark.read.format("delta").load(str(tmp_path / "other")),
    ]
    for frame in [*frames, *of_data_source]:
        is_unknown = is_connect(spark) and frame in of_data_source
        reads = TargetReads(spark=spark, snapshot=snapshot)
        with pytest.raises(SparkConnectUnsupportedError, match=r"toDF\(\)") if is_unknown else nullcontext():
            reads.look_into(frame)
        assert not reads


@pytest.mark.parametrize(
    ("text", "qualifier", "expected"),
    [
        ("(t.day = 'mon')", ["t"], "(day = 'mon')"),
        ("(t.t.t = outer(r.t.id))", ["t"], "(t.t = outer(r.t.id))"),
        ("(`a b`.c.id = 't.id')", ["a b", "c"], "(id = 't.id')"),
        ("(day = 'mon')", [], "(day = 'mon')"),
        ("T.day", ["t"], "T.day"),
    ],
)
def test_a_qualifier_is_taken_off_as_spark_has_put_it_on(text, qualifier, expected):
    assert without_qualifier(text, qualifier) == expected
