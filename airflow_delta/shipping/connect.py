"""Sends this package's code with a session to a Spark Connect server on which it is not installed.

Code that is sent with a session reaches its Python workers, but not the process in which the server runs a function of
``foreachBatch``: such a function has to bring the code along.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame, SparkSession

from airflow_delta.shipping.archive import build_archive
from airflow_delta.spark.spark_features import suit_client

_ADDING = Lock()
"""PySpark adds the archive to this process's ``sys.path`` and clears import caches, which two threads cannot do at once."""


def add_code(spark: SparkSession) -> None:
    """Send this installation's code to the server; call it once per session, before the first statement.

    Args:
        spark: A session of Spark Connect; its server's Python needs pyarrow and pandas.
    """
    suit_client(spark, spark.version)
    with TemporaryDirectory(prefix="airflow-delta-") as private, _ADDING:
        archive = str(build_archive(Path(private)))
        spark.addArtifacts(archive, pyfile=True)
        with suppress(ValueError):
            sys.path.remove(archive)  # the code is installed here, and the archive is deleted


def with_code(function: Callable[[DataFrame, int], Any]) -> Callable[[DataFrame, int], Any]:
    """A function that brings this package's code along: ``writeStream.foreachBatch(with_code(DeltaSink("/lake/events")))``.

    Args:
        function: A sink, or a function that uses this package. A classic session calls the function as it is.
    """
    return _WithCode(function)


class _WithCode:
    def __init__(self, function: Callable[[DataFrame, int], Any]) -> None:
        self._function = function

    def __call__(self, rows: DataFrame, batch_id: int) -> Any:
        return self._function(rows, batch_id)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, bytes, bytes]]:
        with TemporaryDirectory(prefix="airflow-delta-") as private:
            archive = build_archive(Path(private))
            return _loader(), (archive.name, archive.read_bytes(), CloudPickleSerializer().dumps(self._function))


def _loader() -> Callable[[str, bytes, bytes], Any]:
    """Rebuilds the function on the server. Nested, so that it is sent by value and the server need not import this package."""

    def load(name: str, archive: bytes, function: bytes) -> Any:
        import os  # noqa: PLC0415
        import pickle  # noqa: PLC0415
        import sys  # noqa: PLC0415
        import tempfile  # noqa: PLC0415
        from pathlib import Path  # noqa: PLC0415

        place = Path(os.environ["SPARK_LOCAL_DIRS"].split(",")[0], name)  # the server's folder, deleted when it ends
        if not place.exists():
            handle, written = tempfile.mkstemp(dir=place.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(archive)
            Path(written).replace(place)
        sys.path.insert(0, str(place))
        return pickle.loads(function)  # noqa: S301 - it was sent with this function

    return load
