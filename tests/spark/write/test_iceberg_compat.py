"""Every statement on Spark writes files as Iceberg's readers need them; other engines read the table as before."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as TheirTable
from deltalake import QueryBuilder

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import IcebergCompatError
from airflow_delta.core.schema import StructType, physical_name, writing_schema
from airflow_delta.core.statements import (
    UPSERT,
    CopyIntoStatement,
    DeleteStatement,
    MergeStatement,
    OptimizeStatement,
    SqlSource,
    UpdateStatement,
)
from airflow_delta.core.table_features.partition_columns import materialized_columns
from airflow_delta.spark import DeltaTable
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.optimize.optimize import optimize
from airflow_delta.spark.write.copy_into import copy_into
from tests.core.iceberg_tables import field_ids
from tests.slow_cases import slow_after

NESTED = "id * 10 AS v, array(array(id), null) AS l, map('k', named_struct('x', array(id))) AS m"
PLAIN = "id * 10 AS v, named_struct('x', id) AS s, CAST(id AS DECIMAL(9, 2)) AS d"
CASES = {
    "V1": ({"delta.enableIcebergCompatV1": "true"}, PLAIN),
    "V2": ({"delta.enableIcebergCompatV2": "true"}, NESTED),
    "V3": ({"delta.enableIcebergCompatV3": "true"}, NESTED),
    "V3 of writers": ({"delta.enableIcebergWriterCompatV3": "true", "delta.enableDeletionVectors": "true"}, NESTED),
    "V1 of writers": ({"delta.enableIcebergWriterCompatV1": "true", "delta.columnMapping.mode": "id"}, PLAIN),
}
ROW_IDS = (2147483540, 2147483539)


def select(numbers, columns):
    time = "TIMESTAMP'2024-05-01 10:00:00' AS t"
    return f"SELECT id, CAST(id % 2 AS INT) AS p, {columns}, {time} FROM (SELECT explode(array({numbers})) AS id)"


def statements(spark, table, columns):
    """Every kind of statement that writes files of rows, on a table with the columns id, p, v and others."""
    log = DeltaLog.for_table(table)
    update(spark, log, UpdateStatement(table=table, where="id = 1", assignments={"v": "100"}))
    update(spark, log, UpdateStatement(table=table, where="id = 2", assignments={"p": "7"}))
    delete(spark, log, DeleteStatement(table=table, where="id = 3"))
    source = SqlSource(select("4L, 6L, 8L", columns))
    merge(spark, log, MergeStatement(table=table, source=source, on="target.id = source.id", clauses=UPSERT))
    optimize(spark, log, OptimizeStatement(table=table, z_order_by=("id",)))
    optimize(spark, log, OptimizeStatement(table=table))


def check_files(table):
    """Every live file holds each column with its ids at all levels, times as 64-bit integers, and says how many rows it has."""
    snapshot = DeltaLog.for_table(table).snapshot()
    partitions = materialized_columns(snapshot.schema, snapshot.protocol, snapshot.metadata)
    assert partitions.names == snapshot.partition_columns
    stored = snapshot.schema.without(snapshot.partition_columns)
    wanted = field_ids(writing_schema(StructType((*stored.fields, *partitions.fields))))
    assert None not in wanted.values()
    hidden = [
        snapshot.metadata.configuration.get(f"delta.rowTracking.materialized{name}ColumnName")
        for name in ("RowId", "RowCommitVersion")
    ]
    wanted |= {name: number for name, number in zip(hidden, ROW_IDS, strict=True) if name}
    files = snapshot.files()
    assert len(files)
    for path, stats in zip(files["path"].to_pylist(), files["stats"].to_pylist(), strict=True):
        footer = pq.read_metadata(f"{table}/{path}")
        held = field_ids(footer.schema.to_arrow_schema())
        assert held == {name: number for name, number in wanted.items() if name in held}
        assert wanted.keys() - held.keys() <= set(hidden)
        leaves = {footer.schema.column(number).physical_type for number in range(footer.num_columns)}
        assert "INT96" not in leaves
        assert f'"numRecords":{footer.num_rows}' in stats
        names = footer.schema.to_arrow_schema().names
        last = [names.index(physical_name(field)) for field in partitions.fields]
        assert last == sorted(last)
        assert all(names.index(physical_name(field)) < last[0] for field in stored.fields)


@pytest.mark.parametrize("here", slow_after(1, [False, True]))
@pytest.mark.parametrize("case", [pytest.param(case, marks=[] if case == "V2" else pytest.mark.slow) for case in CASES])
def test_every_statement_writes_files_as_icebergs_readers_need_them(spark, table, write_rows, seen, monkeypatch, case, here):
    properties, columns = CASES[case]
    if not here:
        monkeypatch.setattr("airflow_delta.spark.io.row_sink.is_done_here", lambda *_: False)
    write_rows(select("0L, 1L, 2L, 3L, 4L, 5L", columns), partition_by="p", properties=properties)
    check_files(table)
    statements(spark, table, columns)
    check_files(table)
    rows = DeltaTable.forPath(spark, table).toDF().orderBy("id").collect()
    expected = [(0, 0, 0), (1, 1, 100), (2, 7, 20), (4, 0, 40), (5, 1, 50), (6, 0, 60), (8, 0, 80)]
    assert [(row.id, row.p, row.v) for row in rows] == expected
    assert seen("id, v") == [(number, v) for number, _, v in expected]
    if "Writer" not in next(iter(properties)):
        theirs = QueryBuilder().register("t", TheirTable(table)).execute("SELECT id, p, v FROM t ORDER BY id").read_all()
        assert [tuple(row.values()) for row in pa.table(theirs).to_pylist()] == expected


def test_loaded_files_and_new_columns_keep_the_rules(spark, table, write_rows, tmp_path):
    write_rows(select("0L, 1L", NESTED), partition_by="p", properties={"delta.enableIcebergCompatV2": "true"})
    (tmp_path / "in").mkdir()
    pq.write_table(
        pa.table({"id": [7], "p": pa.array([1], pa.int32()), "v": [70], "z": [["a"]]}), tmp_path / "in" / "a.parquet"
    )
    statement = CopyIntoStatement(table=table, path=str(tmp_path / "in"), format="parquet", merge_schema=True)
    copy_into(spark, DeltaLog.for_table(table), statement)
    write_rows("SELECT 9L AS id, 1 AS p, map(1, array(2)) AS y", merge_schema=True)
    check_files_of_latest(table)
    found = {row.id: (row.v, row.z, row.y) for row in DeltaTable.forPath(spark, table).toDF().collect()}
    assert found == {0: (0, None, None), 1: (10, None, None), 7: (70, ["a"], None), 9: (None, None, {1: [2]})}


@pytest.mark.parametrize("here", [True, False])
def test_an_empty_text_is_null_in_the_file_as_it_is_in_the_log(table, write_rows, monkeypatch, here):
    if not here:
        monkeypatch.setattr("airflow_delta.spark.io.row_sink.is_done_here", lambda *_: False)
    rows = "SELECT * FROM VALUES (1L, ''), (2L, 'x'), (3L, NULL) AS t(id, p)"
    write_rows(rows, partition_by="p", properties={"delta.enableIcebergCompatV1": "true"})
    snapshot = DeltaLog.for_table(table).snapshot()
    name = physical_name(snapshot.schema.find("p"))
    held = {}
    for path, values in zip(*(snapshot.files()[key].to_pylist() for key in ("path", "partition_values")), strict=True):
        found = pq.read_table(f"{table}/{path}", partitioning=None)
        assert found[name].unique().to_pylist() == [dict(values)[name]]
        held |= dict.fromkeys(found.column(0).to_pylist(), dict(values)[name])
    assert held == {1: None, 2: "x", 3: None}


def check_files_of_latest(table):
    """As ``check_files``, of files that may lack columns that came later."""
    snapshot = DeltaLog.for_table(table).snapshot()
    wanted = field_ids(writing_schema(snapshot.schema))
    for path in snapshot.files()["path"].to_pylist():
        held = field_ids(pq.read_schema(f"{table}/{path}"))
        assert held == {name: wanted[name] for name in held}


def test_an_overwrite_partitions_the_table_as_before_or_is_refused(table, write_rows):
    write_rows(select("0L, 1L", NESTED), partition_by="p", properties={"delta.enableIcebergCompatV2": "true"})
    files = sorted(Path(table).rglob("*.parquet"))
    with pytest.raises(IcebergCompatError, match="the table is partitioned by"):
        write_rows(select("2L", NESTED), mode="overwrite", overwrite_schema=True, partition_by="v")
    assert sorted(Path(table).rglob("*.parquet")) == files
    write_rows(select("2L", PLAIN), mode="overwrite", overwrite_schema=True, partition_by="p")
    check_files(table)
