"""``@task.delta`` and ``DeltaPythonOperator``: what a function and its call become, and what is refused in the DAG file."""

# ruff: noqa: F821, PLC0415, N812 - functions as in DAG files: imports within, and names that are not there

import json
from datetime import date
from types import SimpleNamespace

import pendulum
import pyarrow as pa
import pytest
from airflow.sdk import DAG, task
from deltalake import DeltaTable, write_deltalake
from jinja2 import Environment

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements import (
    Expectation,
    MatchedDelete,
    MergeStatement,
    PythonSource,
    TableSource,
    WriteMode,
    WriteStatement,
)
from airflow_delta.core.statements.json_form import statement_from_json
from airflow_delta.hooks.errors import ExposedSecretError
from airflow_delta.hooks.exposed_secrets import refuse_exposed
from airflow_delta.operators import DeltaJob, DeltaPublishOperator, DeltaPythonOperator, DeltaWriteOperator
from airflow_delta.spark.errors import FunctionFailedError
from tests.airflow_versions import DagSerialization

T = {"task_id": "t", "table": "/t"}
FLIGHTS = TableSource("/flights", version=3)
RESULT = {"table": "/silver", "version": 7, "read_version": 6, "operation": "MERGE", "committed": True, "metrics": {}}


def daily(spark, flights, day, factor=1):
    from pyspark.sql import functions as F

    return flights.where(F.col("day") == day).withColumn("n", F.col("n") * factor)


def of_run(spark, flights, ds, run_id=None):
    return flights


def of_context(spark, ti, params=None):
    return spark.range(1)


@pytest.fixture
def dag():
    with DAG("functions", schedule=None, start_date=pendulum.datetime(2013, 1, 1)) as dag:
        yield dag


@pytest.mark.parametrize(
    ("arguments", "statement"),
    [
        (
            {"mode": "replace_where", "replace_where": "day = 1", "expect": "n > 0", "partition_by": "day"},
            lambda source: WriteStatement(
                table="/t",
                source=source,
                mode=WriteMode.REPLACE_WHERE,
                replace_where="day = 1",
                expect=(Expectation("n > 0"),),
                partition_by=("day",),
            ),
        ),
        (
            {"on": "target.id = source.id", "expect": "n > 0", "schema_evolution": "true", "dry_run": "1"},
            lambda source: MergeStatement(
                table="/t",
                source=source,
                on="target.id = source.id",
                expect=(Expectation("n > 0"),),
                schema_evolution=True,
                dry_run=True,
            ),
        ),
        (
            {"on": "a = b", "clauses": [MatchedDelete()]},
            lambda source: MergeStatement(table="/t", source=source, on="a = b", clauses=(MatchedDelete(),)),
        ),
        ({"publish": "later"}, lambda source: WriteStatement(table="/t", source=source, publish="later")),
        (
            {"on": "a = b", "publish": "later"},
            lambda source: MergeStatement(table="/t", source=source, on="a = b", publish="later"),
        ),
    ],
    ids=["write", "upsert", "clauses", "write later", "merge later"],
)
def test_the_rows_of_a_function_are_written_or_merged_as_any(dag, arguments, statement):
    given = {"flights": FLIGHTS, "day": "2013-01-02"}
    source = PythonSource.of(daily, **given)
    operator = DeltaPythonOperator(**T, python_callable=daily, op_kwargs=given, **arguments)
    decorated = task.delta(table="/t", **arguments)(daily)(FLIGHTS, day="2013-01-02").operator
    assert operator.statement() == decorated.statement() == statement(source)
    assert (decorated.task_id, decorated.python_callable) == ("daily", daily)


def test_a_function_of_a_module_is_named_and_its_arguments_are_its_own_matter(dag):
    operator = DeltaPythonOperator(**T, python_callable="team.jobs:daily", op_kwargs={"flights": FLIGHTS})
    assert operator.statement().source == PythonSource("team.jobs:daily", arguments={"flights": FLIGHTS})


def rendered(operator, **context):
    operator.render_template_fields({"ti": SimpleNamespace(dag_id="d", task_id="t"), **context})
    return operator.statement().source.arguments


def test_arguments_are_templates_and_parameters_of_the_run_are_filled(dag):
    flights = TableSource("/flights", version="{{ v }}")
    operator = task.delta(table="/t")(of_run)(flights).operator
    found = rendered(operator, v=3, ds="2013-01-02", run_id="manual")
    assert found == {"flights": FLIGHTS, "ds": "2013-01-02", "run_id": "manual"}


def test_the_return_value_of_another_task_is_its_table_at_the_version_of_its_commit(dag):
    operator = DeltaPythonOperator(
        **T, python_callable=daily, op_kwargs={"flights": RESULT, "day": {"table": "/t", "version": 1}}
    )
    assert operator.statement().source.arguments == {
        "flights": TableSource("/silver", version=7),
        "day": {"table": "/t", "version": 1},
    }


@pytest.mark.parametrize("details", [None, "none", {"staged": None}])
def test_a_result_without_details_is_the_table_at_the_version_of_its_commit(dag, details):
    operator = DeltaPythonOperator(**T, python_callable=daily, op_kwargs={"flights": RESULT | {"details": details}, "day": 1})
    assert operator.statement().source.arguments["flights"] == TableSource("/silver", version=7)


@pytest.mark.parametrize("value", [b"abc", bytearray(b"abc"), [b"abc"]], ids=str)
def test_bytes_are_refused_because_json_has_none(dag, value):
    with pytest.raises(InvalidStatementError, match=r"the argument day must be .* a value that JSON has, found byte"):
        DeltaPythonOperator(**T, python_callable=daily, op_kwargs={"flights": FLIGHTS, "day": value})


def test_the_call_hangs_the_task_behind_those_whose_results_it_takes(dag):
    @task
    def factor():
        return 2

    silver = DeltaWriteOperator(task_id="silver", table="/silver", source="/bronze")
    operator = task.delta(table="/t")(daily)(silver.output, "{{ ds }}", factor=factor()).operator
    assert operator.upstream_task_ids == {"silver", "factor"}


def test_a_function_is_mapped_over_its_arguments(dag):
    task.delta(table="/t", mode="dynamic_overwrite")(daily).partial(flights=FLIGHTS).expand(day=["2013-01-01", "2013-01-02"])
    mapped = dag.get_task("daily")
    unmapped = mapped.unmap({"op_kwargs": {"day": "2013-01-02"}})
    assert unmapped.statement().source == PythonSource.of(daily, flights=FLIGHTS, day="2013-01-02")


def test_a_dag_of_functions_can_be_stored():
    with DAG("stored", schedule=None, start_date=pendulum.datetime(2013, 1, 1)) as dag:
        task.delta(table="/t")(daily)(FLIGHTS, "{{ ds }}")
        task.delta(table="/t", task_id="mapped")(daily).partial(day="a").expand(flights=[FLIGHTS, TableSource("/more")])
        DeltaPythonOperator(task_id="other", table="/t", python_callable=daily, op_kwargs={"flights": FLIGHTS, "day": "a"})
    serialized = DagSerialization.serialize_dag(dag)
    assert DagSerialization.serialize_dag(dag) == serialized
    assert set(DagSerialization.deserialize_dag(serialized).task_dict) == {"daily", "mapped", "other"}


def test_braces_of_a_function_survive_the_templates_of_a_job_that_others_submit():
    def braced(spark, day):
        text = f"{{{day}}} {{{{ {{% raw %}}"
        return spark.createDataFrame([(text,)], "a STRING")

    source = PythonSource.of(braced, day="{{ ds }}")
    job = DeltaJob(statement=WriteStatement(table="/t", source=source), scratch_uri="/s", code_uri="/c")
    [_, spec] = job.to_submit().arguments
    ti = SimpleNamespace(dag_id="d", task_id="t", run_id="r", map_index=-1, try_number=1, max_tries=0)
    time = pendulum.datetime(2013, 1, 2)
    dag_run = SimpleNamespace(run_after=time, logical_date=time, run_type=SimpleNamespace(value="manual"))
    context = {"ti": ti, "dag_run": dag_run, "task": SimpleNamespace(owner="o"), "ds": "2013-01-02", "logical_date": time}
    text = Environment(autoescape=True).from_string(spec).render(context)
    assert statement_from_json(json.loads(text)["statement"]).source == PythonSource.of(braced, day="2013-01-02")


def no_session(table):
    return table


def of_any_number(spark, *tables):
    return tables[0]


def uses_a_global(spark):
    return spark.sql(QUERY)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: task.delta(table="/t")(daily)(FLIGHTS), "missing a required argument: 'day'"),
        (lambda: task.delta(table="/t")(daily)(FLIGHTS, "a", "b", "c"), "too many positional arguments"),
        (lambda: task.delta(table="/t")(daily)(FLIGHTS, "a", flights="/other"), "multiple values for argument 'flights'"),
        (lambda: task.delta(table="/t")(of_any_number)(FLIGHTS), "passed by name, which tables cannot be"),
        (
            lambda: task.delta(table="/t")(no_session)("a"),
            "expected spark, the Spark session, as its first parameter, found table",
        ),
        (task.delta(table="/t")(uses_a_global), "it uses QUERY from outside"),
        (lambda: task.delta(table="/t", mode="apend")(daily)(FLIGHTS, "a"), "did you mean 'append'"),
        (
            lambda: DeltaPythonOperator(**T, python_callable=daily, op_kwargs={"day": "a"}),
            "missing a required argument: 'flights'",
        ),
        (
            lambda: DeltaPythonOperator(**T, python_callable=daily, op_kwargs={"flights": "/t", "day": date.min}),
            "that JSON has",
        ),
        (lambda: DeltaPythonOperator(**T, python_callable="daily"), "as 'module:function'"),
        (
            lambda: DeltaPythonOperator(**T, python_callable="a:b", op_kwargs="c"),
            "op_kwargs must be a mapping of names, found 'c'",
        ),
        (
            lambda: DeltaPythonOperator(**T, python_callable="a:b", on="a", mode="overwrite", merge_schema=True),
            "does not take mode, merge_schema",
        ),
        (lambda: DeltaPythonOperator(**T, python_callable="a:b", clauses=[MatchedDelete()]), "which needs on"),
        (lambda: DeltaPythonOperator(**T, python_callable="a:b", schema_evolution=True), "which needs on"),
        (
            task.delta(table="/t")(of_context),
            "ti is a part of Airflow's context, .* come by themselves ds, ds_nodash, run_id",
        ),
    ],
)
def test_what_cannot_run_is_refused_when_the_dag_is_parsed(dag, make, text):
    with pytest.raises((InvalidStatementError, TypeError), match=text):
        make()


def test_a_secret_among_the_arguments_or_in_the_function_is_refused_by_its_place():
    def reads_a_bucket(spark):
        return spark.read.option("secret", "AKIAIOSFODNN7EXAMPLE").parquet("s3a://bucket")

    for source, place in [
        (PythonSource.of("a:b", flights=FLIGHTS, api_token="s3cr3t-s3cr3t"), "source.arguments.api_token"),
        (PythonSource.of(reads_a_bucket), "source.code"),
    ]:
        with pytest.raises(ExposedSecretError) as caught:
            refuse_exposed(WriteStatement(table="/t", source=source), None, None, None)
        assert caught.value.places == (f"WriteStatement.{place}",)


@pytest.fixture
def seen(tmp_path):
    """Three rows of two days."""
    rows = {"id": [1, 2, 3], "n": [10, 20, 30], "day": [date(2013, 1, 1), date(2013, 1, 2), date(2013, 1, 2)]}
    write_deltalake(str(tmp_path / "seen"), pa.table(rows))
    return str(tmp_path / "seen")


def rows(table):
    columns = DeltaTable(table).to_pyarrow_table().to_pydict()
    return sorted(zip(columns["id"], columns["n"], strict=True))


@pytest.mark.slow  # two Spark jobs
def test_tasks_hand_tables_on_at_the_version_of_their_commit(run_dag, xcom, seen, tmp_path):
    doubles, totals = str(tmp_path / "doubles"), str(tmp_path / "totals")
    with DAG("birds", schedule=None, start_date=pendulum.datetime(2013, 1, 1)) as dag:

        @task
        def factor():
            return 2

        @task.delta(table=doubles, conn_id="spark_local", expect="n < 100", partition_by=["day"])
        def doubled(spark, seen, factor, ds):
            from pyspark.sql import functions as F

            return seen.where(F.col("day") == ds).select("id", (F.col("n") * factor).alias("n"), "day")

        @task.delta(table=totals, conn_id="spark_local", mode="overwrite")
        def total(spark, doubles):
            """Rows as the commit left them."""
            return spark.sql("SELECT 1 AS id, sum(n) AS n FROM {doubles}", doubles=doubles)

        total(doubled(TableSource(seen, version=0), factor()))
    dag_run = run_dag(dag, logical_date=pendulum.datetime(2013, 1, 2))
    assert dag_run.state == "success"
    assert (rows(doubles), rows(totals)) == ([(2, 40), (3, 60)], [(1, 100)])
    first, second = xcom(dag_run, "doubled"), xcom(dag_run, "total")
    assert first["sources"] == [{"table": seen, "version": 0}]
    assert second["sources"] == [{"table": doubles, "version": 0}]
    assert (xcom(dag_run, "doubled", "delta_version"), first["committed"]) == (0, True)


@pytest.mark.slow  # two Spark jobs
def test_what_a_function_stages_is_seen_by_another_function_and_by_readers_once_it_is_published(run_dag, xcom, seen, tmp_path):
    audit = str(tmp_path / "audit")
    with DAG("staged_birds", schedule=None, start_date=pendulum.datetime(2013, 1, 1)) as dag:

        @task.delta(table=seen, conn_id="spark_local", publish="later")
        def more(spark):
            return spark.sql("SELECT 4L AS id, 40L AS n, DATE'2013-01-03' AS day")

        @task.delta(table=audit, conn_id="spark_local", expect="n > 1")
        def counted(spark, future):
            return spark.sql("SELECT 1L AS id, count(*) AS n FROM {future}", future=future)

        staged = more()
        before = task(task_id="before")(lambda table: len(rows(table)))(seen)
        handles = staged.operator.output["delta_staged"]
        counted(staged) >> before >> DeltaPublishOperator(task_id="publish", handles=handles)
    dag_run = run_dag(dag, logical_date=pendulum.datetime(2013, 1, 2))
    assert dag_run.state == "success"
    assert rows(audit) == [(1, 4)]
    assert xcom(dag_run, "before") == 3
    assert rows(seen) == [(1, 10), (2, 20), (3, 30), (4, 40)]


@pytest.mark.slow  # a Spark job that fails
def test_an_error_in_the_function_ends_the_task_at_once_with_file_and_line(run_task, seen, tmp_path):
    def broken(spark, seen):
        if seen.count() == 3:
            raise LookupError("no rows of today")  # the line

    table = str(tmp_path / "none")
    run = run_task(
        lambda: DeltaPythonOperator(
            task_id="t", table=table, python_callable=broken, op_kwargs={"seen": TableSource(seen)}, conn_id="spark_local"
        ),
        retries=3,
    )
    [error] = run.errors
    assert isinstance(error, FunctionFailedError)
    assert (error.file, error.error, error.detail) == (__file__, "LookupError", "no rows of today")
    assert open(__file__).read().splitlines()[error.line - 1].endswith("# the line")  # noqa: PTH123, SIM115
