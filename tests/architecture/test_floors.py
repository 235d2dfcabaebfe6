"""Which modules may import which, checked in a new interpreter."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "airflow_delta"
LINES = 450
CATALOGUES = {"errors.py"}  # one class hierarchy in one file, for reference


def modules(*packages):
    files = [file for package in packages for file in sorted((PACKAGE / package).rglob("*.py"))]
    return [".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files]


def run_without(forbidden, names):
    """Imports the modules in a new interpreter in which the forbidden packages cannot be imported."""
    program = (
        f"import sys; sys.modules |= dict.fromkeys({forbidden!r}); sys.path.insert(0, {str(ROOT)!r})\n"
        f"import importlib\nfor name in {names!r}: importlib.import_module(name)\n"
    )
    return subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("core", ("airflow", "pyspark", "pandas", "numpy", "deltalake", "duckdb")),
        ("spark", ("airflow", "deltalake", "duckdb")),
        ("jobs", ("airflow", "deltalake", "duckdb")),
        ("watch", ("airflow", "pyspark", "deltalake", "duckdb")),
    ],
)
def test_a_package_imports_without_what_it_must_not_know(package, forbidden):
    names = modules(package)
    assert names
    result = run_without(forbidden, names)
    assert result.returncode == 0, result.stderr


def test_the_core_works_without_numpy_and_pandas(tmp_path):
    """Some conversions of Arrow need them; an Airflow worker may have neither."""
    log = tmp_path / "_delta_log"
    log.mkdir()
    (log / f"{0:020d}.json").write_text(
        '{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}\n'
        '{"metaData":{"id":"x","schemaString":"{\\"type\\":\\"struct\\",\\"fields\\":[]}","partitionColumns":[]}}\n'
        '{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}\n'
    )
    program = (
        f"import sys; sys.modules |= dict.fromkeys(('numpy', 'pandas')); sys.path.insert(0, {str(ROOT)!r})\n"
        f"from airflow_delta.core import DeltaLog\nprint(len(DeltaLog.for_table({str(tmp_path)!r}).snapshot().files()))"
    )
    result = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=False)
    assert (result.stdout.strip(), result.returncode) == ("1", 0), result.stderr


def test_importing_the_package_imports_nothing_else():
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import airflow_delta\n"
        "print([name for name in ('airflow', 'pyspark', 'pyarrow', 'fsspec') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=False)
    assert result.stdout.strip() == "[]", result.stderr


@pytest.mark.parametrize("worker", ["dml.position_scan", "rewrite.rewrite_worker", "rewrite.deletion_vector_worker"])
def test_what_workers_import_knows_nothing_of_the_cache_of_a_statement(worker):
    """Each worker imports the module again, and must not spend time on what only the driver needs."""
    result = run_without(("airflow_delta.spark.io.row_cache", "sqlglot"), [f"airflow_delta.spark.{worker}"])
    assert result.returncode == 0, result.stderr


def test_no_file_grows_past_what_one_reads_at_a_time():
    lines = {file: len(file.read_text().splitlines()) for file in PACKAGE.rglob("*.py") if file.name not in CATALOGUES}
    assert not {str(file): count for file, count in lines.items() if count > LINES}


def test_no_module_is_a_drawer_for_everything():
    assert not [file for file in PACKAGE.rglob("*.py") if file.stem in {"utils", "util", "common", "helpers", "misc"}]
