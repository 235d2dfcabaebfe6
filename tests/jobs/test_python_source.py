"""A Python function as the source of a job: its arguments, its rows, and how its errors are reported."""

# ruff: noqa: PLC0415, N812 - functions as in DAG files

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import PySparkException, QueryContextType

from airflow_delta.core.actions import Origin
from airflow_delta.core.errors import ExpectationFailedError, StorageUnavailableError, TableNotFoundError
from airflow_delta.core.statements import FileSource, MergeStatement, PythonSource, TableSource, WriteStatement
from airflow_delta.jobs.errors import JobFailedError, RowValueError
from airflow_delta.jobs.run import run
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.spark.errors import FunctionFailedError, FunctionResultError
from airflow_delta.spark.statement.python_function import value_place

TOKEN = "0123456789abcdef0123456789abcdef"
HERE = Path(__file__)


@pytest.fixture
def birds(tmp_path):
    """Two versions of a table."""
    path = str(tmp_path / "birds")
    write_deltalake(path, pa.table({"id": [1, 2], "n": [10, 20]}))
    write_deltalake(path, pa.table({"id": [3], "n": [30]}), mode="append")
    return path


@pytest.fixture
def job(spark, tmp_path):
    """Run a write of a function's rows, or a merge with ``on``, as a job: its document."""

    def run_job(function, /, table=None, *, on=None, expect=(), token=TOKEN, **arguments):
        source, table = PythonSource.of(function, **arguments), table or str(tmp_path / "table")
        if on is None:
            statement = WriteStatement(table=table, source=source, expect=expect)
        else:
            statement = MergeStatement(table=table, source=source, on=on, expect=expect)
        # as the job reads it
        spec = JobSpec.from_text(JobSpec(statement=statement, origin=Origin(token=token), start_version=-1).to_text())
        return run(spark, spec)

    return run_job


def rows(table):
    return sorted(tuple(row.values()) for row in DeltaTable(table).to_pyarrow_table().to_pylist())


def line_of(text):
    [number] = [number for number, line in enumerate(HERE.read_text().splitlines(), 1) if line.endswith(text)]
    return number


def chosen(spark, birds, feed, days, options):
    """Takes each kind of argument; a UDF of its own runs in Python workers."""
    from pyspark.sql import functions as F

    @F.udf("long")
    def plus(number):
        return number + options["plus"][0]

    assert type(days) is list
    assert type(options["plus"]) is list
    return birds.union(feed).where(F.col("id").isin(days)).select("id", plus("n").alias("n"))


def test_a_function_gets_tables_at_their_versions_files_and_values_and_its_rows_are_written_once(job, birds, tmp_path):
    (tmp_path / "feed.csv").write_text("7,70\n8,80\n")
    feed = FileSource(str(tmp_path / "feed.csv"), format="csv", schema="id BIGINT, n BIGINT")
    values = {"days": [1, 3, 7], "options": {"plus": [5]}}
    expect = ["n > 0", "SELECT (SELECT count(*) FROM birds) = 2 AND (SELECT count(*) FROM feed) = 2"]
    for already_committed in (False, True):
        document = job(chosen, birds=TableSource(birds, version=0), feed=feed, expect=expect, **values)
        assert document.error is None, document.traceback
        assert document.outcome.already_committed == already_committed
        assert document.outcome.sources == ({"table": birds, "version": 0},)
        assert rows(str(tmp_path / "table")) == [(1, 15), (7, 75)]


def doubled(spark, birds):
    return birds.selectExpr("id + 1 AS id", "n * 2 AS n")


def test_the_rows_of_a_function_are_merged_into_the_table_that_it_reads(job, birds):
    document = job(doubled, birds, birds=TableSource(birds), on="target.id = source.id")
    assert document.error is None, document.traceback
    assert (document.outcome.version, document.outcome.sources) == (2, ({"table": birds, "version": 1},))
    assert rows(birds) == [(1, 10), (2, 20), (3, 40), (4, 60)]


def test_a_table_in_which_an_expectation_fails_stays_as_it_was(job, birds):
    error = job(doubled, birds, birds=TableSource(birds), expect="n < 50").typed_error()
    assert (type(error), error.rows, DeltaTable(birds).version()) == (ExpectationFailedError, 1, 1)


def test_a_function_of_a_module_is_imported(job, tmp_path, monkeypatch):
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "jobs.py").write_text(
        "SQL = 'SELECT {n}L AS id'\n\n\ndef rows(spark, n):\n    return spark.sql(SQL.format(n=n))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert job("team.jobs:rows", n=7).error is None
    assert rows(str(tmp_path / "table")) == [(7,)]
    error = job("team.jobs:rows", token="1" * 32, m=7).typed_error()
    assert (type(error), error.line, error.error) == (FunctionFailedError, 4, "TypeError")
    error = job("team.none:rows", token="1" * 32).typed_error()
    assert (type(error), error.error, error.detail) == (
        FunctionFailedError,
        "ModuleNotFoundError",
        "No module named 'team.none'",
    )
    assert "raised ModuleNotFoundError at its module:1" in str(error)


def fails_in_a_helper(spark):
    def helper():
        raise LookupError("password=hunter2 is wrong")  # the helper

    helper()


def names_no_column(spark):
    frame = spark.range(3)
    return frame.where("nothing = 1")  # the column


def divides_in_a_worker(spark):
    from pyspark.sql import functions as F

    @F.udf("long")
    def inverse(number):
        return 1 // number  # the worker

    return spark.range(3).select(inverse("id").alias("n"))


def divides_in_an_action(spark):
    from pyspark.sql import functions as F

    inverse = F.udf(lambda number: 1 // number, "long")  # the action
    spark.range(3).select(inverse("id")).collect()


def exits(spark):
    raise SystemExit(3)  # the exit


def reads_a_file_that_is_not_there(spark):
    return open("/nowhere/feed")  # noqa: PTH123 - the file


@pytest.mark.parametrize(
    ("function", "error", "detail", "line"),
    [
        (fails_in_a_helper, "LookupError", "password=*** is wrong", "# the helper"),
        pytest.param(
            *(names_no_column, "AnalysisException", "UNRESOLVED_COLUMN", "# the column"),
            marks=pytest.mark.classic(
                reason="over Spark Connect, columns are resolved when rows are used, so the error is at another line"
            ),
        ),
        (divides_in_a_worker, "ZeroDivisionError", "integer division or modulo by zero", "# the worker"),
        pytest.param(
            *(divides_in_an_action, "ZeroDivisionError", "integer division or modulo by zero", "# the action"),
            marks=pytest.mark.slow,
        ),
        (exits, "SystemExit", "3", "# the exit"),
        (reads_a_file_that_is_not_there, "FileNotFoundError", "/nowhere/feed", "- the file"),
    ],
)
def test_an_error_of_the_function_is_told_by_file_and_line_and_not_tried_again(job, tmp_path, function, error, detail, line):
    document = job(function)
    failed = document.typed_error()
    assert isinstance(failed, FunctionFailedError), document.traceback
    assert (failed.function, failed.file, failed.line) == (function.__name__, str(HERE), line_of(line))
    assert (failed.error, detail in failed.detail, failed.retryable, document.exit_code) == (error, True, False, 65)
    assert not (tmp_path / "table" / "_delta_log").exists()


def loses_the_network(spark):
    raise ConnectionResetError("the peer is gone")


def finds_no_host(spark):
    from urllib.error import URLError

    raise URLError("no such host today")


def fails_on_the_cluster(spark):
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        spark.range(1).write.parquet(f"{folder}/rows")
        rows = spark.read.parquet(f"{folder}/rows")
    rows.collect()  # its file is gone by now


def refuses_a_row(spark):
    spark.sql("SELECT raise_error('no such airport')").collect()  # refused


def divides_in_a_query(spark):
    return spark.sql("SELECT id, 1 / id AS share FROM range(3)")


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (loses_the_network, StorageUnavailableError),
        (finds_no_host, JobFailedError),
        pytest.param(
            *(fails_on_the_cluster, JobFailedError),
            marks=pytest.mark.classic(reason="over Spark Connect, files are resolved when rows are used"),
        ),
    ],
)
def test_what_may_not_come_again_is_tried_again(job, function, kind):
    document = job(function)
    failed = document.typed_error()
    assert (type(failed), failed.retryable) == (kind, True)
    assert f'"{HERE}", line' in document.traceback


@pytest.mark.parametrize(
    ("function", "condition", "place"),
    [
        (refuses_a_row, "USER_RAISED_EXCEPTION", f"at {HERE}:{line_of('# refused')}"),
        (divides_in_a_query, "DIVIDE_BY_ZERO", "in 1 / id"),
    ],
)
def test_a_row_that_the_function_refuses_on_the_cluster_is_refused_by_each_try_and_told_by_its_place(
    job, function, condition, place
):
    failed = job(function).typed_error()
    assert (type(failed), failed.retryable, failed.condition) == (RowValueError, False, condition)
    assert failed.detail.endswith(place)


@pytest.mark.parametrize(
    ("call_site", "place"),
    [(f"{HERE}:7", f"{HERE}:7"), ("/elsewhere/library.py:7", None), ("java.base/jdk.Invoke.invoke0(Native Method)", None)],
)
def test_a_value_is_placed_where_the_function_makes_it_if_spark_knows_the_call(call_site, place):
    context = SimpleNamespace(contextType=lambda: QueryContextType.DataFrame, callSite=lambda: call_site)
    error = PySparkException("no", contexts=[context])
    assert value_place(error, PythonSource.of(refuses_a_row)) == place


def test_an_error_of_ours_in_the_function_is_itself(job):
    def reads_what_is_not_there(spark):
        from airflow_delta.spark import DeltaTable

        return DeltaTable.forPath(spark, "/nowhere/table").toDF()

    assert isinstance(job(reads_what_is_not_there).typed_error(), TableNotFoundError)


def returns_nothing(spark):
    spark.range(3)


def returns_a_frame_of_pandas(spark):
    return spark.range(3).toPandas()


def returns_a_stream(spark):
    return spark.readStream.format("rate").load()


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (returns_nothing, "None, as a function without return does"),
        (returns_a_frame_of_pandas, "pandas.core.frame.DataFrame"),
        (returns_a_stream, "a streaming one"),
    ],
)
def test_what_is_not_a_dataframe_is_named(job, function, found):
    error = job(function).typed_error()
    assert isinstance(error, FunctionResultError)
    assert (error.found, error.line) == (found, line_of(f"def {function.__name__}(spark):"))
    assert f"expected {function.__name__} ({HERE}:{error.line}) to return a DataFrame of Spark, found" in str(error)


def stops_the_session(spark):
    rows = spark.range(3)
    spark.stop()
    return rows


def stops_the_session_too_early(spark):
    spark.stop()
    return spark.range(3)


def run_of_its_own(function, table):
    """In this process, whose session it may stop."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    error = run(spark, JobSpec(statement=WriteStatement(table=table, source=PythonSource.of(function)))).typed_error()
    sys.stdout.write(f"{type(error).__name__} {error.retryable} {error.found}\n")


@pytest.mark.slow
@pytest.mark.classic(reason="starts JVMs")
@pytest.mark.parametrize("function", ["stops_the_session", "stops_the_session_too_early"])
def test_a_function_that_stops_the_session_fails_at_once_and_is_told_so(tmp_path, function):
    code = f"from tests.jobs.test_python_source import *; run_of_its_own({function}, {str(tmp_path / 'table')!r})"
    ended = subprocess.run([sys.executable, "-c", code], cwd=HERE.parents[2], check=False, capture_output=True, text=True)
    assert ended.stdout == "FunctionResultError False a session that the function has stopped\n", ended.stderr


def test_a_name_or_text_that_this_python_cannot_take_is_an_error_of_the_function(spark, tmp_path):
    source = PythonSource("rows", code="def rows(spark):\n    return from\n", file="/dags/a.py", line=5)
    document = run(spark, JobSpec(statement=WriteStatement(table=str(tmp_path / "table"), source=source)))
    assert "cannot be parsed" in str(document.typed_error())
