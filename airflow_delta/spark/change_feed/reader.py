"""The part of the change data feed that runs in Spark's Python workers.

Imports no SQL parser, as workers need none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from airflow_delta.core.data_files.changed_rows import ChangedRows
from airflow_delta.core.schema import StructType
from airflow_delta.spark.io.table_files import TableFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReader:
    """Turns files into the changes that they contain.

    Attributes:
        table: The table of the files, with the columns of the last version.
        columns: The columns to read, partition columns included.
    """

    table: TableFiles
    columns: StructType

    def of(self, files: Iterable[Mapping[str, Any]]) -> Iterator[pa.RecordBatch]:
        """The changes in files, each given by the columns ``COMMITTED_FILE``."""
        rows = ChangedRows(self.table.rows, self.columns)
        for file in files:
            yield from rows.of(file, file["version"], pa.scalar(file["time"], pa.timestamp("us", "UTC")))

    def __call__(self, files: pa.Table) -> Iterator[pa.RecordBatch]:
        """The changes in these files (``COMMITTED_FILE``)."""
        return self.of(files.to_pylist())
