"""The wheel in an environment that never saw this checkout."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from deltalake import DeltaTable

pytestmark = pytest.mark.slow

DAG = """
from airflow.sdk import DAG
from airflow_delta.operators import UPSERT, DeltaMergeOperator, DeltaWriteOperator, FileSource

with DAG("merged", schedule=None):
    made = DeltaWriteOperator(task_id="made", table="{root}/t", source=FileSource("{root}/old.json", format="json"))
    made >> DeltaMergeOperator(task_id="merge", table="{root}/t", on="target.id = source.id", clauses=UPSERT,
                               source=FileSource("{root}/new.json", format="json"))
"""


@pytest.fixture(scope="module")
def installed(install_wheel, tmp_path_factory):
    """Run a program of an empty environment that the wheel was installed into, in an empty folder."""
    folder = tmp_path_factory.mktemp("installed")
    python = install_wheel("[airflow,spark]")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHON", "PYSPARK", "SPARK"))}
    environment = kept | {
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "AIRFLOW_HOME": str(folder / "home"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
    }

    def run(*command):
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-5_000:]
        return done.stdout

    run.folder, run.environment = folder, python.parents[1]
    return run


def test_an_installed_wheel_runs_a_merge(installed):
    folder = installed.folder
    (folder / "dags").mkdir()
    (folder / "dags" / "merged.py").write_text(DAG.format(root=folder))
    (folder / "old.json").write_text('{"id": 1, "name": "a"}\n{"id": 2, "name": "b"}\n')
    (folder / "new.json").write_text('{"id": 2, "name": "B"}\n{"id": 3, "name": "c"}\n')
    installed("airflow", "db", "migrate")
    installed("airflow", "dags", "test", "merged")
    table = DeltaTable(folder / "t")
    assert sorted((row["id"], row["name"]) for row in table.to_pyarrow_table().to_pylist()) == [(1, "a"), (2, "B"), (3, "c")]
    assert [entry["operation"] for entry in table.history()] == ["MERGE", "CREATE TABLE AS SELECT"]


def test_airflow_lists_the_installed_provider(installed):
    assert "airflow-delta" in installed("airflow", "providers", "list", "--output", "plain")


def test_the_package_came_from_the_wheel(installed):
    place = installed("python", "-c", "import airflow_delta; print(airflow_delta.__file__)")
    assert Path(place.strip()).is_relative_to(installed.environment)
