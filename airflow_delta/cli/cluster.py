"""Checks the cluster that ``spark-submit`` reaches."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airflow_delta.cli.arguments import arguments
from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.storage.table_uri import local_path, scheme_of
from airflow_delta.shipping.errors import SubmitFailedError
from airflow_delta.shipping.ship import local_code

_LONGEST = 1_000  # most characters of spark-submit's output in an error
_MOST_LINES = 5  # of those that say why
_BESIDE_THE_POINT = re.compile(r"^\s+(at |\.\.\. \d+ more)| (WARN|INFO) ")  # lines of stack traces, and of the log below errors
_SAYS_WHY = re.compile(r"ERROR|Error|Exception")


def check_cluster(uri: str | None, master: str | None, conf: Iterable[str]) -> dict[str, Any]:
    """The report of the job ``doctor``: ``table``, ``facts``, ``findings``.

    Args:
        uri: A folder for tables, where the job tries to write; None to skip that.
        master: Spark's master URL; None for the configured one.
        conf: Spark settings as ``KEY=VALUE``, as ``spark-submit`` takes them.

    Raises:
        CommandLineError: A setting is not KEY=VALUE.
        SubmitFailedError: There is no ``spark-submit``, it failed, or its report cannot be read.
    """
    settings = [*conf]
    _check_settings(settings)
    beside = Path(sys.executable).parent / "spark-submit"
    program = shutil.which("spark-submit") or (str(beside) if beside.exists() else None)
    if program is None:
        detail = f"it is neither on the PATH nor beside {sys.executable}"
        raise SubmitFailedError(command="spark-submit", detail=detail)
    command = [program, *(["--master", master] if master else []), *(part for text in settings for part in ("--conf", text))]
    folder = [] if uri is None else [str(local_path(uri)) if scheme_of(uri) == "file" else uri]
    with TemporaryDirectory(prefix="airflow-delta-") as private:
        code = local_code(Path(private), "doctor")
        command += ["--py-files", code.archive, code.application, "--json", *folder]
        named = (text.removeprefix("spark.master=") for text in settings if text.startswith("spark.master="))
        environment = os.environ | _driver_python(master or next(named, ""))
        done = subprocess.run(  # noqa: S603 - no shell
            command, capture_output=True, text=True, errors="replace", check=False, env=environment
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"table"')]
    report = next(filter(None, map(_report, reversed(lines))), None)
    if report is None:
        printed = f"a report that cannot be read: {lines[-1][:_LONGEST]}" if lines else _why_it_failed(done.stderr)
        raise SubmitFailedError(command="spark-submit", detail=f"exit code {done.returncode}: {printed}")
    return report


@arguments()
def _check_settings(settings: Iterable[str]) -> None:
    for text in settings:
        key, separator, _ = text.partition("=")
        if not (key.strip() and separator):
            raise InvalidStatementError(statement=f"the setting {key!r}", detail="expected KEY=VALUE")


def _why_it_failed(printed: str) -> str:
    """The last lines that name an error, each once; the end of the text if there are none."""
    lines = [line.strip() for line in printed.splitlines() if not _BESIDE_THE_POINT.search(line)]
    errors = [*dict.fromkeys(line for line in reversed(lines) if _SAYS_WHY.search(line))][:_MOST_LINES]
    return ("; ".join(reversed(errors)) or printed.strip())[-_LONGEST:]


def _report(line: str) -> dict[str, Any] | None:
    """The report in a line; None if the line is not a report, for example mixed with another line."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.keys() >= {"table", "facts", "findings"} else None


def _driver_python(master: str) -> dict[str, str]:
    """Variables that make the driver, and in local mode tasks, use this Python, unless the environment names one.

    Args:
        master: The given master URL; empty if Spark's own settings decide, which may name a cluster.
    """
    if not os.environ.keys().isdisjoint({"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"}):
        return {}
    if master.startswith("local"):
        return {"PYSPARK_PYTHON": sys.executable}
    driver = {"PYSPARK_DRIVER_PYTHON": sys.executable}
    if master:
        return driver
    # If Spark's settings mean local mode, tasks run the first python3 on the path; nodes of a cluster have their own paths.
    return driver | {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])}
