"""Drivers killed anywhere while staging: readers notice nothing, and a retry stages exactly once."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import CopyIntoStatement, MergeStatement, SqlSource, UpdateStatement, WriteStatement
from airflow_delta.core.statements.publish import STAGED_KEY
from airflow_delta.jobs.run import run
from airflow_delta.jobs.spec import JobSpec
from tests.core.faults.killed_runs import kill_at

TOKEN = "0123456789abcdef" * 2
PLACES = 12
ROOT = Path(__file__).parents[2]


def merge_of(table):
    source = SqlSource("SELECT id, 'y' AS name FROM range(3, 6)")
    return MergeStatement(table=table, source=source, on="target.id = source.id", publish="later")


def update_of(table):
    return UpdateStatement(table=table, assignments={"name": "'y'"}, where="id >= 3", publish="later")


def load_into(table):
    folder = Path(f"{table}.in")
    folder.mkdir(exist_ok=True)
    (folder / "a.csv").write_text("5,y\n")
    schema = "id BIGINT, name STRING"
    return CopyIntoStatement(table=table, path=str(folder), format="csv", schema=schema, publish="later")


def stage_on_spark(statement, table, number, count):
    """Stage a statement in a separate driver, which is killed before the event with this number."""
    from airflow_delta.jobs.session import job_session  # noqa: PLC0415 - only this process needs a session of a job

    job_session("stage")
    spec = JobSpec(statement=statement(table), origin=Origin(token=TOKEN))
    counted = kill_at(table, number)
    document = run(job_session("stage"), spec)
    Path(count).write_text(json.dumps([counted(), document.outcome is not None]))


def rows(table, version=None):
    read = DeltaLog.for_table(table).snapshot(version).to_arrow(["id", "name"]).read_all().to_pylist()
    return sorted(tuple(row.values()) for row in read)


OLD = [(number, "x") for number in range(5)]
CHANGED = [*OLD[:3], (3, "y"), (4, "y")]


def drive(statement, table, number=-1):
    """Stage in a separate process; returns the number of events, None if it was killed."""
    count = Path(f"{table}.count")
    given = f"{statement.__name__}, {str(table)!r}, {number}, {str(count)!r}"
    code = f"from tests.jobs.test_killed_staging import *; stage_on_spark({given})"
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": "--master local[1] --conf spark.ui.enabled=false pyspark-shell"}
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=False, capture_output=True, text=True)
    if number >= 0:
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        return None
    assert ended.returncode == 0, ended.stderr
    events, is_done = json.loads(count.read_text())
    assert is_done
    return events


@pytest.mark.slow
@pytest.mark.classic(reason="starts JVMs")
@pytest.mark.parametrize(
    ("statement", "new"),
    [(merge_of, [*CHANGED, (5, "y")]), (update_of, CHANGED), (load_into, [*OLD, (5, "y")])],
    ids=["merge", "update", "copy into"],
)
def test_a_driver_killed_anywhere_while_it_stages_leaves_nothing_to_be_seen_and_a_retry_stages_once(
    spark, tmp_path, statement, new
):
    def made(name):
        table = tmp_path / name
        source = SqlSource("SELECT id, 'x' AS name FROM range(5)")
        assert run(spark, JobSpec(statement=WriteStatement(table=str(table), source=source))).outcome is not None
        return table

    events = drive(statement, made("counted"))
    places = sorted({events - 1, *Random("stage").sample(range(events), PLACES - 1)})
    documents = []
    for number in places:
        table = made(str(number))
        drive(statement, table, number)
        assert rows(str(table)) == OLD
        documents.append(len(list((table / "_airflow_delta" / "staged").glob("*.json"))))
        origin = Origin(token=TOKEN, record={"try_number": 2})
        staged = run(spark, JobSpec(statement=statement(str(table)), origin=origin)).outcome
        assert rows(str(table)) == OLD
        assert len(list((table / "_airflow_delta" / "staged").glob("*.json"))) == 1
        log = DeltaLog.for_table(str(table))
        assert log.publish(staged.details[STAGED_KEY]).version == 1
        assert rows(str(table)) == new
        assert log.history()[0].commit_info.origin.token == staged.details[STAGED_KEY]["id"]
    assert set(documents) == {0, 1}
