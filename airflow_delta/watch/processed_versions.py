"""The progress of a table's consumer: the versions that its DAG runs have processed, and those that are due."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_delta.core.statements.fields import shortened
from airflow_delta.core.statements.result import NO_TABLE
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.watch.commit_cursor import first_cursor
from airflow_delta.watch.commit_filter import CommitFilter
from airflow_delta.watch.commit_scan import CommitScan, had_id, later_commits, metadata_of
from airflow_delta.watch.errors import StoredProgressError
from airflow_delta.watch.start import Start

MOST_CLAIMS = 10
"""Most runs that are stored while they may still succeed. One more failure in a row only repeats versions."""

CHANGES_DATA = CommitFilter(data_change_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessedVersions:
    """What a consumer has done.

    Attributes:
        table_id: The identity of the table whose versions these are; None where it is not known.
        version: The last version that a successful run has processed.
        claims: The last versions of the runs that may still succeed, by run id, oldest first.
    """

    table_id: str | None
    version: int
    claims: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {"table_id": self.table_id, "version": self.version, "claims": dict(self.claims)}

    @classmethod
    def from_json(cls, document: Any) -> ProcessedVersions:
        """As ``to_json`` gave it; a user who sets it may leave out all but the version. Raises ``StoredProgressError``."""
        given = document if isinstance(document, Mapping) else {}
        version, table_id, claims = given.get("version"), given.get("table_id"), given.get("claims", {})
        has_claims = isinstance(claims, Mapping) and all(isinstance(claimed, int) for claimed in claims.values())
        if has_claims and isinstance(version, int) and version >= NO_TABLE and isinstance(table_id, str | None):
            return cls(table_id=table_id, version=version, claims=claims)
        expected = "a version from -1 on, the table_id as text, and claims (versions by the ids of runs)"
        raise StoredProgressError(found=shortened(document), expected=expected)

    def with_succeeded(self, has_succeeded: Callable[[str], bool]) -> ProcessedVersions:
        """With the claims of the runs that have succeeded counted as processed.

        Each claim begins no later than after the last processed version, so that the greatest of them includes the others.
        """
        done = [version for run_id, version in self.claims.items() if has_succeeded(run_id)]
        return self.moved_to(max([self.version, *done]))

    def moved_to(self, version: int) -> ProcessedVersions:
        """With everything up to this version processed."""
        open_claims = {run_id: claimed for run_id, claimed in self.claims.items() if claimed > version}
        return replace(self, version=version, claims=open_claims)

    def claimed_by(self, run_id: str, version: int) -> ProcessedVersions:
        """With everything up to this version claimed by a run."""
        claims = [*((claimant, claimed) for claimant, claimed in self.claims.items() if claimant != run_id), (run_id, version)]
        return replace(self, claims=dict(claims[-MOST_CLAIMS:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class DueVersions:
    """The versions that a consumer has not processed yet.

    Attributes:
        processed: Its progress on this very table.
        from_version: The first version that is due.
        to_version: The table's latest version; less than ``from_version`` when there is none.
        changes_data: Whether one of them changed rows; also where that is not known.
        gap: Whether the commit of one of them was cleaned up: ``to_version`` can be read, their change feed cannot.
        reset: Whether the table was recreated since the last run, or its log taken back, and versions count from the beginning
            again.
    """

    processed: ProcessedVersions
    from_version: int
    to_version: int
    changes_data: bool
    gap: bool
    reset: bool


def due_versions(
    store: LogStore, stored: Mapping[str, Any] | None, start: Start, has_succeeded: Callable[[str], bool]
) -> DueVersions:
    """The versions after the last processed one.

    Args:
        store: The table.
        stored: Its progress, as ``ProcessedVersions.to_json`` gave it; None for a new consumer.
        start: Where a new consumer begins.
        has_succeeded: Whether the run of this id has succeeded.

    Raises:
        TableNotFoundError: There is no table.
        CorruptLogError: The log cannot be read.
        StoredProgressError: ``stored`` is no progress.
    """
    table_id = metadata_of(store).id
    before = ProcessedVersions.from_json(stored).with_succeeded(has_succeeded) if stored else None
    is_reset = before is not None and not _goes_on(store, before, start)
    if before is None or is_reset:
        first = first_cursor(store, 0 if is_reset else start).version
        before = ProcessedVersions(table_id=table_id, version=first, claims={})
    before = replace(before, table_id=table_id)
    found = later_commits(store, before.version)
    matches = CommitScan(store, CHANGES_DATA).matches(list(found.commits))
    return DueVersions(
        processed=before,
        from_version=before.version + 1,
        to_version=before.version if found.head is None else max(found.head, before.version),
        changes_data=found.lost is not None or any(commit is not None for _, commit in matches),
        gap=found.lost is not None,
        reset=is_reset,
    )


def _goes_on(store: LogStore, before: ProcessedVersions, start: Start) -> bool:
    """Whether the log continues from the processed version: not where it ends before it, as one of a backup."""
    is_before_start = isinstance(start, int) and before.version < start  # which the table need not have reached
    if before.version == NO_TABLE or is_before_start:
        return before.table_id is None or had_id(store, before.table_id, before.version)
    return has_reached(store, before.table_id, before.version)


def has_reached(store: LogStore, table_id: str | None, version: int) -> bool:
    """Whether the log has this version, or had it, and is the one of the table with this id; None for any table."""
    is_there = later_commits(store, version).head is not None
    return is_there and (table_id is None or had_id(store, table_id, version))
