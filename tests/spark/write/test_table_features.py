"""Features that need no statement of their own: what tables with them are like after statements on Spark."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import ProtocolChangedError, UnsupportedTypeError
from airflow_delta.core.schema import ArrayType, StructField, StructType, physical_name, schema_json
from airflow_delta.core.schema.data_types import LONG, VOID
from airflow_delta.core.snapshot.unreadable_columns import UnreadableColumnsWarning
from airflow_delta.core.statements import (
    UPSERT,
    DeleteStatement,
    MergeStatement,
    OptimizeStatement,
    SqlSource,
    UpdateStatement,
)
from airflow_delta.core.table_changes import NewTable
from airflow_delta.core.table_changes.ddl import parse_struct
from airflow_delta.spark import DeltaTable
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.optimize.optimize import optimize
from tests.core.builders import metadata, protocol, schema_string


def statements(spark, table, more=""):
    """Every kind of statement that writes files, on a table with the columns id, p and v."""
    log = DeltaLog.for_table(table)
    update(spark, log, UpdateStatement(table=table, where="id = 1", assignments={"v": "100"}))
    update(spark, log, UpdateStatement(table=table, where="id = 2", assignments={"p": "7"}))
    delete(spark, log, DeleteStatement(table=table, where="id = 3"))
    source = SqlSource(f"SELECT id, CAST(1 AS INT) AS p, id * 2 AS v{more} FROM range(4, 9, 2)")
    merge(spark, log, MergeStatement(table=table, source=source, on="target.id = source.id", clauses=UPSERT))
    optimize(spark, log, OptimizeStatement(table=table))


ROWS = "SELECT id, CAST(id % 2 AS INT) AS p, id * 10 AS v FROM range(6)"
AFTER = [(0, 0, 0), (1, 1, 100), (2, 7, 20), (4, 1, 8), (5, 1, 50), (6, 1, 12), (8, 1, 16)]


def check_partition_columns(table):
    """Every live file holds the partition column, with the value that the log gives it, and without statistics."""
    snapshot = DeltaLog.for_table(table).snapshot()
    name = physical_name(snapshot.schema.find("p"))
    files = snapshot.files(columns=["path", "partition_values", "stats"]).to_pylist()
    assert files
    for file in files:
        held = pq.read_table(f"{table}/{file['path']}", partitioning=None)
        assert held[name].unique().to_pylist() == [int(dict(file["partition_values"])[name])]
        stats = json.loads(file["stats"])
        assert name not in stats["minValues"].keys() | stats["nullCount"].keys()
        assert len(stats["minValues"]) == 2


@pytest.mark.parametrize(
    ("mapping", "requested"),
    [
        ("none", {"delta.feature.materializePartitionColumns": "supported"}),
        pytest.param("name", {"delta.writePartitionColumnsToParquet": "true"}, marks=pytest.mark.slow),
    ],
)
def test_every_statement_writes_partition_columns_into_its_files(
    spark, table, write_rows, seen, monkeypatch, mapping, requested
):
    monkeypatch.setattr("airflow_delta.spark.io.row_sink.is_done_here", lambda *_: mapping == "name")  # by either writer
    write_rows(ROWS, partition_by="p", properties={"delta.columnMapping.mode": mapping, **requested})
    check_partition_columns(table)
    statements(spark, table)
    check_partition_columns(table)

    rows = DeltaTable.forPath(spark, table).toDF().orderBy("id").collect()
    assert [tuple(row) for row in rows] == AFTER
    if mapping == "none":  # duckdb finds no partition values by physical names
        assert seen() == AFTER


def test_rows_that_were_written_before_the_table_required_its_partition_columns_are_not_committed(
    table, write_rows, seen, during_staging
):
    write_rows(ROWS, partition_by="p")
    alter = DeltaLog.for_table(table).alter()
    during_staging(lambda: alter.set_properties({"delta.feature.materializePartitionColumns": "supported"}))
    overwrite = {"source": "SELECT 9L AS id, CAST(1 AS INT) AS p, 90L AS v", "mode": "overwrite"}
    with pytest.raises(ProtocolChangedError) as caught:
        write_rows(**overwrite)
    assert caught.value.retryable
    assert (write_rows(**overwrite).version, seen()) == (2, [(9, 1, 90)])
    check_partition_columns(table)


def test_texts_keep_their_collation_and_partitions_are_told_apart_by_bytes(spark, table, write_rows, seen):
    rows = (
        "SELECT id, n COLLATE UTF8_LCASE AS n, p COLLATE UTF8_LCASE AS p "
        "FROM VALUES (1L, 'Ann', 'x'), (2L, 'BOB', 'X'), (3L, 'ann', NULL) AS t(id, n, p)"
    )
    write_rows(rows, partition_by="p")
    snapshot = DeltaLog.for_table(table).snapshot()
    assert snapshot.schema.find("n").metadata["__COLLATIONS"] == {"n": "spark.UTF8_LCASE"}
    assert "collations" in snapshot.protocol.writer_features
    source = SqlSource(
        "SELECT id, n COLLATE UTF8_LCASE AS n, p COLLATE UTF8_LCASE AS p "
        "FROM VALUES (20L, 'bob', 'X'), (4L, 'Zoe', 'x') AS t(id, n, p)"
    )
    merge(
        spark,
        DeltaLog.for_table(table),
        MergeStatement(table=table, source=source, on="target.n = source.n", clauses=UPSERT),
    )
    update(spark, DeltaLog.for_table(table), UpdateStatement(table=table, where="n = 'ANN'", assignments={"id": "id + 10"}))

    frame = DeltaTable.forPath(spark, table).toDF()
    assert frame.schema["n"].dataType.collation == "UTF8_LCASE"
    assert sorted(row.id for row in frame.where("n = 'aNN'").collect()) == [11, 13]
    assert sorted(row.id for row in frame.where("p = 'x'").collect()) == [4, 11, 20]
    assert seen() == [(11, "Ann", "x"), (13, "ann", None), (20, "bob", "X"), (4, "Zoe", "x")]


@pytest.mark.parametrize("kind", ["geometry(OGC:CRS84)", "timestamp_nanos"])
def test_a_table_of_types_that_are_not_known_here_is_read_without_their_columns(spark, tmp_path, kind):
    feature = "timestampNanos" if "nanos" in kind else "geospatial"
    (tmp_path / "_delta_log").mkdir()
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int64()), "place": [b"a", b"b"], "name": ["x", "y"]}), tmp_path / "a")
    actions = [
        protocol(3, 7, readerFeatures=[feature], writerFeatures=[feature]),
        metadata(schema_string(id="long", place=kind, name="string")),
        {
            "add": {
                "path": "a",
                "partitionValues": {},
                "size": (tmp_path / "a").stat().st_size,
                "modificationTime": 0,
                "dataChange": True,
            }
        },
    ]
    (tmp_path / "_delta_log" / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    with pytest.warns(UnreadableColumnsWarning, match="place"):
        rows = DeltaTable.forPath(spark, str(tmp_path)).toDF().orderBy("id").collect()
    assert [row.asDict() for row in rows] == [{"id": 1, "name": "x"}, {"id": 2, "name": "y"}]


def with_void(table, void):
    """Gives an existing table one more column, as another engine may have done it."""
    log = DeltaLog.for_table(table)
    snapshot = log.snapshot()
    fields = (*snapshot.schema.fields, StructField("nothing", void))
    document = metadata(schema_json(StructType(fields)), snapshot.partition_columns)
    document["metaData"]["id"] = snapshot.metadata.id
    Path(table, "_delta_log", f"{snapshot.version + 1:020d}.json").write_text(json.dumps(document))


def test_a_void_column_is_null_in_every_row_and_in_no_file(spark, table, write_rows):
    write_rows(ROWS, partition_by="p")
    with_void(table, StructType((StructField("a", LONG), StructField("b", VOID))))
    write_rows("SELECT 10L AS id, CAST(1 AS INT) AS p, 5L AS v, named_struct('a', 3L, 'b', NULL) AS nothing")
    statements(spark, table, more=", CAST(NULL AS STRUCT<a: BIGINT, b: VOID>) AS nothing")

    frame = DeltaTable.forPath(spark, table).toDF()
    rows = {row.id: row.nothing for row in frame.collect()}
    assert sorted((row.id, row.p, row.v) for row in frame.collect()) == [*AFTER, (10, 1, 5)]
    assert rows.pop(10).asDict() == {"a": 3, "b": None}
    assert set(rows.values()) == {None}
    files = DeltaLog.for_table(table).snapshot().files()["path"].to_pylist()
    held = {path: pq.ParquetFile(f"{table}/{path}").schema_arrow for path in files}
    assert {str(schema.field("nothing").type) for schema in held.values()} == {"struct<a: int64>"}


def test_rows_of_a_table_of_void_alone_are_refused_before_any_work(table, write_rows):
    write_rows("SELECT 1L AS id")
    with_void(table, ArrayType(VOID))
    with pytest.raises(UnsupportedTypeError, match="array<void>"):
        write_rows("SELECT 2L AS id")
    assert len(list(Path(table).rglob("*.parquet"))) == 1


@pytest.mark.slow
def test_tables_that_list_features_of_writers_are_read_and_written(spark, table, write_rows):
    log = DeltaLog.for_table(table)
    features = ("checkpointProtection", "typeWidening-preview")
    log.create(
        NewTable(
            schema=parse_struct("id BIGINT, p INT, v INT"),
            partition_columns=("p",),
            properties={f"delta.feature.{name}": "supported" for name in features} | {"delta.enableTypeWidening": "true"},
        )
    )
    write_rows(ROWS.replace("id * 10", "CAST(id * 10 AS INT)"))
    log.alter().widen_column("v", LONG)
    assert log.refresh().schema.find("v").metadata["delta.typeChanges"][0]["tableVersion"] == 2
    statements(spark, table)
    assert log.refresh().protocol.writer_features >= set(features)
    assert "typeWidening" not in log.refresh().protocol.writer_features
    rows = DeltaTable.forPath(spark, table).toDF().orderBy("id").collect()
    assert [tuple(row) for row in rows] == AFTER
