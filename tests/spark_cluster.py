"""A standalone Spark cluster from pip's pyspark, as child processes: a master, and two workers of one core each."""

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pyspark

from tests.connect_server import end_with_tests
from tests.free_port import free_port

HOME = Path(pyspark.__file__).parent
START_SECONDS = 600
HOSTS = {"worker 0": "127.0.0.1", "worker 1": "localhost"}
"""Two names of this machine: Spark starts no second copy of a task on the same host."""
QUICK_TO_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Options for a JVM that lives for seconds, beside several others on two cores."""
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class SparkCluster:
    """The processes ``master``, ``worker 0`` and ``worker 1``; each is restarted when it ends, as by systemd.

    The master keeps its state in files (``spark.deploy.recoveryMode``). Executors get our code only from a job.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.port = free_port()
        self.url = f"spark://127.0.0.1:{self.port}"
        self._daemons = {}
        self._is_stopped = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, name="spark-cluster", daemon=True)

    def __enter__(self):
        self._supervisor.start()
        try:
            self._wait_for_workers()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self._is_stopped.set()
        self._supervisor.join()
        executors = self.executors()
        for daemon in self._daemons.values():
            daemon.kill()
            daemon.wait()
        _, alive = psutil.wait_procs(executors, timeout=START_SECONDS)  # they end with their worker
        for process in alive:
            process.kill()

    def executors(self):
        """The JVMs of executors, oldest first."""
        found = [process for name in HOSTS for process in self._children(name) if EXECUTOR in command_of(process)]
        return sorted(found, key=lambda process: process.create_time())

    def workers_with_executors(self):
        """Names of the workers that have executors."""
        return [name for name in HOSTS if any(EXECUTOR in command_of(process) for process in self._children(name))]

    def finished_tasks(self):
        """Number of tasks that executors have finished, including those of earlier jobs."""
        return sum(
            log.read_text(errors="replace").count("Executor: Finished task")
            for log in self.folder.glob("worker-*/app-*/*/stderr")
        )

    def kill(self, name):
        """Send SIGKILL; the scripts have exec'ed the JVM."""
        self._daemons[name].kill()

    def _children(self, name):
        try:
            return psutil.Process(self._daemons[name].pid).children()
        except (KeyError, psutil.NoSuchProcess):
            return []

    def _supervise(self):
        """Runs in a thread as long as the cluster lives: the kernel signals a child when the thread that started it ends."""
        while not self._is_stopped.wait(0.2):
            for name in ("master", *HOSTS):
                daemon = self._daemons.get(name)
                if (daemon is None or daemon.poll() is not None) and (name == "master" or self._is_listening()):
                    self._daemons[name] = self._started(name)

    def _started(self, name):
        if name == "master":
            arguments = ["master.Master", "--host", "127.0.0.1", "--port", str(self.port)]
        else:
            resources = ["--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / name.replace(" ", "-"))]
            arguments = ["worker.Worker", "--host", HOSTS[name], *resources, self.url]
        options = {
            "deploy.recoveryMode": "FILESYSTEM",
            "deploy.recoveryDirectory": self.folder / "recovery",
            "port.maxRetries": 0,
            "master.rest.enabled": "false",  # its port would be the same for all clusters on this machine
        }
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {
            "SPARK_HOME": str(HOME),
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK_TO_START,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_MASTER_OPTS": " ".join(f"-Dspark.{key}={value}" for key, value in options.items()),
            "PYSPARK_PYTHON": sys.executable,
        }
        with (self.folder / f"{name}.log").open("ab") as output:
            return subprocess.Popen(
                [HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{arguments[0]}", "--webui-port", "0", *arguments[1:]],
                cwd=self.folder,
                env=environment,
                stdout=output,
                stderr=output,
                preexec_fn=end_with_tests,  # noqa: PLW1509 - one call of the system, which takes no lock
            )

    def _wait_for_workers(self):
        deadline = time.monotonic() + START_SECONDS
        logs = [self.folder / f"{name}.log" for name in HOSTS]
        while not all(log.exists() and "Successfully registered with master" in log.read_text() for log in logs):
            if time.monotonic() > deadline:
                raise TimeoutError("\n".join(log.read_text() for log in self.folder.glob("*.log")))
            time.sleep(0.1)

    def _is_listening(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


def command_of(process):
    """The command line of a process; empty if it has ended."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []
