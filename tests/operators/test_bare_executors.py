"""Executors in separate processes whose Python has only the documented packages and not our code, or no packages at all."""

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.cli.cluster import check_cluster
from airflow_delta.jobs.errors import MissingPackageError
from airflow_delta.operators import DeltaMergeOperator, DeltaOptimizeOperator
from airflow_delta.shipping.environment import Environment, pack
from airflow_delta.shipping.scripts import job_script

pytestmark = pytest.mark.slow

DOCUMENTED = ("pyarrow", "pandas")
CLUSTER = "local-cluster[2,1,1024]"
LACKS = "import importlib.util as u; print([n for n in ('airflow_delta', 'pyarrow', 'pandas', 'numpy') if u.find_spec(n)])"
NEEDED_BY_THEM = ("numpy", "dateutil", "pytz", "tzdata", "six.py", "numpy.libs", "pandas.libs", "pyarrow.libs")


@pytest.fixture
def bare_python(tmp_path):
    """A new virtual environment; each start of its Python adds a line to ``started``."""
    home = tmp_path / "bare"
    venv.create(home, symlinks=True)
    packages = home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    ours = Path(pa.__file__).parents[1]
    for name in (*DOCUMENTED, *NEEDED_BY_THEM):
        if (ours / name).exists():
            (packages / name).symlink_to(ours / name)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/started\nexec {home}/bin/python "$@"\n')
    python.chmod(0o755)
    return python


def test_a_bare_executor_merges_and_compacts_with_the_code_that_arrives_with_the_job(tmp_path, bare_python, run_task):
    lacks = (
        "import importlib.util as u; print([n for n in ('airflow_delta', 'airflow', 'sqlglot', 'fsspec') if u.find_spec(n)])"
    )
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    printed = subprocess.run([bare_python, "-c", lacks], capture_output=True, text=True, check=True, cwd=tmp_path, env=plain)
    assert printed.stdout.strip() == "[]"
    started = len((tmp_path / "started").read_text().splitlines())
    table, feed = str(tmp_path / "table"), str(tmp_path / "feed")
    for part in range(4):
        ids = list(range(part * 100, part * 100 + 100))
        write_deltalake(table, pa.table({"id": ids, "name": [f"old {row_id}" for row_id in ids]}), mode="append")
    write_deltalake(feed, pa.table({"id": [5, 105, 1_000], "name": ["new"] * 3}))
    os.environ["AIRFLOW_CONN_SPARK_CLUSTER"] = '{"conn_type": "spark", "host": "local-cluster[2,1,1024]"}'
    spark = {"conn_id": "spark_cluster", "conf": {"spark.pyspark.python": str(bare_python)}}
    spark["conf"] |= {"spark.pyspark.driver.python": sys.executable, "spark.sql.shuffle.partitions": "2"}

    def make():
        merge = DeltaMergeOperator(task_id="merge", table=table, source=feed, on="target.id = source.id", **spark)
        optimize = DeltaOptimizeOperator(task_id="optimize", table=table, **spark)
        merge >> optimize
        return optimize

    try:
        run = run_task(make)
    finally:
        del os.environ["AIRFLOW_CONN_SPARK_CLUSTER"]
    assert (run.errors, run.state, run.version) == ([], "success", 5)
    rows = DeltaTable(table).to_pyarrow_table().to_pydict()
    assert (len(rows["id"]), rows["name"].count("new"), len(DeltaTable(table).file_uris())) == (401, 3, 1)
    workers = (tmp_path / "started").read_text().splitlines()[started:]
    assert any("pyspark" in line for line in workers)


@pytest.fixture
def no_packages(monkeypatch, tmp_path):
    """Settings that give executors a Python without packages, and the driver this one."""
    home = tmp_path / "bare"
    venv.create(home, symlinks=True)
    monkeypatch.delenv("PYTHONPATH", raising=False)  # executors of a local cluster inherit the driver's environment
    command = [home / "bin" / "python", "-c", LACKS]
    assert subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout.strip() == "[]"
    return {"spark.pyspark.python": str(home / "bin" / "python"), "spark.pyspark.driver.python": sys.executable}


@pytest.fixture
def run_merge(monkeypatch, tmp_path, no_packages, run_task):
    """Merge into ``tmp_path / "table"`` on such executors, with further settings."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_CLUSTER", json.dumps({"conn_type": "spark", "host": CLUSTER}))
    tables = {"table": str(tmp_path / "table"), "source": str(tmp_path / "feed")}
    write_deltalake(tables["table"], pa.table({"id": [1, 2], "name": ["old", "old"]}))
    write_deltalake(tables["source"], pa.table({"id": [2, 3], "name": ["new", "new"]}))

    def run(**settings):
        conf = settings | no_packages | {"spark.sql.shuffle.partitions": "2"}
        on = "target.id = source.id"
        return run_task(lambda: DeltaMergeOperator(task_id="merge", on=on, conn_id="spark_cluster", conf=conf, **tables))

    return run


def test_executors_without_packages_merge_with_the_packed_environment(tmp_path, run_merge):
    _, settings = pack(str(tmp_path / "code"), Environment())
    run = run_merge(**settings)
    assert (run.errors, run.state, run.version) == ([], "success", 1)
    rows = DeltaTable(tmp_path / "table").to_pyarrow_table().to_pydict()
    assert dict(zip(rows["id"], rows["name"], strict=True)) == {1: "old", 2: "new", 3: "new"}


def test_executors_without_packages_and_without_the_environment_are_a_typed_error(tmp_path, run_merge):
    run = run_merge()
    [error] = run.errors
    assert isinstance(error, MissingPackageError)
    assert error.package in {"numpy", "pandas", "pyarrow"}  # whichever Spark's worker imports first
    assert "airflow-delta pack" in str(error)
    assert DeltaTable(tmp_path / "table").version() == 0


def test_the_doctor_names_what_executors_without_a_package_lack(tmp_path, no_packages):
    report = check_cluster(str(tmp_path), CLUSTER, [f"{name}={value}" for name, value in no_packages.items()])
    assert [(finding["code"], finding["text"].split()[1]) for finding in report["findings"]] == [
        ("PACKAGE_MISSING", "pyarrow,"),
        ("PACKAGE_MISSING", "pandas,"),
    ]
    [executors] = report["facts"]["executors"]
    assert executors["executable"] == no_packages["spark.pyspark.python"]
    assert report["facts"]["writes"] == {str(tmp_path): {"driver": "", "JVM": ""}}


@pytest.fixture
def late_and_bare(tmp_path, no_packages, monkeypatch):
    """Settings with which the third executor starts some seconds after the others, and only its Python has no packages."""
    java, python = tmp_path / "java" / "bin" / "java", tmp_path / "python"
    java.parent.mkdir(parents=True)
    java.write_text(f'#!/bin/sh\ncase "$*" in *"--executor-id 2 "*) sleep 4;; esac\nexec {shutil.which("java")} "$@"\n')
    bare = no_packages["spark.pyspark.python"]  # executors start Python in a folder that has their number as its name
    python.write_text(f'#!/bin/sh\ncase "$PWD" in */2) exec {bare} "$@";; esac\nexec {sys.executable} "$@"\n')
    for program in (java, python):
        program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    return {"spark.pyspark.python": str(python), "spark.pyspark.driver.python": sys.executable}


def test_the_doctor_asks_executors_that_start_late_too_and_names_what_one_alone_lacks(late_and_bare):
    report = check_cluster(None, "local-cluster[3,1,1024]", [f"{name}={value}" for name, value in late_and_bare.items()])
    missing = [finding["text"].split()[1] for finding in report["findings"] if finding["code"] == "PACKAGE_MISSING"]
    assert missing == ["pyarrow,", "pandas,"]
    assert (report["facts"]["expected_executors"], list(report["facts"]["hosts"].values())) == (3, [3])
    assert len(report["facts"]["executors"]) == 2


def test_the_doctor_of_a_cluster_where_no_executor_starts_ends_and_says_so(tmp_path):
    master = "local-cluster[1,1,1024] --conf spark.executor.cores=2"  # more than its worker has
    done = subprocess.run(
        [sys.executable, job_script("doctor"), "--json", "--wait", "3", tmp_path],
        env=os.environ | {"PYSPARK_SUBMIT_ARGS": f"--master {master} pyspark-shell"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    report = json.loads(done.stdout)
    [finding] = report["findings"]
    assert (done.returncode, finding["severity"], finding["code"]) == (1, "error", "EXECUTORS_MISSING")
    assert (report["facts"]["hosts"], report["facts"]["executors"]) == ({}, [])
    assert report["facts"]["writes"] == {str(tmp_path): {"driver": "", "JVM": ""}}
