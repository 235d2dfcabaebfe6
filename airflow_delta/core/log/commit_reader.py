"""Reads commit files: many commits at once, with file actions as columns.

Protocol: PROTOCOL.md, "Delta Log Entries", "Log Compaction Files", "Actions".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import perf_counter

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import CommitActions, CommitInfo, DomainMetadata, Metadata, Protocol, SetTransaction
from airflow_delta.core.errors import CorruptLogError, LogGapError
from airflow_delta.core.log.action_reconciliation import canonical_paths, file_keys
from airflow_delta.core.log.compaction_mark import KEEPS_ALL_TOMBSTONES
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.log.json_file_actions import VERSION, FileActions, file_actions
from airflow_delta.core.log.log_segment import CompactedCommits
from airflow_delta.core.log.non_file_actions import (
    COMMIT_INFO,
    DOMAIN,
    METADATA,
    PROTOCOL,
    TRANSACTION,
    LogText,
    NonFileActions,
)
from airflow_delta.core.log.unfinished_commits import read_settled
from airflow_delta.core.storage.log_store import LogStore

_READERS = 32  # concurrent requests
_LONG = 0.003  # seconds per read; a local file takes a hundredth of that, and threads would cost more than they gain
_COMMIT_ACTIONS = (COMMIT_INFO, PROTOCOL, METADATA, TRANSACTION, DOMAIN)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommitBatch:
    """The combined content of consecutive commits.

    Attributes:
        adds: Columns ``ADD_FILE`` and ``VERSION``, in ascending order of versions.
        removes: Columns ``REMOVE_FILE`` and ``VERSION``, likewise.
        changes: Columns ``CHANGE_FILE`` and ``VERSION``, likewise.
        protocol: The last protocol; None when no commit holds one.
        metadata: The last metadata; None when no commit holds one.
        transactions: The last transaction of each application.
        domains: The last action of each domain, including removals.
        commit_info: The ``commitInfo`` of the last commit; None when that commit has none.
    """

    adds: pa.Table = field(default_factory=lambda: FileActions().adds)
    removes: pa.Table = field(default_factory=lambda: FileActions().removes)
    changes: pa.Table = field(default_factory=lambda: FileActions().changes)
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: Mapping[str, SetTransaction] = field(default_factory=dict)
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)
    commit_info: CommitInfo | None = None

    def followed_by(self, later: CommitBatch) -> CommitBatch:
        """This batch combined with the commits right after it."""
        return CommitBatch(
            adds=pa.concat_tables([self.adds, later.adds]),
            removes=pa.concat_tables([self.removes, later.removes]),
            changes=pa.concat_tables([self.changes, later.changes]),
            protocol=later.protocol or self.protocol,
            metadata=later.metadata or self.metadata,
            transactions={**self.transactions, **later.transactions},
            domains={**self.domains, **later.domains},
            commit_info=later.commit_info,
        )


def read_commits(store: LogStore, versions: Iterable[int], compacted: Sequence[CompactedCommits] = ()) -> CommitBatch:
    """The actions of these commits.

    Args:
        store: The table's log store.
        versions: The versions, ascending.
        compacted: Compacted files that cover some of these commits, ascending. If one may lack tombstones, is broken or
            contradicts itself, the commit files are read instead.

    Raises:
        LogGapError: A commit file does not exist.
        CorruptLogError: A line is not a JSON object, an action violates the protocol, or a commit holds two protocols or two
            metadata.
    """
    wanted = list(versions)
    if compacted:
        try:
            texts, ends = _texts_with_compacted(store, wanted, compacted)
            batch = _batch_of(store.table_uri, texts)
        except CorruptLogError:
            pass  # a broken compacted file, or a commit that raises again below
        else:
            if _are_consistent(batch, wanted[0], ends):
                return batch
    return _batch(store, _commit_files(wanted))


def _texts_with_compacted(
    store: LogStore, wanted: Sequence[int], compacted: Sequence[CompactedCommits]
) -> tuple[list[LogText], list[int]]:
    """The texts of the commits and of compacted files in their place; and the last version of each such compacted file."""
    covered = {version for compaction in compacted for version in range(compaction.start, compaction.end + 1)}
    plain = _commit_files(version for version in wanted if version not in covered)
    texts = _texts(store, sorted([*plain, *((compaction.end, compaction.status.path) for compaction in compacted)]))
    starts = {compaction.end: compaction.start for compaction in compacted}
    kept = [text for text in texts if not starts.get(text.version) or _keeps_all_tombstones(text)]
    if len(kept) == len(texts):
        return texts, list(starts)
    unread = {text.version for text in texts} - {text.version for text in kept}
    again = _commit_files(version for end in unread for version in range(starts[end], end + 1))
    texts = sorted([*kept, *_texts(store, again)], key=lambda text: text.version)
    return texts, [end for end in starts if end not in unread]


def _keeps_all_tombstones(text: LogText) -> bool:
    return text.lines[:1] == [KEEPS_ALL_TOMBSTONES.rstrip()]


def _commit_files(versions: Iterable[int]) -> list[tuple[int, str]]:
    return [(version, commit_path(version)) for version in versions]


def _are_consistent(batch: CommitBatch, first: int, compacted: Sequence[int]) -> bool:
    """Whether compacted files (by last version) hold only one action for each file, and a new table has its definition."""
    if first == 0 and not (batch.protocol and batch.metadata):
        return False
    for version in compacted:
        adds, removes = (files.filter(pc.equal(files[VERSION.name], version)) for files in (batch.adds, batch.removes))
        paths = canonical_paths(adds["path"])
        is_twice = pc.any(pc.is_in(file_keys(adds), file_keys(removes).combine_chunks())).as_py()
        if is_twice or pc.count_distinct(paths).as_py() < len(paths):
            return False
    return True


def read_commit(store: LogStore, version: int) -> CommitActions:
    """All actions of the commit of this version.

    Raises:
        LogGapError: The commit file does not exist.
        CorruptLogError: As of ``read_commits``.
    """
    return _actions(read_commits(store, [version]))


def parse_commit(table: str, text: LogText) -> CommitActions:
    """All actions of a file in the format of a commit, wherever it is stored; unknown lines are ignored.

    Raises:
        CorruptLogError: As of ``read_commits``.
    """
    return _actions(_batch_of(table, [text]))


def _actions(batch: CommitBatch) -> CommitActions:
    return CommitActions(
        commit_info=batch.commit_info,
        protocol=batch.protocol,
        metadata=batch.metadata,
        adds=batch.adds.drop_columns([VERSION.name]),
        removes=batch.removes.drop_columns([VERSION.name]),
        changes=batch.changes.drop_columns([VERSION.name]),
        transactions=tuple(batch.transactions.values()),
        domains=tuple(batch.domains.values()),
    )


def read_commit_info(store: LogStore, version: int) -> CommitInfo | None:
    """The ``commitInfo`` of this version; None when the writer left none.

    Raises:
        LogGapError: The commit file does not exist.
        CorruptLogError: The ``commitInfo`` is not a JSON object.
    """
    infos = _non_file_actions(store, version, COMMIT_INFO).all_of(COMMIT_INFO, CommitInfo.from_json)
    return infos[0][1] if infos else None


def read_metadata(store: LogStore, version: int) -> Metadata | None:
    """The metadata that the commit of this version sets; None when it sets none.

    Raises:
        LogGapError: The commit file does not exist.
        CorruptLogError: The metadata violates the protocol.
    """
    return _non_file_actions(store, version, METADATA).last_of(METADATA, Metadata.from_json)


def _non_file_actions(store: LogStore, version: int, key: str) -> NonFileActions:
    path = commit_path(version)
    return read_settled(store, lambda: NonFileActions(store.table_uri, [_text(store, version, path)], [key]))


def _batch(store: LogStore, files: Sequence[tuple[int, str]]) -> CommitBatch:
    """The combined content of these files, given as (last version covered, path) in ascending order of versions."""
    if not files:
        return CommitBatch()
    return read_settled(store, lambda: _batch_of(store.table_uri, _texts(store, files)))


def _batch_of(table: str, texts: Sequence[LogText]) -> CommitBatch:
    small = NonFileActions(table, texts, _COMMIT_ACTIONS)
    actions = file_actions(table, texts)
    infos = small.all_of(COMMIT_INFO, CommitInfo.from_json)
    return CommitBatch(
        adds=actions.adds,
        removes=actions.removes,
        changes=actions.changes,
        protocol=small.last_of(PROTOCOL, Protocol.from_json),
        metadata=small.last_of(METADATA, Metadata.from_json),
        transactions={
            transaction.app_id: transaction for _, transaction in small.all_of(TRANSACTION, SetTransaction.from_json)
        },
        domains={domain.domain: domain for _, domain in small.all_of(DOMAIN, DomainMetadata.from_json)},
        commit_info=next((info for version, info in reversed(infos) if version == texts[-1].version), None),
    )


def _texts(store: LogStore, files: Sequence[tuple[int, str]]) -> list[LogText]:
    """The texts of the files; read concurrently if one read takes as long as a request to an object store."""
    started = perf_counter()
    first = _text(store, *files[0])
    if perf_counter() - started < _LONG or len(files) == 1:
        return [first, *(_text(store, *file) for file in files[1:])]
    with ThreadPoolExecutor(min(_READERS, len(files) - 1)) as readers:
        return [first, *readers.map(lambda file: _text(store, *file), files[1:])]


def _text(store: LogStore, version: int, path: str) -> LogText:
    try:
        return LogText.from_content(path, version, store.read(path))
    except FileNotFoundError as error:
        raise LogGapError(table=store.table_uri, file=path, detail="it was deleted after it was listed") from error
