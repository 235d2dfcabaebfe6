"""What a table's page shows beyond its size; the job computes it from the log, as it has the snapshot anyway."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.clock import Clock, system_clock
from airflow_delta.core.log.last_checkpoint import hinted_version
from airflow_delta.core.log.record_counts import live_rows
from airflow_delta.core.operations.pins import PINS_FOLDER, read_pin_folder
from airflow_delta.core.operations.recompute_statistics import without_statistics
from airflow_delta.core.operations.table_health.inspected_table import SMALL_FILE
from airflow_delta.core.predicate import Column
from airflow_delta.core.predicate.file_statistics import file_statistics
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import MaintenanceStatement
from airflow_delta.core.table_changes.clustering import clustering_columns
from airflow_delta.core.table_changes.column_path import path_text
from airflow_delta.core.table_features.feature import reader_features, writer_features
from airflow_delta.core.transaction.table_properties import checkpoint_interval
from airflow_delta.jobs import maintenance_needs as needs
from airflow_delta.jobs.best_effort import BestEffort
from airflow_delta.jobs.maintenance import optimize_need
from airflow_delta.jobs.maintenance_needs import Need

MOST_FILES = 10_000
"""Most files of a table whose statistics are read, so that a small statement on a large table stays cheap."""

SIZE_BOUNDS = tuple(1 << exponent for exponent in range(16, 32, 2))
"""Bounds, in bytes, between the bars of the histogram of file sizes: 64 KiB, 256 KiB, ... 1 GiB."""

_MOST_PINS = 50
_MOST_NAMES = 50  # features and columns


def table_detail(snapshot: Snapshot, best_effort: BestEffort, clock: Clock = system_clock) -> Mapping[str, Any]:
    """Details of a table as a few KiB of JSON values; what cannot be read is left out, with a warning.

    ``protocol`` and ``features``, ``partitioned_by``, ``clustered_by``; ``pins`` (``version``, ``dag_id``, ``task_id``,
    ``run_id``, ``map_index``, ``expires``; if there are many, only their number as ``pin_files``); ``sizes`` (``counts`` of
    files below the first of ``bounds`` (bytes), between the first and the second, and so on, and ``small``, the bytes below
    which a file is small). For tables of at most ``MOST_FILES`` files also ``rows``; ``layout`` (per clustering column:
    ``column``, ``files``, ``mean`` and ``most`` number of files that can hold one value, ``unknown`` files without bounds);
    ``maintenance`` (``step``, ``due``, ``why``: what a ``MaintenanceStatement`` with default arguments would do).
    """
    found: dict[str, Any] = {}
    with best_effort.attempt("describing the table"):
        features = reader_features(snapshot.protocol) | writer_features(snapshot.protocol)
        found |= {
            "protocol": [snapshot.protocol.min_reader_version, snapshot.protocol.min_writer_version],
            "features": sorted(features)[:_MOST_NAMES],
            "partitioned_by": list(snapshot.partition_columns[:_MOST_NAMES]),
            "clustered_by": [path_text(path) for path in _clustered_by(snapshot)],
        }
    with best_effort.attempt("looking for pins"):
        found |= _pins(snapshot, clock())
    with best_effort.attempt("describing the table's files"):
        sizes = snapshot.files(columns=["size"])["size"]
        found["sizes"] = {"bounds": list(SIZE_BOUNDS), "counts": size_histogram(sizes), "small": SMALL_FILE}
        if len(sizes) <= MOST_FILES:
            files = snapshot.files(columns=["size", "stats", "deletion_vector"])
            found["rows"] = live_rows(files)
            found["layout"] = list(_layout(snapshot, files))
            found["maintenance"] = [
                {"step": step, "due": need.due, "why": need.why} for step, need in _maintenance(snapshot, files)
            ]
    return found


def size_histogram(sizes: pa.ChunkedArray) -> list[int]:
    """How many of the sizes (bytes) are below the first of ``SIZE_BOUNDS``, between first and second, ..., above the last."""
    below = [pc.sum(pc.less(sizes, bound)).as_py() or 0 for bound in SIZE_BOUNDS]
    return [end - start for start, end in zip([0, *below], [*below, len(sizes)], strict=True)]


def files_of_one_value(low: pa.Array, high: pa.Array) -> tuple[float, int]:
    """How many files can hold the same value of a column: the mean over the least values of all files, and the maximum.

    Args:
        low: The least value of each file.
        high: The greatest value of each file.
    """
    ones, none = (pa.repeat(pa.scalar(number, pa.int64()), len(low)) for number in (1, 0))
    ends = pa.table(
        {
            "value": pa.concat_arrays([low, high]),
            "opens": pa.concat_arrays([ones, none]),
            "closes": pa.concat_arrays([none, ones]),
        }
    )
    values = ends.group_by("value").aggregate([("opens", "sum"), ("closes", "sum")]).sort_by("value")
    opened, closed = pc.cumulative_sum(values["opens_sum"]), pc.cumulative_sum(values["closes_sum"])
    open_files = pc.add(pc.subtract(opened, closed), values["closes_sum"])  # a file can hold its greatest value, too
    total = pc.sum(pc.multiply(open_files, values["opens_sum"])).as_py() or 0
    return total / max(1, len(low)), pc.max(open_files).as_py() or 0


def _clustered_by(snapshot: Snapshot) -> tuple[tuple[str, ...], ...]:
    return clustering_columns(snapshot.table_uri, snapshot.schema, snapshot.domains)[:_MOST_NAMES]


def _pins(snapshot: Snapshot, now: int) -> Mapping[str, Any]:
    files = len(list(snapshot.store.list_from(PINS_FOLDER)))
    if files > _MOST_PINS:
        return {"pin_files": files}
    pins = read_pin_folder(snapshot.store).live(now) if files else ()
    kept = ("version", "dag_id", "task_id", "run_id", "map_index", "expires")
    return {"pins": [{name: getattr(pin, name) for name in kept} for pin in pins]}


def _layout(snapshot: Snapshot, files: pa.Table) -> Iterator[Mapping[str, Any]]:
    paths = _clustered_by(snapshot)
    columns = [Column(path[0], path[1:]) for path in paths]
    bounds = file_statistics(files["stats"], snapshot.schema, columns).columns if columns else {}
    for path, column in zip(paths, columns, strict=True):
        low, high = bounds[column].low, bounds[column].high
        if low is None or high is None:
            continue
        known = pc.and_(pc.is_valid(low), pc.is_valid(high))
        mean, most = files_of_one_value(_array(low.filter(known)), _array(high.filter(known)))
        unknown = len(files) - (pc.sum(known).as_py() or 0)
        yield {
            "column": path_text(path),
            "files": len(files),
            "mean": round(mean + unknown, 1),
            "most": most + unknown,
            "unknown": unknown,
        }


def _array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _maintenance(snapshot: Snapshot, files: pa.Table) -> Iterator[tuple[str, Need]]:
    yield "optimize", optimize_need(snapshot, MaintenanceStatement(table=snapshot.table_uri))
    yield "statistics", needs.of_statistics(files=pc.sum(without_statistics(files)).as_py() or 0)
    interval, commits = checkpoint_interval(snapshot.metadata.configuration), len(snapshot.segment.commits)
    if commits > interval:  # the segment lacks a checkpoint written after this job's commit
        hint = hinted_version(snapshot.store)
        commits = commits if hint is None else min(commits, max(0, snapshot.version - hint))
    broken = len(snapshot.replay.broken_checkpoints)
    yield "checkpoint", needs.of_checkpoint(commits=commits, max_commits=interval, broken=broken)
