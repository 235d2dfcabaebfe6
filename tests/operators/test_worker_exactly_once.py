"""A worker that does the statement itself may be lost after its commit: the retry finds the commit, and makes no other."""

import json
import shutil
from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import TableExistsError
from airflow_delta.core.statements import AlterStatement, CloneStatement, CreateStatement, RestoreStatement
from airflow_delta.jobs.core_statements import execute_in_core
from airflow_delta.operators import (
    AddColumns,
    DeltaAlterOperator,
    DeltaCloneOperator,
    DeltaConvertOperator,
    DeltaCreateOperator,
    DeltaRestoreOperator,
    TableSource,
)

TOKEN = "0123456789abcdef0123456789abcdef"


class LosesItsWorkerOnce:
    """The first try ends after its work, before its result is known."""

    def _execute_in_worker(self, log, attempt, origin):
        done = super()._execute_in_worker(log, attempt, origin)
        if origin.record["try_number"] == 1:
            raise RuntimeError("the worker is lost")
        return done


def losing(operator):
    return type(f"Losing{operator.__name__}", (LosesItsWorkerOnce, operator), {})


class FindsItsTableMadeAnew:
    """Before the first try does anything, the table is recreated, with fewer versions; the second try loses its worker."""

    def _execute_in_worker(self, log, attempt, origin):
        if origin.record["try_number"] == 1:
            shutil.rmtree(attempt.statement.table)
            write_deltalake(attempt.statement.table, pa.table({"id": [3]}))
            raise RuntimeError("the table was in the way")
        done = super()._execute_in_worker(log, attempt, origin)
        if origin.record["try_number"] == 2:
            raise RuntimeError("the worker is lost")
        return done


class CommitsIntoATableMadeAnew:
    """Before the first try commits, the table is recreated; its commit then has the version stored with the token."""

    def _execute_in_worker(self, log, attempt, origin):
        is_first = origin.record["try_number"] == 1
        if is_first:
            shutil.rmtree(attempt.statement.table)
            write_deltalake(attempt.statement.table, pa.table({"id": [3]}))
        done = super()._execute_in_worker(log, attempt, origin)
        if is_first:
            raise RuntimeError("the worker is lost")
        return done


def tokens(table):
    files = sorted((table / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [action["commitInfo"].get("airflowDelta", {}).get("token") for action in actions if "commitInfo" in action]


@pytest.fixture
def flights(tmp_path):
    """Two versions that another engine wrote."""
    path = tmp_path / "flights"
    write_deltalake(str(path), pa.table({"id": [1]}))
    write_deltalake(str(path), pa.table({"id": [2]}), mode="append")
    return path


@pytest.mark.parametrize(
    ("happening", "retries"),
    [(FindsItsTableMadeAnew, 2), (CommitsIntoATableMadeAnew, 1)],
    ids=["shorter than at the token", "as long as at the token"],
)
def test_a_retry_on_a_table_that_was_made_anew_finds_the_commit_of_the_lost_try(flights, run_task, happening, retries):
    """Regression: its commits up to the stored start version were taken for older ones."""
    operator = type("Surprised", (happening, DeltaCreateOperator), {})
    run = run_task(
        lambda: operator(task_id="task", table=str(flights), columns="id BIGINT", mode="replace", engine="worker"),
        retries=retries,
    )
    assert (run.state, run.version, len(run.errors)) == ("success", 1, retries)
    assert run.result["already_committed"] is True
    assert [token is None for token in tokens(flights)] == [True, False]


@pytest.mark.parametrize(
    ("operator", "table", "arguments", "version"),
    [
        (DeltaCreateOperator, "new", {"columns": "id BIGINT"}, 0),
        (DeltaCreateOperator, "flights", {"columns": "id BIGINT", "mode": "replace"}, 2),
        (DeltaAlterOperator, "flights", {"changes": AddColumns("a INT")}, 2),
        (DeltaCloneOperator, "new", {"source": "flights"}, 0),
        (DeltaCloneOperator, "deep", {"source": "flights", "deep": True}, 0),
        (DeltaConvertOperator, "parquet", {}, 0),
        (DeltaRestoreOperator, "flights", {"version": 0}, 2),
    ],
)
def test_a_retry_finds_the_commit_of_the_lost_try(flights, tmp_path, run_task, operator, table, arguments, version):
    pq.write_table(pa.table({"id": [1]}), _folder(tmp_path / "parquet") / "part.parquet")
    if "source" in arguments:
        arguments = {"source": str(tmp_path / arguments["source"])}
    run = run_task(
        lambda: losing(operator)(task_id="task", table=str(tmp_path / table), engine="worker", **arguments), retries=1
    )
    assert (run.state, run.version, [type(error) for error in run.errors]) == ("success", version, [RuntimeError])
    assert (run.result["committed"], run.result["already_committed"]) == (True, True)
    assert len(tokens(tmp_path / table)) == version + 1
    assert tokens(tmp_path / table)[-1] is not None


@pytest.mark.parametrize(("on_clear", "version"), [("rerun", 1), ("reuse", 0)])
def test_a_cleared_task_makes_its_table_again_or_finds_it(tmp_path, run_task, clear_once, on_clear, version):
    run = run_task(
        lambda: DeltaCreateOperator(
            task_id="create",
            table=str(tmp_path / "new"),
            columns="id BIGINT",
            mode="replace",
            engine="worker",
            on_clear=on_clear,
        ),
        more=clear_once,
    )
    assert (run.state, run.version, run.result["already_committed"]) == ("success", version, on_clear == "reuse")
    assert len(set(tokens(tmp_path / "new"))) == DeltaTable(str(tmp_path / "new")).version() + 1 == version + 1


class Memory(dict):
    """A task's state store."""

    def set(self, key, value, *, retention=None):
        self[key] = value


@pytest.mark.parametrize(("on_clear", "versions"), [("rerun", [0, 1]), ("reuse", [0, 0])])
def test_a_cleared_task_finds_its_table_again_though_airflow_has_forgotten_its_state(tmp_path, monkeypatch, on_clear, versions):
    """Airflow 3.3 has an option that deletes a task's stored state on success, including its random token."""
    monkeypatch.setenv("AIRFLOW__STATE_STORE__CLEAR_ON_SUCCESS", "True")
    time = datetime.now(UTC)
    names = {"dag_id": "d", "task_id": "create", "run_id": "r", "map_index": -1, "id": "i"}
    dag_run = SimpleNamespace(logical_date=time, run_after=time, start_date=time, run_type=SimpleNamespace(value="manual"))

    def run(try_number, max_tries):
        operator = DeltaCreateOperator(
            task_id="create", table=str(tmp_path / "new"), columns="id INT", mode="replace", engine="worker", on_clear=on_clear
        )
        ti = SimpleNamespace(**names, try_number=try_number, max_tries=max_tries, xcom_push=lambda key, value: None)
        result = operator.execute({"ti": ti, "dag_run": dag_run, "task": operator, "task_state_store": Memory()})
        return result["version"]

    assert [run(1, 0), run(2, 1)] == versions


@pytest.mark.parametrize(
    "make",
    [
        lambda root: CreateStatement(table=f"{root}/new", columns="id BIGINT"),
        lambda root: CloneStatement(table=f"{root}/new", source=TableSource(f"{root}/flights")),
        lambda root: CloneStatement(table=f"{root}/new", source=TableSource(f"{root}/flights"), deep=True),
        lambda root: CloneStatement(table=f"{root}/made", source=TableSource(f"{root}/flights"), deep=True, mode="replace"),
        lambda root: AlterStatement(table=f"{root}/flights", changes=AddColumns("a INT")),
        lambda root: RestoreStatement(table=f"{root}/flights", version=0),
    ],
    ids=["create", "clone", "deep clone", "replacing clone", "alter", "restore"],
)
def test_the_commit_of_a_zombie_attempt_is_the_result_and_no_error(flights, tmp_path, make):
    statement, origin = make(tmp_path), Origin(token=TOKEN, record={"try_number": 1})
    log = DeltaLog.for_table(statement.table)
    start = log.snapshot().version if log.exists() else -1
    duplicate = execute_in_core(DeltaLog.for_table(statement.table), statement, origin=origin)
    found = execute_in_core(log, statement, origin=Origin(token=TOKEN, record={"try_number": 2}), start_version=start)
    assert (found.version, found.already_committed, duplicate.already_committed) == (duplicate.version, True, False)
    assert DeltaTable(statement.table).version() == start + 1


def test_somebody_else_s_table_stays_an_error(flights):
    statement = CreateStatement(table=str(flights), columns="id BIGINT")
    with pytest.raises(TableExistsError):
        execute_in_core(DeltaLog.for_table(statement.table), statement, origin=Origin(token=TOKEN), start_version=-1)


def _folder(path):
    path.mkdir()
    return path
