"""A job ends in a document: what it did, or one typed error with the table as it was."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import PySparkException

from airflow_delta.core import least_versions
from airflow_delta.core.actions import Origin
from airflow_delta.core.errors import (
    CorruptLogError,
    ExpectationFailedError,
    PackageTooOldError,
    SchemaMismatchError,
    TableNotFoundError,
    VersionNotFoundError,
)
from airflow_delta.core.statements import (
    CheckpointStatement,
    FileSource,
    MergeStatement,
    OptimizeStatement,
    SqlSource,
    TableSource,
    VacuumStatement,
    WriteStatement,
)
from airflow_delta.jobs.errors import JobFailedError, MissingPackageError, PythonMismatchError, RowValueError
from airflow_delta.jobs.main import main
from airflow_delta.jobs.run import run, typed_error
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.spark.errors import ExpectationUnreadableError, SourceUnreadableError, SparkConnectUnsupportedError
from airflow_delta.spark.io.worker_values import typed_worker_errors, with_typed_errors

TOKEN = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def flights(tmp_path):
    path = tmp_path / "flights"
    write_deltalake(str(path), pa.table({"id": [1, 2, 3], "delay": [10, 20, 30]}))
    return path


@pytest.fixture
def feed(tmp_path):
    path = tmp_path / "feed"
    write_deltalake(str(path), pa.table({"id": [3, 4], "delay": [33, 44]}))
    return path


def files_below(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def rows(table):
    return sorted((row["id"], row["delay"]) for row in DeltaTable(str(table)).to_pyarrow_table().to_pylist())


def merge_of(table, source, **arguments):
    return MergeStatement(table=str(table), source=source, on="target.id = source.id", **arguments)


IMPORTED = """
import sys
import airflow_delta.jobs.run
from airflow_delta.core.statements import MergeStatement
from airflow_delta.jobs.spark_statements import RUNNERS

RUNNERS[MergeStatement]()
print(*sys.modules)
"""


def test_a_job_imports_the_code_of_its_own_statement_alone():
    imported = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True).stdout.split()
    assert "airflow_delta.spark.dml.merge.merge" in imported
    others = ("spark.optimize.optimize", "spark.write.write", "spark.dml.update", "jobs.core_statements", "jobs.session_names")
    assert {f"airflow_delta.{name}" for name in others} & set(imported) == set()


def test_a_merge_commits_once_for_one_token(spark, flights, feed):
    origin = Origin(token=TOKEN, job={"jobName": "d.t"})
    spec = JobSpec(statement=merge_of(flights, TableSource(str(feed))), origin=origin, start_version=0)
    first, again = run(spark, spec), run(spark, spec)
    assert first.error is None
    assert (first.outcome.version, first.outcome.committed, first.outcome.already_committed) == (1, True, False)
    assert (again.outcome.version, again.outcome.committed, again.outcome.already_committed) == (1, True, True)
    assert again.outcome.metrics == {name: again.outcome.metrics[name] for name in first.outcome.metrics}
    assert rows(flights) == [(1, 10), (2, 20), (3, 33), (4, 44)]
    history = DeltaTable(str(flights)).history()
    assert (len(history), history[0]["job"]["jobName"]) == (2, "d.t")


def test_a_token_is_found_also_without_a_version_to_start_at(spark, flights, feed):
    spec = JobSpec(statement=merge_of(flights, TableSource(str(feed))), origin=Origin(token=TOKEN))
    assert run(spark, spec).outcome.version == 1
    assert run(spark, spec).outcome.already_committed


@pytest.mark.parametrize(
    "statement",
    [
        lambda table: CheckpointStatement(table=table),
        lambda table: VacuumStatement(table=table),
        lambda table: OptimizeStatement(table=table),
    ],
)
def test_maintenance_reports_and_leaves_the_rows(spark, flights, statement):
    write_deltalake(str(flights), pa.table({"id": [4], "delay": [40]}), mode="append")
    before = rows(flights)
    document = run(spark, JobSpec(statement=statement(str(flights)), origin=Origin(token=TOKEN), start_version=1))
    assert (document.error, document.outcome.read_version) == (None, 1)
    assert rows(flights) == before


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda table, feed: merge_of(table, _sql("SELECT id FROM feed", feed)), SchemaMismatchError),
        (lambda table, feed: merge_of(table, _sql("SELECT id, array(1) AS delay FROM feed", feed)), SchemaMismatchError),
        (lambda table, feed: merge_of(table, TableSource(str(feed), version=7)), VersionNotFoundError),
        (lambda table, feed: merge_of(table, TableSource(str(feed) + "/none")), TableNotFoundError),
        (lambda table, feed: merge_of(str(table) + "/none", TableSource(str(feed))), TableNotFoundError),
        (lambda table, feed: merge_of(table, TableSource(str(feed)), expect="delay < 40"), ExpectationFailedError),
        (
            lambda table, feed: WriteStatement(table=str(table), source=TableSource(str(feed)), expect="late"),
            ExpectationUnreadableError,
        ),
    ],
    ids=["missing column", "mistyped column", "no version", "no source", "no table", "expectation", "bad expectation"],
)
def test_what_cannot_be_done_is_one_typed_error_and_leaves_nothing_behind(spark, flights, feed, make, error):
    before = files_below(flights.parent)
    document = run(spark, JobSpec(statement=make(flights, feed), origin=Origin(token=TOKEN), start_version=0))
    assert document.outcome is None
    found = document.typed_error()
    assert isinstance(found, error)
    assert "Remedy: " in str(found)
    assert not found.retryable
    assert document.exit_code == 65
    assert files_below(flights.parent) == before


@pytest.mark.parametrize(
    ("value", "condition"),
    [
        ("3000000000 * id", "CAST_OVERFLOW"),
        ("1 DIV (id - 3)", "DIVIDE_BY_ZERO"),
        ("CAST(CONCAT('x', id) AS INT)", "CAST_INVALID_INPUT"),
        ("raise_error(CONCAT('no such flight: ', id))", "USER_RAISED_EXCEPTION"),
    ],
)
def test_a_value_that_no_try_can_compute_or_store_ends_the_task(spark, flights, feed, value, condition):
    write_deltalake(
        str(flights), pa.table({"id": [9], "delay": pa.array([1], pa.int32())}), mode="overwrite", schema_mode="overwrite"
    )
    before = files_below(flights.parent)
    source = _sql(f"SELECT id, {value} AS delay FROM feed", feed)
    write = WriteStatement(table=str(flights), source=_sql(f"SELECT id, CAST({value} AS INT) AS delay FROM feed", feed))
    for statement in (merge_of(flights, source), write):
        document = run(spark, JobSpec(statement=statement, origin=Origin(token=TOKEN), start_version=1))
        found = document.typed_error()
        assert (type(found), found.retryable, document.exit_code) == (RowValueError, False, 65)
        assert found.condition == condition
    assert files_below(flights.parent) == before


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"format": "parquet"}, "is not a Parquet file"),
        ({"format": "parquet", "schema": "id BIGINT, delay BIGINT"}, "is not a Parquet file"),
        (
            {"format": "csv", "options": {"mode": "FAILFAST"}, "schema": "id BIGINT, delay BIGINT"},
            r'a row does not fit the columns \(For input string: "x"\); correct it, or leave the option mode=FAILFAST out',
        ),
    ],
    ids=["another format", "another format, with columns", "a row that does not fit"],
)
def test_a_file_whose_content_no_try_can_read_ends_the_task_and_is_named(spark, flights, how, reason):
    (flights.parent / "in.csv").write_text("1,2\nx,3\n")
    files = FileSource(str(flights.parent / "*.csv"), **how)
    for source in (files, SqlSource("SELECT * FROM files", views={"files": files})):
        document = run(spark, JobSpec(statement=WriteStatement(table=str(flights), source=source)))
        found = document.typed_error()
        assert (type(found), found.retryable) == (SourceUnreadableError, False)
        assert (Path(found.source).name, re.search(reason, found.detail) is not None) == ("in.csv", True)
    assert rows(flights) == [(1, 10), (2, 20), (3, 30)]


def test_what_another_try_may_help_is_no_error_of_values(spark, flights):
    def failing(batches):
        yield from batches
        raise OSError("connection reset")

    with pytest.raises(PySparkException) as caught:
        spark.range(1).mapInArrow(failing, "id long").collect()
    lost = PySparkException(message="Job aborted due to stage failure: ExecutorLostFailure (executor 1 exited)")
    for error in (caught.value, lost):
        found = typed_error(error, VacuumStatement(table=str(flights)))
        assert (type(found), found.retryable) == (JobFailedError, True)


def test_an_expression_that_spark_connect_does_not_take_is_refused_and_not_tried_again():
    error = pytest.importorskip("google.protobuf.message").DecodeError(
        "Error parsing message with type 'spark.connect.Expression': Exceeded upb_DecodeOptions_MaxDepth"
    )
    found = typed_error(error, VacuumStatement(table="/lake/flights"))
    assert (type(found), found.retryable) == (SparkConnectUnsupportedError, False)


def test_a_corrupt_commit_is_named_and_nothing_is_written(spark, flights, feed):
    (flights / "_delta_log" / f"{1:020d}.json").write_text('{"add": {"path":')
    before = files_below(flights.parent)
    found = run(spark, JobSpec(statement=merge_of(flights, TableSource(str(feed))))).typed_error()
    assert isinstance(found, CorruptLogError)
    assert f"{1:020d}.json" in found.file
    assert files_below(flights.parent) == before


def test_a_package_that_the_workers_lack_is_named(spark, flights):
    def broken(_):
        raise ModuleNotFoundError("No module named 'pandas'")

    spark.udf.register("broken", broken)
    source = SqlSource("SELECT id, broken(delay) AS delay FROM feed", views={"feed": TableSource(str(flights))})
    found = run(spark, JobSpec(statement=WriteStatement(table=f"{flights}2", source=source))).typed_error()
    assert isinstance(found, MissingPackageError)
    assert found.package == "pandas"


def test_executors_with_another_python_are_named_with_both_versions(spark, flights):
    def broken(_):  # what Spark raises in a worker
        raise RuntimeError("Python in worker has different version: 3.10 than that in driver: 3.11, PySpark cannot run")

    spark.udf.register("broken", broken)
    source = SqlSource("SELECT id, broken(delay) AS delay FROM feed", views={"feed": TableSource(str(flights))})
    found = run(spark, JobSpec(statement=WriteStatement(table=f"{flights}2", source=source))).typed_error()
    assert isinstance(found, PythonMismatchError)
    assert (found.driver, found.executors) == ("3.11", "3.10")


def test_a_driver_with_an_old_pyarrow_is_refused_before_any_work(spark, flights, feed, monkeypatch):
    monkeypatch.setattr(least_versions, "LEAST_PYARROW", (999, 0))
    document = run(spark, JobSpec(statement=merge_of(flights, TableSource(str(feed)))))
    assert isinstance(document.typed_error(), PackageTooOldError)
    assert document.exit_code == 65
    assert rows(flights) == [(1, 10), (2, 20), (3, 30)]


def test_a_worker_with_an_old_pyarrow_is_a_typed_error_on_the_driver(spark, flights):
    def old(batches):
        least, least_versions.LEAST_PYARROW = least_versions.LEAST_PYARROW, (999, 0)
        try:
            yield from with_typed_errors(batches)
        finally:
            least_versions.LEAST_PYARROW = least  # other tests get the same process

    with pytest.raises(PackageTooOldError, match=r"expected pyarrow 999\.0 or newer"), typed_worker_errors():
        spark.range(1).mapInArrow(old, "id LONG").collect()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "expected JSON"),
        ("@/nowhere/spec.json", "/nowhere/spec.json"),
        (json.dumps({"statement": {"$type": "vacuum", "table": "/t"}}), "expected a merge"),
    ],
)
def test_a_script_refuses_a_spec_that_is_not_for_it(capsys, text, message):
    assert main("merge", ["--spec", text]) == 64
    assert message in capsys.readouterr().err


def _sql(query, feed):
    return SqlSource(query, views={"feed": TableSource(str(feed))})
