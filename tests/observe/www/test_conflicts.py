"""Which tasks conflicted with each other, and what it cost."""

from airflow_delta.observe.report import table_id
from airflow_delta.observe.www import conflicts as module
from airflow_delta.observe.www.conflicts import OTHERS, conflicts, matrix
from airflow_delta.observe.www.reports import Report, Run

TABLE = "s3://lake/orders"
OPTIMIZE = {"dag_id": "upkeep", "task_id": "optimize", "run_id": "r"}


def report(at, *members, dag_id="daily"):
    return Report(Run(dag_id, "load", "r"), at, table_id(TABLE), TABLE, {"conflicts": list(members)})


def met(rule=None, lost_ms=None, run=OPTIMIZE):
    return {"version": 6, "operation": "OPTIMIZE", "rule": rule, "lost_ms": lost_ms, "run": run}


REPORTS = [report(30, met()), report(20, met("DELTA_CONCURRENT_DELETE_READ", 4_000), met(run=None))]
LOST = [
    (
        Run("daily", "fix", "r2"),
        25,
        {"table": TABLE, "code": "DELTA_CONCURRENT_APPEND", "winning_run": OPTIMIZE, "lost_ms": 9_000},
    )
]


def test_conflicts_tell_the_rule_the_cost_and_what_became_of_the_commit():
    found = conflicts(REPORTS, LOST, {"daily", "upkeep"})
    assert [(one.at, one.outcome, one.rule, one.lost_ms, one.winner_name) for one in found] == [
        (30, "passed", "", 0, "upkeep"),
        (25, "failed", "concurrent append", 9_000, "upkeep"),
        (20, "passed", "", 0, OTHERS),
        (20, "redone", "concurrent delete read", 4_000, "upkeep"),
    ]


def test_a_winner_that_the_user_may_not_see_is_another_writer():
    found = conflicts(REPORTS, LOST, {"daily"})
    assert {one.winner_name for one in found} == {OTHERS}
    assert {one.winner for one in found} == {None}


def test_the_matrix_counts_who_came_second_against_who_won():
    drawn = matrix(conflicts(REPORTS, LOST, {"daily", "upkeep"}))
    assert (drawn.rows, drawn.columns, drawn.hidden) == (["daily"], ["upkeep", OTHERS], 0)
    cell = drawn.cells["daily", "upkeep"]
    assert (cell.total, cell.redone, cell.lost_ms, cell.heat) == (3, 2, 13_000, 4)
    assert drawn.cells["daily", OTHERS].heat == 2


def test_the_matrix_keeps_the_dags_that_met_most(monkeypatch):
    monkeypatch.setattr(module, "MOST_DAGS", 1)
    reports = [report(1, met(), met()), report(1, met(), dag_id="weekly")]
    drawn = matrix(conflicts(reports, [], {"daily", "weekly", "upkeep"}))
    assert (drawn.rows, drawn.hidden) == (["daily"], 1)
