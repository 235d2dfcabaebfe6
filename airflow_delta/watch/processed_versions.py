"""The progress of a table's consumer: the versions that the runs of a DAG have processed, and those that are due."""

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
"""Most open claims that are stored. If more runs fail in a row, versions are only repeated."""

CHANGES_DATA = CommitFilter(data_change_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessedVersions:
    """The progress of a consumer.

    Attributes:
        table_id: The id of the table whose versions these are; None if unknown.
        version: The last version that a successful run has processed.
        claims: For runs that may still succeed, the last version that each has been given, by run id, oldest first.
    """

    table_id: str | None
    version: int
    claims: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """The progress as JSON values."""
        return {"table_id": self.table_id, "version": self.version, "claims": dict(self.claims)}

    @classmethod
    def from_json(cls, document: Any) -> ProcessedVersions:
        """Parse stored progress; progress set by a user needs only the version. Raises ``StoredProgressError``."""
        given = document if isinstance(document, Mapping) else {}
        version, table_id, claims = given.get("version"), given.get("table_id"), given.get("claims", {})
        has_claims = isinstance(claims, Mapping) and all(isinstance(claimed, int) for claimed in claims.values())
        if has_claims and isinstance(version, int) and version >= NO_TABLE and isinstance(table_id, str | None):
            return cls(table_id=table_id, version=version, claims=claims)
        expected = "a version from -1 on, the table_id as text, and claims (versions by the ids of runs)"
        raise StoredProgressError(found=shortened(document), expected=expected)

    def with_succeeded(self, has_succeeded: Callable[[str], bool]) -> ProcessedVersions:
        """The progress with the claims of successful runs counted as processed.

        Each claim begins directly after the last processed version or earlier, so the greatest claim includes the others.
        """
        done = [version for run_id, version in self.claims.items() if has_succeeded(run_id)]
        return self.moved_to(max([self.version, *done]))

    def moved_to(self, version: int) -> ProcessedVersions:
        """The progress with everything up to this version processed."""
        open_claims = {run_id: claimed for run_id, claimed in self.claims.items() if claimed > version}
        return replace(self, version=version, claims=open_claims)

    def claimed_by(self, run_id: str, version: int) -> ProcessedVersions:
        """The progress with everything up to this version claimed by a run."""
        claims = [*((claimant, claimed) for claimant, claimed in self.claims.items() if claimant != run_id), (run_id, version)]
        return replace(self, claims=dict(claims[-MOST_CLAIMS:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class DueVersions:
    """The versions that a consumer has not processed yet.

    Attributes:
        processed: The consumer's progress on this table.
        from_version: The first version that is due.
        to_version: The table's latest version; less than ``from_version`` if no version is due.
        changes_data: Whether a due version changed rows; True if that is unknown.
        gap: Whether a commit among them was cleaned up: then ``to_version`` can be read, but not their change feed.
        reset: Whether the table was created again since the last run, or its log restored from a backup, so that all versions
            are due again.
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
    """The versions after the last processed version.

    Args:
        store: The files of the table.
        stored: The stored progress, as ``ProcessedVersions.to_json`` wrote it; None for a new consumer.
        start: Where a new consumer begins.
        has_succeeded: Whether the run with an id has succeeded.

    Raises:
        TableNotFoundError: There is no table.
        CorruptLogError: The log cannot be read.
        StoredProgressError: ``stored`` is invalid.
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
    """Whether the log continues from the processed version; False if it ends before that, as when restored from a backup."""
    is_before_start = isinstance(start, int) and before.version < start  # the table may not have reached it yet
    if before.version == NO_TABLE or is_before_start:
        return before.table_id is None or had_id(store, before.table_id, before.version)
    return has_reached(store, before.table_id, before.version)


def has_reached(store: LogStore, table_id: str | None, version: int) -> bool:
    """Whether the log has, or had, this version, and belongs to the table with this id (None for any table)."""
    is_there = later_commits(store, version).head is not None
    return is_there and (table_id is None or had_id(store, table_id, version))
