"""The spec that each operator gives its job, and that DAG files can hold it."""

import subprocess
import sys

import pendulum
import pytest
from airflow.sdk import DAG

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements import (
    UPSERT,
    AlterStatement,
    CheckpointStatement,
    CleanUpLogStatement,
    CloneStatement,
    CompactLogStatement,
    ConvertStatement,
    CopyIntoStatement,
    CreateStatement,
    DeleteStatement,
    Expectation,
    FileSource,
    ManifestStatement,
    MatchedDelete,
    MergeStatement,
    NotMatchedBySourceDelete,
    OptimizeStatement,
    ReorgStatement,
    RestoreStatement,
    SqlSource,
    StatisticsStatement,
    TableSource,
    UpdateStatement,
    VacuumStatement,
    WriteMode,
    WriteStatement,
)
from airflow_delta.operators import (
    AddColumns,
    DeltaAlterOperator,
    DeltaCheckpointOperator,
    DeltaCleanUpLogOperator,
    DeltaCloneOperator,
    DeltaCompactLogOperator,
    DeltaConvertOperator,
    DeltaCopyIntoOperator,
    DeltaCreateOperator,
    DeltaDeleteOperator,
    DeltaManifestOperator,
    DeltaMergeOperator,
    DeltaOptimizeOperator,
    DeltaRecomputeStatisticsOperator,
    DeltaReorgOperator,
    DeltaRestoreOperator,
    DeltaSqlOperator,
    DeltaUpdateOperator,
    DeltaVacuumOperator,
    DeltaWriteOperator,
    RenameColumn,
)
from tests.airflow_versions import DagSerialization

FEED = FileSource("/feed", format="csv")


@pytest.mark.parametrize(
    ("operator", "arguments", "statement"),
    [
        (
            DeltaCopyIntoOperator,
            {"path": "/in", "format": "csv", "max_files": "10", "reload": "false", "select": "*", "expect": "a > 0"},
            CopyIntoStatement(table="t", path="/in", format="csv", max_files=10, select=("*",), expect=(Expectation("a > 0"),)),
        ),
        (
            DeltaMergeOperator,
            {"source": "s", "source_version": "4", "on": "a = b", "expect": "a > 0"},
            MergeStatement(
                table="t", source=TableSource("s", version=4), on="a = b", clauses=UPSERT, expect=(Expectation("a > 0"),)
            ),
        ),
        (
            DeltaMergeOperator,
            {"source": TableSource("s"), "source_version": 4, "on": "a = b", "dry_run": True},
            MergeStatement(table="t", source=TableSource("s", version=4), on="a = b", dry_run=True),
        ),
        (
            DeltaMergeOperator,
            {"source": FEED, "on": "a = b", "clauses": [NotMatchedBySourceDelete()], "schema_evolution": True},
            MergeStatement(table="t", source=FEED, on="a = b", clauses=(NotMatchedBySourceDelete(),), schema_evolution=True),
        ),
        (
            DeltaMergeOperator,
            {
                "source": "s",
                "source_version": "4",
                "sql": "MERGE INTO f USING s ON f.a = s.b WHEN NOT MATCHED BY SOURCE THEN DELETE",
                "expect": "a > 0",
            },
            MergeStatement(
                table="t",
                source=TableSource("s", version=4),
                on="target.a = source.b",
                clauses=(NotMatchedBySourceDelete(),),
                expect=(Expectation("a > 0"),),
            ),
        ),
        (
            DeltaMergeOperator,
            {
                "sql": "MERGE WITH SCHEMA EVOLUTION INTO f USING (SELECT * FROM v) s ON a = b WHEN MATCHED THEN DELETE",
                "views": {"v": "x"},
                "dry_run": True,
            },
            MergeStatement(
                table="t",
                source=SqlSource("SELECT * FROM v", views={"v": TableSource("x")}),
                on="a = b",
                clauses=(MatchedDelete(),),
                schema_evolution=True,
                dry_run=True,
            ),
        ),
        (
            DeltaWriteOperator,
            {"source": FEED, "mode": "replace_where", "replace_where": "day = 1", "partition_by": ["day"]},
            WriteStatement(
                table="t", source=FEED, mode=WriteMode.REPLACE_WHERE, replace_where="day = 1", partition_by=("day",)
            ),
        ),
        (
            DeltaSqlOperator,
            {"query": "SELECT 1", "views": {"a": "x", "b": FEED}, "mode": "overwrite", "properties": {"k": "v"}},
            WriteStatement(
                table="t",
                source=SqlSource("SELECT 1", views={"a": TableSource("x"), "b": FEED}),
                mode=WriteMode.OVERWRITE,
                properties={"k": "v"},
            ),
        ),
        (
            DeltaWriteOperator,
            {"source": FEED, "mode": "create_or_replace", "cluster_by": ["day"], "txn": ["app", "7"], "user_metadata": "u"},
            WriteStatement(
                table="t",
                source=FEED,
                mode=WriteMode.CREATE_OR_REPLACE,
                cluster_by=("day",),
                txn=("app", 7),
                user_metadata="u",
            ),
        ),
        (
            DeltaWriteOperator,
            {"source": FEED, "mode": "overwrite", "overwrite_schema": True},
            WriteStatement(table="t", source=FEED, mode=WriteMode.OVERWRITE, overwrite_schema=True),
        ),
        (
            DeltaWriteOperator,
            {"source": FEED, "mode": "dynamic_overwrite", "merge_schema": True},
            WriteStatement(table="t", source=FEED, mode=WriteMode.DYNAMIC_OVERWRITE, merge_schema=True),
        ),
        (DeltaDeleteOperator, {"where": "day = 1"}, DeleteStatement(table="t", where="day = 1")),
        (
            DeltaUpdateOperator,
            {"assignments": {"a": "b + 1"}, "expect": "a > 0"},
            UpdateStatement(table="t", assignments={"a": "b + 1"}, expect=(Expectation("a > 0"),)),
        ),
        (
            DeltaOptimizeOperator,
            {"where": "day = 1", "target_file_size": "1024"},
            OptimizeStatement(table="t", where="day = 1", target_file_size=1024),
        ),
        (
            DeltaOptimizeOperator,
            {"z_order_by": ["a", "b.c"], "min_files": "1"},
            OptimizeStatement(table="t", z_order_by=("a", "b.c"), min_files=1),
        ),
        (DeltaOptimizeOperator, {"full": True}, OptimizeStatement(table="t", full=True)),
        (DeltaReorgOperator, {"where": "day = 1", "dry_run": True}, ReorgStatement(table="t", where="day = 1", dry_run=True)),
        (DeltaVacuumOperator, {"retention_hours": "12"}, VacuumStatement(table="t", retention_hours=12.0, dry_run=True)),
        (DeltaVacuumOperator, {"dry_run": False}, VacuumStatement(table="t", dry_run=False)),
        (DeltaCheckpointOperator, {"version": "3"}, CheckpointStatement(table="t", version=3)),
        (DeltaCheckpointOperator, {"kind": "v2-json"}, CheckpointStatement(table="t", kind="v2-json")),
        (DeltaVacuumOperator, {"lite": True, "dry_run": False}, VacuumStatement(table="t", lite=True, dry_run=False)),
        (DeltaVacuumOperator, {"inventory": "f.parquet"}, VacuumStatement(table="t", inventory="f.parquet")),
        (
            DeltaCreateOperator,
            {"columns": {"id": "BIGINT", "day": "DATE"}, "partition_by": ["day"], "mode": "ignore", "comment": "c"},
            CreateStatement(table="t", columns="`id` BIGINT, `day` DATE", partition_by=("day",), mode="ignore", comment="c"),
        ),
        (
            DeltaAlterOperator,
            {"changes": [RenameColumn("a", "b"), AddColumns("c INT")], "dry_run": True},
            AlterStatement(table="t", changes=(RenameColumn("a", "b"), AddColumns("c INT")), dry_run=True),
        ),
        (DeltaAlterOperator, {"changes": AddColumns("c INT")}, AlterStatement(table="t", changes=(AddColumns("c INT"),))),
        (
            DeltaCloneOperator,
            {"source": "s", "source_version": "4", "mode": "replace", "properties": {"k": "v"}},
            CloneStatement(table="t", source=TableSource("s", version=4), mode="replace", properties={"k": "v"}),
        ),
        (
            DeltaCloneOperator,
            {"source": "s", "deep": "true"},
            CloneStatement(table="t", source=TableSource("s"), deep=True),
        ),
        (DeltaConvertOperator, {"partition_by": {"day": "DATE"}}, ConvertStatement(table="t", partition_by="`day` DATE")),
        (
            DeltaConvertOperator,
            {"infer_partitions": True, "statistics": False},
            ConvertStatement(table="t", infer_partitions=True, statistics=False),
        ),
        (DeltaRestoreOperator, {"version": " 3 "}, RestoreStatement(table="t", version=3)),
        (DeltaRestoreOperator, {"timestamp": "2013-01-01"}, RestoreStatement(table="t", timestamp="2013-01-01")),
        (DeltaManifestOperator, {}, ManifestStatement(table="t")),
        (
            DeltaRecomputeStatisticsOperator,
            {"where": "day = 1", "missing_only": True},
            StatisticsStatement(table="t", where="day = 1", missing_only=True),
        ),
        (DeltaCompactLogOperator, {"start": "1", "end": 4}, CompactLogStatement(table="t", start=1, end=4)),
        (DeltaCleanUpLogOperator, {"dry_run": True}, CleanUpLogStatement(table="t", dry_run=True)),
    ],
)
def test_arguments_become_a_statement(operator, arguments, statement):
    assert operator(task_id="t", table="t", **arguments).statement() == statement


@pytest.mark.parametrize(
    "operator",
    [
        lambda: DeltaMergeOperator(task_id="t", table="t", source=FEED, source_version=1, on="a = b"),
        lambda: DeltaMergeOperator(task_id="t", table="t", source=FEED),
        lambda: DeltaMergeOperator(task_id="t", table="t", on="a = b"),
        lambda: DeltaMergeOperator(task_id="t", table="t", source=FEED, on="a = b", views={"v": "x"}),
        lambda: DeltaMergeOperator(task_id="t", table="t", source=FEED, on="a = b", sql="MERGE INTO t"),
        lambda: DeltaCheckpointOperator(task_id="t", table="t", version="None"),
        lambda: DeltaVacuumOperator(task_id="t", table="t", retention_hours="a week"),
        lambda: DeltaCreateOperator(task_id="t", table="t", columns={}),
        lambda: DeltaCreateOperator(task_id="t", table="t", columns="id INT", mode="append"),
        lambda: DeltaAlterOperator(task_id="t", table="t", changes=[]),
        lambda: DeltaAlterOperator(task_id="t", table="t", changes=["ADD COLUMN a INT"]),
        lambda: DeltaCloneOperator(task_id="t", table="t", source=FEED),
        lambda: DeltaRestoreOperator(task_id="t", table="t"),
        lambda: DeltaRestoreOperator(task_id="t", table="t", version="None"),
        lambda: DeltaCompactLogOperator(task_id="t", table="t", start="first"),
        lambda: DeltaCheckpointOperator(task_id="t", table="t", kind="quick"),
    ],
)
def test_arguments_that_make_no_statement_are_refused_when_the_dag_is_parsed(operator):
    with pytest.raises(InvalidStatementError):
        operator()


def test_the_text_of_a_merge_is_parsed_when_the_task_runs():
    task = DeltaMergeOperator(task_id="t", table="t", source=FEED, sql="MERGE INTO t USING")
    with pytest.raises(InvalidStatementError):
        task.statement()


@pytest.mark.parametrize("arguments", [{"on_clear": "resue"}, {"engine": "Worker"}])
def test_a_misspelt_word_is_refused_where_the_dag_is_written(arguments):
    """It would commit again, or start Spark."""
    with pytest.raises(InvalidStatementError, match=next(iter(arguments))):
        DeltaRestoreOperator(task_id="t", table="t", version=1, **arguments)


def test_a_dag_of_all_operators_can_be_serialized_and_mapped():
    with DAG("all_operators", schedule=None, start_date=pendulum.datetime(2013, 1, 1)) as dag:
        DeltaMergeOperator(task_id="merge", table="t", source=TableSource("s", version="{{ 1 }}"), on="a = b")
        DeltaWriteOperator(task_id="write", table="t", source=FEED)
        DeltaSqlOperator(task_id="sql", table="t", query="SELECT 1", views={"a": "x"})
        DeltaOptimizeOperator(task_id="optimize", table="t")
        DeltaVacuumOperator(task_id="vacuum", table="t")
        DeltaCheckpointOperator(task_id="checkpoint", table="t")
        DeltaMergeOperator.partial(task_id="mapped", table="t", on="a = b").expand(source=["a", "b"])
        DeltaWriteOperator.partial(task_id="mapped_write", table="t", mode="dynamic_overwrite", merge_schema=True).expand(
            source=["a", "b"], txn=[("app", "{{ 1 }}"), ("app", 2)]
        )
        DeltaMergeOperator.partial(task_id="mapped_sql", sql="MERGE INTO t USING s ON a = b").expand(table=["a", "b"])
        DeltaCreateOperator(task_id="create", table="t", columns={"id": "BIGINT"}, engine="worker")
        DeltaAlterOperator(task_id="alter", table="t", changes=[AddColumns({"{{ ds }}": "INT"}), RenameColumn("a", "{{ ds }}")])
        DeltaCloneOperator(task_id="clone", table="t", source=TableSource("s", version="{{ 1 }}"))
        DeltaConvertOperator(task_id="convert", table="t", partition_by={"day": "DATE"})
        DeltaRestoreOperator(task_id="restore", table="t", version="{{ 1 }}")
        DeltaManifestOperator(task_id="manifest", table="t")
        DeltaRecomputeStatisticsOperator(task_id="statistics", table="t", where="day = '{{ ds }}'")
        DeltaCompactLogOperator(task_id="compact_log", table="t")
        DeltaCleanUpLogOperator(task_id="clean_up_log", table="t")
        DeltaCreateOperator.partial(task_id="mapped_create", columns="id BIGINT").expand(table=["a", "b"])
        DeltaAlterOperator.partial(task_id="mapped_alter", table="t").expand(changes=[[AddColumns("a INT")]])
    serialized = DagSerialization.serialize_dag(dag)
    assert DagSerialization.serialize_dag(dag) == serialized
    assert set(DagSerialization.deserialize_dag(serialized).task_dict) == set(dag.task_dict)


def test_dag_files_need_no_pyspark():
    code = """
import sys
sys.modules["pyspark"] = None
import airflow_delta.operators, airflow_delta.sensors, airflow_delta.triggers.commit
"""
    subprocess.run([sys.executable, "-c", code], check=True)
