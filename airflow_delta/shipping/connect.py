"""Code for the Python workers of Spark Connect: it goes with the session, as nothing of ours is installed on the server."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from airflow_delta.shipping.archive import build_archive


def add_code(spark: SparkSession) -> None:
    """Give the server this installation's code, once for each session, before the first statement.

    Args:
        spark: A session of Spark Connect; its server's Python needs pyarrow and pandas.
    """
    with TemporaryDirectory(prefix="airflow-delta-") as private:
        spark.addArtifacts(str(build_archive(Path(private))), pyfile=True)
