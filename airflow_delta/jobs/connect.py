"""A job over Spark Connect: its driver is this process, which an operator starts beside the Airflow worker.

The operator writes one line, a ``ConnectJob``, to the driver's standard input and keeps that open. When it closes, the worker
is gone, and the driver ends, as it does when another process of the task ends. The server's URL is in ``SPARK_REMOTE``. The
command line has the task's token, by which a later try finds a driver that was stopped.
"""

# ruff: noqa: E402 - see the first line of code

from __future__ import annotations

import gc

gc.disable()  # imports leave no garbage, and looking for it takes a tenth of the time

import json
import os
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import replace

from airflow_delta.core.errors import DeltaError
from airflow_delta.core.statements import Statement
from airflow_delta.core.storage.ambient_options import PREFIXES_VARIABLE
from airflow_delta.jobs.connect_job import ConnectJob
from airflow_delta.jobs.connect_session import connect_session
from airflow_delta.jobs.orphan import exit_with_worker
from airflow_delta.jobs.progress import log_connect_progress
from airflow_delta.jobs.redaction import redact
from airflow_delta.jobs.result import ResultDocument, print_outcome, write_result
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.jobs.step_log import log_steps

_GRACE = 5.0
"""Seconds that the process has to end after SIGTERM."""


def main() -> int:
    """Run the job on the standard input, and return its exit code."""
    line = sys.stdin.readline()
    if not line:  # the worker has already ended
        return os.EX_TEMPFAIL
    threading.Thread(target=_end_with_worker, name="end-with-worker", daemon=True).start()
    log_steps()
    exit_with_worker(_end)
    job = ConnectJob.from_text(line)
    try:
        spec = JobSpec.from_text(job.spec)
    except DeltaError as error:
        return print_outcome(ResultDocument.of_error(error))
    threading.Thread(target=_load_code, args=(spec.statement,), name="load-code", daemon=True).start()
    document = _document(spec, job)
    if spec.result_uri is not None:
        write_result(spec.result_uri, document)
    return print_outcome(document)


def _document(spec: JobSpec, job: ConnectJob) -> ResultDocument:
    if spec.allowed_prefixes:
        os.environ[PREFIXES_VARIABLE] = json.dumps(spec.allowed_prefixes)
    try:
        with connect_session(os.environ["SPARK_REMOTE"], spec.origin, job.settings, job.archive) as spark:
            application = spark.conf.get("spark.app.id", None)  # asked before the commit: the server may be lost after it
            from airflow_delta.jobs.code_generation import CodeGeneration
            from airflow_delta.jobs.run import run  # loaded by now, or nearly

            code_generation = CodeGeneration(spark, job.settings)
            with log_connect_progress(spark):
                return replace(run(spark, spec, code_generation=code_generation), application_id=application)
    except Exception as error:  # noqa: BLE001 - a job ends in a document, whatever happened
        from airflow_delta.jobs.run import typed_error

        return ResultDocument.of_error(typed_error(error, spec.statement), redact(traceback.format_exc()))


def _load_code(statement: Statement) -> None:
    """Import the code that runs the statement while the session is opened, which mostly waits for the server.

    PySpark and its imports are loaded before: if two threads import modules with circular imports, one may get half-initialized
    modules. An import that fails here fails again when it is needed.
    """
    with suppress(Exception):
        from airflow_delta.jobs.run import load_code

        load_code(statement)
    gc.freeze()  # for the rest of the process, too
    gc.enable()


def _end_with_worker() -> None:
    sys.stdin.read()
    _end()


def _end() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE)
    os._exit(os.EX_TEMPFAIL)


if __name__ == "__main__":
    exit_code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)  # PySpark's exit handlers would wait for a server that is gone
