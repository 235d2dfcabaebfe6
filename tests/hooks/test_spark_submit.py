"""The Spark provider still has the undocumented parts that we use."""

import ast
from pathlib import Path

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

import airflow_delta
from airflow_delta.hooks.spark_submit import PRIVATE, DriverSubmitHook, SubmitOperator

CODE = Path(airflow_delta.__file__).parent
NAMES = {name for names in PRIVATE.values() for name in names}


@pytest.fixture
def instances(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HERE", '{"conn_type": "spark", "host": "local[1]"}')
    return {
        SparkSubmitOperator: SubmitOperator(task_id="t", conn_id="spark_here"),
        SparkSubmitHook: SparkSubmitHook(conn_id="spark_here"),
    }


@pytest.mark.parametrize(("owner", "name"), [(owner, name) for owner, names in PRIVATE.items() for name in names])
def test_the_provider_has_the_member(instances, owner, name):
    assert hasattr(instances[owner], name), f"{owner.__name__}.{name} is gone: mend airflow_delta/hooks/spark_submit.py"


def test_the_operator_makes_the_hook_of_a_driver(instances):
    hook = instances[SparkSubmitOperator]._get_hook()
    assert isinstance(hook, DriverSubmitHook)
    assert (hook._connection["master"], hook.ending) == ("local[1]", None)


def test_no_other_module_uses_these_members():
    used = {
        f"{path.relative_to(CODE)}: {node.attr}"
        for path in CODE.rglob("*.py")
        if path.name != "spark_submit.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in NAMES - {"_hook", "_connection", "_env"}
    }
    assert used == set()
