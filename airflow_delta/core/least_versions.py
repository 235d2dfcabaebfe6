"""The least versions of what the code needs beside itself: on a cluster no installer has looked at them."""

from __future__ import annotations

import re
import socket
import sys

import pyarrow as pa

from airflow_delta.core.errors.unsupported import PackageTooOldError

LEAST_PYARROW = (23, 0)
"""Major and minor version, as ``pyproject.toml`` has them. Older ones read times before 1970 wrong where they are INT96."""

LEAST_PANDAS = (2, 2)
"""Likewise. Spark 4.0 takes 2.0, too; newer ones need 2.2."""


def check_pyarrow(version: str = pa.__version__) -> None:
    """Return if this Python's pyarrow is new enough; on drivers and on workers, before any work is done.

    Raises:
        PackageTooOldError: It is not.
    """
    if not is_at_least(version, LEAST_PYARROW):
        needed, python = ".".join(map(str, LEAST_PYARROW)), f"{socket.gethostname()}: {sys.executable}"
        raise PackageTooOldError(package="pyarrow", found=version, needed=needed, python=python)


def is_at_least(version: str, least: tuple[int, ...]) -> bool:
    """Whether a version is a given one or newer; of development versions only the numbers count."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[: len(least)]) >= least
