"""Files written by a sink, with observed row metrics."""

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
"""One row per file: its path in the log, the value of the directories' column that its rows share (as text), bytes,
milliseconds since the epoch, rows, and statistics as the JSON text of an ``add`` action."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WrittenFiles:
    """Files that a sink wrote.

    Attributes:
        files: Columns ``WRITTEN_FILE``; some may hold no rows.
        observed: The aggregates over the rows as they went in, by name.
    """

    files: pa.Table
    observed: Mapping[str, Any]

    def count(self, observed: str, *, table: str) -> int:
        """How many rows are in the files.

        Args:
            observed: Name of the aggregate that counted those that went in.
            table: URI, for the error.

        Raises:
            StagedFilesError: Others went in.
        """
        in_files: int = pc.sum(self.files["num_records"]).as_py() or 0
        if in_files != self.observed[observed]:
            detail = f"Spark wrote {self.observed[observed]} rows, but the {len(self.files)} files found hold {in_files}"
            raise StagedFilesError(table=table, detail=detail)
        return in_files
