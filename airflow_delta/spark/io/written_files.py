"""Files written by a sink, with aggregates over their rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.spark.errors import StagedFilesError

WRITTEN_FILE = pa.schema(
    [
        ("path", pa.string()),
        ("directory", pa.string()),
        ("size", pa.int64()),
        ("modification_time", pa.int64()),
        ("num_records", pa.int64()),
        ("stats", pa.string()),
    ]
)
"""One row per file: its path in the log, the directory column's value that its rows share (as text), bytes,
modification time (ms since epoch), rows, and statistics as the JSON text of an ``add`` action."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WrittenFiles:
    """Files that a sink wrote.

    Attributes:
        files: Columns ``WRITTEN_FILE``; some files may be empty.
        observed: The aggregates over the rows that were written, by name.
    """

    files: pa.Table
    observed: Mapping[str, Any]

    def count(self, observed: str, *, table: str) -> int:
        """The number of rows in the files.

        Args:
            observed: Name of the aggregate that counted the rows to be written.
            table: URI of the table, for errors.

        Raises:
            StagedFilesError: The counts differ.
        """
        in_files: int = pc.sum(self.files["num_records"]).as_py() or 0
        if in_files != self.observed[observed]:
            detail = f"Spark wrote {self.observed[observed]} rows, but the {len(self.files)} files found hold {in_files}"
            raise StagedFilesError(table=table, detail=detail)
        return in_files
