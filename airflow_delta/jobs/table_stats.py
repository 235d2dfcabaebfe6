"""History, size and schema of a table after a statement, read from the log that is already open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import Any

import pyarrow.compute as pc

from airflow_delta.catalogs.entry import TableDescription
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import TableNotFoundError
from airflow_delta.core.errors.conflict import RECORD_KEY
from airflow_delta.core.foreign_values import natural_number
from airflow_delta.core.log.history import HistoryEntry
from airflow_delta.core.operations.table_health.inspected_table import SMALL_FILE
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import PublishStatement, SequenceStatement, Statement
from airflow_delta.jobs.best_effort import BestEffort
from airflow_delta.jobs.result import ResultDocument, known_facts
from airflow_delta.jobs.table_detail import table_detail

HISTORY = 10
"""Number of commits in a document."""


def attach_table_stats(document: ResultDocument, log: DeltaLog) -> ResultDocument:
    """The document with the table's last commits, its size, its schema, and the details for its page.

    Never raises: the statement has succeeded, and what cannot be read becomes a warning in its outcome.
    """
    if document.outcome is None:
        return document
    best_effort = BestEffort(document.outcome.warnings)
    with best_effort.attempt("reading the table after the work"), suppress(TableNotFoundError):  # a dry run may have none
        snapshot = log.refresh()
        document = replace(document, schema_string=snapshot.schema_string)
        with best_effort.attempt("describing the table for a catalog"):
            document = replace(document, description=TableDescription.of(snapshot).to_json())
        with best_effort.attempt("reading the table's history"):
            document = replace(document, history=tuple(map(_serialized, log.history(HISTORY))))
        with best_effort.attempt("counting the table's files"):
            document = replace(document, table_facts=_facts(snapshot))
        document = replace(document, table_detail=table_detail(snapshot, best_effort))
    return document.with_warnings(best_effort.warnings)


def other_tables(statement: Statement) -> tuple[str, ...]:
    """The tables of a statement's parts, except the one in ``statement.table``."""
    match statement:
        case SequenceStatement():
            found = [member.table for member in statement.statements]
        case PublishStatement():
            found = [handle.table for handle in statement.handles]
        case _:
            found = []
    return tuple(table for table in dict.fromkeys(found) if table != statement.table)


def describe_tables(document: ResultDocument, tables: Iterable[str], open_table: Callable[[str], DeltaLog]) -> ResultDocument:
    """The document with descriptions of these tables for a catalog; what cannot be read becomes a warning in its outcome."""
    if document.outcome is None:
        return document
    best_effort, described = BestEffort(document.outcome.warnings), dict(document.other_tables)
    for table in dict.fromkeys(tables):
        with best_effort.attempt(f"describing {table} for a catalog"), suppress(TableNotFoundError):
            snapshot = open_table(table).refresh()
            found = TableDescription.of(snapshot).to_json()
            described[snapshot.table_uri] = {"description": found, "schema_string": snapshot.schema_string}
    return replace(document, other_tables=described).with_warnings(best_effort.warnings)


def _serialized(entry: HistoryEntry) -> Mapping[str, Any]:
    commit: dict[str, Any] = {"version": entry.version, "timestamp": entry.timestamp}
    if entry.commit_info is not None:
        info = entry.commit_info
        commit |= {
            "operation": info.operation,
            "operationMetrics": dict(info.operation_metrics),
            "engineInfo": info.engine_info,
            "job": dict(info.origin.job),
            RECORD_KEY: dict(info.origin.record),
        }
    return commit


def _facts(snapshot: Snapshot) -> Mapping[str, int]:
    checksum = snapshot.checksum
    counted = None if checksum is None else _from_checksum(checksum.num_files, checksum.table_size, checksum.histogram)
    if counted is None:
        sizes = snapshot.files(columns=["size"])["size"]
        small = pc.sum(pc.less(sizes, SMALL_FILE)).as_py() or 0
        counted = {"files": len(sizes), "bytes": pc.sum(sizes).as_py() or 0, "small_files": small}
    return known_facts({"version": snapshot.version, **counted})


def _from_checksum(files: int, size: int, histogram: Mapping[str, Any] | None) -> Mapping[str, int] | None:
    """Counts from a checksum; None if it does not count files below ``SMALL_FILE``, or its numbers are inconsistent."""
    boundaries, counts = ((histogram or {}).get(key) for key in ("sortedBinBoundaries", "fileCounts"))
    if not isinstance(boundaries, list) or not isinstance(counts, list) or SMALL_FILE not in boundaries:
        return None
    numbers = [files, size, *boundaries, *counts]
    if any(type(number) is not int or natural_number(number) is None for number in numbers):
        return None
    if len(boundaries) != len(counts) or boundaries != sorted({*boundaries}) or sum(counts) != files:
        return None
    small = sum(count for _, count in takewhile(lambda item: item[0] < SMALL_FILE, zip(boundaries, counts, strict=True)))
    return {"files": files, "bytes": size, "small_files": small}
