"""What the table looks like after a statement, told by whoever has its log open, so that nobody opens it again to ask."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import Any

import pyarrow.compute as pc

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.errors.conflict import RECORD_KEY
from airflow_delta.core.log.history import HistoryEntry
from airflow_delta.core.operations.table_health.evidence import SMALL_FILE
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.jobs.result import ResultDocument

HISTORY = 10
"""How many commits a document tells of."""


def observed(document: ResultDocument, log: DeltaLog) -> ResultDocument:
    """The document with the table's last commits, its size and its schema; as it was where the log does not tell.

    It never raises: the work is done.
    """
    with suppress(DeltaError, OSError):
        snapshot = log.refresh()
        return replace(
            document,
            history=tuple(map(_told, log.history(HISTORY))),
            table_facts=_facts(snapshot),
            schema_string=snapshot.schema_string,
        )
    return document


def _told(entry: HistoryEntry) -> Mapping[str, Any]:
    told: dict[str, Any] = {"version": entry.version, "timestamp": entry.timestamp}
    if entry.commit_info is not None:
        info = entry.commit_info
        told |= {
            "operation": info.operation,
            "operationMetrics": dict(info.operation_metrics),
            "engineInfo": info.engine_info,
            "job": dict(info.origin.job),
            RECORD_KEY: dict(info.origin.record),
        }
    return told


def _facts(snapshot: Snapshot) -> Mapping[str, int]:
    checksum = snapshot.checksum
    small = None if checksum is None else _small_files(checksum.histogram)
    if checksum is not None and small is not None:
        files, size = checksum.num_files, checksum.table_size
    else:
        sizes = snapshot.files(columns=["size"])["size"]
        files, size = len(sizes), pc.sum(sizes).as_py() or 0
        small = pc.sum(pc.less(sizes, SMALL_FILE)).as_py() or 0
    return {"version": snapshot.version, "files": files, "bytes": size, "small_files": small}


def _small_files(histogram: Mapping[str, Any] | None) -> int | None:
    """How many files lie in the bins below ``SMALL_FILE``; None where no bin begins there."""
    if histogram is None or SMALL_FILE not in histogram.get("sortedBinBoundaries", ()):
        return None
    bins = zip(histogram["sortedBinBoundaries"], histogram.get("fileCounts", ()), strict=False)
    return sum(count for _, count in takewhile(lambda each: each[0] < SMALL_FILE, bins))
