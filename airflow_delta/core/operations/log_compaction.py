"""Log compaction: writes a range of commits as one file, so that readers need one request instead of many.

Protocol: PROTOCOL.md, "Log Compaction Files", "Action Reconciliation". The commits are kept; the file is an alternative.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from airflow_delta.core.actions import CommitActions
from airflow_delta.core.errors import InvalidStatementError, VersionNotFoundError
from airflow_delta.core.log.action_reconciliation import file_changes
from airflow_delta.core.log.commit_reader import CommitBatch, read_commits
from airflow_delta.core.log.commit_writer import commit_json
from airflow_delta.core.log.compaction_mark import KEEPS_ALL_TOMBSTONES, keeps_all_tombstones
from airflow_delta.core.log.file_names import LOG_DIRECTORY, LogFileKind, compacted_path, parse_name
from airflow_delta.core.log.log_segment import CompactedCommits
from airflow_delta.core.log.managed_log_store import publish_ratified
from airflow_delta.core.operations.table_log import TableLog
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.table_features.support import check_writable


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """The outcome of a compaction.

    Attributes:
        start: First commit of the range.
        end: Last commit of the range.
        path: Path of the file below the table's root; None if the range has fewer than two commits, so that there is nothing to
            write.
        actions: Number of actions in the file; None if it existed already.
    """

    start: int
    end: int
    path: str | None
    actions: int | None


def compact_log(log: TableLog, *, start: int | None = None, end: int | None = None) -> CompactionResult:
    """Write the combined content of the commits ``start`` to ``end`` as one file, unless it exists.

    Args:
        log: The table.
        start: First commit; None is the first one that neither a checkpoint nor a compacted file covers.
        end: Last commit; None is the latest version.

    Raises:
        InvalidStatementError: The end lies before the start.
        VersionNotFoundError: A version does not exist, or its commit is gone.
        UnsupportedWriterFeatureError: The table requires an unsupported writer feature.
        CorruptLogError: A commit cannot be read.
        As ``publish_ratified``.
    """
    latest = log.refresh()
    check_writable(latest.table_uri, latest.protocol, latest.metadata)
    last = latest.version if end is None else end
    commits, covered = _commits_and_coverage(log.store, last)
    first = covered + 1 if start is None else start
    if start is not None and last < start:
        raise InvalidStatementError(
            statement=f"compaction of the commits {start} to {last}", detail="the end is before the start"
        )
    missing = next((version for version in range(first, last + 1) if version not in commits), None)
    if last > latest.version or missing is not None:
        requested = last if missing is None else missing
        raise VersionNotFoundError(
            table=latest.table_uri, version=requested, earliest=min(commits, default=0), latest=latest.version
        )
    while last > first and _is_taken(log.store, first, last):
        last -= 1
    if last <= first:
        return CompactionResult(start=first, end=last, path=None, actions=None)
    return _write_compacted(log.store, first, last)


def _is_taken(store: LogStore, start: int, end: int) -> bool:
    """Whether a compacted file of these commits exists that cannot replace them, and that may not be overwritten."""
    status = store.status(compacted_path(start, end))
    return status is not None and not keeps_all_tombstones(store, CompactedCommits(start=start, end=end, status=status))


def _write_compacted(store: LogStore, start: int, end: int) -> CompactionResult:
    path = compacted_path(start, end)
    lines = None
    if not store.exists(path):
        publish_ratified(store)  # only published commits may be compacted
        content = commit_json(reconciled(read_commits(store, range(start, end + 1))))
        with suppress(FileExistsError):
            store.write_if_absent(path, KEEPS_ALL_TOMBSTONES + content)
            lines = content.count(b"\n")
    return CompactionResult(start=start, end=end, path=path, actions=lines)


def reconciled(commits: CommitBatch) -> CommitActions:
    """The net content of these commits: the last action of each file, application and domain.

    Removed files and removed domains are all kept, however old, because they may cancel actions of earlier commits.
    """
    changes = file_changes(commits.adds, commits.removes)
    return CommitActions(
        protocol=commits.protocol,
        metadata=commits.metadata,
        adds=changes.added,
        removes=changes.removed,
        transactions=tuple(commits.transactions.values()),
        domains=tuple(commits.domains.values()),
    )


def _commits_and_coverage(store: LogStore, last: int) -> tuple[set[int], int]:
    """The existing commits up to ``last``, and the last version that a checkpoint or compacted file before it covers.

    Compacted files that may lack tombstones do not count, as they are never read.
    """
    commits: set[int] = set()
    compacted: list[CompactedCommits] = []
    covered = -1
    for status in store.list_from(LOG_DIRECTORY):
        name = parse_name(status.path.rpartition("/")[2])
        if name is None or name.version > last:
            continue
        if name.kind is LogFileKind.COMMIT:
            commits.add(name.version)
        elif name.kind is LogFileKind.COMPACTED_COMMITS and name.end is not None and name.end <= last:
            compacted.append(CompactedCommits(start=name.version, end=name.end, status=status))
        elif name.kind in (LogFileKind.CLASSIC_CHECKPOINT, LogFileKind.V2_CHECKPOINT):
            covered = max(covered, name.version)
    newest_first = sorted((file for file in compacted if file.end > covered), key=lambda file: -file.end)
    return commits, next((file.end for file in newest_first if keeps_all_tombstones(store, file)), covered)
