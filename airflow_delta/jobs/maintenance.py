"""Maintenance of a table: the steps that are due, one after the other; each reads the table as the steps before it left it."""

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
"""Does an OPTIMIZE. Raises ``DeltaError``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The outcome of one step.

    Attributes:
        done: Whether it was done: it was due, this was not a dry run, and what it needs was available.
        version: The version that it committed; None for a step that needs no commit.
        metrics: Of what it did.
        result: Of an OPTIMIZE, for its conflicts and attempts.
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
        optimizer: Does the step ``optimize``; None where there is no Spark, and the step is only reported as due.
        start_version: Of the table when the token was generated; see ``committed_result``.
        executor: Who lists and deletes for the step ``vacuum``; this process when None.
    """

    log: DeltaLog
    statement: MaintenanceStatement
    origin: Origin = field(default_factory=Origin)
    start_version: int | None = None
    optimizer: Optimizer | None = None
    executor: VacuumExecutor | None = None

    def run(self) -> OperationResult:
        """Do the steps that are due. Each commit stands for itself: a second run does what is left.

        Raises:
            MaintenanceFailedError: Some steps failed; the others were done, and the error names both.
            DeltaError: The table cannot be opened, or not written by this version; nothing was done.
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
            except Exception as error:  # noqa: BLE001 - the steps are independent: what one meets must not keep the others
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
        """Whether an OPTIMIZE is due; needs no Spark."""
        return optimize_need(self.log.refresh(), self.statement)

    def optimize(self) -> Step:
        """Rewrite what ``optimize_need`` has found; a commit of an earlier try counts."""
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
        """Compute the statistics of the files that have none."""
        files = self.log.refresh().files(columns=["stats"])
        need = needs.of_statistics(files=pc.sum(without_statistics(files)).as_py() or 0)
        if not self._is_to_do(need):
            return Step(need=need, done=False)
        done = self.log.recompute_statistics(missing_only=True, origin=self.origin)
        metrics = {"numFilesRead": done.read, "numFilesChanged": done.changed, "numFilesSkipped": done.skipped}
        return Step(need=need, done=True, version=done.version if done.changed else None, metrics=metrics)

    def vacuum(self) -> Step:
        """Delete the files that no version within the retention needs; one listing of the table serves both."""
        dry_run = self.statement.dry_run
        done = self.log.vacuum(self.statement.retention_hours, dry_run=dry_run, origin=self.origin, executor=self.executor)
        need = needs.of_vacuum(files=done.files, size=done.bytes)
        metrics = {"numFilesToDelete" if dry_run else "numDeletedFiles": done.files, "sizeOfDataToDelete": done.bytes}
        return Step(need=need, done=self._is_to_do(need), version=done.version, metrics=metrics)

    def checkpoint(self) -> Step:
        """Write a checkpoint where readers read many commits, or cannot read the checkpoint that is there."""
        snapshot = self._reopen()
        snapshot.files(columns=["size"])  # a checkpoint is only known to be broken when it was read
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
        """Write the commits after checkpoint and compacted files as one more compacted file."""
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
        """The latest version with the checkpoints that exist now: a refresh alone does not find them."""
        return DeltaLog(self.log.store, clock=self.log.clock).snapshot()

    def _is_to_do(self, need: Need) -> bool:
        return need.due and not self.statement.dry_run


def optimize_need(snapshot: Snapshot, maintenance: MaintenanceStatement) -> Need:
    """Whether the OPTIMIZE of this maintenance is due for a version of the table; needs no Spark.

    Where only Spark can decide which partitions the condition names, all that it may name count.
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
    """The OPTIMIZE for this table: two small files always fit into one."""
    statement = maintenance.optimize()
    half = max(1, target_file_size(snapshot, statement) // 2)
    return replace(statement, small_file_size=min(maintenance.small_file_size, half))


def _clustering_need(snapshot: Snapshot, statement: OptimizeStatement, columns: tuple[ColumnPath, ...]) -> Need:
    """Whether OPTIMIZE is due on a clustered table, whose files it leaves small where their rows are in order."""
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
