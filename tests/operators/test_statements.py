"""Several statements as one task: what is submitted and reported, and a driver that is killed between any two of them."""

import pyarrow as pa
import pytest
from airflow.sdk import task as task_decorator
from deltalake import DeltaTable, write_deltalake

from airflow_delta.assets import delta_asset
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements import SequenceStatement
from airflow_delta.operators import (
    AlterStatement,
    CheckpointStatement,
    DeleteStatement,
    DeltaStatementsOperator,
    ExpectStatement,
    MergeStatement,
    OptimizeStatement,
    SetProperties,
    TableSource,
    VacuumStatement,
    WriteStatement,
)
from tests.operators.test_exactly_once import Killer

OUTCOME = """
from airflow_delta.core.statements import OperationResult
from airflow_delta.jobs.result import ResultDocument, write_result
def result(version, operation, **attributes):
    return OperationResult(table=spec["statement"]["statements"][0]["table"], version=version, read_version=version - 1,
                           operation=operation, **attributes)
each = dict(merge=result(7, "MERGE", committed=True, metrics=dict(numTargetRowsUpdated=3)),
            optimize=result(8, "OPTIMIZE", committed=True), checkpoint=result(8, "CHECKPOINT", committed=False))
done = result(8, "SEQUENCE", committed=True, details=dict(statements={name: one.to_json() for name, one in each.items()}))
write_result(spec["result_uri"], ResultDocument(outcome=done))
sys.exit(0)
"""


def test_the_statements_are_one_job_and_each_has_its_version_as_an_xcom(empty_table, recording_submit, run_task, xcom):
    submit, pulled = recording_submit(OUTCOME), []
    asset = delta_asset("statements", str(empty_table))

    def more(task):
        @task_decorator
        def look(ti=None, inlet_events=None):
            pulled.extend(ti.xcom_pull(task.task_id, key=name) for name in ("merge", "optimize", "checkpoint"))

        task >> look()

    run = run_task(
        lambda: DeltaStatementsOperator(
            task_id="upkeep",
            statements={
                "merge": MergeStatement(
                    table="{{ params.table }}", source=TableSource("/lake/{{ ds }}"), on="target.id = source.id"
                ),
                "optimize": OptimizeStatement(table="{{ params.table }}", min_files="{{ 1 + 2 }}"),
                "checkpoint": CheckpointStatement(table="{{ params.table }}"),
            },
            asset=asset,
            conn_id="spark_local",
            spark_binary=str(submit.path),
        ),
        params={"table": str(empty_table)},
        more=more,
    )
    assert (run.state, run.version, run.errors, pulled) == ("success", 8, [], [7, 8, 8])
    (call,) = submit.calls
    statement = call["spec"]["statement"]
    assert statement["names"] == ["merge", "optimize", "checkpoint"]
    assert [part["table"] for part in statement["statements"]] == [str(empty_table)] * 3
    assert statement["statements"][0]["source"]["table"] == "/lake/2013-01-02"
    assert statement["statements"][1]["min_files"] == 3
    assert any(argument.endswith("/spark_jobs/delta_sequence.py") for argument in call["argv"])
    assert call["spec"]["not_before"] > 1_300_000_000_000  # by which the other tables are searched


def test_a_vacuum_of_a_table_that_only_the_job_can_find_does_not_fail_in_the_worker(
    empty_table, recording_submit, run_task, monkeypatch
):
    monkeypatch.setenv("AIRFLOW_CONN_SESSION", '{"conn_type": "delta", "extra": {"catalog": {"type": "spark"}}}')
    submit = recording_submit(OUTCOME)
    statements = [CheckpointStatement(table=str(empty_table)), VacuumStatement(table="sales.orders", dry_run=False)]
    submitted = {"delta_conn_id": "session", "conn_id": "spark_local", "spark_binary": str(submit.path)}
    run = run_task(lambda: DeltaStatementsOperator(task_id="upkeep", statements=statements, **submitted))
    assert (run.state, run.errors) == ("success", [])
    [call] = submit.calls
    assert [statement["table"] for statement in call["spec"]["statement"]["statements"]] == [str(empty_table), "sales.orders"]


def statements_operator(**arguments):
    return DeltaStatementsOperator(task_id="t", **arguments)


@pytest.mark.parametrize(
    ("statements", "text"),
    [
        ([], "one statement or more"),
        ("OPTIMIZE", "a list or a mapping of names"),
        (OptimizeStatement(table="/t"), "a list or a mapping of names"),
        (["OPTIMIZE"], r"a statement must be a value such as MergeStatement\(...\).*, found 'OPTIMIZE'"),
        ({"delta_version": OptimizeStatement(table="/t")}, "delta_version cannot be a name"),
        ({"a b": OptimizeStatement(table="/t")}, "a name has letters"),
    ],
)
def test_what_cannot_be_run_is_refused_when_the_dag_is_parsed(statements, text):
    with pytest.raises(InvalidStatementError, match=text):
        statements_operator(statements=statements)


def test_a_list_has_its_positions_as_names():
    task = statements_operator(statements=[OptimizeStatement(table="/t"), VacuumStatement(table="/t")])
    assert task.statement() == SequenceStatement(statements=tuple(task.statements), names=("0", "1"))


def versions(*tables):
    return sum(DeltaTable(str(table)).version() for table in tables)


@pytest.mark.slow  # two Spark jobs for each place
@pytest.mark.parametrize("done", [1, 2, 3, 4])
def test_a_driver_killed_behind_any_commit_commits_each_statement_once(tmp_path, run_task, done):
    bronze, silver, feed = (tmp_path / name for name in ("bronze", "silver", "feed"))
    for table, ids in ((bronze, [1]), (silver, [1]), (feed, [2, 3])):
        write_deltalake(str(table), pa.table({"id": ids}))
    killer = Killer(bronze, lambda: versions(bronze, silver) >= done)
    statements = {
        "bronze": WriteStatement(table=str(bronze), source=TableSource(str(feed))),
        "gate": ExpectStatement(table=str(bronze), expect="id < 4"),
        "silver": MergeStatement(table=str(silver), source=TableSource(str(bronze)), on="target.id = source.id"),
        "properties": AlterStatement(table=str(silver), changes=(SetProperties({"owner": "us"}),)),
        "checkpoint": CheckpointStatement(table=str(silver)),
        "delete": DeleteStatement(table=str(bronze), where="id = 3"),
        "last_gate": ExpectStatement(table=str(silver), expect="id < 4"),  # that the driver still runs when it is killed
    }
    run = run_task(lambda: statements_operator(statements=statements, conn_id="spark_local"), retries=1)
    assert (killer.killed is not None, run.state, len(run.errors)) == (True, "success", 1)
    assert (DeltaTable(str(bronze)).version(), DeltaTable(str(silver)).version()) == (2, 2)
    ids = [sorted(DeltaTable(str(table)).to_pyarrow_table()["id"].to_pylist()) for table in (bronze, silver)]
    assert ids == [[1, 2], [1, 2, 3]]
    made = [entry.commit_info.origin for table in (bronze, silver) for entry in DeltaLog.for_table(str(table)).history(2)]
    assert sorted(origin.record["statement"] for origin in made) == ["bronze", "delete", "properties", "silver"]
    assert len({origin.token for origin in made}) == 4
    assert {origin.record["statement"]: origin.record["try_number"] for origin in made} == {
        name: 1 if number < done else 2 for number, name in enumerate(["bronze", "silver", "properties", "delete"])
    }
