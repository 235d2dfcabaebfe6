"""Delta Lake pipelines on a team's own Spark, orchestrated by Airflow.

This module imports nothing else from the package: Spark drivers load it, and Airflow does while it discovers providers.
"""

import sys

__version__ = "0.1.0"

LEAST_PYTHON = (3, 11)


class PythonTooOldError(ImportError):
    """Python is older than ``LEAST_PYTHON``, on a cluster's driver or for a script; raised at import, before any work."""


if sys.version_info < LEAST_PYTHON:
    raise PythonTooOldError(
        f"[DELTA_PYTHON_TOO_OLD] expected Python {LEAST_PYTHON[0]}.{LEAST_PYTHON[1]} or newer, found {sys.version_info[0]}."
        f"{sys.version_info[1]} ({sys.executable}). Remedy: name a newer one by spark.pyspark.python and "
        "spark.pyspark.driver.python, or take an image that has one."
    )
