"""A task with several new tables, killed between its commits and the end of publishing: its retry commits nothing again, and
publishes what is missing."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_delta.catalogs.entry import TableDescription, differences
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core import DeltaLog

ROOT = Path(__file__).parents[2]
PROGRAM = """
import os, signal, sys
from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import AddColumns, AlterStatement, CreateStatement, SequenceStatement
from airflow_delta.jobs.catalog_publication import with_publications_of_statements
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.jobs.core_statements import execute_in_core
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.jobs.table_stats import attach_table_stats, describe_tables
place, hook = int(sys.argv[1]), DeltaHook("lake")
named = SequenceStatement(statements=(
    CreateStatement(table="sales.orders", columns="id BIGINT"),
    CreateStatement(table="sales.customers", columns="name STRING"),
    AlterStatement(table="sales.orders", changes=AddColumns("note STRING")),
))
statement = hook.resolve_table_uris(named)
log = DeltaLog.for_table(statement.table)
outcome = execute_in_core(log, statement, origin=Origin(token="0123456789abcdef" * 2), start_version=-1)
document = attach_table_stats(ResultDocument(outcome=outcome), log)
document = describe_tables(document, [statement.statements[1].table], DeltaLog.for_table)
sent, request = [0], hook.catalog._pool.request
def counted(*arguments, **options):
    if place == 2 * sent[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    answer = request(*arguments, **options)
    if place == 2 * sent[0] + 1:
        os.kill(os.getpid(), signal.SIGKILL)
    sent[0] += 1
    return answer
hook.catalog._pool.request = counted
with_publications_of_statements(hook, named, document)
print(sent[0])
"""


def run(place):
    command = [sys.executable, "-c", PROGRAM, str(place)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 1, 4, 5, 6, 7, 10, 11, 14, 17])
def test_what_a_killed_task_has_not_published_its_retry_does(unity, tmp_path, place):
    """Places are before (even) and behind (odd) each request: of each table find, find, create, version, find."""
    killed = run(place)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    retried = run(-1)
    assert retried.returncode == 0, retried.stderr
    assert sorted(unity.tables) == [("main", "sales", "customers"), ("main", "sales", "orders")]
    for table, version in {"orders": 1, "customers": 0}.items():
        snapshot = DeltaLog.for_table(str(tmp_path / "sales" / table)).snapshot()
        entry = unity.client.find(TableName(table, "sales"))
        assert snapshot.version == version
        assert differences(entry, TableDescription.of(snapshot)) == ()
