"""The wheel without extras: the command line and the core, in an environment with neither Airflow nor Spark."""

import json
import subprocess

import pytest

from tests.golden_tables import TABLES

pytestmark = pytest.mark.slow

TABLE = str(TABLES / "dv_basic" / "table")
HEAVY = {"apache-airflow", "apache-airflow-core", "numpy", "pandas", "pyspark", "pyspark-client"}
PACKAGES_AT_MOST = 20


@pytest.fixture(scope="module")
def environment(install_wheel):
    """The folder of its programs."""
    return install_wheel("").parent


@pytest.fixture
def run(environment, tmp_path):
    """Run a program of the environment in an empty folder."""

    def run(program, *arguments):
        ended = subprocess.run([environment / program, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        return ended.returncode, ended.stdout, ended.stderr

    return run


def test_few_packages_come_along(run):
    program = "from importlib.metadata import distributions; print(*(package.name.lower() for package in distributions()))"
    names = {*run("python", "-c", program)[1].split()} - {"pip", "setuptools"}
    assert names & HEAVY == set()
    assert {"airflow-delta", "pyarrow"} <= names
    assert len(names) <= PACKAGES_AT_MOST


def test_the_commands_read_a_table(run):
    code, shown, _ = run("airflow-delta", "--help")
    assert (code, "history" in shown) == (0, True)
    code, shown, _ = run("airflow-delta", "history", TABLE, "--json")
    versions = [json.loads(line)["version"] for line in shown.splitlines()]
    assert (code, versions) == (0, list(range(7, -1, -1)))
    code, shown, _ = run("airflow-delta", "detail", TABLE, "--json")
    assert (code, json.loads(shown)["version"]) == (0, 7)
    code, shown, _ = run("airflow-delta", "doctor", TABLE)
    assert (code, "at version 7: no errors" in shown) == (0, True)


def test_the_code_is_shipped(run, tmp_path):
    code, _, error = run("airflow-delta", "ship", str(tmp_path / "code"))
    assert (code, error) == (0, "")
    assert any(path.suffix == ".zip" for path in (tmp_path / "code").rglob("*"))


def test_the_installation_is_healthy_and_knows_what_to_install_for_more(run):
    code, shown, _ = run("airflow-delta", "doctor")
    assert (code, "pip install 'airflow-delta[airflow]'" in shown) == (0, True)


@pytest.mark.parametrize("module", ["operators", "sensors", "hooks.delta", "triggers.commit", "notifications", "assets"])
def test_what_needs_airflow_names_the_extra(run, module):
    code, _, error = run("python", "-c", f"import airflow_delta.{module}")
    assert code == 1
    assert error.splitlines()[-1].startswith("ModuleNotFoundError: operators, sensors")
    assert "pip install 'airflow-delta[airflow]'" in error
