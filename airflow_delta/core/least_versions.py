"""The oldest supported versions of packages that a cluster provides, where no installer has checked them."""

from __future__ import annotations

import re
import socket
import sys

import pyarrow as pa

from airflow_delta.core.errors.unsupported import PackageTooOldError

LEAST_PYARROW = (23, 0)
"""Major and minor version, as in ``pyproject.toml``. Older versions misread INT96 timestamps before 1970."""

LEAST_PANDAS = (2, 2)
"""Major and minor version. Spark 4.0 also works with 2.0; later versions of Spark need 2.2."""


def check_pyarrow(version: str = pa.__version__) -> None:
    """Return if the installed pyarrow is new enough; called on the driver and on workers, before any work.

    Raises:
        PackageTooOldError: It is older than ``LEAST_PYARROW``.
    """
    if not is_at_least(version, LEAST_PYARROW):
        needed, python = ".".join(map(str, LEAST_PYARROW)), f"{socket.gethostname()}: {sys.executable}"
        raise PackageTooOldError(package="pyarrow", found=version, needed=needed, python=python)


def is_at_least(version: str, least: tuple[int, ...]) -> bool:
    """Whether a version is at least ``least``; only the numbers count, so development versions count as their release."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[: len(least)]) >= least
