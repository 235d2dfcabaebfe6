"""Publishing and discarding as statements: in a job, which has access to the data, or in an Airflow worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow_delta.core.actions import Origin
from airflow_delta.core.committed import after_commit_warnings
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import DeltaError, PublishIncompleteError
from airflow_delta.core.operations.publication import Publication, check_together, plan_publication
from airflow_delta.core.statements import DiscardStatement, OperationResult, PublishStatement
from airflow_delta.core.statements.publish import PUBLISHED_KEY
from airflow_delta.core.statements.result import NO_TABLE
from airflow_delta.core.transaction.commit_result import CommitResult


def execute_publish(statement: PublishStatement, open_log: Callable[[str], DeltaLog], origin: Origin) -> OperationResult:
    """Check all staged commits, and then make them, one table after the other.

    ``details["published"]`` lists, per handle, ``table``, ``id``, ``version``, ``read_version``, ``operation``, ``published``
    (False if nothing was staged) and ``already_published``.

    Raises:
        PublishIncompleteError: A commit failed after others were made.
        As ``plan_publication`` and ``Publication.commit``, if nothing was published.
    """
    publications = [plan_publication(open_log(handle.table), handle, origin) for handle in statement.handles]
    check_together(publications)
    made: list[CommitResult] = []
    for publication in publications:
        try:
            made.append(publication.commit())
        except (DeltaError, OSError) as error:
            if not any(result.committed for result in made):
                raise
            raise _incomplete(publications, made, error) from error
    committed = [result for result in made if result.committed]
    return OperationResult(
        table=publications[0].log.table_uri,
        version=made[0].version,
        read_version=made[0].read_version,
        operation="PUBLISH",
        committed=bool(committed),
        already_committed=bool(committed) and all(result.already_committed for result in committed),
        metrics={"numPublished": len(committed)},
        conflicts=tuple(conflict for result in made for conflict in result.conflicts),
        attempts=max(1, *(result.attempts for result in made)),
        details={PUBLISHED_KEY: [_entry(*pair) for pair in zip(publications, made, strict=True)]},
        warnings=tuple(warning for result in made for warning in after_commit_warnings(result)),
    )


def execute_discard(statement: DiscardStatement, open_log: Callable[[str], DeltaLog], origin: Origin) -> OperationResult:
    """Discard all staged commits; ``metrics`` counts the deleted files. Raises as ``DeltaLog.discard`` does."""
    logs = [open_log(handle.table) for handle in statement.handles]
    deleted = sum(log.discard(handle, origin=origin) for log, handle in zip(logs, statement.handles, strict=True))
    version = logs[0].refresh().version if logs[0].exists() else NO_TABLE
    return OperationResult(
        table=logs[0].table_uri,
        version=version,
        read_version=version,
        operation="DISCARD",
        committed=False,
        metrics={"numDiscarded": len(logs), "numDeletedFiles": deleted},
    )


def of_table(result: OperationResult, is_wanted: Callable[[Mapping[str, Any]], bool]) -> OperationResult:
    """The result of publishing, reduced to the last published entry among the wanted entries (those of one table).

    If no wanted entry was published, the last wanted one counts; without wanted entries, the result is unchanged.
    """
    wanted = [entry for entry in result.details[PUBLISHED_KEY] if is_wanted(entry)]
    if not wanted:
        return result
    entry = ([entry for entry in wanted if entry["published"]] or wanted)[-1]
    named = {name: entry[name] for name in ("table", "version", "read_version") if name in entry}  # older jobs leave some out
    return replace(result, **named, committed=entry["published"])


def _entry(publication: Publication, made: CommitResult) -> dict[str, Any]:
    return {
        "table": publication.log.table_uri,
        "id": publication.handle.id,
        "version": made.version,
        "read_version": made.read_version,
        "operation": made.commit_info.operation if made.commit_info else None,
        "published": made.committed,
        "already_published": made.already_committed,
    }


def _incomplete(
    publications: Sequence[Publication], made: Sequence[CommitResult], error: DeltaError | OSError
) -> PublishIncompleteError:
    tables = [publication.log.table_uri for publication in publications]
    return PublishIncompleteError(
        published=tuple(f"{table} (version {result.version})" for table, result in zip(tables, made, strict=False)),
        left=tuple(tables[len(made) :]),
        detail=error.claim() if isinstance(error, DeltaError) else f"{type(error).__name__}: {error}",
    )
