"""Arguments of the submit: refused when the DAG is parsed, or when their templates are rendered, before spark-submit starts."""

import pytest
from airflow.sdk import DAG, XComArg

from airflow_delta.core.errors import InvalidStatementError, RelativePathError
from airflow_delta.operators import DeltaOptimizeOperator, DeltaPublishOperator, DeltaVacuumOperator


@pytest.mark.parametrize(
    ("given", "detail"),
    [
        ({"conf": "spark.password=hunter2"}, "conf must be a mapping, such as {'spark.executor.cores': 2}, found a str"),
        ({"env_vars": ["TOKEN=hunter2"]}, "env_vars must be a mapping, such as {'TEAM': 'lake'}, found a list"),
        ({"code_uri": 5}, "code_uri must be a text, found a int"),
        ({"code_uri": "s3a://lake/a,b"}, "expected a folder without ',', where Spark would split its name; name another one"),
        ({"scratch_uri": 5}, "scratch_uri must be a text, found a int"),
        ({"py_files": ["/a.py"]}, "py_files must be a text, several separated by commas, found a list"),
        ({"files": ["/a.txt"]}, "files must be a text, several separated by commas, found a list"),
        ({"jars": ("/a.jar",)}, "jars must be a text, several separated by commas, found a tuple"),
        ({"archives": ["/a.zip"]}, "archives must be a text, several separated by commas, found a list"),
        ({"repositories": ["/a"]}, "repositories must be a text, several separated by commas, found a list"),
        ({"driver_memory": 2}, "driver_memory must be a text, found a int"),
        ({"deploy_mode": "clustr"}, "takes it, found 'clustr'; did you mean 'cluster'?"),
        ({"deploy_mode": "Cluster"}, "takes it, found 'Cluster'; did you mean 'cluster'?"),
        ({"application": "my.py"}, "takes no application; use SparkSubmitOperator for another job"),
        ({"application_args": ["x"]}, "takes no application_args; use SparkSubmitOperator for another job"),
        (
            {"java_class": "X", "application": "x.jar"},
            "no application and no java_class; use SparkSubmitOperator for another job",
        ),
    ],
)
@pytest.mark.parametrize(
    ("operator", "own"),
    [(DeltaVacuumOperator, {"table": "/lake/t"}), (DeltaPublishOperator, {"handles": ["{{ ti.xcom_pull('stage') }}"]})],
)
def test_what_cannot_be_submitted_is_refused_when_the_dag_is_parsed(operator, own, given, detail):
    with pytest.raises(InvalidStatementError) as refused:
        operator(task_id="t", **own, **given)
    assert refused.value.detail.endswith(detail)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("name", ["code_uri", "scratch_uri"])
def test_a_relative_place_is_refused_when_the_dag_is_parsed(name):
    with pytest.raises(RelativePathError, match=f"{name} is one place for the driver and the worker") as refused:
        DeltaVacuumOperator(task_id="t", table="/lake/t", **{name: "rel"})
    assert refused.value.path == "rel"


def test_templates_and_what_other_tasks_return_wait_for_the_run():
    with DAG("d", schedule=None):
        settings = XComArg(DeltaVacuumOperator(task_id="before", table="/lake/t"))
        operator = DeltaVacuumOperator(
            task_id="t",
            table="/lake/t",
            conf=settings,
            env_vars="{{ params.variables }}",
            scratch_uri="{{ params.scratch }}",
            code_uri="{{ params.code }}",
            jars="{{ params.jars }}",
            deploy_mode="cluster",
        )
    assert (operator.conf, operator.deploy_mode) == (settings, "cluster")


@pytest.mark.parametrize(
    ("given", "detail"),
    [
        ({"conf": "{{ 'spark.x=1' }}"}, "conf must be a mapping, such as {'spark.executor.cores': 2}, found a str"),
        ({"jars": "{{ ['/a.jar'] }}"}, "jars must be a text, several separated by commas, found a list"),
    ],
)
def test_what_a_template_renders_to_is_refused_before_the_submit(empty_table, recording_submit, run_task, given, detail):
    submit = recording_submit()
    table, binary = str(empty_table), str(submit.path)
    run = run_task(
        lambda: DeltaOptimizeOperator(task_id="t", table=table, conn_id="spark_local", spark_binary=binary, **given),
        native=True,
        dag_id=f"rendered_{next(iter(given))}",
    )
    (error,) = run.errors
    assert (type(error), error.detail, submit.calls) == (InvalidStatementError, detail, [])
