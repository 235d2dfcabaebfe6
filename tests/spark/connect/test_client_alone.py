"""Every statement from a process without Java, py4j and classic Spark, on a server that has none of our code.

Once with pyspark, whose classic modules are hidden, and once in an environment of ``pyspark-client`` alone, which pip makes.
"""

import json
import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.connect_server import connect_server

ROOT = Path(__file__).parents[3]
CLIENT = Path(__file__).with_name("client.py")
JAVA = ("JAVA_HOME", "SPARK_HOME", "PYSPARK_GATEWAY_PORT")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return str(tmp_path_factory.mktemp("tables") / "birds")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with connect_server(tmp_path_factory.mktemp("server")) as address:
        yield address


@pytest.fixture(scope="module")
def found(server, place):
    """What each statement left, by its name."""
    return every_statement(sys.executable, sys.path, server, place)


def every_statement(python, path, server, place):
    environment = {name: value for name, value in os.environ.items() if name not in JAVA}
    environment |= {"PATH": "/nowhere", "PYTHONPATH": os.pathsep.join(filter(None, map(str, path)))}
    client = subprocess.run(
        [python, CLIENT, server, place], env=environment, capture_output=True, text=True, check=False, timeout=1800
    )
    assert client.returncode == 0, client.stderr
    return json.loads(client.stdout)


@pytest.fixture(scope="module")
def python_of_the_client(tmp_path_factory):
    """The Python of an environment in which pyspark-client and what the package needs are installed, but not pyspark."""
    home = tmp_path_factory.mktemp("client")
    venv.create(home, with_pip=True)
    pip = [home / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    packages = [*project["dependencies"], *project["optional-dependencies"]["connect"]]
    subprocess.run([*pip, "install", "--quiet", "--constraint", ROOT / "constraints.txt", *packages], check=True)
    installed = json.loads(subprocess.check_output([*pip, "list", "--format", "json"]))
    assert {package["name"] for package in installed} & {"pyspark", "pyspark-client", "py4j"} == {"pyspark-client"}
    return home / "bin" / "python"


DEFINED = ["CREATE TABLE", "ADD CONSTRAINT"]
WRITTEN = [[1, "tit", 0], [2, "wren", 1], [3, "rook", 1], [4, "swan", 2]]


@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ("write", WRITTEN),
        ("update", [[1, "tit's nest", 0], *WRITTEN[1:]]),
        ("merge result", [[3, 1, 1, 1]]),
        ("merge", [[1, "tit's nest", 0], [2, "WREN OF 2", 1], [3, "rook", 1], [9, "owl", 4]]),
        ("delete", [[1, "tit's nest", 0], [2, "WREN OF 2", 1], [9, "owl", 4]]),
        ("job", [[1, "tit's nest", 0], [2, "WREN OF 2", 1]]),
        ("changes", [[1, "tit", "update_preimage"], [1, "tit's nest", "update_postimage"]]),
        ("history", [*DEFINED, "WRITE", "UPDATE", "MERGE", "DELETE", "DELETE", "WRITE", "OPTIMIZE"]),
        ("optimize", [[2]]),
        ("checkpoint", 8),
        ("restore", WRITTEN),
        ("clone", WRITTEN),
        ("vacuum", WRITTEN),
    ],
)
def test_a_statement_over_spark_connect_does_what_it_does_elsewhere(found, statement, left):
    assert found[statement] == left


def test_another_engine_reads_what_the_statements_left(found, place):
    assert sorted(map(list, zip(*DeltaTable(place).to_pyarrow_table().to_pydict().values(), strict=True))) == WRITTEN


def test_workers_run_the_code_that_came_with_the_session(found):
    assert "airflow-delta-" in found["where the code is"]
    assert ".zip" in found["where the code is"]


def test_the_client_alone_does_what_it_does_beside_hidden_modules(found, server, python_of_the_client, tmp_path):
    alone = every_statement(python_of_the_client, [ROOT], server, str(tmp_path / "birds"))
    assert alone | {"where the code is": ""} == found | {"where the code is": ""}
    assert (
        sorted(map(list, zip(*DeltaTable(tmp_path / "birds").to_pyarrow_table().to_pydict().values(), strict=True))) == WRITTEN
    )
