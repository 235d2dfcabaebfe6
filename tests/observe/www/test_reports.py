"""Which reports are read from Airflow's database, within limits."""

import pytest
from airflow.utils.session import create_session

from airflow_delta.observe.report import MOST_CONFLICTS, MOST_TABLES, table_id
from airflow_delta.observe.www import reports as module
from airflow_delta.observe.www.conflicts import conflicts
from airflow_delta.observe.www.reports import latest_reports, reports_of_table
from tests.observe.www import seeded
from tests.observe.www.seeded import REPORT_KEY, report, reports

BUSY, QUIET = "s3://lake/busy", "s3://lake/quiet"


@pytest.fixture
def session(airflow_database):
    """Fifteen reports of one task, and a month before them one of another."""
    many = [("hot", "load", run, REPORT_KEY, reports(report(BUSY, run, dag_id="hot")), 20 - run) for run in range(1, 16)]
    seeded.add_xcoms([*many, ("cold", "load", 16, REPORT_KEY, reports(report(QUIET, 3, dag_id="cold")), 720)])
    with create_session() as session:
        yield session
    seeded.remove_xcoms()


def test_a_busy_task_does_not_drive_out_the_others(session):
    found = latest_reports(session, {"hot", "cold"})
    assert [entry.version for entry in found] == [*range(15, 15 - module.REPORTS_OF_TASK, -1), 3]
    assert found[-1].table == QUIET


def test_there_is_a_bound_on_all_reports_and_on_those_of_a_table(session, monkeypatch):
    monkeypatch.setattr(module, "MOST_REPORTS", 4)
    monkeypatch.setattr(module, "REPORTS_OF_TABLE", 3)
    assert [entry.version for entry in latest_reports(session, {"hot", "cold"})] == [15, 14, 13, 12]
    assert [entry.version for entry in reports_of_table(session, {"hot"}, table_id(BUSY))] == [15, 14, 13]


def test_only_reports_of_the_given_dags_are_read(session):
    assert {entry.table for entry in latest_reports(session, {"cold"})} == {QUIET}
    assert reports_of_table(session, {"cold"}, table_id(BUSY)) == []
    assert latest_reports(session, set()) == []


def test_an_xcom_that_is_too_large_is_not_read(session):
    seeded.add_xcoms([("cold", "load", 17, REPORT_KEY, reports(report(QUIET, 4, more="x" * 20_000)), 0)])
    assert [entry.version for entry in latest_reports(session, {"cold"})] == [3]


def test_an_xcom_of_a_stranger_counts_for_no_more_reports_and_conflicts_than_that_of_a_task(session):
    many = reports(*({"table": f"s3://lake/{number}", "version": number, "conflicts": [{}] * 30} for number in range(40)))
    seeded.add_xcoms([("many", "load", 18, REPORT_KEY, many, 0)])
    found = latest_reports(session, {"many"})
    assert [entry.version for entry in found] == [*range(39, 39 - MOST_TABLES, -1)]
    assert len(conflicts(found, [], {"many"})) == MOST_TABLES * MOST_CONFLICTS
