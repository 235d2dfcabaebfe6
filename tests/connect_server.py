"""A Spark Connect server from pip's pyspark, as a process of the tests.

``CONNECT_SERVER_PYTHON`` names the Python of another environment whose pyspark is the server instead, for example of a version
other than the client's.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from tests.free_port import free_port

PYTHON = os.environ.get("CONNECT_SERVER_PYTHON", sys.executable)
SETTINGS = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
}
START_SECONDS = 600


@contextmanager
def connect_server(folder, settings=None):
    """The address of a server with two cores. Its Python cannot import our code; none of its processes outlives the block."""
    port, home = free_port(), _spark_home()
    command = [home / "bin" / "spark-submit", "--master", "local[2]", "--driver-memory", "1g"]
    given = SETTINGS | {"spark.connect.grpc.binding.port": port} | (settings or {})
    for setting in (f"{name}={value}" for name, value in given.items()):
        command += ["--conf", setting]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    environment = {
        name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "SPARK_CONNECT_MODE_ENABLED"}
    }
    environment |= {"SPARK_HOME": str(home), "PYSPARK_PYTHON": str(_python_of_packages_alone(folder, home.parent))}
    log = folder / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=output,
            preexec_fn=end_with_tests,  # noqa: PLW1509 - one call of the system, which takes no lock
        )
    try:
        _wait_for(server, port, log)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.kill()  # the scripts have exec'ed the JVM, which ends its Python workers
        server.wait()


def _spark_home():
    """Folder of the server's pyspark."""
    found = subprocess.check_output([PYTHON, "-c", "import pyspark; print(pyspark.__path__[0])"], text=True)
    return Path(found.strip())


def _python_of_packages_alone(folder, packages):
    """The server's Python with its packages, but without editable installs such as this checkout."""
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={packages} exec {PYTHON} -S "$@"\n')
    python.chmod(0o755)
    return python


def end_with_tests():
    """Make the kernel kill the server when this process ends for any reason."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _wait_for(server, port, log):
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(log.read_text())
