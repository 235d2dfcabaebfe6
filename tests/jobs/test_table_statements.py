"""Tables created, altered, cloned and restored by jobs; the scripts for spark-submit differ only in the statement type."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from airflow_delta.core.actions import Origin
from airflow_delta.core.errors import InvalidStatementError, InvalidTableChangeError, TableExistsError
from airflow_delta.core.statements import (
    AddColumns,
    AlterStatement,
    CloneStatement,
    CompactLogStatement,
    CreateStatement,
    DropColumns,
    ManifestStatement,
    RestoreStatement,
    SqlSource,
    StatisticsStatement,
    TableSource,
    WriteStatement,
)
from airflow_delta.jobs.run import run
from airflow_delta.jobs.spec import JobSpec

SCRIPTS = Path(__file__).parents[2] / "spark_jobs"
TOKEN = "0123456789abcdef0123456789abcdef"


def execute(spark, statement):
    document = run(spark, JobSpec(statement=statement))
    assert document.error is None, document.traceback
    return document.outcome


def test_a_table_is_made_filled_altered_restored_and_cloned(spark, tmp_path):
    table, clone = str(tmp_path / "flights"), str(tmp_path / "clone")
    rows = SqlSource("SELECT 1L AS id, DATE'2013-01-01' AS day, 5 AS delay")
    create = CreateStatement(table=table, columns="id BIGINT NOT NULL, day DATE, delay INT", partition_by="day")
    assert execute(spark, create).operation == "CREATE TABLE"
    assert execute(spark, WriteStatement(table=table, source=rows)).version == 1
    altered = execute(spark, AlterStatement(table=table, changes=[AddColumns("gate STRING", after="id")]))
    assert (altered.version, altered.operation) == (2, "ADD COLUMNS")
    assert spark.read.parquet(table).count() == 1
    with_gate = SqlSource("SELECT 2L AS id, 'B' AS gate, DATE'2013-01-02' AS day, 6 AS delay")
    assert execute(spark, WriteStatement(table=table, source=with_gate)).version == 3
    assert sorted(map(tuple, DeltaTable(table).to_pandas()[["id", "gate"]].fillna("").to_numpy().tolist())) == [
        (1, ""),
        (2, "B"),
    ]
    assert execute(spark, CloneStatement(table=clone, source=TableSource(table, version=1))).details["source_version"] == 1
    deep = CloneStatement(table=f"{clone} of files", source=TableSource(table), deep=True)
    assert execute(spark, deep).metrics["numCopiedFiles"] == 2
    assert sorted(DeltaTable(deep.table).to_pandas()["id"]) == [1, 2]
    assert execute(spark, RestoreStatement(table=table, version=1)).version == 4
    assert DeltaTable(table).to_pandas().columns.tolist() == ["id", "day", "delay"]
    assert execute(spark, StatisticsStatement(table=table)).committed is False
    assert execute(spark, ManifestStatement(table=table)).metrics["numManifests"] == 1
    assert execute(spark, CompactLogStatement(table=table)).metrics["numCompactedCommits"] == 5


def test_a_job_that_runs_again_finds_what_it_made(spark, tmp_path):
    spec = JobSpec(
        statement=CreateStatement(table=str(tmp_path / "new"), columns="id BIGINT"),
        origin=Origin(token=TOKEN),
        start_version=-1,
    )
    first, again = run(spark, spec).outcome, run(spark, spec).outcome
    assert (first.version, first.already_committed, again.version, again.already_committed) == (0, False, 0, True)
    other = run(spark, JobSpec(statement=spec.statement, origin=Origin(token=TOKEN[::-1]), start_version=-1))
    assert isinstance(other.typed_error(), TableExistsError)


@pytest.mark.parametrize(
    ("make", "error", "code"),
    [
        (lambda table: AlterStatement(table=table, changes=DropColumns("id")), InvalidTableChangeError, 65),
        (lambda table: AlterStatement(table=table, changes=AddColumns("a TEXT")), InvalidStatementError, 64),
        (lambda table: RestoreStatement(table=table, version=0), InvalidStatementError, 64),
    ],
)
def test_what_cannot_be_done_is_one_typed_error(spark, tmp_path, make, error, code):
    table = str(tmp_path / "flights")
    execute(spark, CreateStatement(table=table, columns="id BIGINT"))
    document = run(spark, JobSpec(statement=make(table)))
    assert isinstance(document.typed_error(), error)
    assert document.exit_code == code
    assert DeltaTable(table).version() == 0


@pytest.mark.slow
def test_a_script_makes_a_table_under_spark_submit(tmp_path):
    spec = tmp_path / "create.json"
    spec.write_text(json.dumps({"statement": {"$type": "create", "table": f"{tmp_path}/new", "columns": "id BIGINT"}}))
    command = [
        Path(sys.executable).parent / "spark-submit",
        "--master",
        "local[1]",
        SCRIPTS / "delta_create.py",
        "--spec",
        f"@{spec}",
    ]
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(SCRIPTS.parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    made = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr[-2_000:]
    assert json.loads(made.stdout)["outcome"]["operation"] == "CREATE TABLE"
    assert DeltaTable(str(tmp_path / "new")).version() == 0
