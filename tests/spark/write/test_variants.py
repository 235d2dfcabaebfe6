"""Variants through every statement, stored whole or in typed columns (shredded)."""

import json

import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import VariantVal

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import SchemaMismatchError
from airflow_delta.core.least_versions import is_at_least
from airflow_delta.core.statements import (
    UPSERT,
    DeleteStatement,
    MergeStatement,
    OptimizeStatement,
    SqlSource,
    UpdateStatement,
)
from airflow_delta.spark import DeltaTable
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.io import scan
from airflow_delta.spark.optimize.optimize import optimize

DOCUMENT = """parse_json('{"a":' || id || ',"b":["x",{"c":' || id || '.5}]}')"""
ROWS = f"SELECT id, CAST(id % 2 AS INT) AS p, IF(id = 5, NULL, {DOCUMENT}) AS v FROM range(6)"
SHREDDED = {"delta.enableVariantShredding": "true"}


def document(number):
    return {"a": number, "b": ["x", {"c": number + 0.5}]}


def by_core(table, version=None):
    rows = DeltaLog.for_table(table).snapshot(version).to_arrow(["id", "v"]).read_all().to_pylist()
    found = {row["id"]: row["v"] and json.loads(VariantVal(row["v"]["value"], row["v"]["metadata"]).toJson()) for row in rows}
    assert len(found) == len(rows)
    return found


def by_spark(spark, table):
    rows = DeltaTable.forPath(spark, table).toDF().selectExpr("id", "to_json(v) AS v").collect()
    return {row.id: row.v and json.loads(row.v) for row in rows}


def live_files(table):
    return DeltaLog.for_table(table).snapshot().files(columns=["path", "stats"]).to_pylist()


WHOLE = {}
HIDDEN_AND_SHREDDED = {**SHREDDED, "delta.enableDeletionVectors": "true"}


@pytest.mark.parametrize(
    ("reader", "properties"),
    [
        pytest.param("jvm", HIDDEN_AND_SHREDDED, id="jvm-shredded"),
        pytest.param("jvm", WHOLE, id="jvm-whole", marks=pytest.mark.slow),
        pytest.param("arrow", HIDDEN_AND_SHREDDED, id="arrow-shredded", marks=pytest.mark.slow),
        pytest.param("arrow", WHOLE, id="arrow-whole", marks=pytest.mark.slow),
    ],
)
def test_variants_live_through_every_statement(spark, table, write_rows, monkeypatch, properties, reader):
    monkeypatch.setattr(scan, "suits_jvm", lambda _uris, **__: reader == "jvm")
    feed = {"delta.enableChangeDataFeed": "true"}
    write_rows(ROWS, partition_by="p", properties={**properties, **feed})
    log = DeltaLog.for_table(table)
    expected = {number: document(number) for number in range(5)} | {5: None}
    assert by_core(table) == by_spark(spark, table) == expected
    counts = [json.loads(file["stats"])["nullCount"]["v"] for file in live_files(table)]
    assert (sum(counts), all("v" not in json.loads(file["stats"])["minValues"] for file in live_files(table))) == (1, True)
    typed = {"typed_value" in str(pq.ParquetFile(f"{table}/{file['path']}").schema) for file in live_files(table)}
    assert typed == {bool(properties) and is_at_least(spark.version, (4, 1))}  # before, Spark's writer finds no such columns

    update(spark, log, UpdateStatement(table=table, where="id = 1", assignments={"v": "parse_json('[1]')"}))
    update(spark, log, UpdateStatement(table=table, where="variant_get(v, '$.a', 'int') = 2", assignments={"p": "7"}))
    delete(spark, log, DeleteStatement(table=table, where="variant_get(v, '$.b[1].c', 'double') = 3.5"))
    source = SqlSource("SELECT id, CAST(1 AS INT) AS p, parse_json(CAST(id AS STRING)) AS v FROM range(4, 9, 2)")
    merge(spark, log, MergeStatement(table=table, source=source, on="target.id = source.id", clauses=UPSERT))
    optimize(spark, log, OptimizeStatement(table=table))
    expected = {0: document(0), 1: [1], 2: document(2), 4: 4, 5: None, 6: 6, 8: 8}
    assert by_core(table) == by_spark(spark, table) == expected

    changed = log.changes(1, 1).read_all().to_pylist()
    kinds = {row["_change_type"]: VariantVal(row["v"]["value"], row["v"]["metadata"]).toJson() for row in changed}
    assert json.loads(kinds["update_preimage"]) == document(1)
    assert kinds["update_postimage"] == "[1]"


def test_a_variant_comes_with_schema_evolution_and_brings_its_feature(spark, table, write_rows):
    write_rows("SELECT 1L AS id")
    write_rows("SELECT 2L AS id, array(parse_json('{\"k\":1}')) AS v", merge_schema=True)
    assert "variantType" in DeltaLog.for_table(table).snapshot().protocol.reader_features
    rows = DeltaTable.forPath(spark, table).toDF().selectExpr("id", "to_json(v) AS v").orderBy("id").collect()
    assert [(row.id, row.v) for row in rows] == [(1, None), (2, '[{"k":1}]')]


def test_a_variant_partitions_no_table(write_rows):
    with pytest.raises(SchemaMismatchError, match="v is variant, which cannot partition a table"):
        write_rows("SELECT 1L AS id, parse_json('1') AS v", partition_by="v")
