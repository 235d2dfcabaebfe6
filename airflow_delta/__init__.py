"""Delta Lake pipelines on a team's own Spark, orchestrated by Airflow.

This module imports nothing of ours: it is loaded on Spark drivers and while Airflow discovers providers.
"""

import sys

__version__ = "0.1.0"

LEAST_PYTHON = (3, 11)


class PythonTooOldError(ImportError):
    """The Python of a driver on a cluster, or of a script, is too old; raised before any work is done."""


if sys.version_info < LEAST_PYTHON:
    raise PythonTooOldError(
        f"[DELTA_PYTHON_TOO_OLD] expected Python {LEAST_PYTHON[0]}.{LEAST_PYTHON[1]} or newer, found {sys.version_info[0]}."
        f"{sys.version_info[1]} ({sys.executable}). Remedy: name a newer one by spark.pyspark.python and "
        "spark.pyspark.driver.python, or take an image that has one."
    )
