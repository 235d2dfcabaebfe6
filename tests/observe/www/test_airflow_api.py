"""Airflow's API server still has the undocumented parts that the pages use."""

import ast
import importlib
from pathlib import Path

import pytest

import airflow_delta.observe.www
from tests.airflow_versions import AIRFLOW

MODULE = Path(airflow_delta.observe.www.__file__).with_name("airflow_api.py")
IMPORTED = [
    (node.module, alias.name)
    for node in ast.parse(MODULE.read_text()).body
    if isinstance(node, ast.ImportFrom) and node.module.startswith("airflow.")
    for alias in node.names
]


@pytest.mark.parametrize(("module", "name"), IMPORTED)
def test_airflow_has_the_name(module, name):
    assert hasattr(importlib.import_module(module), name), f"{module}.{name} is gone: mend {MODULE.name}"


@pytest.mark.parametrize("name", ["get_authorized_dag_ids", "is_authorized_dag"])
def test_an_auth_manager_has_the_method(name):
    manager = importlib.import_module("airflow.api_fastapi.auth.managers.base_auth_manager").BaseAuthManager
    assert hasattr(manager, name), f"BaseAuthManager.{name} is gone: mend {MODULE.name}"


@pytest.mark.skipif(AIRFLOW < (3, 2), reason="before 3.2 DAGs have no teams")
def test_airflow_says_the_teams_of_dags():
    dag_model = importlib.import_module("airflow.models.dag").DagModel
    assert hasattr(dag_model, "get_dag_id_to_team_name_mapping"), f"the teams of DAGs are gone: mend {MODULE.name}"
