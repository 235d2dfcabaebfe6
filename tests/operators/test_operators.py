"""What each operator asks of its job, and that DAG files can hold it."""

import subprocess
import sys

import pendulum
import pytest
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements import (
    UPSERT,
    CheckpointStatement,
    Expectation,
    FileSource,
    MergeStatement,
    OptimizeStatement,
    SqlSource,
    TableSource,
    VacuumStatement,
    WriteMode,
    WriteStatement,
)
from airflow_delta.operators import (
    DeltaCheckpointOperator,
    DeltaMergeOperator,
    DeltaOptimizeOperator,
    DeltaSqlOperator,
    DeltaVacuumOperator,
    DeltaWriteOperator,
)

FEED = FileSource("/feed", format="csv")


@pytest.mark.parametrize(
    ("operator", "arguments", "statement"),
    [
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
            DeltaOptimizeOperator,
            {"where": "day = 1", "target_file_size": "1024"},
            OptimizeStatement(table="t", where="day = 1", target_file_size=1024),
        ),
        (DeltaVacuumOperator, {"retention_hours": "12"}, VacuumStatement(table="t", retention_hours=12.0, dry_run=True)),
        (DeltaVacuumOperator, {"dry_run": False}, VacuumStatement(table="t", dry_run=False)),
        (DeltaCheckpointOperator, {"version": "3"}, CheckpointStatement(table="t", version=3)),
    ],
)
def test_arguments_become_a_statement(operator, arguments, statement):
    assert operator(task_id="t", table="t", **arguments).statement() == statement


@pytest.mark.parametrize(
    "operator",
    [
        lambda: DeltaMergeOperator(task_id="t", table="t", source=FEED, source_version=1, on="a = b"),
        lambda: DeltaCheckpointOperator(task_id="t", table="t", version="None"),
        lambda: DeltaVacuumOperator(task_id="t", table="t", retention_hours="a week"),
        lambda: DeltaWriteOperator(task_id="t", table="t", source=FEED, mode="{{ mode }}"),
    ],
)
def test_arguments_that_make_no_statement_are_refused_at_run_time_not_when_the_dag_is_read(operator):
    task = operator()
    with pytest.raises(InvalidStatementError):
        task.statement()


def test_a_dag_of_all_operators_can_be_serialized_and_mapped():
    with DAG("all_operators", schedule=None, start_date=pendulum.datetime(2013, 1, 1)) as dag:
        DeltaMergeOperator(task_id="merge", table="t", source=TableSource("s", version="{{ 1 }}"), on="a = b")
        DeltaWriteOperator(task_id="write", table="t", source=FEED)
        DeltaSqlOperator(task_id="sql", table="t", query="SELECT 1", views={"a": "x"})
        DeltaOptimizeOperator(task_id="optimize", table="t")
        DeltaVacuumOperator(task_id="vacuum", table="t")
        DeltaCheckpointOperator(task_id="checkpoint", table="t")
        DeltaMergeOperator.partial(task_id="mapped", table="t", on="a = b").expand(source=["a", "b"])
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
