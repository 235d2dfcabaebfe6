import re
import tomllib
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
PINS = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]


def pinned(name):
    return [line.removeprefix(f"{name}==") for line in PINS if line.startswith(f"{name}==")]


def test_pyspark_and_its_client_are_pinned_to_one_version():
    assert pinned("pyspark") == pinned("pyspark-client") != []


def test_pyspark_and_its_client_are_installed_in_one_version():
    assert version("pyspark") == version("pyspark-client") == pinned("pyspark")[0]


def test_every_constraint_is_a_plain_pin_that_pip_and_uv_both_take():
    plain = re.compile(r"[a-z0-9-]+==[\w.+]+( ; [\w\s.<>=!'*]+)?")
    assert [line for line in PINS if not plain.fullmatch(line)] == []


def test_the_project_itself_is_not_pinned():
    assert pinned("airflow-delta") == []


def test_the_classifiers_name_each_python_that_the_checks_run_on():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [
        line.rpartition(" :: ")[2] for line in project["classifiers"] if line.startswith("Programming Language :: Python :: 3.")
    ]
    [checked] = re.findall(r"^ *python: \[(.*)\]$", (ROOT / ".github/workflows/check.yml").read_text(), re.MULTILINE)

    assert named == re.findall(r'"([\d.]+)"', checked)
    assert project["requires-python"] == f">={named[0]}"
