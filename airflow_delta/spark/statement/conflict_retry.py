"""A statement and its rounds: done again from the newest version when somebody else's commit has made it wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import CommitConflictError, MetadataChangedError, ProtocolChangedError
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import OperationResult
from airflow_delta.core.transaction.commit_result import retried_conflict
from airflow_delta.spark.constraints.identity import only_numbers_differ
from airflow_delta.spark.statement.outcome import earlier_result
from airflow_delta.spark.statement.target_reads import at_version_read

MAX_ROUNDS = 20
"""How often the work is done before a conflict becomes the caller's."""

_LOST_ROWS = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"

Round = Callable[[Snapshot, Sequence[Mapping[str, Any]]], OperationResult]
"""Computes the statement on a version and commits it; the second argument are the winners that made earlier rounds wrong."""


def in_rounds(
    log: DeltaLog,
    once: Round,
    *,
    origin: Origin | None,
    start_version: int | None,
    forget: Callable[[], None] = lambda: None,
) -> OperationResult:
    """The result of the first round whose commit no other writer forbids.

    Args:
        log: The table's log.
        once: A round.
        origin: Who asks; a commit with its token counts as this statement's.
        start_version: Version of the table when the token was minted, for the search for that commit; None is the version that
            the first round reads.
        forget: Called when rows that executors kept between rounds are gone.

    Raises:
        TableNotFoundError: There is no table.
        CommitConflictError: Others were faster in every round, or changed what the table is.
        DeltaError: As the round raises it.
    """
    searched_from = start_version
    conflicts: list[Mapping[str, Any]] = []
    conflict: CommitConflictError | None = None
    for _ in range(MAX_ROUNDS):
        snapshot = log.refresh()
        searched_from = snapshot.version if searched_from is None else searched_from
        # The winner of the last round may be a lost twin of this very task, or stand before one.
        earlier = earlier_result(log, origin or Origin(), searched_from)
        if earlier is not None:
            return replace(earlier, conflicts=tuple(conflicts), attempts=1 + len(conflicts))
        try:
            return at_version_read(log, snapshot, lambda at: once(at, conflicts), lost=conflict)
        except CommitConflictError as error:
            if error is conflict:  # rows that were handed over are as old as they were
                raise
            if isinstance(error, MetadataChangedError | ProtocolChangedError) and not only_numbers_differ(
                snapshot.metadata, log.refresh().metadata
            ):
                raise
            lost = conflict = error
            conflicts.append(retried_conflict(error))
        except (PySparkException, Py4JJavaError) as error:
            # An executor is gone, and the rows that it kept with it: the statement starts again.
            if _LOST_ROWS not in str(error):
                raise
            lost = error
            forget()
    raise lost
