"""Errors of packing an environment and of submitting, in the tree of ``airflow_delta.core.errors``.

::

    DeltaError
    ├── PipMissingError      this Python has no pip
    ├── WheelsNotFoundError  pip did not find the packages
    └── SubmitFailedError    spark-submit printed no report
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.errors import DeltaError


@dataclass(kw_only=True, eq=False)
class PipMissingError(DeltaError):
    """This Python has no pip to fetch the packages with.

    Attributes:
        executable: Path of the Python.
    """

    code = "DELTA_PIP_MISSING"
    message = "expected pip in {executable}, found none"
    remedy = "install it there: {executable} -m ensurepip; or, in an environment made by uv: uv pip install pip"
    executable: str


@dataclass(kw_only=True, eq=False)
class WheelsNotFoundError(DeltaError):
    """Pip did not find a wheel for each package.

    Attributes:
        packages: The packages with their versions.
        python: The minor version of the executors' Python.
        platform: Platform of the executors.
        detail: Pip's error text.
    """

    code = "DELTA_WHEELS_NOT_FOUND"
    message = "expected wheels of {packages} for Python {python} on {platform}; pip says: {detail}"
    remedy = (
        "name a Python and a platform for which there are wheels of these versions, or install other versions here; "
        "check that pip reaches its index (pip config list)"
    )
    packages: tuple[str, ...]
    python: str
    platform: str
    detail: str


@dataclass(kw_only=True, eq=False)
class SubmitFailedError(DeltaError):
    """``spark-submit`` is missing, or ended without printing the expected report.

    Attributes:
        command: The command.
        detail: The reason, with the end of the command's output.
    """

    code = "DELTA_SUBMIT_FAILED"
    message = "expected a report of {command}, found none: {detail}"
    remedy = (
        "name the master and its settings as spark-submit takes them; in cluster mode the report is in the driver's log: "
        "submit the script that airflow-delta ship uploads"
    )
    command: str
    detail: str
