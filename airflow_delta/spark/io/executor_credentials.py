"""Whether a session's executors request the credentials of a table's storage from the catalog themselves.

If they do, no credentials are sent with tasks, and a task may outlast them. Workers import this module, so it does not import
the predicate parser.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_delta.catalogs.managed_tables import ManagedTable
from airflow_delta.catalogs.settings import VARIABLE, settings_of_environment
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.foreign_values import printable
from airflow_delta.spark.jvm import Py4JJavaError
from airflow_delta.spark.worker_code import map_in_arrow, send_code

_log = logging.getLogger(__name__)

_ANSWER = pa.schema([("refusal", pa.string())])


_MOST_ANSWERS = 1_000
_answers: dict[tuple[str | None, ManagedTable], bool] = {}


def executors_ask(spark: SparkSession, table: ManagedTable) -> bool:
    """Whether a Python worker can get the table's credentials with the environment of its executor.

    Determined by one Spark task, once for each application and table, on the assumption that all executors are alike.
    """
    key = (spark.conf.get("spark.app.id", None), table)
    if key not in _answers:
        if len(_answers) >= _MOST_ANSWERS:
            _answers.clear()
        _answers[key] = _ask(spark, table)
    return _answers[key]


def _ask(spark: SparkSession, table: ManagedTable) -> bool:
    send_code(spark)
    try:
        [row] = map_in_arrow(spark.range(1).coalesce(1), _Asker(table), "refusal string").collect()
        refusal = row["refusal"]
    except (PySparkException, Py4JJavaError) as error:  # for example, if a worker lacks our code
        refusal = type(error).__name__
    if refusal:
        _log.info("executors get the keys of %s with each task, as they cannot ask for them: %s", table.name, refusal)
    return not refusal


@dataclass(frozen=True, slots=True)
class _Asker:
    """Requests credentials for the table in a worker, and reports why it gets none."""

    table: ManagedTable

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function that Spark maps over a single row."""
        for _ in batches:
            yield pa.RecordBatch.from_pylist([{"refusal": self._refusal()}], schema=_ANSWER)

    def _refusal(self) -> str:
        try:
            credentials = self.table.credentials(settings_of_environment())
            if credentials is None:
                return f"their variable {VARIABLE} names no Unity Catalog that vends them"
            credentials()
        except (DeltaError, OSError) as error:
            return printable(str(error))[:500]
        except ImportError as error:
            return f"their Python lacks {error.name}"
        return ""
