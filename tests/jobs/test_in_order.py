"""A sequence of statements, killed between any two of them, and run again."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import ExpectationFailedError, InvalidStatementError, TableNotFoundError
from airflow_delta.core.statements import (
    AddColumns,
    AlterStatement,
    CheckpointStatement,
    CreateStatement,
    DeleteStatement,
    ExpectStatement,
    MergeStatement,
    OptimizeStatement,
    PinnedTable,
    PinStatement,
    SequenceStatement,
    SetProperties,
    SqlSource,
    TableSource,
    VacuumStatement,
    WriteStatement,
)
from airflow_delta.core.statements.sequence import STATEMENTS_KEY
from airflow_delta.jobs.core_statements import execute_in_core
from airflow_delta.jobs.run import run
from airflow_delta.jobs.runner import Backend
from airflow_delta.jobs.spec import JobSpec
from tests.slow_cases import slow_after

TOKEN = "0123456789abcdef" * 2
NOW = round(1_000 * time.time())
PLAIN = Backend(earliest_commit_time=NOW)


def sequence(folder):
    """Four commits in two tables, with statements in between that do not commit."""
    a, b = str(folder / "a"), str(folder / "b")
    return SequenceStatement(
        statements=(
            CreateStatement(table=a, columns={"id": "BIGINT"}),
            CheckpointStatement(table=a),
            AlterStatement(table=a, changes=(SetProperties({"x": "1"}),)),
            CreateStatement(table=b, columns={"id": "BIGINT"}),
            VacuumStatement(table=a, dry_run=True),
            AlterStatement(table=b, changes=(AddColumns({"name": "STRING"}),)),
        ),
        names=("create", "checkpoint", "alter", "other", "vacuum", "columns"),
    )


def execute(folder, *, backend=PLAIN, attempt=1, statement=None):
    statement = statement or sequence(folder)
    origin = Origin(token=TOKEN, record={"try_number": attempt})
    return execute_in_core(DeltaLog.for_table(statement.table), statement, origin=origin, start_version=-1, backend=backend)


def killing_backend(before=None, after=None):
    """Runs statements, and kills this process before or after the named one."""

    def executed(log, statement, origin, start_version):
        name = origin.record["statement"]
        if name == before:
            os.kill(os.getpid(), signal.SIGKILL)
        result = execute_in_core(log, statement, origin=origin, start_version=start_version)
        if name == after:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return Backend(execute=executed, earliest_commit_time=NOW)


def commits(folder):
    """Table, operation and statement of each commit, in order."""
    return [
        (name, entry.commit_info.operation, entry.commit_info.origin.record["statement"])
        for name in ("a", "b")
        if (folder / name).exists()
        for entry in reversed(DeltaLog.for_table(str(folder / name)).history())
    ]


ALL = [
    ("a", "CREATE TABLE", "create"),
    ("a", "SET TBLPROPERTIES", "alter"),
    ("b", "CREATE TABLE", "other"),
    ("b", "ADD COLUMNS", "columns"),
]
CHILD = """
import sys
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
spec = spec_from_file_location("test_in_order", {file!r})
module = module_from_spec(spec)
spec.loader.exec_module(module)
module.execute(Path({folder!r}), backend=module.killing_backend(**{kill!r}))
"""


@pytest.mark.parametrize(
    ("kill", "done"),
    slow_after(
        5,
        [
            ({"before": "create"}, 0),
            ({"after": "create"}, 1),
            ({"after": "checkpoint"}, 1),
            ({"before": "alter"}, 1),
            ({"after": "alter"}, 2),
            ({"after": "other"}, 3),
            ({"after": "vacuum"}, 3),
            ({"before": "columns"}, 3),
            ({"after": "columns"}, 4),
        ],
    ),
    ids=str,
)
def test_a_driver_killed_between_any_two_statements_commits_each_once(tmp_path, kill, done):
    child = CHILD.format(file=__file__, folder=str(tmp_path), kill=kill)
    ended = subprocess.run([sys.executable, "-c", child], check=False, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert commits(tmp_path) == ALL[:done]
    result = execute(tmp_path, attempt=2)
    assert commits(tmp_path) == ALL
    results = result.details[STATEMENTS_KEY]
    assert [results[name]["already_committed"] for _, _, name in ALL] == [True] * done + [False] * (4 - done)
    assert [results[name]["version"] for _, _, name in ALL] == [0, 1, 0, 1]
    tokens = [
        entry.commit_info.origin.token for name in ("a", "b") for entry in DeltaLog.for_table(str(tmp_path / name)).history()
    ]
    assert len({*tokens, TOKEN}) == 5


def test_what_left_no_commit_is_not_run_again_when_a_later_statement_has_committed(tmp_path):
    execute(tmp_path)
    seen = []

    def executed(log, statement, origin, start_version):
        seen.append(origin.record["statement"])
        return execute_in_core(log, statement, origin=origin, start_version=start_version)

    parts = sequence(tmp_path)
    result = execute(tmp_path, backend=Backend(execute=executed, earliest_commit_time=NOW), attempt=2)
    assert seen == []
    assert result.details[STATEMENTS_KEY]["checkpoint"]["details"] == {"skipped": True}
    assert (result.committed, result.already_committed, result.metrics) == (True, True, {"numStatements": 6, "numCommits": 4})
    longer = replace(parts, statements=(*parts.statements, parts.statements[1]), names=(*parts.names, "again"))
    execute(tmp_path, backend=Backend(execute=executed, earliest_commit_time=NOW), attempt=3, statement=longer)
    assert seen == ["again"]


def test_an_orphan_and_its_retry_at_once_commit_each_statement_once(tmp_path):
    inner = []

    def interleaved(log, statement, origin, start_version):
        if not inner:
            inner.append(execute(tmp_path, attempt=2))
        return execute_in_core(log, statement, origin=origin, start_version=start_version)

    result = execute(tmp_path, backend=Backend(execute=interleaved, earliest_commit_time=NOW))
    assert commits(tmp_path) == ALL
    assert [result.already_committed, inner[0].already_committed] == [True, False]


def test_a_statement_that_fails_ends_the_sequence_and_those_before_it_stay_committed(tmp_path):
    parts = sequence(tmp_path)
    missing = AlterStatement(table=str(tmp_path / "none"), changes=(SetProperties({"x": "1"}),))
    broken = replace(parts, statements=(*parts.statements[:3], missing, parts.statements[3]), names=())
    with pytest.raises(TableNotFoundError) as failed:
        execute(tmp_path, statement=broken)
    committed = "0 as version 0, 2 as version 1"
    assert f"] statement 3 (4 of 5; committed before it: {committed}): " in str(failed.value)
    assert [(table, operation) for table, operation, _ in commits(tmp_path)] == [entry[:2] for entry in ALL[:2]]


def test_the_same_statement_twice_commits_twice_in_one_task(tmp_path):
    table = str(tmp_path / "a")
    twice = AlterStatement(table=table, changes=(AddColumns({"name": "STRING"}, if_not_exists=True), SetProperties({"x": "1"})))
    statement = SequenceStatement(statements=(CreateStatement(table=table, columns={"id": "BIGINT"}), twice, twice))
    for attempt in (1, 2):
        result = execute(tmp_path, statement=statement, attempt=attempt)
        assert [part["version"] for part in result.details[STATEMENTS_KEY].values()] == [0, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"statements": ()}, "one statement or more"),
        ({"names": ("a", "a")}, "a name of its own, found 1 for 2"),
        ({"names": ("a",)}, "a name of its own, found 1 for 2"),
        ({"names": ("a", "b\nc")}, "a name has letters"),
        ({"names": ("a", "")}, "a name has letters"),
        (
            {"statements": (PinStatement(tables=(PinnedTable(alias="t", table="/t"),), id="1"),)},
            "a statement must be a value such",
        ),
        ({"statements": (SequenceStatement(statements=(OptimizeStatement(table="/t"),)),)}, "a statement must be a value such"),
        ({"statements": ("OPTIMIZE t",)}, r"such as MergeStatement\(...\) or OptimizeStatement\(...\), found 'OPTIMIZE t'"),
    ],
)
def test_a_sequence_that_cannot_be_run_is_refused(arguments, text):
    values = {"statements": (OptimizeStatement(table="/t"), VacuumStatement(table="/t"))} | arguments
    with pytest.raises(InvalidStatementError, match=text):
        SequenceStatement(**values)


def rows(table):
    return sorted(DeltaLog.for_table(table).snapshot().to_arrow().read_all()["id"].to_pylist())


@pytest.mark.slow
def test_on_spark_a_gate_that_does_not_hold_ends_the_sequence_and_the_next_try_goes_on_behind_the_last_commit(spark, tmp_path):
    bronze, silver = str(tmp_path / "bronze"), str(tmp_path / "silver")

    def spec(attempt, limit):
        statements = {
            "bronze": WriteStatement(table=bronze, source=SqlSource("SELECT id FROM range(5)", views={})),
            "silver": WriteStatement(table=silver, source=SqlSource("SELECT id FROM range(2)", views={})),
            "gate": ExpectStatement(table=bronze, expect=(f"id < {limit}", "SELECT count(*) > 1 FROM staged"), where="id > 0"),
            "merge": MergeStatement(table=silver, source=TableSource(bronze), on="target.id = source.id"),
            "delete": DeleteStatement(table=bronze, where="id = 4"),
        }
        return JobSpec(
            statement=SequenceStatement(statements=tuple(statements.values()), names=tuple(statements)),
            origin=Origin(token=TOKEN, record={"try_number": attempt}),
            start_version=-1,
            earliest_commit_time=NOW,
        )

    failed = run(spark, spec(1, 4)).typed_error()
    assert isinstance(failed, ExpectationFailedError)
    assert failed.statement_place == "statement gate (3 of 5; committed before it: bronze as version 0, silver as version 0)"
    assert (rows(bronze), rows(silver)) == ([0, 1, 2, 3, 4], [0, 1])
    document = run(spark, spec(2, 5))
    results = document.outcome.details[STATEMENTS_KEY]
    commits = {name: (result["version"], result["committed"], result["already_committed"]) for name, result in results.items()}
    assert commits == {
        "bronze": (0, True, True),
        "silver": (0, True, True),
        "gate": (0, False, False),
        "merge": (1, True, False),
        "delete": (1, True, False),
    }
    assert (rows(bronze), rows(silver)) == ([0, 1, 2, 3], [0, 1, 2, 3, 4])
    again = run(spark, spec(3, 5)).outcome
    assert (again.already_committed, again.details[STATEMENTS_KEY]["gate"]["details"]) == (True, {"skipped": True})
    assert (rows(bronze), rows(silver)) == ([0, 1, 2, 3], [0, 1, 2, 3, 4])
