"""The archive is the same everywhere, and is all that a cluster without our packages needs."""

import subprocess
import sys
import zipfile

import pytest

from airflow_delta.core.vendored import VENDORED_PACKAGES
from airflow_delta.shipping.archive import build_archive

# A cluster has pyarrow, pandas and pyspark, which are native, but neither Airflow nor what the archive carries.
CLUSTER = """
import sys
from importlib.machinery import PathFinder

class Hidden(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name in {"airflow"} | HIDDEN:
            path = [entry for entry in sys.path if ARCHIVE in entry]
        return super().find_spec(name, path, target)

sys.meta_path[:] = [Hidden if finder is PathFinder else finder for finder in sys.meta_path]
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return build_archive(tmp_path_factory.mktemp("archive"))


def run(archive, hidden, code):
    prelude = f"ARCHIVE = {str(archive)!r}\nHIDDEN = {set(hidden)!r}\n{CLUSTER}\nsys.path.insert(0, ARCHIVE)\n"
    return subprocess.run(
        [sys.executable, "-I", "-c", prelude + code], capture_output=True, text=True, check=False, cwd=archive.parent
    )


def test_two_builds_are_equal_and_named_by_their_content(archive, tmp_path):
    again = build_archive(tmp_path)
    assert again.name == archive.name
    assert again.read_bytes() == archive.read_bytes()


def test_it_holds_what_runs_on_spark_and_no_airflow_room(archive):
    names = zipfile.ZipFile(archive).namelist()
    packages = {name.split("/")[1] for name in names if name.startswith("airflow_delta/")}
    assert packages == {"__init__.py", "core", "catalogs", "spark", "jobs"}
    assert {name.split("/")[0] for name in names} == {"airflow_delta", "vendor"}
    assert not any("__pycache__" in name for name in names)


@pytest.mark.parametrize("hidden", [(), VENDORED_PACKAGES], ids=["installed", "vendored"])
def test_the_job_is_importable_from_the_archive_alone(archive, hidden):
    code = """
import airflow_delta.jobs.main, airflow_delta.core.delta_log, sqlglot, fsspec
assert ARCHIVE in airflow_delta.jobs.main.__file__, airflow_delta.jobs.main.__file__
print("airflow" in sys.modules, ARCHIVE in sqlglot.__file__, ARCHIVE in fsspec.__file__)
"""
    done = run(archive, hidden, code)
    assert done.returncode == 0, done.stderr
    from_archive = bool(hidden)
    assert done.stdout.split() == ["False", str(from_archive), str(from_archive)]


@pytest.mark.parametrize("worker", ["rewrite.rewrite_worker", "distributed.checkpoint_worker"])
def test_a_worker_that_reads_and_writes_files_does_not_load_the_sql_parser(archive, worker):
    code = f"import airflow_delta.spark.{worker}; print('sqlglot' in sys.modules)"
    done = run(archive, (), code)
    assert (done.stdout.strip(), done.stderr) == ("False", "")
