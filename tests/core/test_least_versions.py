"""What is older than the least version is refused by name, and the least versions are those of the package."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pyarrow as pa
import pytest

import airflow_delta
from airflow_delta.core.errors import PackageTooOldError
from airflow_delta.core.least_versions import LEAST_PANDAS, LEAST_PYARROW, check_pyarrow, is_at_least

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OLD = "import sys; sys.version_info = (3, 10, 13, 'final', 0); import airflow_delta.core"


def test_the_least_versions_are_those_that_the_package_requires():
    assert PROJECT["requires-python"] == ">=" + ".".join(map(str, airflow_delta.LEAST_PYTHON))
    assert f"pyarrow>={LEAST_PYARROW[0]}" in PROJECT["dependencies"]
    assert LEAST_PYARROW[1] == 0
    for extra in ("spark", "connect"):
        [pandas] = [package for package in PROJECT["optional-dependencies"][extra] if package.startswith("pandas")]
        assert pandas.startswith(f"pandas>={LEAST_PANDAS[0]}.{LEAST_PANDAS[1]},")


def test_an_older_python_is_refused_before_anything_of_ours_is_imported():
    ended = subprocess.run([sys.executable, "-c", OLD], capture_output=True, text=True, check=False, cwd=ROOT)
    last = ended.stderr.strip().splitlines()[-1]
    assert ended.returncode == 1
    assert last.startswith(
        f"airflow_delta.PythonTooOldError: [DELTA_PYTHON_TOO_OLD] expected Python 3.11 or newer, found 3.10 ({sys.executable})"
    )
    assert "Remedy: " in last


def test_an_older_pyarrow_is_refused_with_the_python_that_has_it():
    with pytest.raises(PackageTooOldError) as raised:
        check_pyarrow("17.0.0")
    error = raised.value
    assert (error.package, error.found, error.needed, error.retryable) == ("pyarrow", "17.0.0", "23.0", False)
    assert error.python.endswith(sys.executable)
    assert "expected pyarrow 23.0 or newer, found 17.0.0" in str(error)


def test_this_pyarrow_is_new_enough():
    check_pyarrow()
    assert is_at_least(pa.__version__, LEAST_PYARROW)


@pytest.mark.parametrize(
    ("version", "is_enough"),
    [("18.0.0", True), ("18.1.0.dev12", True), ("100.0", True), ("17.99.1", False), ("9.0.0", False), ("18", False)],
)
def test_versions_are_compared_as_numbers(version, is_enough):
    assert is_at_least(version, (18, 0)) is is_enough
