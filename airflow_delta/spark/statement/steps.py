"""Logs the steps of a statement."""

from __future__ import annotations

import logging

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.snapshot.snapshot import Snapshot

_logger = logging.getLogger(__name__)
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_UNIT = 1024


def log_step(text: str, *values: object) -> None:
    """Log a step; numbers get thousands separators."""
    _logger.info(text, *(f"{value:,}" if isinstance(value, int) else value for value in values))


def log_candidates(snapshot: Snapshot, candidates: pa.Table) -> None:
    """Log how many of the table's files are examined."""
    if _logger.isEnabledFor(logging.INFO):
        checksum = snapshot.checksum
        files = len(snapshot.files(columns=["size"])) if checksum is None else checksum.num_files
        log_step("Files: %s of %s considered, %s pruned", len(candidates), files, files - len(candidates))


def size_of(files: pa.Table) -> str:
    """The size of these files (``ADD_FILE``), for people."""
    size, power = float(pc.sum(files["size"]).as_py() or 0), 0
    while size >= _UNIT and power < len(_UNITS) - 1:
        size, power = size / _UNIT, power + 1
    return f"{size:.1f} {_UNITS[power]}" if power else f"{size:.0f} B"
