"""Maintenance of a table: runs the steps that are due, each on the table as the steps before have left it."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import Origin
from airflow_delta.core.committed import committed_result
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.foreign_values import printable_lines
from airflow_delta.core.log.compaction_mark import keeps_all_tombstones
from airflow_delta.core.operations.recompute_statistics import without_statistics
from airflow_delta.core.operations.vacuum_executor import VacuumExecutor
from airflow_delta.core.predicate import parse_predicate
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import MaintenanceStatement, OperationResult, OptimizeStatement
from airflow_delta.core.statements.health import STEPS
from airflow_delta.core.table_changes.column_path import ColumnPath, path_text
from airflow_delta.core.table_features.support import check_writable
from airflow_delta.core.transaction.table_properties import checkpoint_interval, cleans_up_log
from airflow_delta.jobs import maintenance_needs as needs
from airflow_delta.jobs.errors import JobFailedError, MaintenanceFailedError
from airflow_delta.jobs.maintenance_needs import Need
from airflow_delta.jobs.redaction import redact
from airflow_delta.spark.optimize.candidates import candidates, named_partitions, target_file_size
from airflow_delta.spark.optimize.columns import clustered_by
from airflow_delta.spark.optimize.cubes import CUBE_ID, cubes_to_make

_logger = logging.getLogger(__name__)

Optimizer = Callable[[OptimizeStatement], OperationResult]
"""Runs an OPTIMIZE. Raises ``DeltaError``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The outcome of one step.

    Attributes:
        need: Whether the step was due, and why.
        done: Whether the step was done: it was due, this was not a dry run, and what it needs was available.
        version: The version that the step committed; None for a step without a commit.
        metrics: Metrics of the step.
        result: The result of an OPTIMIZE, for its conflicts and attempts; None for other steps.
    """

    need: Need
    done: bool
    version: int | None = None
    metrics: Mapping[str, int | str] = field(default_factory=dict)
    result: OperationResult | None = None

    def to_json(self, name: str) -> dict[str, Any]:
        """The step as a JSON object."""
        return {
            "step": name,
            "due": self.need.due,
            "why": self.need.why,
            "done": self.done,
            "version": self.version,
            "metrics": dict(self.metrics),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """One maintenance of one table.

    Attributes:
        log: The table's log.
        statement: The statement.
        origin: The task that requests the maintenance.
        optimizer: Runs the step ``optimize``; None without Spark, where the step is only reported as due.
        start_version: The table's version when the token was generated; see ``committed_result``.
        executor: Lists and deletes files for the step ``vacuum``; None for this process.
    """

    log: DeltaLog
    statement: MaintenanceStatement
    origin: Origin = field(default_factory=Origin)
    start_version: int | None = None
    optimizer: Optimizer | None = None
    executor: VacuumExecutor | None = None

    def run(self) -> OperationResult:
        """Do the steps that are due. Each step commits by itself, so that another run does what is left.

        Raises:
            MaintenanceFailedError: Some steps failed; the error names these and the steps that were done.
            DeltaError: The table cannot be opened, or this version cannot write to it; nothing was done.
        """
        snapshot = self.log.refresh()
        check_writable(snapshot.table_uri, snapshot.protocol, snapshot.metadata)
        steps: dict[str, Step] = {}
        failed: dict[str, DeltaError] = {}
        for name in [step for step in STEPS if step in self.statement.steps]:
            try:
                steps[name] = _STEPS[name](self)
            except DeltaError as error:
                failed[name] = error
            except Exception as error:  # noqa: BLE001 - the steps are independent: one failure must not stop the others
                _logger.warning("The step %s failed:\n%s", name, printable_lines(redact(traceback.format_exc())))
                detail = redact(str(error))[:2_000]
                failed[name] = JobFailedError(
                    table=self.log.table_uri, operation=name, error=type(error).__name__, detail=detail
                )
        if failed:
            raise MaintenanceFailedError(
                table=self.log.table_uri,
                failed=tuple(f"{name}: {error}" for name, error in failed.items()),
                done=tuple(f"{name} ({step.need.why})" for name, step in steps.items() if step.done) or ("nothing",),
            )
        return self._result(snapshot.version, steps)

    def _result(self, read_version: int, steps: Mapping[str, Step]) -> OperationResult:
        versions = [step.version for step in steps.values() if step.version is not None]
        optimized = steps["optimize"].result if "optimize" in steps else None
        return OperationResult(
            table=self.log.table_uri,
            version=max(versions, default=read_version),
            read_version=read_version,
            operation="MAINTENANCE",
            committed=bool(versions),
            metrics={key: value for step in steps.values() if step.version is not None for key, value in step.metrics.items()},
            conflicts=optimized.conflicts if optimized else (),
            attempts=optimized.attempts if optimized else 1,
            details={"steps": [step.to_json(name) for name, step in steps.items()]},
        )

    def optimize_need(self) -> Need:
        """Whether an OPTIMIZE is due; decided without Spark."""
        return optimize_need(self.log.refresh(), self.statement)

    def optimize(self) -> Step:
        """Run an OPTIMIZE if it is due; a commit by an earlier try of the task counts as done."""
        token = self.origin.token
        earlier = None if token is None else committed_result(self.log, token, self.start_version)
        if earlier is not None:
            need = Need(True, "an earlier attempt committed it")
            return Step(need=need, done=True, version=earlier.version, metrics=earlier.metrics, result=earlier)
        need = self.optimize_need()
        if not need.due or self.statement.dry_run:
            return Step(need=need, done=False)
        if self.optimizer is None:
            return Step(need=Need(True, f"{need.why}; not done: it needs Spark"), done=False)
        result = self.optimizer(_optimize_statement(self.log.refresh(), self.statement))
        version = result.version if result.committed else None
        return Step(need=need, done=True, version=version, metrics=result.metrics, result=result)

    def statistics(self) -> Step:
        """Compute statistics for the files without statistics."""
        files = self.log.refresh().files(columns=["stats"])
        need = needs.of_statistics(files=pc.sum(without_statistics(files)).as_py() or 0)
        if not self._is_to_do(need):
            return Step(need=need, done=False)
        done = self.log.recompute_statistics(missing_only=True, origin=self.origin)
        metrics = {"numFilesRead": done.read, "numFilesChanged": done.changed, "numFilesSkipped": done.skipped}
        return Step(need=need, done=True, version=done.version if done.changed else None, metrics=metrics)

    def vacuum(self) -> Step:
        """Delete the files that no version within the retention needs; one listing decides what is due and what is deleted."""
        dry_run = self.statement.dry_run
        done = self.log.vacuum(self.statement.retention_hours, dry_run=dry_run, origin=self.origin, executor=self.executor)
        need = needs.of_vacuum(files=done.files, size=done.bytes)
        metrics = {"numFilesToDelete" if dry_run else "numDeletedFiles": done.files, "sizeOfDataToDelete": done.bytes}
        return Step(need=need, done=self._is_to_do(need), version=done.version, metrics=metrics)

    def checkpoint(self) -> Step:
        """Write a checkpoint if readers have to read many commits, or the existing checkpoint is broken."""
        snapshot = self._reopen()
        snapshot.files(columns=["size"])  # a broken checkpoint is only noticed when it is read
        interval = checkpoint_interval(snapshot.metadata.configuration)
        need = needs.of_checkpoint(
            commits=len(snapshot.segment.commits),
            max_commits=interval if self.statement.max_commits is None else self.statement.max_commits,
            broken=len(snapshot.replay.broken_checkpoints),
        )
        if not self._is_to_do(need):
            return Step(need=need, done=False)
        written = self.log.checkpoint(snapshot.version)
        metrics = {"numActions": written.actions, "numFiles": written.files, "numBytes": written.bytes}
        return Step(need=need, done=True, metrics=metrics)

    def compact_log(self) -> Step:
        """Write the commits after the checkpoint and the compacted files into another compacted file."""
        segment = self._reopen().segment
        newest_first = reversed(segment.compacted)
        covered = next((file.end for file in newest_first if keeps_all_tombstones(self.log.store, file)), -1)
        need = needs.of_log_compaction(
            commits=sum(version > covered for version in segment.commits),
            max_commits=self.statement.max_uncompacted_commits,
        )
        if not self._is_to_do(need):
            return Step(need=need, done=False)
        written = self.log.compact_log()
        return Step(need=need, done=True, metrics={"numCommits": written.end - written.start + 1})

    def clean_up_log(self) -> Step:
        """Delete the files of the log that are older than its retention and needed by no later version."""
        keeps_log = not cleans_up_log(self.log.refresh().metadata.configuration)
        found = self.log.cleanup_log(dry_run=self.statement.dry_run or keeps_log)
        files = len(found.log_files) + len(found.sidecars) + len(found.temporaries)
        need = needs.of_cleanup(files=files, keeps_log=keeps_log)
        return Step(need=need, done=self._is_to_do(need), metrics={} if keeps_log else {"numDeletedLogFiles": files})

    def _reopen(self) -> Snapshot:
        """The latest version, read with the checkpoints that exist now; a refresh does not look for new checkpoints."""
        return DeltaLog(self.log.store, clock=self.log.clock).snapshot()

    def _is_to_do(self, need: Need) -> bool:
        return need.due and not self.statement.dry_run


def optimize_need(snapshot: Snapshot, maintenance: MaintenanceStatement) -> Need:
    """Whether the OPTIMIZE of a maintenance is due for a version of the table; decided without Spark.

    If only Spark can decide which partitions match the condition, all partitions that may match count.
    """
    statement = _optimize_statement(snapshot, maintenance)
    if columns := clustered_by(snapshot):
        return _clustering_need(snapshot, statement, columns)
    sizes = candidates(snapshot, statement, named_partitions(snapshot, statement.where, parse_predicate))["size"]
    return needs.of_optimize(
        files=len(sizes),
        size=pc.sum(sizes).as_py() or 0,
        small_file_size=statement.small_file_size or 0,
        min_files=statement.min_files,
    )


def _optimize_statement(snapshot: Snapshot, maintenance: MaintenanceStatement) -> OptimizeStatement:
    """The OPTIMIZE for this table; a small file has at most half the target size, so that two always fit into one."""
    statement = maintenance.optimize()
    half = max(1, target_file_size(snapshot, statement) // 2)
    return replace(statement, small_file_size=min(maintenance.small_file_size, half))


def _clustering_need(snapshot: Snapshot, statement: OptimizeStatement, columns: tuple[ColumnPath, ...]) -> Need:
    """Whether OPTIMIZE is due on a clustered table, where small files whose rows are already clustered are left alone."""
    files = snapshot.files(named_partitions(snapshot, statement.where, parse_predicate))
    files, _ = cubes_to_make(files, list(map(path_text, columns)), full=False)
    cubes = [dict(tags or ()).get(CUBE_ID) for tags in files["tags"].to_pylist()]
    new = files.filter(pa.array([cube is None for cube in cubes], pa.bool_()))
    return needs.of_clustering(
        files=len(new),
        size=pc.sum(new["size"]).as_py() or 0,
        cubes=len({*cubes} - {None}),
        small_file_size=statement.small_file_size or 0,
        min_files=statement.min_files,
    )


_STEPS: Mapping[str, Callable[[Maintenance], Step]] = {
    "optimize": Maintenance.optimize,
    "statistics": Maintenance.statistics,
    "vacuum": Maintenance.vacuum,
    "checkpoint": Maintenance.checkpoint,
    "compact_log": Maintenance.compact_log,
    "clean_up_log": Maintenance.clean_up_log,
}
