"""The versions of Spark that jobs run on."""

from __future__ import annotations

import logging

from airflow_delta.core.least_versions import is_at_least
from airflow_delta.jobs.errors import SparkTooOldError

LEAST_SPARK = (4, 0)
FIRST_UNTESTED_SPARK = (4, 4)
"""Bounds of the extras ``spark`` and ``connect`` in ``pyproject.toml``; a cluster may have any version."""

TESTED = "4.0 to 4.3"

_logger = logging.getLogger(__name__)


def check_spark(version: str) -> None:
    """Refuse a version of Spark that is too old for jobs; log a warning for one that was not tested.

    Raises:
        SparkTooOldError: The version is older than ``LEAST_SPARK``.
    """
    if not is_at_least(version, LEAST_SPARK):
        raise SparkTooOldError(found=version, needed=".".join(map(str, LEAST_SPARK)))
    if is_at_least(version, FIRST_UNTESTED_SPARK):
        _logger.warning("Spark %s was not tested, expected %s: what fails may be Spark's change", version, TESTED)
