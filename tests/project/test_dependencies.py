"""Whatever the package imports is declared, so that it is there however the package was installed."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOR_THIS_CHECKOUT = {"demo", "docs", "lint", "test", "test-core"}
PROVIDERS = "airflow.providers."


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [names for extra, names in project["optional-dependencies"].items() if extra not in FOR_THIS_CHECKOUT]
    return {normal(re.match(r"[\w.-]+", name).group()) for names in (project["dependencies"], *extras) for name in names}


def imported_modules():
    for path in (path for folder in ("airflow_delta", "spark_jobs") for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from (name.name for name in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                yield node.module


def distributions_of(module, installed):
    """Those that may have brought the module; Airflow's providers share one package, and are told apart by their names."""
    if module.startswith(PROVIDERS):
        parts = module.removeprefix(PROVIDERS).split(".")
        return {normal(".".join(("apache-airflow-providers", *parts[:count]))) for count in (1, 2, 3)}
    top = module.partition(".")[0]
    return {"apache-airflow"} if top == "airflow" else {normal(name) for name in installed.get(top, [top])}


def test_every_distribution_that_is_imported_is_declared(declared):
    ours = {*sys.stdlib_module_names, "airflow_delta"}
    modules = {module for module in imported_modules() if module.partition(".")[0] not in ours}
    installed = packages_distributions()
    assert sorted(module for module in modules if not distributions_of(module, installed) & declared) == []
    assert {"airflow.sdk", "pyarrow", "pyspark.sql", "fastapi"} <= modules
