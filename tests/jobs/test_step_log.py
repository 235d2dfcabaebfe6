"""What a job logs while it works, and what it leaves to other loggers."""

import json
import logging
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_delta.core.statements import MergeStatement, OperationResult, TableSource
from airflow_delta.jobs.errors import JobFailedError
from airflow_delta.jobs.progress import log_connect_progress, log_progress
from airflow_delta.jobs.result import ResultDocument, print_outcome, read_result, result_uri
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.jobs.step_log import PACKAGE, log_steps
from airflow_delta.shipping.scripts import job_script

MOST_LINES = 25


@pytest.mark.slow
def test_the_log_of_a_trivial_merge_is_a_line_for_each_step_and_no_result_document(tmp_path):
    table, feed = tmp_path / "table", tmp_path / "feed"
    for part in range(16):
        write_deltalake(str(table), pa.table({"id": range(100 * part, 100 * part + 100)}), mode="append")
    write_deltalake(str(feed), pa.table({"id": [*range(90, 110), *range(5_000, 5_010)]}))
    uri = result_uri(str(table), "0" * 32, 1)
    statement = MergeStatement(table=str(table), source=TableSource(str(feed)), on="target.id = source.id")
    submit = shutil.which("spark-submit", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    command = [submit, "--master", "local[2]", "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.ui.enabled=false"]
    spec = JobSpec(statement=statement, result_uri=uri).to_text()
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(job_script("merge").parents[1])}
    done = subprocess.run(
        [*command, str(job_script("merge")), "--spec", spec], env=environment, capture_output=True, text=True, check=True
    )
    lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    assert len(lines) <= MOST_LINES, lines
    assert not [line for line in lines if "locally checkpointed" in line]
    assert all(" INFO SparkContext: " in line for line in lines if " INFO " in line)  # versions
    steps = [line.partition(" s  ")[2] for line in lines if " s  " in line]
    steps = [step for step in steps if not step.startswith("Stage ")]  # of a busy machine
    assert steps[0].startswith("Spark 4.")
    assert steps[1:] == [
        f"MERGE on {table}",
        "Source: 30 rows",
        "Files: 2 of 16 considered, 14 pruned",
        "Rows: 20 to update, 0 to delete, 10 to insert; 2 files to change",
        next(step for step in steps if step.startswith("Rewriting 2 files (")),
        next(step for step in steps if step.startswith("Wrote 3 files (")),
        f"Committed version 16 of {table}",
    ]
    assert read_result(uri).outcome.version == 16


def test_each_line_stays_a_line_whatever_it_says(capsys):
    logger, handlers = logging.getLogger(PACKAGE), [*logging.getLogger(PACKAGE).handlers]
    level, propagates = logger.level, logger.propagate
    logger.handlers = []
    try:
        log_steps()
        logging.getLogger("airflow_delta.some").warning("a\x1b[31m %s", "b")
        logging.getLogger("airflow_delta.some").debug("nothing")
    finally:
        logger.handlers, logger.propagate = handlers, propagates
        logger.setLevel(level)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.partition(" s  ")[2] == "WARNING: a\\x1b[31m b"


class Tracker:
    """A status tracker whose only stage advances by one task with each look."""

    def __init__(self):
        self.looks = 0

    def getActiveStageIds(self):  # noqa: N802 - Spark's name
        return [3]

    def getStageInfo(self, number):  # noqa: N802
        self.looks += 1
        return SimpleNamespace(stageId=number, numTasks=200, numCompletedTasks=self.looks)


def test_a_long_stage_is_worth_a_line(caplog):
    tracker = Tracker()
    with (
        caplog.at_level(logging.INFO, "airflow_delta.jobs.progress"),
        log_progress(SimpleNamespace(statusTracker=lambda: tracker), first=0.01),
    ):
        while len(caplog.messages) < 2:
            time.sleep(0.01)
    lines = [message.split() for message in caplog.messages[:2]]
    assert [line[:4] for line in lines] == [["Stage", "3", "of", "Spark:"]] * 2
    assert 1 < int(lines[0][4]) < int(lines[1][4])


def test_the_next_line_about_a_stage_comes_after_twice_the_time_at_most_two_minutes_later(caplog):
    handlers, now = [], [0]
    session = SimpleNamespace(registerProgressHandler=handlers.append, removeProgressHandler=handlers.remove)
    with (
        caplog.at_level(logging.INFO, "airflow_delta.jobs.progress"),
        log_connect_progress(session, clock=lambda: now[0]),
    ):
        for second in range(500):
            now[0] = second
            stage = SimpleNamespace(stage_id=3, num_completed_tasks=second, num_tasks=600, done=False)
            handlers[0](stages=[stage], inflight_tasks=1, operation_id="", done=False)
    lines = [f"Stage 3 of Spark: {second} of 600 tasks done in {second} s" for second in (10, 20, 40, 80, 160, 280, 400)]
    assert (caplog.messages, handlers) == (lines, [])


def test_by_hand_the_result_is_printed(capsys):
    outcome = OperationResult(table="/t", version=1, read_version=0, operation="MERGE", committed=True)
    assert print_outcome(ResultDocument(outcome=outcome)) == 0
    assert capsys.readouterr().out == ""
    assert print_outcome(ResultDocument(outcome=outcome), is_by_hand=True) == 0
    assert json.loads(capsys.readouterr().out)["outcome"]["version"] == 1


def test_the_traceback_is_printed_by_hand_and_else_left_to_the_document(capsys):
    failure = JobFailedError(table="/t", operation="MERGE", error="OSError", detail="broken")
    document = ResultDocument.of_error(failure, "Traceback: here\n")
    assert print_outcome(document) == print_outcome(document, is_by_hand=True) != 0
    printed = capsys.readouterr().err
    assert (printed.count("Traceback: here"), printed.count("broken")) == (1, 2)
