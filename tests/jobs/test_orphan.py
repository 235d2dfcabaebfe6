"""A driver does not outlive the JVM that started it."""

import subprocess
import sys
import time

import psutil
import pytest

DRIVER = (
    "import time; from airflow_delta.jobs.orphan import exit_with_jvm; exit_with_jvm(); print('up', flush=True); time.sleep(60)"
)
PARENT = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]]).wait()"


@pytest.mark.parametrize("from_jvm", [True, False], ids=["spark-submit", "python"])
def test_a_driver_ends_with_its_jvm_but_not_with_a_shell(monkeypatch, from_jvm):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1") if from_jvm else monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    parent = subprocess.Popen([sys.executable, "-c", PARENT, DRIVER], stdout=subprocess.PIPE, text=True)
    parent.stdout.readline()
    (driver,) = psutil.Process(parent.pid).children()
    parent.kill()
    parent.wait()
    time.sleep(0 if from_jvm else 2)
    gone, alive = psutil.wait_procs([driver], timeout=60 if from_jvm else 0)
    for process in alive:
        process.kill()
    assert (len(gone), len(alive)) == ((1, 0) if from_jvm else (0, 1))
