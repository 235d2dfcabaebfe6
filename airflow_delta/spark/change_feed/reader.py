"""The side of the change feed that runs in Spark's Python workers.

Imports no SQL parser: workers need none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from airflow_delta.core.data_files.changed_rows import ChangedRows
from airflow_delta.core.schema import StructType
from airflow_delta.spark.io.table_files import TableFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReader:
    """Turns descriptions of files into the changes that they hold.

    Attributes:
        table: Where the files lie, with the columns of the last version.
        columns: Those that are read, partition columns among them.
    """

    table: TableFiles
    columns: StructType

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function that Spark maps over each partition."""
        for batch in batches:
            yield from self.of(batch.column(0).to_pylist())

    def of(self, files: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """The changes in files, which are described as JSON: ``CHANGED_FILE``, ``version``, ``time`` (microseconds)."""
        rows = ChangedRows(self.table.rows, self.columns)
        for text in files:
            file = json.loads(text)
            yield from rows.of(file, file["version"], pa.scalar(file["time"], pa.timestamp("us", "UTC")))
