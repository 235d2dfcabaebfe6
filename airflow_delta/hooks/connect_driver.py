"""The driver of a job over Spark Connect: a child process of the worker.

It is not the worker's own process, for three reasons: a SIGTERM there only calls ``on_kill`` and returns to the statement,
which may be waiting in C code for the server; classic Spark and Spark Connect cannot share a process; and a driver must not
have the environment of a worker. A child can be ended at any time without ending the task, which still reports how it went.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import airflow_delta
from airflow_delta.hooks.driver_environment import ending_of, environment_beside_worker
from airflow_delta.hooks.errors import DriverLostError
from airflow_delta.hooks.orphans import DRIVER_ARGUMENT
from airflow_delta.jobs.connect_job import ConnectJob
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.shipping.archive import build_archive

COMMAND = (sys.executable, "-u", "-P", "-m", "airflow_delta.jobs.connect")

GRACE = 4.0
"""Seconds between SIGTERM and SIGKILL, in which the driver interrupts its operations on the server."""

_LAST_LINES = 2.0
"""Seconds to read what an ended driver has printed; the output stays open if a process that it has started lives on."""

_logger = logging.getLogger(__name__)


class ConnectDriver:
    """One run of the program ``airflow_delta.jobs.connect``; it ends when the context exits, and when this process ends.

    Args:
        remote: Value of ``SPARK_REMOTE``; a secret.
        settings: Spark settings of the session.
        env_vars: Environment variables that the driver gets in addition to those of every driver.
        token: The task's idempotency token, by which a later try recognizes the process.
    """

    def __init__(self, *, remote: str, settings: Mapping[str, str], env_vars: Mapping[str, str], token: str) -> None:
        self._settings = settings
        self._is_killed = False
        environment = environment_beside_worker()
        package = str(Path(airflow_delta.__file__).parents[1])
        path = os.pathsep.join([package, *filter(None, [environment.get("PYTHONPATH")])])
        self._process = subprocess.Popen(  # noqa: S603 - this package's program, no shell
            (*COMMAND, DRIVER_ARGUMENT, token),
            env=environment | {"PYTHONPATH": path} | dict(env_vars) | {"SPARK_REMOTE": remote},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()  # it may still run after execution_timeout, or an error before its job

    def run(self, spec: JobSpec, private: Path) -> DriverLostError | None:
        """Run the job and log what the driver prints; return an error if the driver failed, None if it succeeded.

        The result document of the job, if there is one, may explain the failure better than the returned error.

        Args:
            spec: The job.
            private: A directory that only this user can access, for the archive of the package.
        """
        job = ConnectJob(spec=spec.to_text(), archive=str(build_archive(private)), settings=self._settings)
        assert self._process.stdin is not None  # noqa: S101 - a pipe
        with suppress(BrokenPipeError):  # the driver has already ended; its exit code says how
            self._process.stdin.write(job.to_text())
            self._process.stdin.flush()
        output = threading.Thread(target=self._log_output, name="driver-output", daemon=True)
        output.start()
        exit_code = self._process.wait()
        output.join(_LAST_LINES)
        if not exit_code:
            return None
        detail = f"its process beside the worker ended ({ending_of(exit_code)})"
        if self._is_killed:
            detail = f"the task was told to end, for which {detail}"
        elif exit_code == os.EX_TEMPFAIL:
            detail = f"{detail}, as it was told to by another process"
        return DriverLostError(table=spec.statement.table, detail=detail)

    def _log_output(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - a pipe
        for line in self._process.stdout:
            _logger.info("%s", line.rstrip())

    def kill(self) -> None:
        """End the driver and what it runs on the server; does nothing if it has already ended."""
        self._is_killed = True
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        self._process.kill()
