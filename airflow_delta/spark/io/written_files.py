"""Files written by a sink, with observed row metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

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
