"""Code that goes with a function to a process of the server, on which nothing of ours is installed."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Semaphore
from types import SimpleNamespace

import pyspark
from pyspark.serializers import CloudPickleSerializer

import airflow_delta
from airflow_delta.shipping.connect import add_code, with_code

WORKER = """
import pickle, sys
assert "airflow_delta" not in sys.modules
function = pickle.loads(sys.stdin.buffer.read())
import airflow_delta
print(airflow_delta.__file__, function(None, 3), end="")
"""


def test_a_function_finds_the_code_that_it_brought_before_any_that_is_installed(tmp_path):
    def named(_, batch_id):
        from airflow_delta.core.log.file_names import commit_file  # noqa: PLC0415

        return commit_file(batch_id)

    for _ in range(2):  # the second one finds the archive of the first
        worker = subprocess.run(
            [sys.executable, "-c", WORKER],
            input=CloudPickleSerializer().dumps(with_code(named)),
            env={"SPARK_LOCAL_DIRS": f"{tmp_path},/elsewhere", "PYTHONPATH": str(Path(airflow_delta.__file__).parents[1])},
            capture_output=True,
            check=False,
        )
        assert worker.returncode == 0, worker.stderr.decode()
        [archive] = tmp_path.iterdir()
        assert worker.stdout.decode() == f"{archive}/airflow_delta/__init__.py {'3'.zfill(20)}.json"


def test_where_functions_are_called_in_this_process_nothing_is_sent():
    assert with_code(lambda rows, batch_id: (rows, batch_id))("rows", 3) == ("rows", 3)


def test_threads_add_code_one_after_the_other_and_leave_the_path_as_it_is():
    under_way, found = Semaphore(1), []

    def add(archive, *, pyfile):  # as PySpark does it, with a file that is there
        assert under_way.acquire(blocking=False)
        found.append((Path(archive).exists(), pyfile))
        sys.path.insert(1, archive)
        time.sleep(0.05)
        under_way.release()

    session, before = SimpleNamespace(version=pyspark.__version__, addArtifacts=add), [*sys.path]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: add_code(session), range(4)))
    assert found == [(True, True)] * 4
    assert sys.path == before
